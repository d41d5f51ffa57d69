"""What modes of a loop with IO binding share: inputs, outputs and state where the session wants them.

State of a fixed shape has two buffers, used in turns: bound once as input of even steps and output of odd ones, and the
other way round. State that grows is allocated by ONNX Runtime in each step, and handed on; where its Python API cannot name
the memory (see `ortbench.worker.mode_base`) it is allocated as a program would that knows the next shape.

A loop may be a stage of a chain: what links give and take then stays on the device if both ends are on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker.base import LoopMode
from ortbench.features.loop.worker.data import LoopData
from ortbench.features.loop.worker.step_inputs import Pair
from ortbench.model.modes import READBACK, SYNCHRONIZE
from ortbench.worker import proofs
from ortbench.worker.bound import BoundMode
from ortbench.worker.memory import BoundTensor, Copy, Location, Memory, join_calls
from ortbench.worker.mode_base import (
    NO_ALLOCATOR,
    OutputReader,
    Slot,
    call_and_wait,
    copied_bytes,
    copy_to_device,
    copy_to_host,
    make_binding,
    output_device,
    overwrite,
    refuse_strings,
    with_own_arrays,
)
from ortbench.worker.session import Model
from ortbench.worker.sync import Sync
from ortbench.worker.tensors import Array, TensorSpec, host_value, host_view

Shape = tuple[int, ...]


class State(NamedTuple):
    """The two buffers of a state of fixed shape, or the memory of one that grows."""

    pair: Pair  # its output and its input
    name_out: str
    spec: TensorSpec  # of the input
    memory: Memory
    # input of even steps, and their output; the same one twice where past and present share it; none where it grows
    buffers: tuple[Any, ...]


class LinkedValue(NamedTuple):
    """What a link gives: a value that is taken where it is, or, where there is none, an array that it is copied from."""

    value: Any
    array: Array


class Links(NamedTuple):
    taken: Mapping[str, LinkedValue]  # what they give in every step, by the name of the input
    given: Collection[str]  # the outputs that they take
    read: Collection[str]  # those of them that the stage copies to the host behind its last step


class BoundLoop(LoopMode):
    """Of a stage, what no link gives is copied in, what none takes is copied out; `keep` leaves it where it is."""

    single: type[BoundMode]  # the mode of single inferences that has its memory, and proves its sync
    one_buffer = False  # past and present of a state share one
    leaves_to_ort = True  # ONNX Runtime allocates a state that grows, where it can
    host_reads_outputs = False  # the host reads outputs where they are

    def __init__(self, model: Model, loop: LoopData, steps: Steps, links: Links | None = None) -> None:
        super().__init__(model, loop)
        refuse_strings((*model.inputs, *model.outputs))
        self._is_stage, self._links = links is not None, links or Links({}, (), ())
        self._steps = steps
        self._single = self.single.make(model, loop.early)
        self.sync: Sync = self._single.sync
        self.binding_error, self.unshaped_outputs = self._single.binding_error, self._single.unshaped_outputs
        # Of a loop that generates, the place of the logits among the outputs of a step.
        self._logits = -1 if loop.generated is None else self._free.index(loop.generated.out)
        self._values: dict[tuple[str, Shape], Any] = {}
        self._shared: dict[tuple[str, Shape], Slot] = {}  # of a loop that generates: outputs of steps of one shape
        self._ins = [list(self._input_slots(number)) for number in range(loop.count)]
        self._outs = [list(self._output_slots(number)) for number in range(loop.count)]
        self._states = [self._make_state(number, pair) for number, pair in enumerate(loop.pairs)]
        self._firsts = [self._first_slot(*it) for it in zip(self._states, loop.first, strict=True)]
        # By the number of the state: what its last step leaves, where somebody wants it.
        self._ends: dict[int, Slot] = {}
        self._finals = self._final_slots()
        self._taken = [slot for slot in self._ins[0] if slot.spec.name in self._links.taken]
        self._copy_firsts = self._copy_in([*self._firsts, *self._taken])
        copy_to_device([slot for slot in self._ins[0] if slot.spec.name in steps.resident])()
        self._options = model.run_options(None)
        self._bindings: dict[tuple[object, ...], Any] = {}
        self._binding = model.session.io_binding()  # of the step that was set up last
        self._grown: dict[int, Any] = {}  # by the number of the state: what the last step gave
        self._allocated: dict[int, tuple[Any, Any]] = {}  # the same, of what is allocated here: past and present
        self.is_left_to_ort = True  # ONNX Runtime allocates a state that grows
        if any(not state.buffers for state in self._states):
            self.is_left_to_ort = self.leaves_to_ort and self._can_leave_to_ort()
            calls = [self._growing_step(number) for number in range(loop.count)]
        else:
            calls = [self._fixed_step(number) for number in range(loop.count)]
        self._calls = self._add_choices(calls)
        self._count()

    def _value(self, spec: TensorSpec, shape: Shape, memory: Memory) -> Any:
        """A value of that shape, the same one in all steps."""
        key = (spec.name, shape)
        if key not in self._values:
            self._values[key] = memory.allocate(spec, shape)
        return self._values[key]

    def _input_slots(self, number: int) -> Iterator[Slot]:
        arrays = self._loop.feeds[number]
        for spec, location in zip(self._model.inputs, self._model.locations.inputs, strict=True):
            if spec.name in arrays:
                yield self._input_slot(spec, location, arrays[spec.name])

    def _input_slot(self, spec: TensorSpec, location: Location, array: Array) -> Slot:
        """An input that is no state, with its array in a step."""
        linked = self._links.taken.get(spec.name)
        if linked is None:
            return self._make_slot(spec, location, array)
        memory = self._single.memory_for(spec, location)
        if linked.value is not None:
            return Slot(spec, linked.array, linked.value, memory, is_zero_copy=True)
        if location.is_on_host and not spec.is_packed:  # it can be read where it is
            return Slot(spec, linked.array, host_value(spec, linked.array), memory, is_zero_copy=True)
        return Slot(spec, linked.array, self._value(spec, linked.array.shape, memory), memory, is_zero_copy=False)

    def _output_slots(self, number: int) -> Iterator[Slot]:
        for index, reference in zip(self._free, self._loop.outputs[number], strict=True):
            spec, key = self._model.outputs[index], (self._model.outputs[index].name, reference.shape)
            if key in self._shared:
                yield self._shared[key]
                continue
            slot = self._make_slot(
                spec, self._model.locations.outputs[index], np.empty(reference.shape, reference.dtype)
            )
            if spec.name in self.unshaped_outputs:
                if spec.name in self._links.given:
                    raise Unsupported(f"{self._single.explain_unshaped()}: a link hands on outputs of a known size")
                slot = slot._replace(value=None)
            if self._loop.generated is not None:  # each step's are read before the next one runs
                self._shared[key] = slot
            yield slot

    def _make_slot(self, spec: TensorSpec, location: Location, array: Array) -> Slot:
        memory = self._single.memory_for(spec, location)
        value = host_value(spec, array) if location.is_host_only else self._value(spec, array.shape, memory)
        return Slot(spec, array, value, memory, location.is_host_only)

    def _make_state(self, number: int, pair: Pair) -> State:
        model, shape = self._model, self._loop.shapes[0][number]
        out, into = model.outputs[pair.out], model.inputs[pair.into]
        memory = self._single.memory_for(into, model.locations.inputs[pair.into])
        buffers: tuple[Any, ...] = ()
        if not self._loop.is_growing(number):
            one = memory.allocate(into, shape)
            buffers = (one, one if self.one_buffer else memory.allocate(into, shape))
        return State(pair, out.name, into, memory, buffers)

    def _first_slot(self, state: State, array: Array) -> Slot:
        """Where the first step finds a state, and what is copied there: nothing where a link gives it where it is, or it is empty."""
        linked = self._links.taken.get(state.spec.name, LinkedValue(None, array))
        value, is_empty = linked.value, not array.size
        if value is None and state.buffers:
            value = state.buffers[0]
        elif value is None:  # what is empty need not be on the device
            value = host_value(state.spec, array) if is_empty else self._value(state.spec, array.shape, state.memory)
        return Slot(state.spec, linked.array, value, state.memory, linked.value is not None or is_empty)

    def _final_slots(self) -> list[Slot]:
        """What its last step leaves for others; of a loop alone nothing."""
        if not self._is_stage:
            return []
        end = self._loop.count - 1
        for number, (state, last) in enumerate(zip(self._states, self._loop.last, strict=True)):
            name = state.name_out
            if name in self._links.given or name not in self._steps.keep:
                own, memory = bool(state.buffers), state.memory
                value = self._next_value(state, end) if own else memory.allocate(state.spec, last.shape)
                spec = state.spec._replace(name=name)
                self._ends[number] = Slot(spec, np.empty_like(last), value, memory, is_zero_copy=False)
        is_read = {number: self._is_read(slot.spec.name, end) for number, slot in self._ends.items()}
        return [slot for number, slot in self._ends.items() if is_read[number] and slot.array.size]

    def begin(self) -> None:
        self._copy_firsts()
        for number, (state, slot) in enumerate(zip(self._states, self._firsts, strict=True)):
            if not state.buffers:
                self._grown[number] = slot.value._get_c_value()

    def _is_copied(self, name: str) -> bool:
        return name not in self._steps.resident and name not in self._links.taken

    def _is_read(self, name: str, number: int) -> bool:
        if name in self._links.given:
            return name in self._links.read and number == self._loop.count - 1
        return name not in self._steps.keep

    def _copies(self, number: int, binding: Any) -> tuple[Copy, Copy]:
        """The copies before a run, and what comes behind it: its sync, and the copies back."""
        moved = [slot for slot in self._ins[number] if self._is_copied(slot.spec.name)]
        read = [slot for slot in self._outs[number] if self._is_read(slot.spec.name, number)]
        if number == self._loop.count - 1:
            read += self._finals
        back = self._read_outputs(read, binding)
        wait: Copy | None = binding.synchronize_outputs if self.sync.kind == SYNCHRONIZE else None
        waits_by_copy = not self.host_reads_outputs and not all(slot.is_zero_copy for slot in read)
        if self.sync.kind == READBACK and not waits_by_copy:
            by_token = self.sync.proof is not None and self.sync.proof.is_token_ordered
            wait = self._single.read_token if by_token else partial(self._read_back, number)
        return self._copy_in(moved), back if wait is None else call_and_wait(wait, back)

    def _read_outputs(self, slots: Sequence[Slot], binding: Any) -> Copy:
        """The copy of slots to their arrays behind a run, of those too that are bound without a shape."""
        unshaped = {self._model.output_names.index(slot.spec.name): slot for slot in slots if slot.value is None}
        copy_others = self._copy_out(slots)
        if not unshaped:
            return copy_others
        return call_and_wait(
            copy_others, partial(_StepReader(unshaped, self.host_reads_outputs).copy, binding._iobinding)
        )

    def _bind_unshaped(self, binding: Any, slots: Sequence[Slot]) -> list[Copy]:
        """What binds outputs without a shape; what a run leaves in a binding is taken for preallocated by the next one."""
        bind = binding._iobinding.bind_output
        return [partial(bind, slot.spec.name, output_device(slot)) for slot in slots if slot.value is None]

    def _read_back(self, number: int) -> None:
        """Copy what a step gave from the device, as a wait for it."""
        copy_to_host(with_own_arrays(self._outs[number]))()
        self.state(number)

    def _copy_in(self, slots: Sequence[Slot]) -> Copy:
        return copy_to_device(slots)

    def _copy_out(self, slots: Sequence[Slot]) -> Copy:
        return copy_to_host(slots)

    def _fixed_step(self, number: int) -> Copy:
        """A step whose tensors all have fixed places: its binding is made once, for all steps that have the same."""
        slots = (*self._ins[number], *self._outs[number])
        states = [(state.spec.name, self._state_value(index, number)) for index, state in enumerate(self._states)]
        key = (
            *(id(value) for _, value in states),
            *(id(slot.array if slot.is_zero_copy else slot.value) for slot in slots),
        )
        if key not in self._bindings:
            binding = self._bindings[key] = make_binding(self._model.session, self._ins[number])
            for name, value in states:
                binding.bind_ortvalue_input(name, value)
            for bind_output in self._bind_calls(binding, number):
                bind_output()
        binding = self._binding = self._bindings[key]
        before, behind = self._copies(number, binding)
        run = partial(self._model.session.run_with_iobinding, binding, self._options)
        return join_calls([before, *self._bind_unshaped(binding, self._outs[number]), run, behind])

    def _state_value(self, index: int, number: int) -> Any:
        """What a step has for the input of a state of fixed shape, by the number of the state."""
        return self._states[index].buffers[number % 2] if number else self._firsts[index].value

    def _next_value(self, state: State, number: int) -> Any:
        return state.buffers[(number + 1) % 2]

    def _bind_calls(self, binding: Any, number: int) -> list[Copy]:
        """What binds all outputs of a step, in the model's order."""
        slots = {slot.spec.name: slot for slot in self._outs[number]}
        states = {state.name_out: (index, state) for index, state in enumerate(self._states)}
        calls: list[Copy] = []
        for name in self._model.output_names:
            if (slot := slots.get(name)) is not None:
                plainly = partial(self._bind_output, binding, name, slot.spec, slot.value, slot.is_zero_copy)
                calls += self._bind_unshaped(binding, [slot]) or [plainly]
                continue
            index, state = states[name]
            if state.buffers:
                calls.append(partial(self._bind_output, binding, name, state.spec, self._next_value(state, number)))
            else:
                calls.append(partial(self._bind_grown, state, index, number))
        return calls

    def _bind_output(self, binding: Any, name: str, spec: TensorSpec, value: Any, stays: bool = False) -> None:
        binding.bind_ortvalue_output(name, value)

    def _growing_step(self, number: int) -> Copy:
        """A step of a loop whose state grows, at least some of it: what another step left is bound anew."""
        binding, native = self._binding, self._binding._iobinding
        fixed = [(slot.spec.name, slot.value) for slot in self._ins[number]]
        fixed += [
            (state.spec.name, self._state_value(index, number))
            for index, state in enumerate(self._states)
            if state.buffers
        ]
        ins = [(name, value._get_c_value()) for name, value in fixed]
        grown = [(index, it.spec.name, it.pair.out) for index, it in enumerate(self._states) if not it.buffers]
        bind_outputs = self._bind_calls(binding, number)
        before, behind = self._copies(number, binding)
        run, options, states = self._model.session.run_with_iobinding, self._options, self._grown
        bind, is_left_to_ort, allocated = native.bind_ortvalue_input, self.is_left_to_ort, self._allocated

        def step() -> None:
            for name, value in ins:
                bind(name, value)
            for index, name, _ in grown:
                bind(name, states[index])
            for bind_output in bind_outputs:
                bind_output()
            before()
            run(binding, options)
            if is_left_to_ort:
                found = native.get_outputs()
                for index, _, out in grown:
                    states[index] = found[out]
            else:
                for index, _, _ in grown:
                    states[index] = allocated[index][1]._get_c_value()
            behind()

        return step

    def _bind_grown(self, state: State, index: int, number: int) -> None:
        """The output of a state that grows, in memory of its own."""
        is_end = number == self._loop.count - 1 and index in self._ends  # where others look for it
        if self.is_left_to_ort and not is_end:
            self._binding._iobinding.bind_output(state.name_out, state.memory.ort_device())
            return
        shape = self._loop.shapes[number + 1][index]
        value = self._ends[index].value if is_end else state.memory.allocate(state.spec, shape)
        # Neither the binding nor ORT's own value keeps the memory: the past is read until this step is over.
        self._allocated[index] = (self._allocated.get(index, (None, None))[1], value)
        self._bind_output(self._binding, state.name_out, state.spec, value)

    def _can_leave_to_ort(self) -> bool:
        """Whether ONNX Runtime can allocate a state that grows: a step is tried."""
        self.begin()
        try:
            self._growing_step(0)()
        except RuntimeError as error:
            if NO_ALLOCATOR not in str(error):
                raise
            return False
        return True

    def state(self, number: int) -> list[Array]:
        slots = []
        for index, state in enumerate(self._states):
            shape = self._loop.shapes[number + 1][index]
            value = self._next_value(state, number) if state.buffers else ort.OrtValue(self._grown[index])
            slots.append(Slot(state.spec, np.empty(shape, state.spec.dtype), value, state.memory, is_zero_copy=False))
        copy_to_host([slot for slot in slots if slot.array.size])()
        found = {index: slot.array for index, slot in enumerate(slots)}
        if number == self._loop.count - 1:
            found |= {index: slot.array for index, slot in self._ends.items() if slot in self._finals}
        return list(found.values())

    def end(self, out: int) -> Slot:
        """Where the last step leaves an output, by its place in the model."""
        number = self._loop.state_of_output(out)
        return self._outs[-1][self._free.index(out)] if number is None else self._ends[number]

    def link_value(self, out: int, stays: bool) -> LinkedValue:
        slot = self.end(out)
        if stays:
            return LinkedValue(slot.value, slot.array)
        is_seen = is_on_host(slot) and not slot.spec.is_packed  # the host can read what is bound where it is
        return LinkedValue(None, host_view(slot.spec, slot.value) if is_seen else slot.array)

    def step_outputs(self, number: int) -> list[Array | None]:
        last = number == self._loop.count - 1
        slots = [slot for slot in self._outs[number] if not self._is_read(slot.spec.name, number)]
        kept = [slot for slot in slots if not slot.is_array_written]
        if kept and last:
            self._read_outputs(kept, self._binding)()
        return [slot.array if slot not in kept or last else None for slot in self._outs[number]]

    def logits(self, number: int) -> Array:
        return self._outs[number][self._logits].array

    def read_logits(self) -> Copy | None:
        return self._read_outputs([self._outs[-1][self._logits]], self._binding)

    def poison(self) -> None:
        # The last step that has a buffer says what is poison there; buffers are shared by all steps.
        for slots in [list(self._shared.values())] if self._shared else self._outs:
            overwrite(slots, [proofs.poison(slot.array) for slot in slots])
        for state, last in zip(self._states, self._loop.last, strict=True):
            if state.buffers:
                poisoned = proofs.poison(last)
                slots = [Slot(state.spec, poisoned, value, state.memory, is_zero_copy=False) for value in state.buffers]
                copy_to_device(slots)()
        for number, slot in self._ends.items():
            if slot.array.size:
                overwrite([slot], [proofs.poison(self._loop.last[number])])

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        return self._single.bound_tensors()

    def _count(self) -> None:
        there = [copied_bytes([slot for slot in step if self._is_copied(slot.spec.name)]) for step in self._ins]
        back = [
            copied_bytes([slot for slot in step if self._is_read(slot.spec.name, number)])
            for number, step in enumerate(self._outs)
        ]
        inputs = self._model.locations.inputs
        on_device = [
            slot
            for state, slot in zip(self._states, self._firsts, strict=True)
            if not inputs[state.pair.into].is_host_only
        ]
        first = copied_bytes([*on_device, *self._taken])
        self._count_bytes(self._count_crossing(), (there, back), first, copied_bytes(self._finals))

    def _count_crossing(self) -> tuple[list[int], list[int]]:
        """By step, the bytes of states that the session gives on the host and takes on the device, and the other way round:
        ONNX Runtime copies these in every run."""
        found: tuple[list[int], list[int]] = ([0] * self._loop.count, [0] * self._loop.count)
        ins, outs = self._model.locations.inputs, self._model.locations.outputs
        for index, state in enumerate(self._states):
            on_host = outs[state.pair.out].is_host_only, ins[state.pair.into].is_host_only
            if on_host[0] != on_host[1]:
                for number, shapes in enumerate(self._loop.shapes[1:]):
                    found[on_host.index(True)][number] += state.spec.nbytes(shapes[index])
        return found

    def copy_out(self, out: int) -> Copy | None:
        """The copy of an output to the host; None where it is there."""
        slot = self.end(out)
        return None if is_on_host(slot) else copy_to_host(with_own_arrays([slot]))

    def copy_in(self, into: int) -> Copy | None:
        """The copy of an input to the device, synced; None where it is read on the host. What it copies is what is there."""
        spec, location = self._model.inputs[into], self._model.locations.inputs[into]
        if location.is_on_host:
            return None
        number = self._loop.state_of_input(into)
        if number is not None:
            slot, array = self._firsts[number], self._loop.first[number]
        else:
            slot = next(slot for slot in self._ins[0] if slot.spec.name == spec.name)
            array = self._loop.feeds[0][spec.name]
        slot = slot._replace(array=np.asarray(array, order="C"), is_zero_copy=False)
        return self._single.with_upload_sync(copy_to_device([slot]))


class _StepReader(OutputReader):
    def _make_room(self, number: int, shape: list[int]) -> None:
        slot = self._slots[number]
        message = f"output {slot.spec.name} has shape {shape} instead of {list(slot.array.shape)} as in the plain loop"
        raise WrongOutputs(message)


def is_on_host(slot: Slot) -> bool:
    return slot.is_zero_copy or slot.memory.kind == "host"
