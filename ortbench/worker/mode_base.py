"""What a mode is to those that time it, look at it and check it; and bound inputs and outputs: both sides of each, the
copies between them, and outputs that ONNX Runtime allocates in each run.

What was tried of such outputs with ONNX Runtime 1.31.1:

- `bind_output` with a device's name carries no vendor id, so ORT finds no allocator of a plugin EP. The native call takes
  an OrtDevice with one.
- An OrtDevice made in Python has no alignment, and ORT looks allocators up by device with alignment: where the EP's memory
  has one (the memory of the CUDA, TensorRT and WebGPU EPs has none), outputs cannot be bound this way.
- What a run leaves in a binding is taken for preallocated by the next one, which fails if the shape is another. So the
  outputs are bound anew before each run, which frees those of the last one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.errors import Unsupported
from ortbench.model.modes import DEPTH, LATENCY, STEP
from ortbench.worker import proofs
from ortbench.worker.first_run import Data
from ortbench.worker.memory import BoundTensor, Copy, EpDeviceMemory, Location, Memory, copy_tensors, join_calls
from ortbench.worker.proofs import FIRST
from ortbench.worker.providers import Provider
from ortbench.worker.session import Model
from ortbench.worker.sync import Sync
from ortbench.worker.tensors import Array, TensorSpec, Value, host_value, host_view, nbytes
from ortbench.worker.timing import Ranges, SplitCall, Stream, TimedCall

if TYPE_CHECKING:
    from typing import Self

    from ortbench.model.schema import External, Graph, ZeroCopy


Step = tuple[str, Callable[[], object]]


class Proof(NamedTuple):
    """Something that a mode proves of itself before it is timed."""

    key: str  # where a case keeps what was found; see `ortbench.model.result.Case`; "" where there is nothing to keep
    stage: str  # what a timeline calls it
    prove: Callable[[], ZeroCopy | External | Graph | None]


class Mode(ABC):
    """One way to hand tensors to a session and get them back.

    Every mode ends `latency` with the outputs readable where the mode leaves them, and starts it with the inputs in host
    memory, or already in place where that is the mode's point.
    """

    name: str
    # what ends these, where the copy itself does not wait
    sync: Sync
    h2d_sync: Sync | None = None
    d2h_sync: Sync | None = None
    # copied to and from the device per inference; None where that is not known
    bytes_in: int | None
    bytes_out: int | None
    one_time_bytes: tuple[int, int] = (0, 0)
    per_call: int = 1  # how many inferences one call of ``latency`` makes
    trials: tuple[int, ...] = (1,)  # how many calls of ``latency`` each check of the outputs rests on
    call_name: str = LATENCY  # what ranges call a call of ``latency``
    records_starts = False  # whether it notes when the parts of its calls begin; see `take_starts`
    # what ORT said to outputs bound as they are, where they had to be bound by address instead; else None
    binding_error: str | None = None
    part_names: tuple[str, ...] = (STEP,)  # what they call the parts of one whose times it takes

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        """What an EP lacks for it, whatever the model, as a noun; None if it can do it."""
        return None

    @classmethod
    def refusal(cls, provider: Provider) -> str | None:
        reason = cls.missing_feature(provider)
        return None if reason is None else f"{provider.name} offers {reason} on this device"

    @abstractmethod
    def phases(self) -> dict[str, TimedCall]:
        """What can be timed, each synced at its end: ``latency``, whole inferences, and its parts where it has any. A copy
        of no bytes is none."""

    def streams(self, count: int) -> list[Stream]:
        """At least so many calls that can begin at set moments, one after the other: whole inferences, or the steps of loops."""
        call, a, b = self.phases()[LATENCY]
        return [(lambda: None, [partial(call, a, b)] * count)]

    def enqueues(self) -> dict[str, SplitCall]:
        """Of the phases whose runs end with a sync that waits behind the call: the two apart. None where the run waits."""
        return {}

    @abstractmethod
    def steps(self) -> list[Step]:
        """What one inference consists of, in order, for a look at each on its own; where a sync waits, it is one."""

    @abstractmethod
    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        """Where its inputs and its outputs are, in the model's order."""

    @abstractmethod
    def poison(self) -> None:
        """Overwrite the outputs, so that what is read next is what the next run wrote."""

    @abstractmethod
    def outputs(self) -> list[Value]:
        """The outputs as they are now, in host memory."""

    @abstractmethod
    def expected_outputs(self) -> list[tuple[str, Value]]:
        """The name of each of `outputs`, and what it must be."""

    @property
    def source(self) -> str:
        return FIRST

    def wait_idle(self) -> None:  # noqa: B027 - most modes finish one inference before they begin the next
        """Wait for whatever the last call left in flight, before another mode is measured."""

    def syncs(self) -> dict[str, Sync]:
        found = {"inference": self.sync, "h2d": self.h2d_sync, "d2h": self.d2h_sync}
        return {phase: sync for phase, sync in found.items() if sync is not None}

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        return ()

    def one_time_copies(self) -> tuple[Copy, Copy] | None:
        """The upload before, synced, and the download after all runs, where these are made only once."""
        return None

    def set_ranges(self, ranges: Ranges) -> Ranges:
        """Take the ranges that its calls are to put around parts of theirs; gives them back."""
        return ranges

    def take_times(self, calls: int) -> list[int] | None:
        """The times that the last calls of ``latency`` took of their parts, ns, in order, then forgotten; None without such parts."""
        return None

    def take_starts(self, calls: int) -> list[int]:
        """When the parts of the last calls began, as `take_times` has them; none without `records_starts`."""
        return []

    def details(self) -> dict[str, Any]:
        """What else `ortbench.model.protocol.Prepared` has of it: ``pipeline``, ``step_bytes`` or ``stage_bytes``."""
        return {}

    def time_separately(self, repeats: int) -> dict[str, Any]:
        """The keys of `ortbench.model.protocol.Finished` for what is timed alone. They are asked for last."""
        return {}


