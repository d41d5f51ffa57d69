"""The I/O modes: how each binds its tensors and what one inference is in it.

Every mode ends `total` with the outputs readable where the mode leaves them, and starts it with the inputs in host
memory, or already in place where that is the mode's point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort

from ortbench.errors import BenchmarkFailed, Unsupported, ort_text
from ortbench.modes import (
    ASYNC,
    CPU,
    CPU_PINNED,
    DEVICE,
    DEVICE_PINNED,
    HOST_ACCESSIBLE,
    MODES,
    PIPELINED,
    RESIDENT,
    TOTAL,
)
from ortbench.worker.modes.dynamic_outputs import DynamicOutputs, Target
from ortbench.worker.modes.external_inputs import ExternalInputs
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.proofs.fence import RUN, SYNCHRONIZE, Fence, prove
from ortbench.worker.session import copy_streams
from ortbench.worker.session.ep_names import NVIDIA_EPS
from ortbench.worker.session.first_run import Data, cpu_arrays, cpu_call
from ortbench.worker.session.memory import (
    Copy,
    EpDeviceMemory,
    Memory,
    copy_tensors,
    device_memory,
    host_accessible_memory,
    token,
)
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model, graph_options
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view, nbytes

_BURST_NS = 20_000_000
_LEAST_BURST, _MOST_BURST = 4, 100

# A timed call takes two arguments, which it may ignore: ORT's own bound run takes two, and any wrapper around it would
# cost several percent of a 2 µs run.
TimedCall = tuple[Callable[[Any, Any], object], Any, Any]
Step = tuple[str, Callable[[], object]]


class Mode(Protocol):
    """One way to hand tensors to a session and get them back.

    Attributes:
        name: of the mode.
        fence: what ends its inference.
        upload_fence, download_fence: what ends these, where it has them and the copy itself does not wait.
        bytes_in, bytes_out: copied to and from the device per inference.
        per_call: how many inferences one call of ``total`` makes.
        trials: how many calls of ``total`` each check of the outputs rests on.
    """

    name: str
    fence: Fence
    upload_fence: Fence | None
    download_fence: Fence | None
    bytes_in: int
    bytes_out: int
    per_call: int
    trials: tuple[int, ...]

    def phases(self) -> dict[str, TimedCall]:
        """What can be timed, each fenced at its end: ``total``, whole inferences, and its parts where it has any."""

    def rest(self) -> None:
        """Wait for whatever the last call left in flight, before another mode is measured."""

    def steps(self) -> list[Step]:
        """What one inference consists of, in order, for a look at each on its own; where a fence waits, it is one."""

    def poison(self) -> None:
        """Overwrite the outputs, so that what is read next is what the next run wrote."""

    def outputs(self) -> list[Array]:
        """The outputs as they are now, in host memory."""

    def expected(self) -> list[tuple[str, Array]]:
        """The name of each of `outputs`, and what it must be."""


class OneAtATime:
    """What modes share that finish one inference before they begin the next."""

    per_call = 1
    download_fence: Fence | None = None
    trials: tuple[int, ...] = (1,)
    _model: Model
    _data: Data

    def rest(self) -> None:
        """Nothing is left in flight."""

    def expected(self) -> list[tuple[str, Array]]:
        """The reference of every output."""
        return list(zip(self._model.output_names, self._data.reference, strict=True))


class CpuMode(OneAtATime):
    """CPU tensors: `run` with arrays; ORT copies them in and out inside every run."""

    name = CPU
    upload_fence: Fence | None = None
    # Outputs are arrays in host memory when `run` returns: nothing is left that the host could wait for.
    fence = Fence(RUN, None, 0, "run returns the outputs in host memory")

    def __init__(self, model: Model, data: Data) -> None:
        self._model, self._data = model, data
        self._call = cpu_call(model, data.arrays)
        inputs = [data.arrays[spec.name] for spec in model.inputs]
        self.bytes_in = _crossing(inputs, model.on_host(model.session.get_input_memory_infos()))
        self.bytes_out = _crossing(data.reference, model.on_host(model.session.get_output_memory_infos()))

    def phases(self) -> dict[str, TimedCall]:
        return {TOTAL: self._call}  # ORT copies inside the run

    def steps(self) -> list[Step]:
        call, feeds, options = self._call
        return [("run", partial(call, feeds, options))]

    def poison(self) -> None:
        """Nothing to do: every run makes new arrays."""

    def outputs(self) -> list[Array]:
        call, feeds, options = self._call
        return cpu_arrays(self._model, call(feeds, options))


class CpuPinnedMode(CpuMode):
    """As `CpuMode`, with the inputs in the EP's pinned memory; outputs are arrays that ORT makes in ordinary memory."""

    name = CPU_PINNED

    def __init__(self, model: Model, data: Data, pinned: EpDeviceMemory) -> None:
        _refuse_strings(model.inputs)
        self._values = [pinned.allocate(spec, data.arrays[spec.name].shape) for spec in model.inputs]
        arrays = {}
        for spec, value in zip(model.inputs, self._values, strict=True):
            arrays[spec.name] = host_view(spec, value)
            np.copyto(arrays[spec.name], data.arrays[spec.name])
        super().__init__(model, replace(data, arrays=arrays))


