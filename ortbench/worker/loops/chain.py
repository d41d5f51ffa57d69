"""A chain in one mode, and how it is set up by the mode's name; with stages in mode `device-resident`, where what links give and take
stays on the device if both ends are on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import median

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs
from ortbench.model.modes import CPU, WHOLE_CHAIN
from ortbench.plan.loop_plan import Steps
from ortbench.worker.loops.base import LoopMode, PartsMode
from ortbench.worker.loops.bound import State
from ortbench.worker.loops.chain_data import ChainData, OpenStage, of_stage
from ortbench.worker.loops.data import LoopData
from ortbench.worker.loops.modes import CpuStage, ResidentLoop, Taken
from ortbench.worker.modes.base import Mode, Proof, Step
from ortbench.worker.modes.slots import Slot, apart, copied_bytes, download, overwrite, upload
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.proofs.sync import Sync
from ortbench.worker.session.memory import Bound, Copy, Place
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, TensorSpec, Value, host_value, host_view
from ortbench.worker.timing import took

if TYPE_CHECKING:
    from ortbench.model.schema import LinkTimes, StageBytes


class Handed(NamedTuple):
    """What a link gives: a value that is taken where it is, or, where there is none, an array that it is copied from."""

    value: Any
    array: Array


class Links(NamedTuple):
    # what they give, by the name of the input: in every step the same, or in the first step and in each later one, None for nothing
    taken: Mapping[str, Sequence[Handed | None]]
    given: Collection[str]  # the outputs that they take
    read: Collection[str]  # those of them that the stage copies to the host, behind its last step or each one

    def of(self, name: str, number: int = 0) -> Handed | None:
        """What a step is given for an input."""
        handed = self.taken.get(name)
        return None if handed is None else handed[min(number, len(handed) - 1)]

    @property
    def once(self) -> set[str]:
        """The inputs that take the same in every step."""
        return {name for name, handed in self.taken.items() if len(handed) == 1}


class ResidentStage(ResidentLoop):
    """Device tensors. What no link gives is copied in, what none takes is copied out; `keep` leaves it where it is."""

    takes_first = True  # as of `CpuStage`

    def __init__(self, model: Model, loop: LoopData, steps: Steps, links: Links) -> None:
        self._links = links
        # By the number of the state: what its last step leaves, where somebody wants it.
        self._ends: dict[int, Slot] = {}
        self._take: Copy | None = None
        super().__init__(model, loop, steps)
        assert self.bytes_in is not None
        assert self.bytes_out is not None
        self.bytes_in += copied_bytes(self._taken_slots())
        self.bytes_out += copied_bytes(self._finals)

    def _first_bytes(self) -> int:
        return copied_bytes(self._first_slots())

    def begin(self) -> None:
        super().begin()
        if self.takes_first:
            self.take()

    def take(self) -> None:
        """Copy what links give and is not taken where it is."""
        if self._take is None:
            self._take = self._up(self._taken_slots())
        self._take()

    def _taken_slots(self) -> list[Slot]:
        return [slot for slot in self._ins[0] if slot.spec.name in self._links.once]

    # What links give

    def _is_moved(self, name: str) -> bool:
        return super()._is_moved(name) and name not in self._links.once

    def _in_slot(self, spec: TensorSpec, place: Place, array: Array, number: int) -> Slot:
        handed = self._links.of(spec.name, number)
        if handed is None:
            return super()._in_slot(spec, place, array, number)
        memory = self._single.memory_for(spec, place)
        if handed.value is not None:
            return Slot(spec, handed.array, handed.value, memory, stays=True)
        if place.on_host and not spec.is_packed:  # it can be read where it is
            return Slot(spec, handed.array, host_value(spec, handed.array), memory, stays=True)
        return Slot(spec, handed.array, self._value(spec, handed.array.shape, memory), memory, stays=False)

    def _first_slot(self, state: State, array: Array) -> Slot | None:
        handed = self._links.of(state.name_in)
        if handed is None:
            return super()._first_slot(state, array)
        return None if handed.value is not None else super()._first_slot(state, handed.array)

    def _state_value(self, state: State, number: int) -> Any:
        handed = self._links.of(state.name_in)
        is_taken = number == 0 and handed is not None and handed.value is not None
        return handed.value if is_taken and handed is not None else super()._state_value(state, number)

    def _first_value(self, state: State, array: Array) -> Any:
        handed = self._links.of(state.name_in)
        return super()._first_value(state, array) if handed is None or handed.value is None else handed.value

    # What links take

    def _is_read(self, name: str, number: int) -> bool:
        if name in self._links.given:
            return name in self._links.read and number == self._loop.count - 1
        return super()._is_read(name, number)

    def _final_slots(self) -> list[Slot]:
        end = self._loop.count - 1
        for number, (state, last) in enumerate(zip(self._states, self._loop.last, strict=True)):
            name = state.name_out
            if name in self._links.given or name not in self._steps.keep:
                own, memory = bool(state.buffers), state.memory
                value = self._next_value(state, end) if own else memory.allocate(state.spec, last.shape)
                spec = state.spec._replace(name=name)
                self._ends[number] = Slot(spec, np.empty_like(last), value, memory, stays=False)
        is_read = {number: self._is_read(slot.spec.name, end) for number, slot in self._ends.items()}
        return [slot for number, slot in self._ends.items() if is_read[number] and slot.array.size]

    def _bind_grown(self, state: State, place: int, number: int) -> None:
        if number == self._loop.count - 1 and place in self._ends:  # where others look for it
            self._bind_grown_into(state, place, self._ends[place].value)
        else:
            super()._bind_grown(state, place, number)

    def end(self, out: int) -> Slot:
        """Where the last step leaves an output, by its place in the model."""
        number = self._loop.state_of(out)
        return self._outs[-1][self._free.index(out)] if number is None else self._ends[number]

    def handed(self, out: int, stays: bool) -> Sequence[Handed]:
        """What links give of an output, as `Links` has it."""
        return [self._handed(self.end(out), stays)]

    def _handed(self, slot: Slot, stays: bool) -> Handed:
        if stays:
            return Handed(slot.value, slot.array)
        return Handed(None, host_view(slot.spec, slot.value) if is_seen(slot) else slot.array)

    # What came of it

    def state(self, number: int) -> list[Array]:
        found = super().state(number)
        if number == self._loop.count - 1:
            for place, slot in self._ends.items():
                if slot in self._finals:
                    found[place] = slot.array
        return found

    def poison(self) -> None:
        super().poison()
        for number, slot in self._ends.items():
            if slot.array.size:
                overwrite([slot], [output_arrays.poison(self._loop.last[number])])

    # What a link would cost through the host

    def copy_out(self, out: int) -> Copy | None:
        """The copy of an output to the host; None where it is there."""
        slot = self.end(out)
        return None if is_on_host(slot) else download(apart([slot]))

    def copy_in(self, into: int) -> Copy | None:
        """The copy of an input to the device, synced; None where it is read on the host. What it copies is what is there."""
        spec, place = self._model.inputs[into], self._model.places.inputs[into]
        if place.on_host:
            return None
        number = self._loop.state_in(into)
        if number is not None:
            state = self._states[number]
            array = self._loop.first[number]
            value = self._first_value(state, array) if not state.buffers else self._state_value(state, 0)
        else:
            slot = next(slot for slot in self._ins[0] if slot.spec.name == spec.name)
            array, value = self._loop.feeds[0][spec.name], slot.value
        memory = self._single.memory_for(spec, place)
        return self._single.until_there(upload([Slot(spec, np.ascontiguousarray(array), value, memory, stays=False)]))


def is_seen(slot: Slot) -> bool:
    """Whether the host can read what is bound where it is."""
    return is_on_host(slot) and not slot.spec.is_packed


def is_on_host(slot: Slot) -> bool:
    return slot.stays or slot.memory.kind == "host"


_LINK_NS = 50_000_000  # so long is each copy of a link repeated, as long as there are some and not too many
_LEAST, _MOST = 5, 200
_WANTED = "the session's memory info"


class ChainMode(PartsMode):
    """The stages of a chain, one after the other. Each ends with its sync, so that none begins before the last is done.

    The sync of the `main` stage stands for the chain's.
    """

    whole = WHOLE_CHAIN

    def __init__(self, name: str, data: ChainData, stages: Sequence[LoopMode], main: int) -> None:
        super().__init__()
        self.name = name
        self.parts = tuple(stage.name for stage in data.stages)
        self._chain, self._stages = data, stages
        self._calls: list[Copy] = [stage.run_whole for stage in stages]
        self.sync: Sync = stages[main].sync
        moved = [(stage.bytes_in, stage.bytes_out) for stage in stages]
        self.bytes_in, self.bytes_out = (_sum(side) for side in zip(*moved, strict=True))

    def run_whole(self, _a: object = None, _b: object = None) -> None:
        done = len(self._times)
        try:
            self._run_parts()
        except OrtbenchError as error:
            raise of_stage(self.parts[len(self._times) - done], error) from None

    def take_times(self, calls: int) -> list[int]:
        for stage in self._stages:
            stage.take_times(0)
        return super().take_times(calls)

    def steps(self) -> list[Step]:
        return list(zip(self.parts, self._calls, strict=True))

    def syncs(self) -> dict[str, Sync]:
        return {f"stage {name}": stage.sync for name, stage in zip(self.parts, self._stages, strict=True)}

    def bound(self) -> tuple[list[Bound], list[Bound]]:
        found: tuple[list[Bound], list[Bound]] = ([], [])
        for name, stage in zip(self.parts, self._stages, strict=True):
            for side, bound in zip(found, stage.bound(), strict=True):
                side += [Bound(f"{name}.{it.name}", it.memory, it.why or _WANTED, it.usual) for it in bound]
        return found

    def poison(self) -> None:
        for stage in self._stages:
            stage.poison()

    def outputs(self) -> list[Value]:
        return [array for stage in self._stages for array in stage.outputs()]

    def expected(self) -> list[tuple[str, Value]]:
        named = zip(self.parts, self._stages, strict=True)
        return [(f"{name}.{output}", array) for name, stage in named for output, array in stage.expected()]

    @property
    def source(self) -> str:
        return output_arrays.FIRST

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        """Every step of the stages that are loops; what links give them is there, since the outputs have been compared."""
        return [
            Proof("", f"comparing every step of {it.name}", partial(_compare, it.name, stage, rtol, atol))
            for it, stage in zip(self._chain.stages, self._stages, strict=True)
            if it.loop.count > 1
        ]

    def stage_bytes(self) -> list[StageBytes]:
        return [{"bytes_h2d": stage.bytes_in, "bytes_d2h": stage.bytes_out} for stage in self._stages]

    def link_times(self) -> list[LinkTimes] | None:
        """What the copies of each link take alone, where its values are on a device."""
        found: list[LinkTimes] = []
        by_stage = dict(zip((id(it) for it in self._chain.stages), self._stages, strict=True))
        for joint in self._chain.joints:
            source, target = by_stage[id(joint.source)], by_stage[id(joint.target)]
            if not isinstance(source, ResidentStage) or not isinstance(target, ResidentStage):
                return None
            copies = source.copy_out(joint.out), target.copy_in(joint.into)
            download, upload = (None if copy is None else _time(copy) for copy in copies)
            found.append({"d2h_ns": download, "h2d_ns": upload})
        return found


def _compare(name: str, stage: LoopMode, rtol: float | None, atol: float | None) -> None:
    try:
        stage.compare_steps(rtol, atol)
    except (WrongOutputs, BenchmarkFailed) as error:
        raise of_stage(name, error) from None


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _time(copy: Copy) -> int:
    times: list[int] = []
    while len(times) < _LEAST or (sum(times) < _LINK_NS and len(times) < _MOST):
        times.append(took(copy))
    return round(median(times))


def make_chain(name: str, data: ChainData) -> ChainMode:
    """Set a mode of a chain up. Raises `Unsupported`: an EP or a model cannot do it."""
    made: dict[int, LoopMode] = {}  # by the id of the stage
    for stage in data.stages:
        try:
            made[id(stage)] = cpu_stage(stage, data, made) if name == CPU else bound_stage(stage, data, made)
        except OrtbenchError as error:
            raise of_stage(stage.name, error) from None
    return ChainMode(name, data, list(made.values()), main_of(data.stages))


def main_of(stages: list[OpenStage]) -> int:
    """The number of the stage that a chain's EP is named after: the first one on a device, or the first one."""
    on_device = (number for number, stage in enumerate(stages) if not stage.model.provider.computes_on_host)
    return next(on_device, 0)