class SingleMode(Mode):
    """A mode of single inferences, which are made of a model and its arrays alone."""

    binds = True

    def __init__(self, model: Model, data: Data) -> None:
        self._model, self._data = model, data

    def expected_outputs(self) -> list[tuple[str, Value]]:
        return list(zip(self._model.output_names, self._data.reference, strict=True))

    @property
    def source(self) -> str:
        return self._data.source

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = DEPTH) -> Self:
        """Set it up on an EP that lacks nothing: allocate, bind, upload, run once, prove the syncs.

        Where several inferences are in flight, `depth` says how many. Raises `Unsupported`: the model cannot be run so; and
        whatever ORT raises on the way.
        """
        return cls(model, data)

    @classmethod
    def check(cls, model: Model) -> None:
        """Raises `Unsupported`: the EP cannot do it, or the model has what cannot be bound."""
        if (reason := cls.refusal(model.provider)) is not None:
            raise Unsupported(reason)
        if cls.binds:
            for spec in (*model.inputs, *model.outputs):
                spec.check_binding()


def call_and_wait(call: Copy, wait: Copy | None) -> Copy:
    """A call and the wait for its end, where it needs one."""
    if wait is None:
        return call

    def call_and_sync() -> None:
        call()
        wait()

    return call_and_sync


def sync_steps(sync: Sync | None) -> list[Step]:
    return [] if sync is None or sync.wait is None else [(f"sync ({sync.kind})", sync.wait)]


def as_timed_call(call: Copy) -> TimedCall:
    return (lambda _a, _b: call()), None, None


class Slot(NamedTuple):
    spec: TensorSpec
    array: Array  # its host side
    value: Any  # the OrtValue that is bound; None for an output that ORT allocates
    memory: Memory
    # the session wants it in ordinary host memory (a shape, say): `value` is then over `array` itself and nothing is
    # copied; on the device it would cost a copy back inside every run
    is_zero_copy: bool
    # the value in pinned memory that `array` looks into; None where `array` is in ordinary host memory
    pinned: Any = None

    @property
    def is_array_written(self) -> bool:
        """Whether a run writes to `array` itself."""
        return self.is_zero_copy and self.value is not None


def copy_to_device(slots: Sequence[Slot]) -> Copy:
    """The copies from the host's sides to what is bound."""
    calls = []
    for memory, moved in group_by_memory(_with_value(slots)):
        specs, arrays, values, pinned = _columns(moved)
        calls.append(memory.upload(specs, arrays, values) if None in pinned else copy_tensors(pinned, values))
    return join_calls(calls)


def copy_to_host(slots: Sequence[Slot]) -> Copy:
    """The copies from what is bound to the host's sides."""
    calls = []
    for memory, moved in group_by_memory(_with_value(slots)):
        specs, arrays, values, pinned = _columns(moved)
        calls.append(memory.download(specs, values, arrays) if None in pinned else copy_tensors(values, pinned))
    return join_calls(calls)


def _with_value(slots: Sequence[Slot]) -> list[Slot]:
    """Those that are bound with memory; of others nobody knows where they are before a run."""
    return [slot for slot in slots if slot.value is not None]