@dataclass(frozen=True)
class Slot:
    """One bound input or output.

    Attributes:
        spec: its name, dtype and shape.
        array: its host side.
        value: the OrtValue that is bound; None for an output that ORT allocates.
        stays: the session wants it in ordinary host memory (a shape, say): `value` is then over `array` itself and
            nothing is copied; on the device it would cost a copy back inside every run.
        pinned: the value in pinned memory that `array` looks into; None where `array` is in ordinary host memory.
    """

    spec: TensorSpec
    array: Array
    value: Any
    stays: bool
    pinned: Any = None


class BoundMode(OneAtATime):
    """What all modes with IO binding share: values in `memory`, bound once, with preallocated outputs.

    Attributes:
        external: the inputs, where they are in another library's memory.
        graph_id: of the graph that its runs are captured as, and replay; None where they are not.

    Args:
        model, data: what runs, and with what.
        memory: of what is bound.
        token_memory: of a small value that tells when the device has finished.
        pinned: memory for the host's side of copies; None for ordinary host memory.
    """

    name = ""

    def __init__(
        self, model: Model, data: Data, memory: Memory, token_memory: Memory, pinned: EpDeviceMemory | None = None
    ) -> None:
        _refuse_strings((*model.inputs, *model.outputs))
        self._pinned = pinned
        self._model, self._data, self._memory = model, data, memory
        in_host = model.on_host(model.session.get_input_memory_infos())
        out_host = model.on_host(model.session.get_output_memory_infos())
        sources = [data.arrays[spec.name] for spec in model.inputs]
        library = model.target.external if MODES[self.name].external_inputs else None
        self.external = None if library is None else ExternalInputs(library, model.provider)
        self._ins = [self._in_slot(*item) for item in zip(model.inputs, sources, in_host, strict=True)]
        blank = [np.empty_like(array) for array in data.reference]
        dynamic = model.target.dynamic_outputs and MODES[self.name].dynamic_outputs
        self._outs = [
            self._slot(*item, allocate=not dynamic) for item in zip(model.outputs, blank, out_host, strict=True)
        ]
        self._out_arrays = [slot.array for slot in self._outs]
        self._binding = model.session.io_binding()
        for slot in self._ins:
            self._binding.bind_ortvalue_input(slot.spec.name, slot.value)
        self._upload = _upload(memory, self._ins)
        self._run: Callable[[Any, Any], object] = model.native.run_with_iobinding
        self._native_binding = self._binding._iobinding
        self.graph_id = next(model.graph_ids) if model.target.cuda_graph and MODES[self.name].captured else None
        self._options = model.plain_options if self.graph_id is None else graph_options(self.graph_id)
        self._dynamic: DynamicOutputs | None = None
        if dynamic:
            places = [Target(slot.spec, slot.array, slot.pinned, slot.stays) for slot in self._outs]
            self._dynamic = DynamicOutputs(self._binding, self._run, memory, places)
            self._run = self._dynamic.run
            self._download: Copy = self._dynamic.download
        else:
            for slot in self._outs:
                self._binding.bind_ortvalue_output(slot.spec.name, slot.value)
            self._download = _download(memory, self._outs)
        self._token = token(token_memory)
        self.upload_fence: Fence | None = None
        self._prepare()

    def _in_slot(self, spec: TensorSpec, array: Array, wanted_in_host: bool) -> Slot:
        if self.external is None or (wanted_in_host and self._memory.kind != "host"):
            return self._slot(spec, array, wanted_in_host)
        return Slot(spec, array, self.external.wrap(spec, array), stays=False)

    def _slot(self, spec: TensorSpec, array: Array, wanted_in_host: bool, allocate: bool = True) -> Slot:
        if wanted_in_host and self._memory.kind != "host":
            return Slot(spec, array, host_value(spec, array), stays=True)
        bound = self._memory.allocate(spec, array.shape) if allocate else None
        if self._pinned is None:
            return Slot(spec, array, bound, stays=False)
        value = self._pinned.allocate(spec, array.shape)
        view = host_view(spec, value)
        np.copyto(view, array)
        return Slot(spec, view, bound, stays=False, pinned=value)

    def _prepare(self) -> None:
        """The first upload and run, and the proofs of what ends them."""
        self._upload()
        self.fence = self._prove_run()
        self.upload_fence = self._prove_upload()

    def _prove_run(self) -> Fence:
        if self._token is None:
            return Fence(RUN, None, 0, "the EP computes in host memory and its run returns when it is done")
        candidates = [(RUN, None), (SYNCHRONIZE, self._binding.synchronize_outputs)]
        return prove(self._launch, candidates, self._settled(self._download), self._settled(self._token))

    def _settled(self, copy: Copy) -> Copy:
        """A copy back, and a wait for what it may have overtaken: those of the CUDA EP go by the default stream, which
        its own streams do not wait for (cudaStreamNonBlocking), so that they can pass runs nobody waited for."""
        return _then(copy, self._binding.synchronize_outputs)

    def _prove_upload(self) -> Fence:
        if self._token is None:
            return Fence(RUN, None, 0, "the copy is the host's own")
        arrays = [Slot(slot.spec, np.empty_like(slot.array), slot.value, slot.stays) for slot in self._ins]
        candidates = [(RUN, None), ("synchronize_inputs", self._binding.synchronize_inputs)]
        return prove(self._upload, candidates, _download(self._memory, arrays), self._token)

    def _launch(self) -> None:
        self._run(self._native_binding, self._options)

    def phases(self) -> dict[str, TimedCall]:
        return {TOTAL: self._fenced_run()}

    def steps(self) -> list[Step]:
        return [("run", self._launch), *_fence_step(self.fence)]

    def _fenced_run(self) -> TimedCall:
        wait, run = self.fence.wait, self._run
        if wait is None:
            return run, self._native_binding, self._options

        def fenced(binding: Any, options: Any) -> None:
            run(binding, options)
            wait()

        return fenced, self._native_binding, self._options

    def _fenced_upload(self) -> Copy:
        assert self.upload_fence is not None
        return _then(self._upload, self.upload_fence.wait)

    def poison(self) -> None:
        if self._dynamic is not None:
            self._dynamic.poison(self._data.reference)
            return
        poisons = [output_arrays.poison(array) for array in self._data.reference]
        moved = [
            Slot(slot.spec, array, slot.value, slot.stays) for slot, array in zip(self._outs, poisons, strict=True)
        ]
        _upload(self._memory, moved)()
        for slot, array in zip(self._outs, poisons, strict=True):
            slot.array[...] = array

    def outputs(self) -> list[Array]:
        self._download()
        return self._left()

    def run_as_bound(self) -> list[Array]:
        """The outputs of one run on what is in the bound memory now, in host memory."""
        call, a, b = self._fenced_run()
        call(a, b)
        self._download()
        return self._left()

    def write_inputs(self, arrays: dict[str, Array]) -> None:
        """Write inputs to where those that are bound are."""
        for slot in self._ins:
            if slot.stays:
                np.copyto(slot.array, arrays[slot.spec.name])
        others = [replace(slot, array=np.ascontiguousarray(arrays[slot.spec.name]), pinned=None) for slot in self._ins]
        _upload(self._memory, others)()

    def is_replayed(self) -> bool:
        """Whether a run is a replay: it then writes to the outputs of the capture, whichever others are bound."""
        binding = self._model.session.io_binding()
        for slot in self._ins:
            binding.bind_ortvalue_input(slot.spec.name, slot.value)
        poisons = [output_arrays.poison(array) for array in self._data.reference]
        decoys = [
            Slot(slot.spec, array, host_value(slot.spec, array), stays=True)
            if slot.stays
            else Slot(slot.spec, array, self._memory.allocate(slot.spec, array.shape), stays=False)
            for slot, array in zip(self._outs, poisons, strict=True)
        ]
        for slot in decoys:
            binding.bind_ortvalue_output(slot.spec.name, slot.value)
        _upload(self._memory, decoys)()
        self._run(binding._iobinding, self._options)
        seen = [replace(slot, array=np.empty_like(slot.array)) for slot in decoys if not slot.stays]
        _download(self._memory, seen)()
        untouched = [output_arrays.poison(reference) for reference in self._data.reference]
        moved = [array for slot, array in zip(decoys, untouched, strict=True) if not slot.stays and array.size]
        return bool(moved) and all(
            slot.array.tobytes() == array.tobytes()
            for slot, array in zip([slot for slot in seen if slot.array.size], moved, strict=True)
        )

    def _left(self) -> list[Array]:
        """The outputs on the host."""
        return self._out_arrays if self._dynamic is None else self._dynamic.arrays()


