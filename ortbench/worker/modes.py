"""The modes' classes, but for the pipelined one, and how one is set up by its name.

`cpu-tensors` is what a program does that knows nothing of devices, `cpu-tensors-pinned` the same with inputs in pinned memory. Of those
with device tensors, `device-tensors` and `device-tensors-pinned` take inputs from the host and give outputs back to it in every run, in
`device-resident` tensors stay, and nobody waits for the runs of `device-resident-async` one by one. In `host-accessible` tensors are in
memory that host and device both reach, where nothing need be copied.

What is open in a worker is a model with its data, which modes are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from ortbench.core.eps import NVIDIA_EPS
from ortbench.core.errors import BenchmarkFailed, WrongOutputs, ort_text
from ortbench.model.modes import (
    ASYNC,
    CPU,
    CPU_PINNED,
    DEPTH,
    DEVICE,
    DEVICE_PINNED,
    HOST_ACCESSIBLE,
    LATENCY,
    MODES,
    PHASE_NAMES,
    PIPELINED,
    RESIDENT,
    RUN,
)
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, proofs
from ortbench.worker.bound import BoundMode
from ortbench.worker.first_run import Data, cpu_call, to_arrays
from ortbench.worker.memory import (
    BoundTensor,
    Copy,
    EpDeviceMemory,
    HostMemory,
    Location,
    Memory,
    device_memory,
    host_accessible_memory,
    missing_pinned_memory,
    missing_shared_memory,
    runs_problem,
)
from ortbench.worker.mode_base import (
    Mode,
    Proof,
    SingleMode,
    Step,
    as_timed_call,
    call_and_wait,
    copied_bytes,
    copy_to_host,
    refuse_strings,
    shared_memory,
    sync_steps,
    with_own_arrays,
)
from ortbench.worker.proofs import ZeroCopy as Verdict
from ortbench.worker.proofs import combine_verdicts, prove_by_copy_times, prove_zero_copy
from ortbench.worker.providers import Provider
from ortbench.worker.session import EngineWatch, Model, node_placements
from ortbench.worker.sync import Sync, Work
from ortbench.worker.tensors import Array, TensorSpec, Value, host_view, nbytes
from ortbench.worker.timing import SplitCall, TimedCall, time_call

if TYPE_CHECKING:
    from ortbench.model import protocol, schema
    from ortbench.model.schema import ZeroCopy


class CpuMode(SingleMode):
    """CPU tensors: `run` with arrays; ORT copies them in and out inside every run."""

    name = CPU
    binds = False
    # Outputs are arrays in host memory when `run` returns: nothing is left that the host could wait for.
    sync = Sync(RUN, None, 0, "session.run returns the outputs in host memory")

    def __init__(self, model: Model, data: Data) -> None:
        super().__init__(model, data)
        self._call = cpu_call(model, data.arrays)
        inputs = [data.arrays[spec.name] for spec in model.inputs]
        self.bytes_in = _count_copied_bytes(inputs, model.locations.inputs)
        self.bytes_out = _count_copied_bytes(data.reference, model.locations.outputs)

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: self._call}  # ORT copies inside the run

    def steps(self) -> list[Step]:
        call, feeds, options = self._call
        return [("run", partial(call, feeds, options))]

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        return describe_arrays(self._model)

    def poison(self) -> None:
        """Nothing to do: every run makes new arrays."""

    def outputs(self) -> list[Value]:
        call, feeds, options = self._call
        return to_arrays(self._model, call(feeds, options))


def describe_arrays(model: Model) -> tuple[list[BoundTensor], list[BoundTensor]]:
    pairs = (model.inputs, "NumPy array passed to session.run"), (model.outputs, "NumPy array returned by session.run")
    ins, outs = (
        [BoundTensor(spec.name, HostMemory.label, why, is_usual=True) for spec in specs] for specs, why in pairs
    )
    return ins, outs


def _count_copied_bytes(values: list[Value], locations: list[Location]) -> int | None:
    """Bytes that a run moves between host and device; None where the session wants something in memory that the host reaches too, since
    ORT may then hand an array on as it is."""
    if any(location.is_shared for location in locations):
        return None
    return sum(nbytes(value) for value, location in zip(values, locations, strict=True) if not location.is_on_host)


class CpuPinnedMode(CpuMode):
    """As `CpuMode`, with the inputs in the EP's pinned memory; outputs are arrays that ORT makes in ordinary memory."""

    name = CPU_PINNED
    binds = True

    def __init__(self, model: Model, data: Data) -> None:
        refuse_strings(model.inputs)
        own = host_accessible_memory(model.provider)
        assert own is not None
        self._where = [location.shared or own for location in model.locations.inputs]
        self._values, arrays = [], {}
        for spec, memory in zip(model.inputs, self._where, strict=True):
            value = memory.allocate(spec, data.arrays[spec.name].shape)
            self._values.append(value)  # which the view may not keep alive
            arrays[spec.name] = host_view(spec, value)
            np.copyto(arrays[spec.name], data.arrays[spec.name])
        super().__init__(model, replace(data, arrays=arrays))

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        return missing_pinned_memory(provider)

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        ins, outs = super().bound_tensors()
        pairs = zip(ins, self._where, strict=True)
        return [it._replace(memory=memory.label, reason="the mode's own memory") for it, memory in pairs], outs