def _columns(slots: Sequence[Slot]) -> tuple[list[TensorSpec], list[Array], list[Any], list[Any]]:
    specs, arrays, values, pinned = zip(*((it.spec, it.array, it.value, it.pinned) for it in slots), strict=True)
    return list(specs), list(arrays), list(values), list(pinned)


def with_own_arrays(slots: Sequence[Slot]) -> list[Slot]:
    """The same with other arrays, in ordinary host memory."""
    return [slot._replace(array=np.empty_like(slot.array), pinned=None) for slot in slots]


def overwrite(slots: Sequence[Slot], arrays: Sequence[Array]) -> None:
    copy_to_device([slot._replace(array=array, pinned=None) for slot, array in zip(slots, arrays, strict=True)])()
    for slot, array in zip(slots, arrays, strict=True):
        slot.array[...] = array


def make_binding(session: Any, ins: Sequence[Slot], outs: Sequence[Slot] = ()) -> Any:
    """A binding of all of them, in the order that `get_outputs` then has; those without a value are bound without a shape."""
    binding = session.io_binding()
    for slot in ins:
        binding.bind_ortvalue_input(slot.spec.name, slot.value)
    for slot in outs:
        if slot.value is None:
            binding._iobinding.bind_output(slot.spec.name, output_device(slot))
        else:
            binding.bind_ortvalue_output(slot.spec.name, slot.value)
    return binding


def output_device(slot: Slot) -> Any:
    """The native OrtDevice whose memory an output without a shape is in."""
    if slot.is_zero_copy:
        return ort_native.OrtDevice(ort_native.OrtDevice.cpu(), ort_native.OrtDevice.default_memory(), 0)
    return slot.memory.ort_device()


def group_by_memory(slots: Sequence[Slot]) -> list[tuple[Memory, list[Slot]]]:
    """What is copied, by the memory that it is in: one call of CopyTensors is for one device."""
    groups: dict[int, tuple[Memory, list[Slot]]] = {}
    for slot in slots:
        if not slot.is_zero_copy:
            groups.setdefault(id(slot.memory), (slot.memory, []))[1].append(slot)
    return list(groups.values())


def copied_bytes(slots: list[Slot]) -> int:
    """The bytes of one copy of all of them."""
    return sum(nbytes(slot.array) for slot in slots if not slot.is_zero_copy)


def shared_memory(spec: TensorSpec, location: Location) -> EpDeviceMemory:
    """HOST_ACCESSIBLE memory for what is not in ordinary host memory. Raises `Unsupported`: the EP that it is for has
    none."""
    if location.shared is None:
        where = "" if location.own is None else f", and is wanted in {location.own.label}"
        raise Unsupported(f"{spec.name!r} is for an EP that offers no HOST_ACCESSIBLE memory{where}")
    return location.shared


def refuse_strings(specs: Iterable[TensorSpec]) -> None:
    """Raise `Unsupported` where a tensor cannot be bound because it holds strings."""
    for spec in specs:
        if spec.is_string:
            raise Unsupported(f"{spec.name!r} is a tensor of strings, which only mode cpu-tensors can hold")


NO_ALLOCATOR = "Failed to find allocator for device"


class OutputReader:
    """Copies outputs, by their places in a binding, from where a run left them to the arrays of their slots."""

    def __init__(self, slots: Mapping[int, Slot], on_host: bool = False) -> None:
        self._slots = slots
        # Of each output what it is copied to: the array, its shape, and where CopyTensors copies, a value over the array and its native,
        # which does not keep the array alive.
        self.copied: dict[int, Array] = {}
        self._shapes: dict[int, list[int]] = {}
        self._owners: dict[int, Any] = {}
        self._hosts: dict[int, Any] = {}
        others = {
            number: slot
            for number, slot in slots.items()
            if on_host or slot.is_zero_copy or slot.memory.kind != "ep-device"
        }
        self._read = [(number, _make_view(slot, on_host)) for number, slot in others.items()]
        # One call of CopyTensors is for one memory.
        groups: dict[int, list[int]] = {}
        for number in filter(lambda number: number not in others, slots):
            groups.setdefault(id(slots[number].memory), []).append(number)
        self._groups = list(groups.values())
        self._by_ort = {number for numbers in self._groups for number in numbers}
        self.reset()

    def copy(self, binding: Any) -> None:
        """Copy what the last run of a native binding left: no more than a program does, as it is timed."""
        outputs = binding.get_outputs()  # to iterate over it takes some µs a value
        for numbers in self._groups:
            values = [outputs[number] for number in numbers]
            for number, value in zip(numbers, values, strict=True):  # CopyTensors does not check sizes
                if (shape := value.shape()) != self._shapes[number]:
                    self._make_room(number, shape)
            ort_native.copy_tensors(values, [self._hosts[number] for number in numbers], None)
        for number, read in self._read:
            value = outputs[number]
            if (shape := value.shape()) != self._shapes[number]:
                self._make_room(number, shape)
            np.copyto(self.copied[number], read(value))

    def reset(self) -> None:
        """Have all outputs copied to the arrays of their slots again."""
        for number, slot in self._slots.items():
            self._copy_to(number, slot.array, slot.pinned)

    def _make_room(self, number: int, shape: list[int]) -> None:
        """Have an output that has another shape than before copied to an array of that shape."""
        slot = self._slots[number]
        if tuple(shape) == slot.array.shape:
            self._copy_to(number, slot.array, slot.pinned)
        else:
            self._copy_to(number, np.empty(shape, slot.spec.dtype))

    def _copy_to(self, number: int, array: Array, pinned: Any = None) -> None:
        """Have an output copied to an array, which may look into a value in pinned memory."""
        self.copied[number], self._shapes[number] = array, list(array.shape)
        if number in self._by_ort:
            self._owners[number] = host_value(self._slots[number].spec, array) if pinned is None else pinned
            self._hosts[number] = self._owners[number]._get_c_value()