def cpu_stage(
    stage: OpenStage, data: ChainData, made: Mapping[int, LoopMode], kind: type[CpuStage] = CpuStage
) -> CpuStage:
    """A stage with CPU tensors; `made` are those before it, by their ids."""
    taken = []
    for joint in data.taken_by(stage):
        source = made[id(joint.source)]
        assert isinstance(source, CpuStage)
        taken.append(Taken(joint.into, source, joint.out))
    return kind(stage.model, stage.loop, taken)


def bound_stage(
    stage: OpenStage, data: ChainData, made: Mapping[int, LoopMode], kind: type[ResidentStage] = ResidentStage
) -> ResidentStage:
    """The same with IO binding, which has run."""
    kind.single.check(stage.model)
    taken = {}
    for joint in data.taken_by(stage):
        source = made[id(joint.source)]
        assert isinstance(source, ResidentStage)
        taken[joint.taken.name] = source.handed(joint.out, stays=joint.why_copied() is None)
    given = data.given_by(stage)
    crossing = [joint for joint in given if joint.why_copied() is not None]
    read = {it.given.name for it in crossing if it.given.is_packed or not it.places()[0].on_host}
    links = Links(taken, {joint.given.name for joint in given}, read)
    made_stage = kind(stage.model, stage.loop, stage.asked.steps, links)
    made_stage.run_whole()  # so that the next is set up with something to take
    return made_stage
