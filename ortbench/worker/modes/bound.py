"""What modes with IO binding share: values that are bound once, on both sides of which tensors are copied or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from ortbench.modes import MODES, TOTAL
from ortbench.plan import Loop
from ortbench.worker.modes.base import Mode, OneAtATime, Proof, Step, TimedCall, fence_step, then
from ortbench.worker.modes.dynamic_outputs import DynamicOutputs, Target
from ortbench.worker.modes.external_inputs import ExternalInputs
from ortbench.worker.modes.slots import Slot, download, refuse_strings, upload
from ortbench.worker.proofs import in_place
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.proofs.fence import RUN, SYNCHRONIZE, Candidates, Fence
from ortbench.worker.session.first_run import Data
from ortbench.worker.session.memory import Copy, EpDeviceMemory, Memory, device_memory, token
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view


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

    def __init__(
        self, model: Model, data: Data, memory: Memory, token_memory: Memory, pinned: EpDeviceMemory | None = None
    ) -> None:
        refuse_strings((*model.inputs, *model.outputs))
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
        self._upload = upload(memory, self._ins)
        self._run: Callable[[Any, Any], object] = model.native.run_with_iobinding
        self._native_binding = self._binding._iobinding
        self.graph_id = next(model.graph_ids) if model.target.cuda_graph and MODES[self.name].captured else None
        self._options = model.run_options(self.graph_id)
        self._dynamic: DynamicOutputs | None = None
        if dynamic:
            places = [Target(slot.spec, slot.array, slot.pinned, slot.stays) for slot in self._outs]
            self._dynamic = DynamicOutputs(self._binding, self._run, memory, places)
            self._run = self._dynamic.run
            self._download: Copy = self._dynamic.download
        else:
            for slot in self._outs:
                self._binding.bind_ortvalue_output(slot.spec.name, slot.value)
            self._download = download(memory, self._outs)
        self._token = token(token_memory)
        self.upload_fence: Fence | None = None
        self._prepare()

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return None if provider.computes_on_host or device_memory(provider) is not None else "no device memory"

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = Loop.depth) -> Self:
        memory = device_memory(model.provider)
        assert memory is not None
        return cls(model, data, memory, memory)

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
        return self._model.fences.prove(*self.run_to_prove())

    def run_to_prove(self) -> tuple[str, Copy, Candidates, Copy, Copy]:
        """Its run as `ortbench.worker.proofs.fence.Fences` take it, on a device."""
        assert self._token is not None
        candidates = [(RUN, None), (SYNCHRONIZE, self._binding.synchronize_outputs)]
        return "run", self._launch, candidates, self._settled(self._download), self._settled(self._token)

    def _settled(self, copy: Copy) -> Copy:
        """A copy back, and a wait for what it may have overtaken: those of the CUDA EP go by the default stream, which
        its own streams do not wait for (cudaStreamNonBlocking), so that they can pass runs nobody waited for."""
        return then(copy, self._binding.synchronize_outputs)

    def _prove_upload(self) -> Fence:
        if self._token is None:
            return Fence(RUN, None, 0, "the copy is the host's own")
        arrays = [Slot(slot.spec, np.empty_like(slot.array), slot.value, slot.stays) for slot in self._ins]
        candidates = [(RUN, None), ("synchronize_inputs", self._binding.synchronize_inputs)]
        readback = download(self._memory, arrays)
        return self._model.fences.prove("upload", self._upload, candidates, readback, self._token)

    def _launch(self) -> None:
        self._run(self._native_binding, self._options)

    def phases(self) -> dict[str, TimedCall]:
        return {TOTAL: self._fenced_run()}

    def steps(self) -> list[Step]:
        return [("run", self._launch), *fence_step(self.fence)]

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
        return then(self._upload, self.upload_fence.wait)

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        found = []
        if self.external is not None:
            prove_external = partial(in_place.prove_external, self, self.external, self._model, self._data, rtol, atol)
            found.append(Proof("external", "proving that external memory is not copied", prove_external))
        if self.graph_id is not None:
            prove_replay = partial(in_place.prove_replay, self, self.graph_id, self._model, self._data, rtol, atol)
            found.append(Proof("graph", "proving that a graph is replayed", prove_replay))
        return found

    def poison(self) -> None:
        if self._dynamic is not None:
            self._dynamic.poison(self._data.reference)
            return
        poisons = [output_arrays.poison(array) for array in self._data.reference]
        moved = [
            Slot(slot.spec, array, slot.value, slot.stays) for slot, array in zip(self._outs, poisons, strict=True)
        ]
        upload(self._memory, moved)()
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
        upload(self._memory, others)()

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
        upload(self._memory, decoys)()
        self._run(binding._iobinding, self._options)
        seen = [replace(slot, array=np.empty_like(slot.array)) for slot in decoys if not slot.stays]
        download(self._memory, seen)()
        untouched = [output_arrays.poison(reference) for reference in self._data.reference]
        moved = [array for slot, array in zip(decoys, untouched, strict=True) if not slot.stays and array.size]
        return bool(moved) and all(
            slot.array.tobytes() == array.tobytes()
            for slot, array in zip([slot for slot in seen if slot.array.size], moved, strict=True)
        )

    def _left(self) -> list[Array]:
        """The outputs on the host."""
        return self._out_arrays if self._dynamic is None else self._dynamic.arrays()