def _make_view(slot: Slot, on_host: bool) -> Callable[[Any], Array]:
    """What gives the array of a native value that copies itself, or that the host reads where it is."""
    if on_host or slot.is_zero_copy or (slot.memory.kind == "host" and not slot.spec.is_native):
        return partial(host_view, slot.spec)
    return methodcaller("numpy")


class DynamicOutputs:
    """The outputs of one binding, some of them without a shape, in the memories of `targets`; one of another shape than its array's gets
    an array of its own.

    `passed` are those that are inputs: their memory is the input's. `why` some are without a shape is said where they cannot be.
    """

    def __init__(
        self,
        binding: Any,
        run: Callable[[Any, Any], object],
        targets: Sequence[Slot],
        passed: Collection[str] = (),
        why: str = "",
    ) -> None:
        self._binding, self._run, self._targets, self._passed, self._why = binding, run, targets, passed, why
        self._bound = [(target.spec.name, output_device(target)) for target in targets if target.value is None]
        self._native = binding._iobinding
        self._reader = OutputReader({it: target for it, target in enumerate(targets) if not target.is_zero_copy})
        unshaped = group_by_memory([target for target in targets if target.value is None])
        self._label = " and ".join(memory.label for memory, _ in unshaped)
        self._ran = False

    def run(self, binding: Any, options: Any) -> None:
        """Bind the outputs anew and run. Raises `Unsupported`: ORT finds no allocator for them."""
        bind = self._native.bind_output
        for name, device in self._bound:
            bind(name, device)
        try:
            self._run(binding, options)
        except RuntimeError as error:
            if NO_ALLOCATOR in str(error):
                raise Unsupported(
                    f"{self._why}outputs cannot be bound to {self._label} without a shape: that memory has an alignment, which "
                    "ONNX Runtime's Python API cannot name"
                ) from None
            raise
        self._ran = True

    def download(self) -> None:
        """Copy the outputs of the last run to the host."""
        self._reader.copy(self._native)

    def arrays(self) -> list[Array]:
        """The outputs as they were copied last, and what the session left in host memory."""
        copied = self._reader.copied
        values = self._binding.get_outputs() if len(copied) < len(self._targets) else ()
        return [
            copied[number] if number in copied else host_view(target.spec, values[number]).copy()
            for number, target in enumerate(self._targets)
        ]

    def views(self, bound: Sequence[Array]) -> list[Array]:
        """The outputs where they are, which the host must reach: `bound` are views of those that have a shape."""
        values = self._binding.get_outputs()
        found = zip(self._targets, values, bound, strict=True)
        return [host_view(it.spec, value) if it.value is None else view for it, value, view in found]

    def poison(self, references: Sequence[Array]) -> None:
        """Overwrite what is on the host and the last outputs: the next run may well be given their memory."""
        poisons = [proofs.poison(reference) for reference in references]
        if self._ran:
            values = self._binding.get_outputs()
            for target, value, array in zip(self._targets, values, poisons, strict=True):
                if target.spec.name in self._passed or tuple(value.shape()) != array.shape:
                    continue
                if target.is_zero_copy:
                    np.copyto(host_view(target.spec, value), array)
                else:
                    target.memory.upload([target.spec], [array], [value])()
        self._reader.reset()
        for target, array in zip(self._targets, poisons, strict=True):
            target.array[...] = array