class DeviceMode(BoundMode):
    """Device tensors: CopyTensors in, run through IO binding, CopyTensors out, every run."""

    name = DEVICE

    def _prepare(self) -> None:
        super()._prepare()
        self.bytes_in, self.bytes_out = copied_bytes(self._ins), copied_bytes(self._outs)

    def phases(self) -> dict[str, TimedCall]:
        upload, run, download = self._upload, self._run, self._download

        def whole(binding: Any, options: Any) -> None:
            upload()
            run(binding, options)
            download()  # the outputs are in host memory when it returns, which the check of outputs proves

        return {
            TOTAL: (whole, self._native_binding, self._options),
            "upload": _timed(self._fenced_upload()),
            "inference": self._fenced_run(),
            "download": _timed(download),
        }

    def steps(self) -> list[Step]:
        upload: list[Step] = [("upload", self._upload), *_fence_step(self.upload_fence)]
        return [*upload, *super().steps(), ("download", self._download)]

    def outputs(self) -> list[Array]:
        return self._left()  # every run leaves them in host memory; another copy would hide one that was late


class DevicePinnedMode(DeviceMode):
    """As `DeviceMode`, with the host's side of both copies in the EP's pinned memory.

    Attributes:
        download_fence: what ends its download.
    """

    name = DEVICE_PINNED

    def _prepare(self) -> None:
        super()._prepare()
        # To ordinary memory a copy is done when it returns; to pinned memory a device may copy on its own time.
        assert self._token is not None
        candidates = [(RUN, None), (SYNCHRONIZE, self._binding.synchronize_outputs)]
        self.download_fence = prove(self._download, candidates, self._read_back(), self._token)
        self._download = _then(self._download, self.download_fence.wait)

    def _read_back(self) -> Copy:
        """A download to ordinary memory."""
        if self._dynamic is not None:
            return self._token or self._download
        apart = [Slot(slot.spec, np.empty_like(slot.array), slot.value, slot.stays) for slot in self._outs]
        return _download(self._memory, apart)


