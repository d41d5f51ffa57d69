"""What modes of a loop with IO binding share: inputs, outputs and state where the session wants them.

State of a fixed shape has two buffers, used in turns: bound once as input of even steps and output of odd ones, and the
other way round. State that grows is allocated by ONNX Runtime in each step, and handed on; where its Python API cannot name
the memory (see `ortbench.worker.modes.slots`) it is allocated as a program would that knows the next shape.

A loop may be a stage of a chain: what links give and take then stays on the device if both ends are on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort

from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker.base import LoopMode
from ortbench.features.loop.worker.data import LoopData
from ortbench.features.loop.worker.step_inputs import Pair
from ortbench.features.loop.worker.unshaped import UnshapedOutputs
from ortbench.model.modes import READBACK, SYNCHRONIZE
from ortbench.worker.modes.base import call_and_wait
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import (
    NO_ALLOCATOR,
    Slot,
    copied_bytes,
    copy_to_device,
    copy_to_host,
    make_binding,
    overwrite,
    refuse_strings,
    with_own_arrays,
)
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.proofs.sync import Sync
from ortbench.worker.session.memory import BoundTensor, Copy, Memory, Place, join_calls
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, TensorSpec, host_value, host_view

Shape = tuple[int, ...]


class State(NamedTuple):
    """The two buffers of a state of fixed shape, or the memory of one that grows."""

    pair: Pair  # its output and its input
    name_out: str
    name_in: str
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


_NO_LINKS = Links({}, (), ())


class BoundLoop(LoopMode):
    """Of a stage, what no link gives is copied in, what none takes is copied out; `keep` leaves it where it is."""

    single: type[BoundMode]  # the mode of single inferences that has its memory, and proves its sync
    one_buffer = False  # past and present of a state share one
    leaves_to_ort = True  # ONNX Runtime allocates a state that grows, where it can
    reads_in_place = False  # the host reads outputs where they are

    def __init__(self, model: Model, loop: LoopData, steps: Steps, links: Links | None = None) -> None:
        super().__init__(model, loop)
        self._is_stage, self._links = links is not None, links or _NO_LINKS
        # By the number of the state: what its last step leaves, where somebody wants it.
        self._ends: dict[int, Slot] = {}
        self._take: Copy | None = None
        refuse_strings((*model.inputs, *model.outputs))
        self._steps = steps
        self._single = self.single.make(model, loop.early)
        self.sync: Sync = self._single.sync
        self.binding_error = self._single.binding_error
        self._values: dict[tuple[str, Shape], Any] = {}
        self._shared: dict[tuple[str, Shape], Slot] = {}  # of a loop that generates: outputs of steps of one shape
        self.unshaped = UnshapedOutputs(self._single, model.output_names, self._copy_out, self.reads_in_place)
        self._ins = [list(self._input_slots(number)) for number in range(loop.count)]
        self._outs = [list(self._output_slots(number)) for number in range(loop.count)]
        self._states = [self._make_state(number, pair) for number, pair in enumerate(loop.pairs)]
        self._binding = model.session.io_binding()
        self._bindings: dict[tuple[object, ...], Any] = {}
        self.is_left_to_ort = True  # ONNX Runtime allocates a state that grows
        self._grown: dict[int, Any] = {}  # by the number of the pair: what the last step gave
        self._allocated: dict[int, tuple[Any, Any]] = {}  # the same, of what is allocated here: past and present
        self._options = model.run_options(None)
        self._finals = self._final_slots()
        self._first = self._copy_in(self._first_slots())
        firsts = enumerate(zip(self._states, loop.first, strict=True))
        self._first_values = {number: self._first_value(*it) for number, it in firsts if not it[0].buffers}
        copy_to_device([slot for slot in self._ins[0] if slot.spec.name in steps.resident])()
        if any(not state.buffers for state in self._states):
            self.is_left_to_ort = self.leaves_to_ort and self._can_leave_to_ort()
            calls = [self._growing_step(number) for number in range(loop.count)]
        else:
            calls = [self._fixed_step(number) for number in range(loop.count)]
        self._calls = self._add_choices(calls)
        first = self._first_bytes() + copied_bytes(self._taken_slots())
        self._count_bytes(*self._count_step_bytes(), first, copied_bytes(self._finals))

    # What is bound

    def _value(self, spec: TensorSpec, shape: Shape, memory: Memory) -> Any:
        """A value of that shape, the same one in all steps."""
        key = (spec.name, shape)
        if key not in self._values:
            self._values[key] = memory.allocate(spec, shape)
        return self._values[key]

    def _input_slots(self, number: int) -> Iterator[Slot]:
        arrays = self._loop.feeds[number]
        for spec, place in zip(self._model.inputs, self._model.places.inputs, strict=True):
            if spec.name in arrays:
                yield self._input_slot(spec, place, arrays[spec.name])

    def _input_slot(self, spec: TensorSpec, place: Place, array: Array) -> Slot:
        """An input that is no state, with its array in a step."""
        linked = self._links.taken.get(spec.name)
        if linked is None:
            return self._make_slot(spec, place, array)
        memory = self._single.memory_for(spec, place)
        if linked.value is not None:
            return Slot(spec, linked.array, linked.value, memory, is_in_place=True)
        if place.is_on_host and not spec.is_packed:  # it can be read where it is
            return Slot(spec, linked.array, host_value(spec, linked.array), memory, is_in_place=True)
        return Slot(spec, linked.array, self._value(spec, linked.array.shape, memory), memory, is_in_place=False)

    def _taken_slots(self) -> list[Slot]:
        return [slot for slot in self._ins[0] if slot.spec.name in self._links.taken]

    def _output_slots(self, number: int) -> Iterator[Slot]:
        for place, reference in zip(self._free, self._loop.outputs[number], strict=True):
            spec, key = self._model.outputs[place], (self._model.outputs[place].name, reference.shape)
            if key in self._shared:
                yield self._shared[key]
                continue
            slot = self._make_slot(spec, self._model.places.outputs[place], np.empty(reference.shape, reference.dtype))
            slot = self.unshaped.slot(slot, spec.name in self._links.given)
            if self._loop.generated is not None:  # each step's are read before the next one runs
                self._shared[key] = slot
            yield slot

    def _make_slot(self, spec: TensorSpec, place: Place, array: Array) -> Slot:
        memory = self._single.memory_for(spec, place)
        value = host_value(spec, array) if place.is_host_only else self._value(spec, array.shape, memory)
        return Slot(spec, array, value, memory, place.is_host_only)

    def _make_state(self, number: int, pair: Pair) -> State:
        model, shape = self._model, self._loop.shapes[0][number]
        out, into = model.outputs[pair.out], model.inputs[pair.into]
        memory = self._single.memory_for(into, model.places.inputs[pair.into])
        buffers: tuple[Any, ...] = ()
        if not self._loop.is_growing(number):
            one = memory.allocate(into, shape)
            buffers = (one, one if self.one_buffer else memory.allocate(into, shape))
        return State(pair, out.name, into.name, into, memory, buffers)

    def _first_slots(self) -> list[Slot]:
        """The first state, on both sides; what is empty has nothing to be copied."""
        slots = (self._first_slot(*it) for it in zip(self._states, self._loop.first, strict=True) if it[1].size)
        return [slot for slot in slots if slot is not None]

    def _first_slot(self, state: State, array: Array) -> Slot | None:
        """One of them; None where a link gives it where it is."""
        linked = self._links.taken.get(state.name_in)
        if linked is not None and linked.value is not None:
            return None
        array = array if linked is None else linked.array
        value = state.buffers[0] if state.buffers else self._value(state.spec, array.shape, state.memory)
        return Slot(state.spec, array, value, state.memory, is_in_place=False)

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
                self._ends[number] = Slot(spec, np.empty_like(last), value, memory, is_in_place=False)
        is_read = {number: self._is_read(slot.spec.name, end) for number, slot in self._ends.items()}
        return [slot for number, slot in self._ends.items() if is_read[number] and slot.array.size]

    def begin(self) -> None:
        self._first()
        for number, value in self._first_values.items():
            self._grown[number] = value._get_c_value()
        if self._is_stage:
            self.take()

    def take(self) -> None:
        """Copy what links give and is not taken where it is."""
        if self._take is None:
            self._take = self._copy_in(self._taken_slots())
        self._take()

    def _first_value(self, state: State, array: Array) -> Any:
        linked = self._links.taken.get(state.name_in)
        if linked is not None and linked.value is not None:
            return linked.value
        if array.size:
            return self._value(state.spec, array.shape, state.memory)
        return host_value(state.spec, array)  # empty: there is nothing that would have to be on the device

    # A step

    def _is_copied(self, name: str) -> bool:
        return name not in self._steps.resident and name not in self._links.taken

    def _is_read(self, name: str, number: int) -> bool:
        if name in self._links.given:
            return name in self._links.read and number == self._loop.count - 1
        return name not in self._steps.keep

    def _copies(self, number: int, synchronize: Copy) -> tuple[Copy, Copy]:
        """The copies before a run, and what comes behind it: its sync, and the copies back."""
        moved = [slot for slot in self._ins[number] if self._is_copied(slot.spec.name)]
        read = [slot for slot in self._outs[number] if self._is_read(slot.spec.name, number)]
        if number == self._loop.count - 1:
            read += self._finals
        back = self.unshaped.copy(read)
        wait: Copy | None = synchronize if self.sync.kind == SYNCHRONIZE else None
        if self.sync.kind == READBACK and not self._is_read_back(read):
            by_token = self.sync.proof is not None and self.sync.proof.is_token_ordered
            wait = self._single.read_token if by_token else partial(self._read_back, number)
        return self._copy_in(moved), back if wait is None else call_and_wait(wait, back)

    def _is_read_back(self, slots: Sequence[Slot]) -> bool:
        """Whether reading outputs waits for the run: a copy from the device does."""
        return not all(slot.is_in_place for slot in slots)

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
        states = (id(self._state_value(state, number)) for state in self._states)
        shapes = (*self._loop.shapes[number], *self._loop.shapes[number + 1])
        key = (*states, *shapes, *(id(slot.array if slot.is_in_place else slot.value) for slot in slots))
        if key not in self._bindings:
            binding = self._bindings[key] = make_binding(self._model.session, self._ins[number])
            for state in self._states:
                binding.bind_ortvalue_input(state.name_in, self._state_value(state, number))
            for bind_output in self._bind_calls(binding, number):
                bind_output()
        binding = self._bindings[key]
        before, behind = self._copies(number, binding.synchronize_outputs)
        run = partial(self._model.session.run_with_iobinding, binding, self._options)
        return join_calls([before, *self.unshaped.bind(binding, self._outs[number]), run, behind])

    def _state_value(self, state: State, number: int) -> Any:
        """What a step has for the input of a state of fixed shape."""
        linked = None if number else self._links.taken.get(state.name_in)
        return state.buffers[number % 2] if linked is None or linked.value is None else linked.value

    def _next_value(self, state: State, number: int) -> Any:
        return state.buffers[(number + 1) % 2]

    def _bind_calls(self, binding: Any, number: int) -> list[Copy]:
        """What binds all outputs of a step, in the model's order."""
        slots = {slot.spec.name: slot for slot in self._outs[number]}
        states = {state.name_out: (place, state) for place, state in enumerate(self._states)}
        calls: list[Copy] = []
        for name in self._model.output_names:
            if (slot := slots.get(name)) is not None:
                plainly = partial(self._bind_output, binding, name, slot.spec, slot.value, slot.is_in_place)
                calls += self.unshaped.bind(binding, [slot]) or [plainly]
                continue
            place, state = states[name]
            if state.buffers:
                calls.append(partial(self._bind_output, binding, name, state.spec, self._next_value(state, number)))
            else:
                calls.append(partial(self._bind_grown, state, place, number))
        return calls

    def _bind_output(self, binding: Any, name: str, spec: TensorSpec, value: Any, stays: bool = False) -> None:
        binding.bind_ortvalue_output(name, value)

    def _growing_step(self, number: int) -> Copy:
        """A step of a loop whose state grows, at least some of it: what another step left is bound anew."""
        binding, native = self._binding, self._binding._iobinding
        ins = [(slot.spec.name, slot.value._get_c_value()) for slot in self._ins[number]]
        grown = [(place, state) for place, state in enumerate(self._states) if not state.buffers]
        fixed = [
            (state.name_in, self._state_value(state, number)._get_c_value()) for state in self._states if state.buffers
        ]
        bind_outputs = self._bind_calls(binding, number)
        before, behind = self._copies(number, binding.synchronize_outputs)
        run, options, states = self._model.session.run_with_iobinding, self._options, self._grown
        bind = native.bind_ortvalue_input
        places = [(place, state.pair.out) for place, state in grown]
        found_by_ort, allocated = self.is_left_to_ort, self._allocated

        def step() -> None:
            for name, value in ins:
                bind(name, value)
            for name, value in fixed:
                bind(name, value)
            for place, state in grown:
                bind(state.name_in, states[place])
            for bind_output in bind_outputs:
                bind_output()
            before()
            run(binding, options)
            if found_by_ort:
                found = native.get_outputs()
                for place, out in places:
                    states[place] = found[out]
            else:
                for place, _ in places:
                    states[place] = allocated[place][1]._get_c_value()
            behind()

        return step

    def _bind_grown(self, state: State, place: int, number: int) -> None:
        """The output of a state that grows, in memory of its own."""
        if number == self._loop.count - 1 and place in self._ends:  # where others look for it
            self._bind_grown_into(state, place, self._ends[place].value)
        elif self.is_left_to_ort:
            self._binding._iobinding.bind_output(state.name_out, state.memory.ort_device())
        else:
            value = state.memory.allocate(state.spec, self._loop.shapes[number + 1][place])
            self._bind_grown_into(state, place, value)

    def _bind_grown_into(self, state: State, place: int, value: Any) -> None:
        """The same in memory that is not ONNX Runtime's."""
        # Neither the binding nor ORT's own value keeps the memory: the past is read until this step is over.
        self._allocated[place] = (self._allocated.get(place, (None, None))[1], value)
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

    # What came of it

    def state(self, number: int) -> list[Array]:
        slots = []
        for place, state in enumerate(self._states):
            shape = self._loop.shapes[number + 1][place]
            value = state.buffers[(number + 1) % 2] if state.buffers else ort.OrtValue(self._grown[place])
            slots.append(Slot(state.spec, np.empty(shape, state.spec.dtype), value, state.memory, is_in_place=False))
        copy_to_host([slot for slot in slots if slot.array.size])()
        found = {place: slot.array for place, slot in enumerate(slots)}
        if number == self._loop.count - 1:
            found |= {place: slot.array for place, slot in self._ends.items() if slot in self._finals}
        return list(found.values())

    def end(self, out: int) -> Slot:
        """Where the last step leaves an output, by its place in the model."""
        number = self._loop.state_of_output(out)
        return self._outs[-1][self._free.index(out)] if number is None else self._ends[number]

    def link_value(self, out: int, stays: bool) -> LinkedValue:
        """What links give of an output."""
        slot = self.end(out)
        if stays:
            return LinkedValue(slot.value, slot.array)
        is_seen = is_on_host(slot) and not slot.spec.is_packed  # the host can read what is bound where it is
        return LinkedValue(None, host_view(slot.spec, slot.value) if is_seen else slot.array)

    def step_outputs(self, number: int) -> list[Array | None]:
        last = number == self._loop.count - 1
        slots = [slot for slot in self._outs[number] if not self._is_read(slot.spec.name, number)]
        kept = [slot for slot in slots if not slot.is_written_in_place]
        if kept and last:
            self.unshaped.copy(kept)()
        return [slot.array if slot not in kept or last else None for slot in self._outs[number]]

    def _logits_slot(self, number: int) -> Slot:
        assert self._loop.generated is not None
        return self._outs[number][self._free.index(self._loop.generated.out)]

    def logits(self, number: int) -> Array:
        return self._logits_slot(number).array

    def read_logits(self) -> Copy | None:
        return self.unshaped.copy([self._logits_slot(self._loop.count - 1)])

    def poison(self) -> None:
        # The last step that has a buffer says what is poison there; buffers are shared by all steps.
        for slots in [list(self._shared.values())] if self._shared else self._outs:
            overwrite(slots, [output_arrays.poison(slot.array) for slot in slots])
        for state, last in zip(self._states, self._loop.last, strict=True):
            if state.buffers:
                poisoned = output_arrays.poison(last)
                slots = [Slot(state.spec, poisoned, value, state.memory, is_in_place=False) for value in state.buffers]
                copy_to_device(slots)()
        for number, slot in self._ends.items():
            if slot.array.size:
                overwrite([slot], [output_arrays.poison(self._loop.last[number])])

    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        return self._single.bound_tensors()

    def _count_step_bytes(self) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
        there = [copied_bytes([slot for slot in step if self._is_copied(slot.spec.name)]) for step in self._ins]
        back = [
            copied_bytes([slot for slot in step if self._is_read(slot.spec.name, number)])
            for number, step in enumerate(self._outs)
        ]
        return self._count_crossing(), (there, back)

    def _count_crossing(self) -> tuple[list[int], list[int]]:
        """By step, the bytes of states that the session gives on the host and takes on the device, and the other way round:
        ONNX Runtime copies these in every run."""
        found: tuple[list[int], list[int]] = ([0] * self._loop.count, [0] * self._loop.count)
        ins, outs = self._model.places.inputs, self._model.places.outputs
        for place, state in enumerate(self._states):
            on_host = outs[state.pair.out].is_host_only, ins[state.pair.into].is_host_only
            if on_host[0] != on_host[1]:
                for number, shapes in enumerate(self._loop.shapes[1:]):
                    found[on_host.index(True)][number] += state.spec.nbytes(shapes[place])
        return found

    def _first_bytes(self) -> int:
        ins = zip(self._model.inputs, self._model.places.inputs, strict=True)
        stay = {spec.name for spec, place in ins if place.is_host_only}
        return copied_bytes([slot for slot in self._first_slots() if slot.spec.name not in stay])

    # What a link would cost through the host

    def copy_out(self, out: int) -> Copy | None:
        """The copy of an output to the host; None where it is there."""
        slot = self.end(out)
        return None if is_on_host(slot) else copy_to_host(with_own_arrays([slot]))

    def copy_in(self, into: int) -> Copy | None:
        """The copy of an input to the device, synced; None where it is read on the host. What it copies is what is there."""
        spec, place = self._model.inputs[into], self._model.places.inputs[into]
        if place.is_on_host:
            return None
        number = self._loop.state_of_input(into)
        if number is not None:
            state = self._states[number]
            array = self._loop.first[number]
            value = self._first_value(state, array) if not state.buffers else self._state_value(state, 0)
        else:
            slot = next(slot for slot in self._ins[0] if slot.spec.name == spec.name)
            array, value = self._loop.feeds[0][spec.name], slot.value
        memory = self._single.memory_for(spec, place)
        slot = Slot(spec, np.asarray(array, order="C"), value, memory, is_in_place=False)
        return self._single.with_upload_sync(copy_to_device([slot]))


def is_on_host(slot: Slot) -> bool:
    return slot.is_in_place or slot.memory.kind == "host"