_BURST_NS = 20_000_000
_LEAST_BURST, _MOST_BURST = 4, 100


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

        found = {LATENCY: (whole, self._binding, self._options), "inference": self._synced_run()}
        if self.bytes_in:
            found["h2d"] = as_timed_call(self._synced_upload())
        if self.bytes_out:
            found["d2h"] = as_timed_call(download)
        return {phase: found[phase] for phase in PHASE_NAMES if phase in found}  # as one follows the other

    def steps(self) -> list[Step]:
        upload: list[Step] = [("h2d", self._upload), *sync_steps(self.h2d_sync)] if self.bytes_in else []
        download: list[Step] = [("d2h", self._download)] if self.bytes_out else []
        return [*upload, *super().steps(), *download]

    def outputs(self) -> list[Array]:
        return self._host_outputs()  # every run leaves them in host memory; another copy would hide one that was late


class DevicePinnedMode(DeviceMode):
    """As `DeviceMode`, with the host's side of both copies in the EP's pinned memory."""

    name = DEVICE_PINNED

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        return missing_pinned_memory(provider) or super().missing_feature(provider)

    def _pinned_memory(self, spec: TensorSpec, location: Location) -> EpDeviceMemory | None:
        return shared_memory(spec, location)

    def _prepare(self) -> None:
        super()._prepare()
        if not self.bytes_out:
            return
        # To ordinary memory a copy is done when it returns; to pinned memory a device may copy on its own time.
        assert self._token is not None
        # To ordinary memory.
        back = self._token if self._dynamic is not None else copy_to_host(with_own_arrays(self._outs))
        syncs = self._model.syncs
        self.d2h_sync = syncs.prove("d2h", Work(self._download, self._sync_candidates(), back, self._token))
        self._download = call_and_wait(self._download, self.d2h_sync.wait)


class ResidentMode(BoundMode):
    """Device tensors, copied in once before and out once after all runs."""

    name = RESIDENT
    bytes_in = bytes_out = 0

    def _prepare(self) -> None:
        super()._prepare()
        self.one_time_bytes = copied_bytes(self._ins), copied_bytes(self._outs)

    def one_time_copies(self) -> tuple[Copy, Copy]:
        return self._synced_upload(), self._download