class ResidentMode(BoundMode):
    """Device tensors, copied in once before and out once after all runs."""

    name = RESIDENT
    bytes_in = bytes_out = 0

    def once(self) -> tuple[Copy, Copy]:
        """The upload before, fenced, and the download after all runs."""
        return self._fenced_upload(), self._download


class AsyncMode(BoundMode):
    """Device tensors resident, and runs that ORT does not wait for: many are started, and one fence ends them all.

    A call of ``total`` is a burst of runs and the fence.

    Attributes:
        per_call: runs in a burst.
    """

    name = ASYNC
    bytes_in = bytes_out = 0

    def _prepare(self) -> None:
        if self._options is None:
            self._options = ort.RunOptions()
        # ORT's own wait at the end of a run; onnxruntime_run_options_config_keys.h. What an EP waits for by itself stays.
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.per_call = 1
        super()._prepare()
        self.per_call = self._burst()

    def _burst(self) -> int:
        """As many runs as fill a block, so that the fence weighs little, and not so many that a queue overflows."""
        call, a, b = self._fenced_run()
        times = []
        for _ in range(3):
            start = time.perf_counter_ns()
            call(a, b)
            times.append(time.perf_counter_ns() - start)
        return max(_LEAST_BURST, min(_MOST_BURST, _BURST_NS // min(times)))

    def phases(self) -> dict[str, TimedCall]:
        run, wait, count = self._run, self.fence.wait, self.per_call

        def burst(binding: Any, options: Any) -> None:
            for _ in range(count):
                run(binding, options)
            if wait is not None:
                wait()

        return {TOTAL: (burst, self._native_binding, self._options)}


class HostAccessibleMode(BoundMode):
    """Inputs and outputs in the EP's HOST_ACCESSIBLE memory, bound as they are; the host reads and writes in place.

    Attributes:
        refused: what ORT said to outputs bound as they are, where they had to be bound by address instead; else None.
    """

    name = HOST_ACCESSIBLE
    bytes_in = bytes_out = 0
    refused: str | None = None

    def _prepare(self) -> None:
        self._in_views = [host_view(slot.spec, slot.value) for slot in self._ins]
        self._out_views = [host_view(slot.spec, slot.value) for slot in self._outs]
        self.write_inputs(self._data.arrays)
        try:
            self._launch()
        except Exception as error:
            if self._model.provider.name not in NVIDIA_EPS:
                raise
            self.refused = ort_text(error)
            self._bind_outputs_by_address()
            self._launch()
        self.fence = self._prove_run()

    def _bind_outputs_by_address(self) -> None:
        """Bind the same buffers as if they were the device's own memory.

        After a run ORT copies HOST_ACCESSIBLE outputs to where they are already, and its CUDA EP refuses to (dst_data !=
        src_data in gpu_data_transfer.cc, ORT 1.31). NVIDIA's devices reach pinned memory by the host's addresses, so
        kernels write to it as to their own, and nothing is left to copy:
        https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html
        """
        memory = device_memory(self._model.provider)
        assert memory is not None
        for slot in self._outs:
            if not slot.stays:
                address = slot.value.data_ptr()
                place = (slot.spec.name, memory.ort_device(), slot.spec.element_type, list(slot.array.shape), address)
                self._native_binding.bind_output(*place)

    def write_inputs(self, arrays: dict[str, Array]) -> None:
        """Write inputs in place, through the views; nothing is copied to another memory."""
        for slot, view in zip(self._ins, self._in_views, strict=True):
            if not slot.stays:
                np.copyto(view, arrays[slot.spec.name])

    def same_addresses(self) -> bool:
        """Whether the outputs of the last run are the very buffers that were bound, and the views are over them."""
        bound = zip(self._binding.get_outputs(), self._outs, self._out_views, strict=True)
        return all(got.data_ptr() == slot.value.data_ptr() == view.ctypes.data for got, slot, view in bound)

    def poison(self) -> None:
        for view, reference in zip(self._out_views, self._data.reference, strict=True):
            view[...] = output_arrays.poison(reference)

    def outputs(self) -> list[Array]:
        return self._out_views


def make_mode(name: str, model: Model, data: Data) -> Mode:
    """Set a mode up: allocate, bind, upload, run once, prove the fences.

    Raises:
        Unsupported: the EP or the model cannot do it.
        Exception: whatever ORT raises on the way.
    """
    if name == CPU:
        return CpuMode(model, data)
    reason = unsupported_reason(name, model.provider)
    if reason is not None:
        raise Unsupported(f"{model.provider.name} offers {reason} on this device")
    memory, shared = device_memory(model.provider), host_accessible_memory(model.provider)
    if name == CPU_PINNED:
        assert shared is not None
        return CpuPinnedMode(model, data, shared)
    if name == HOST_ACCESSIBLE:
        place = shared or memory  # without a device all memory is accessible to the host
        assert place is not None
        return HostAccessibleMode(model, data, place, memory or place)
    assert memory is not None
    if name == ASYNC:
        return AsyncMode(model, data, memory, memory)
    if name == DEVICE_PINNED:
        return DevicePinnedMode(model, data, memory, memory, shared)
    kind = DeviceMode if name == DEVICE else ResidentMode
    return kind(model, data, memory, memory)


def unsupported_reason(name: str, provider: Provider) -> str | None:
    """What an EP lacks for a mode, whatever the model; None if it can do it."""
    if name == PIPELINED:
        return _no_pipeline(provider)
    if MODES[name].pinned and (provider.computes_on_host or host_accessible_memory(provider) is None):
        return "no HOST_ACCESSIBLE (pinned) memory"
    if name == ASYNC and provider.computes_on_host:
        return "no runs that return before they are done"
    if name == CPU_PINNED:
        return None
    if name == CPU or provider.computes_on_host:
        return None
    if name == HOST_ACCESSIBLE:
        return "no HOST_ACCESSIBLE memory" if host_accessible_memory(provider) is None else None
    return "no device memory" if device_memory(provider) is None else None


def _no_pipeline(provider: Provider) -> str | None:
    """What an EP lacks for copies behind an inference."""
    if provider.computes_on_host:
        return "no copies that could be hidden"
    if not isinstance(device_memory(provider), EpDeviceMemory):
        return "no device memory"
    return None if copy_streams.problem(provider) is None else "no streams"


def check_outputs(mode: Mode, rtol: float | None, atol: float | None) -> None:
    """Run over poisoned outputs and compare what is there the moment the call returns.

    Raises:
        BenchmarkFailed: they differ from the reference.
    """
    call, a, b = mode.phases()[TOTAL]
    for calls in mode.trials:
        mode.poison()
        for _ in range(calls):
            call(a, b)
        for got, (name, reference) in zip(mode.outputs(), mode.expected(), strict=True):
            # A user's wide tolerance must not let an output pass that nothing was written to.
            if got.size and np.array_equal(got, output_arrays.poison(reference)):
                raise BenchmarkFailed(f"output {name} was not written")
        wrong = differences(mode, rtol, atol)
        if wrong is not None:
            raise BenchmarkFailed(wrong)


def differences(mode: Mode, rtol: float | None, atol: float | None) -> str | None:
    """What differs between the mode's outputs as they are now and the reference, in words; None if nothing does."""
    for got, (name, reference) in zip(mode.outputs(), mode.expected(), strict=True):
        wrong = output_arrays.difference(name, got, reference, rtol, atol)
        if wrong is not None:
            return wrong
    return None


def _refuse_strings(specs: Iterable[TensorSpec]) -> None:
    for spec in specs:
        if spec.is_string:
            raise Unsupported(f"{spec.name!r} is a tensor of strings, which only mode cpu can hold")


def _upload(memory: Memory, slots: list[Slot]) -> Copy:
    moved = [slot for slot in slots if not slot.stays]
    if all(slot.pinned is not None for slot in moved):
        return copy_tensors([slot.pinned for slot in moved], [slot.value for slot in moved])
    return memory.upload([s.spec for s in moved], [s.array for s in moved], [s.value for s in moved])


def _download(memory: Memory, slots: list[Slot]) -> Copy:
    moved = [slot for slot in slots if not slot.stays]
    if all(slot.pinned is not None for slot in moved):
        return copy_tensors([slot.value for slot in moved], [slot.pinned for slot in moved])
    return memory.download([s.spec for s in moved], [s.value for s in moved], [s.array for s in moved])


def _then(call: Copy, wait: Copy | None) -> Copy:
    if wait is None:
        return call

    def fenced() -> None:
        call()
        wait()

    return fenced


def _fence_step(fence: Fence | None) -> list[Step]:
    """The wait of a fence, if it has one."""
    return [] if fence is None or fence.wait is None else [(f"fence ({fence.kind})", fence.wait)]


def _timed(call: Copy) -> TimedCall:
    return (lambda _a, _b: call()), None, None


def _crossing(arrays: list[Array], on_host: list[bool]) -> int:
    """Bytes that a run moves between host and device: all but what the session wants in host memory anyway."""
    return sum(nbytes(array) for array, stays in zip(arrays, on_host, strict=True) if not stays)


def copied_bytes(slots: list[Slot]) -> int:
    return sum(nbytes(slot.array) for slot in slots if not slot.stays)
