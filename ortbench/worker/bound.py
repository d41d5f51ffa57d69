"""What modes with IO binding share: values that are bound once, on both sides of which tensors are copied or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ortbench.analysis.outputs import INPUT, reasons_without_shape
from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.model.modes import LATENCY, MODES, RUN, SYNCHRONIZE
from ortbench.worker import proofs
from ortbench.worker.first_run import Data, try_run
from ortbench.worker.memory import (
    BoundTensor,
    Copy,
    EpDeviceMemory,
    Location,
    Memory,
    missing_device_memory,
    token_readback,
)
from ortbench.worker.mode_base import (
    DynamicOutputs,
    Mode,
    Proof,
    SingleMode,
    Slot,
    Step,
    call_and_wait,
    copied_bytes,
    copy_to_device,
    copy_to_host,
    make_binding,
    overwrite,
    refuse_strings,
    sync_steps,
    with_own_arrays,
)
from ortbench.worker.providers import Provider
from ortbench.worker.session import Model
from ortbench.worker.sync import Candidates, Sync, Work
from ortbench.worker.tensors import Array, TensorSpec, describe_tensor, get_form, host_value, host_view, roll
from ortbench.worker.timing import SplitCall, TimedCall

if TYPE_CHECKING:
    from ortbench.model import schema
    from ortbench.worker.streams import ExternalInputs


Write = Callable[[dict[str, Array]], object]  # writes inputs to where those that are bound are


class InputCheck(NamedTuple):
    """Whether outputs followed inputs; what differs where they did not (None where it could not be tried); the evidence."""

    verified: bool
    wrong: str | None
    evidence: str


def arrays_equal(first: Array, second: Array) -> bool:
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def have_same_form(some: Sequence[Array], others: Sequence[Array]) -> bool:
    """Outputs whose shape depends on the data do not fit buffers that were bound before."""
    return all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(some, others, strict=True))


class BoundMode(SingleMode):
    """What all modes with IO binding share: values where the session wants them, bound once, with preallocated outputs."""

    def __init__(self, model: Model, data: Data) -> None:
        refuse_strings((*model.inputs, *model.outputs))
        super().__init__(model, data)
        sources = [data.arrays[spec.name] for spec in model.inputs]
        library = model.target.input_memory if MODES[self.name].external_inputs else None
        self.external: ExternalInputs | None = None  # the inputs, where they are in another library's memory
        if library is not None:
            from ortbench.worker.streams import ExternalInputs  # which few runs have

            self.external = ExternalInputs(library, model.provider)
        self._ins = [
            self._input_slot(*item) for item in zip(model.inputs, sources, model.locations.inputs, strict=True)
        ]
        blank = [np.empty_like(array) for array in data.reference]
        self._outs = [
            self._output_slot(*item) for item in zip(model.outputs, blank, model.locations.outputs, strict=True)
        ]
        self._out_arrays = [slot.array for slot in self._outs]
        self._binding = make_binding(model.session, self._ins, self._outs)
        self._upload = copy_to_device(self._ins)
        self._run: Callable[[Any, Any], object] = model.session.run_with_iobinding
        # Of the graph that its runs are captured as, and replay.
        self.graph_id = next(model.graph_ids) if model.target.cuda_graph and MODES[self.name].captured else None
        self._options = model.run_options(self.graph_id)
        self._dynamic: DynamicOutputs | None = None
        if any(slot.value is None for slot in self._outs):
            passed = {name for name, why in data.unshaped.items() if why == INPUT}
            because = f"{self.explain_unshaped()}: " if data.unshaped else ""
            self._dynamic = DynamicOutputs(self._binding, self._run, self._outs, passed, because)
            self._run = self._dynamic.run
            self._download: Copy = self._dynamic.download
        else:
            self._download = copy_to_host(self._outs)
        self._token = token_readback(model.locations.memories)
        self.h2d_sync: Sync | None = None
        self._prepare()

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        return missing_device_memory(provider)

    def memory_for(self, spec: TensorSpec, location: Location) -> Memory:
        """The memory that an input or output is bound in. Raises `Unsupported`: there is none that this mode could bind."""
        if location.own is None:
            raise Unsupported(f"ONNX Runtime offers no memory of the device that {spec.name!r} is wanted on")
        return location.own

    def _pinned_memory(self, spec: TensorSpec, location: Location) -> EpDeviceMemory | None:
        """The memory of the host's side of its copies; None for ordinary host memory."""
        return None

    def _input_slot(self, spec: TensorSpec, array: Array, location: Location) -> Slot:
        if self.external is None or location.is_host_only:
            return self._make_slot(spec, array, location)
        memory = self.memory_for(spec, location)
        return Slot(spec, array, self.external.wrap(spec, array), memory, is_zero_copy=False)

    def _output_slot(self, spec: TensorSpec, array: Array, location: Location) -> Slot:
        mode = MODES[self.name]
        if spec.name in self._data.unshaped:
            self._check_unshaped(location)
        elif not (self._model.target.dynamic_outputs and mode.dynamic_outputs):
            return self._make_slot(spec, array, location)
        return self._make_slot(spec, array, location, allocate=False)._replace(value=None)

    def _check_unshaped(self, location: Location) -> None:
        mode = MODES[self.name]
        if not mode.dynamic_outputs:
            raise Unsupported(f"{self.explain_unshaped()}: {self.name} binds outputs in memory of a known size")
        if self._model.target.cuda_graph and mode.captured:
            raise Unsupported(f"{self.explain_unshaped()}: a graph is captured with outputs of a known size")

    def explain_unshaped(self) -> str:
        """In words, why outputs are without a shape that nobody asked to be."""
        outputs, data = self._model.outputs, self._data
        pairs = zip(outputs, data.reference, strict=True)
        return "; ".join(
            reasons_without_shape(
                [
                    {**describe_tensor(spec, get_form(value)), "unshaped": data.unshaped[spec.name]}
                    for spec, value in pairs
                    if spec.name in data.unshaped
                ]
            )
        )

    def _make_slot(self, spec: TensorSpec, array: Array, location: Location, allocate: bool = True) -> Slot:
        memory = self.memory_for(spec, location)
        if location.is_host_only:
            return Slot(spec, array, host_value(spec, array), memory, is_zero_copy=True)
        bound = memory.allocate(spec, array.shape) if allocate else None
        pinned = self._pinned_memory(spec, location)
        if pinned is None:
            return Slot(spec, array, bound, memory, is_zero_copy=False)
        value = pinned.allocate(spec, array.shape)
        view = host_view(spec, value)
        np.copyto(view, array)
        return Slot(spec, view, bound, memory, is_zero_copy=False, pinned=value)

    def _prepare(self) -> None:
        """The first upload and run, and the proofs of what ends them."""
        self._upload()
        self.sync = self._prove_run()
        self.h2d_sync = self._prove_upload()

    def _prove_run(self) -> Sync:
        if self._token is None:
            return Sync(RUN, None, 0, "the EP computes in host memory and its run returns when it is done")
        if self._dynamic is not None:  # the proof reads outputs back, which a run must have made
            self._launch()
            self._with_sync(self._download)()
        return self._model.syncs.prove("run", self.run_to_prove())

    def run_to_prove(self) -> Work:
        readback = self._with_sync(self._download)
        pinned = partial(self._pinned_readback, self._outs, self._model.locations.outputs)
        steadier = pinned if self._dynamic is None else None
        return Work(self._launch, self._sync_candidates(), readback, self.read_token, steadier)

    def _pinned_readback(self, slots: Sequence[Slot], locations: Sequence[Location]) -> Copy:
        """A readback apart from the mode's own arrays, into pinned memory where there is any: what it takes varies less."""
        pinned = [
            slot
            if slot.is_zero_copy or location.shared is None
            else slot._replace(pinned=location.shared.allocate(slot.spec, slot.array.shape))
            for slot, location in zip(with_own_arrays(slots), locations, strict=True)
        ]
        return self._with_sync(copy_to_host(pinned))

    def _sync_candidates(self) -> Candidates:
        return [(RUN, None), (SYNCHRONIZE, self._binding.synchronize_outputs)]

    @property
    def unshaped_outputs(self) -> set[str]:
        """The outputs that ONNX Runtime allocates in each run."""
        return {slot.spec.name for slot in self._outs if slot.value is None}

    @property
    def read_token(self) -> Copy | None:
        """A readback of a small value of each memory, ordered behind the runs before it or not; None where there is nothing to wait for."""
        return None if self._token is None else self._with_sync(self._token)

    def _with_sync(self, copy: Copy) -> Copy:
        """A copy back, and a wait for what it may have overtaken: those of the CUDA EP go by the default stream, which its own streams do not
        wait for (cudaStreamNonBlocking)."""
        return call_and_wait(copy, self._binding.synchronize_outputs)

    def _prove_upload(self) -> Sync | None:
        if not copied_bytes(self._ins):
            return None
        if self._token is None:
            return Sync(RUN, None, 0, "the copy is the host's own")
        candidates = [(RUN, None), ("synchronize_inputs", self._binding.synchronize_inputs)]
        readback = copy_to_host(with_own_arrays(self._ins))
        steadier = partial(self._pinned_readback, self._ins, self._model.locations.inputs)
        return self._model.syncs.prove("h2d", Work(self._upload, candidates, readback, self._token, steadier))

    def _launch(self) -> None:
        self._run(self._binding, self._options)

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: self._synced_run()}

    def enqueues(self) -> dict[str, SplitCall]:
        wait, mode = self.sync.wait, MODES[self.name]
        call = self._run, self._binding, self._options
        return {} if wait is None else {mode.timed_as("inference"): (call, wait)}

    def steps(self) -> list[Step]:
        return [("run", self._launch), *sync_steps(self.sync)]

    def _synced_run(self) -> TimedCall:
        wait, run = self.sync.wait, self._run
        if wait is None:
            return run, self._binding, self._options

        def call_and_sync(binding: Any, options: Any) -> None:
            run(binding, options)
            wait()

        return call_and_sync, self._binding, self._options

    def _synced_upload(self) -> Copy:
        return self.with_upload_sync(self._upload)

    def with_upload_sync(self, upload: Copy) -> Copy:
        """An upload and its sync, where anything is uploaded."""
        return call_and_wait(upload, None if self.h2d_sync is None else self.h2d_sync.wait)

    def make_copies(self, chosen: Callable[[Location], bool]) -> tuple[Copy, Copy]:
        """The upload, synced, and the download of some of what is bound."""
        ins, outs = (
            [slot for slot, location in zip(slots, locations, strict=True) if chosen(location)]
            for slots, locations in (
                (self._ins, self._model.locations.inputs),
                (self._outs, self._model.locations.outputs),
            )
        )
        return self.with_upload_sync(copy_to_device(ins)), copy_to_host(outs)

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        locations = self._model.locations
        ins, outs = (
            [self._describe_slot(*item) for item in zip(slots, of_slots, strict=True)]
            for slots, of_slots in ((self._ins, locations.inputs), (self._outs, locations.outputs))
        )
        if self.external is not None:
            library = self.external.describe()
            memory, why = f"memory of {library['library']} ({library['place']})", "--input-memory"
            ins = [it if it.reason is None else it._replace(memory=memory, reason=why, is_usual=True) for it in ins]
        return ins, outs

    def _describe_slot(self, slot: Slot, location: Location) -> BoundTensor:
        if slot.is_zero_copy:
            return BoundTensor(slot.spec.name, slot.memory.label, None, is_usual=False)
        own, main = slot.memory is not location.own, self._model.locations.main
        why = "the mode's own memory" if own else "the session's memory info"
        why += "" if slot.value is not None else "; allocated in each inference"
        return BoundTensor(slot.spec.name, slot.memory.label, why, slot.memory is (main.shared if own else main.own))

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        found = []
        if self.external is not None:
            prove = partial(self._prove_external, self.external, rtol, atol)
            found.append(Proof("external", "verifying that external memory is not copied", prove))
        if self.graph_id is not None:
            found.append(Proof("graph", "verifying that a graph is replayed", partial(self._prove_replay, rtol, atol)))
        return found

    def _prove_external(self, external: ExternalInputs, rtol: float | None, atol: float | None) -> schema.External:
        if not external.same_addresses():
            return {**external.describe(), "verified": False, "how": "the bound addresses are not the library's"}
        found = self.check_inputs(external.write, rtol, atol)
        if found.wrong is not None:
            raise WrongOutputs(f"{found.wrong} (after inputs were written through {self._model.target.input_memory})")
        how = f"the addresses are the library's; {found.evidence}"
        return {**external.describe(), "verified": found.verified, "how": how}

    def _prove_replay(self, rtol: float | None, atol: float | None) -> schema.Graph:
        """Whether runs are replays, and replays see what is written to the inputs in place."""
        assert self.graph_id is not None
        if not self.is_replayed():
            raise Unsupported(f"{self._model.provider.name} captured no graph: a run writes to whatever is bound")
        found = self.check_inputs(self.write_inputs, rtol, atol)
        if found.wrong is not None:
            raise WrongOutputs(f"{found.wrong} (a replay after its inputs were written in place)")
        return {"id": self.graph_id, "verified": found.verified, "how": found.evidence}

    def check_inputs(self, write: Write, rtol: float | None, atol: float | None) -> InputCheck:
        """Run on other inputs, written to where those that are bound are, and compare with a plain run; puts the inputs back. Equal addresses
        alone do not show that runs read the very memory: ORT may have copied an input when it was bound, or a graph when it was captured."""
        model, data = self._model, self._data
        changed = {name: roll(array) for name, array in data.arrays.items()}
        reference = try_run(model, changed)
        if reference is None:
            return InputCheck(False, None, "the model takes no other inputs to try it with")
        if not have_same_form(reference, data.reference) or all(map(arrays_equal, reference, data.reference)):
            how = "other inputs give no other outputs of the same shape, so nothing would show"
            return InputCheck(False, None, how)
        try:
            write(changed)
            got = [np.array(array) for array in self.run_as_bound()]
        finally:
            write(data.arrays)
        for spec, got_array, wanted in zip(model.outputs, got, reference, strict=True):
            wrong = proofs.difference(spec.name, got_array, wanted, rtol, atol, proofs.PLAIN)
            if wrong is not None:
                return InputCheck(False, wrong, f"a run does not see what was written in place: {wrong}")
        return InputCheck(True, None, "the outputs followed inputs that were written in place")

    def poison(self) -> None:
        if self._dynamic is not None:
            self._dynamic.poison(self._data.reference)
            return
        poisons = [proofs.poison(array) for array in self._data.reference]
        overwrite(self._outs, poisons)

    def outputs(self) -> list[Array]:
        self._download()
        return self._host_outputs()

    def run_as_bound(self) -> list[Array]:
        """The outputs of one run on what is in the bound memory now, in host memory."""
        call, a, b = self._synced_run()
        call(a, b)
        self._download()
        return self._host_outputs()

    def write_inputs(self, arrays: dict[str, Array]) -> None:
        for slot in self._ins:
            if slot.is_zero_copy:
                np.copyto(slot.array, arrays[slot.spec.name])
        others = [slot._replace(array=np.asarray(arrays[slot.spec.name], order="C"), pinned=None) for slot in self._ins]
        copy_to_device(others)()

    def is_replayed(self) -> bool:
        """Whether a run is a replay: it then writes to the outputs of the capture, whichever others are bound."""
        poisons = [proofs.poison(array) for array in self._data.reference]
        decoys = [
            Slot(slot.spec, array, host_value(slot.spec, array), slot.memory, is_zero_copy=True)
            if slot.is_zero_copy
            else Slot(slot.spec, array, slot.memory.allocate(slot.spec, array.shape), slot.memory, is_zero_copy=False)
            for slot, array in zip(self._outs, poisons, strict=True)
        ]
        copy_to_device(decoys)()
        # Beneath Python's check, which holds a graph to the binding that it was captured with.
        self._model.session._sess.run_with_iobinding(
            make_binding(self._model.session, self._ins, decoys)._iobinding, self._options
        )
        moved = [slot for slot in decoys if not slot.is_zero_copy and slot.array.size]
        seen = with_own_arrays(moved)
        copy_to_host(seen)()
        return bool(moved) and all(
            got.array.tobytes() == slot.array.tobytes() for got, slot in zip(seen, moved, strict=True)
        )

    def _host_outputs(self) -> list[Array]:
        return self._out_arrays if self._dynamic is None else self._dynamic.arrays()