class AsyncMode(BoundMode):
    """Device tensors resident, and runs that ORT does not wait for: a call of ``latency`` is a burst of `per_call` runs and one sync."""

    name = ASYNC
    bytes_in = bytes_out = 0

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        return "no stream that queues runs" if provider.computes_on_host else super().missing_feature(provider)

    def _prepare(self) -> None:
        if self._options is None:
            self._options = ort.RunOptions()
        # ORT's own wait at the end of a run; onnxruntime_run_options_config_keys.h. What an EP waits for by itself stays.
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.per_call = 1
        super()._prepare()
        # As many runs as fill a block, so that the sync weighs little, and not so many that a queue overflows.
        shortest = min(time_call(*self._synced_run()) for _ in range(3))
        self.per_call = max(_LEAST_BURST, min(_MOST_BURST, _BURST_NS // shortest))

    def phases(self) -> dict[str, TimedCall]:
        launch, wait = self._launches(), self.sync.wait

        def burst(binding: Any, options: Any) -> None:
            launch(binding, options)
            if wait is not None:
                wait()

        return {LATENCY: (burst, self._binding, self._options)}

    def enqueues(self) -> dict[str, SplitCall]:
        call, wait = (self._launches(), self._binding, self._options), self.sync.wait
        return {} if wait is None else {LATENCY: (call, wait)}

    def _launches(self) -> Callable[[Any, Any], None]:
        run, count = self._run, self.per_call

        def launch(binding: Any, options: Any) -> None:
            for _ in range(count):
                run(binding, options)

        return launch


def bind_as_device_memory(binding: Any, provider: Provider, name: str, spec: TensorSpec, value: Any) -> None:
    """Bind an output's buffer as if it were the device's own memory. After a run ORT copies HOST_ACCESSIBLE outputs to where they are
    already, and its CUDA EP refuses to (dst_data != src_data in gpu_data_transfer.cc, ORT 1.31). NVIDIA's devices reach pinned memory by
    the host's addresses, so nothing is left to copy: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html"""
    memory = device_memory(provider)
    assert memory is not None
    device, shape = memory.ort_device(), list(value.shape())
    binding._iobinding.bind_output(name, device, spec.element_type, shape, value.data_ptr())


class HostAccessibleMode(BoundMode):
    """Inputs and outputs in the EP's HOST_ACCESSIBLE memory, bound as they are; the host reads and writes in place."""

    name = HOST_ACCESSIBLE
    bytes_in = bytes_out = 0

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        if provider.computes_on_host:  # without a device all memory is accessible to the host
            return None
        return missing_shared_memory(provider)

    def memory_for(self, spec: TensorSpec, location: Location) -> Memory:
        if location.is_on_host:
            return super().memory_for(spec, location)
        return shared_memory(spec, location)

    def _check_unshaped(self, location: Location) -> None:
        if not location.is_on_host:  # where the host reads what ONNX Runtime allocates
            super()._check_unshaped(location)

    def _prepare(self) -> None:
        self._in_views = [host_view(slot.spec, slot.value) for slot in self._ins]
        self._out_views = [
            slot.array if slot.value is None else host_view(slot.spec, slot.value) for slot in self._outs
        ]
        self.write_inputs(self._data.arrays)
        try:
            self._launch()
        except Exception as error:
            if self._model.provider.name not in NVIDIA_EPS:
                raise
            self.binding_error = ort_text(error)
            for slot in self._outs:
                if not slot.is_zero_copy:
                    bind_as_device_memory(self._binding, self._model.provider, slot.spec.name, slot.spec, slot.value)
            self._launch()
        self.sync = self._prove_run()

    def write_inputs(self, arrays: dict[str, Array]) -> None:
        """Write inputs in place, through the views; nothing is copied to another memory."""
        for slot, view in zip(self._ins, self._in_views, strict=True):
            if not slot.is_zero_copy:
                np.copyto(view, arrays[slot.spec.name])

    def same_addresses(self) -> bool:
        """Whether the outputs of the last run are the very buffers that were bound, and the views are over them."""
        bound = zip(self._binding.get_outputs(), self._outs, self._out_views, strict=True)
        return all(
            slot.value is None or got.data_ptr() == slot.value.data_ptr() == view.ctypes.data
            for got, slot, view in bound
        )

    def poison(self) -> None:
        if self._dynamic is not None:
            super().poison()
            return
        for view, reference in zip(self._out_views, self._data.reference, strict=True):
            view[...] = proofs.poison(reference)

    def outputs(self) -> list[Array]:
        return self._out_views if self._dynamic is None else self._dynamic.views(self._out_views)

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        prove = partial(self._prove_zero_copy, others, rtol, atol)
        return [Proof("zero_copy", "verifying zero-copy", prove), *super().proofs(rtol, atol, others)]

    def _prove_zero_copy(self, others: Mapping[str, Mode], rtol: float | None, atol: float | None) -> ZeroCopy:
        provider, target = self._model.provider, self._model.target
        locations = [*self._model.locations.inputs, *self._model.locations.outputs]
        if provider.computes_on_host and all(location.is_on_host for location in locations):
            return prove_zero_copy(self, None, on_host=True).to_dict()
        if all(location.is_host_only for location in locations):
            return Verdict(False, "the session wants every input and output in host memory").to_dict()
        resident = others.get(ResidentMode.name)
        plain = replace(target, dynamic_outputs=False, input_memory=None, cuda_graph=False)
        # What is compared must differ in the memory alone.
        if not isinstance(resident, ResidentMode) or plain != target:
            resident = ResidentMode.make(replace(self._model, target=plain), self._data)
        if not any(location.is_shared for location in locations):
            return prove_zero_copy(self, resident, on_host=False).to_dict()
        # What its EP has no other memory for.
        seen = self.check_inputs(self.write_inputs, rtol, atol)
        if seen.wrong is not None:
            raise WrongOutputs(f"{seen.wrong} (after inputs were written in place)")
        alone = resident.make_copies(lambda location: location.is_shared)
        found = [prove_by_copy_times(self, alone, seen.evidence)]
        if not all(location.is_shared or location.is_on_host for location in locations):
            copies = resident.make_copies(lambda location: not location.is_shared)
            found.append(prove_zero_copy(self, resident, on_host=False, copies=copies))
        return combine_verdicts(found).to_dict()


_KINDS: tuple[type[SingleMode], ...] = (
    CpuMode,
    DeviceMode,
    ResidentMode,
    HostAccessibleMode,
    CpuPinnedMode,
    DevicePinnedMode,
    AsyncMode,
)
_CLASSES = {kind.name: kind for kind in _KINDS}


def _class_of(name: str) -> type[SingleMode]:
    if name == PIPELINED:
        from ortbench.worker.pipelined import PipelinedMode  # which few runs have

        return PipelinedMode
    return _CLASSES[name]


def make_mode(name: str, model: Model, data: Data, depth: int = DEPTH) -> Mode:
    """Set a mode up. Raises `Unsupported`: the EP or the model cannot do it; `BenchmarkFailed`: a trial of what the EP offers failed."""
    kind = _class_of(name)
    kind.check(model)
    return kind.make(model, data, depth)


def unsupported_reason(name: str, provider: Provider) -> str | None:
    """What an EP lacks for a mode, whatever the model, or what is wrong with it; None if it can do it."""
    try:
        return runs_problem(provider) or _class_of(name).missing_feature(provider)
    except BenchmarkFailed as error:
        return str(error)


def unsupported_modes(provider: Provider) -> dict[str, str | None]:
    return {name: unsupported_reason(name, provider) for name in MODES}


@dataclass
class Opened:
    path: str
    target: Target
    request: Inputs
    model: Model
    # inputs and reference outputs; empty before the first run, and where the model takes or gives what cannot be held
    data: Data = field(default_factory=Data)

    def run_first(self) -> None:
        self.data = first_run.make_data(self.path, self.model, self.request)

    def make(self, mode: str, depth: int) -> Mode:
        return make_mode(mode, self.model, self.data, depth)

    def reopen(self, model: Model, request: Inputs) -> Opened:
        """The same in a session with other inputs, which has run; nothing is expected of its outputs."""
        other = replace(self, model=model, request=replace(request, expect=None))
        other.run_first()
        return other

    @property
    def loops(self) -> list[Any]:
        return []

    def references(self) -> tuple[Sequence[TensorSpec], Sequence[Value]]:
        """The outputs and what a plain run gave for them, of stages those of all; no values where it did not run."""
        return self.model.outputs, self.data.reference

    def outputs_of_all(self) -> Iterator[Sequence[Value]]:
        """The same of each set of inputs, of which the first is measured."""
        yield self.references()[1]
        yield from first_run.outputs_of_other_sets(self.model, self.request)

    def session(self, stage: int | None) -> tuple[str, Target, Model, dict[str, Value]]:
        """Model, settings, session and inputs of a stage; those of the whole where there are none."""
        return self.path, self.target, self.model, self.data.arrays

    @cached_property
    def host_reasons(self) -> dict[str, str]:
        """Why inputs and outputs are wanted in ordinary host memory, by name; see `ortbench.worker.inspection`."""
        from ortbench.worker import inspection  # most models have none

        model = self.model
        pairs = (model.inputs, model.locations.inputs), (model.outputs, model.locations.outputs)
        inputs, outputs = (
            [spec.name for spec, location in zip(specs, locations, strict=True) if location.is_host_only]
            for specs, locations in pairs
        )
        return inspection.host_reasons(self.path, node_placements(model), inputs, outputs)


@dataclass
class Shared:
    path: str
    target: Target
    model: Model
    described: protocol.LoadedEp  # its EP
    cache: EngineWatch  # watches where the EP keeps engines
    where: schema.Placement  # its nodes
    counted: bool = False  # whether `where` has all that can be known
