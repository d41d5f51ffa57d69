"""A chain in one mode, and how it is set up by the mode's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from numpy import median

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs
from ortbench.model.modes import CPU, WHOLE_CHAIN
from ortbench.worker.loops.base import LoopMode, PartsMode
from ortbench.worker.loops.chain_data import ChainData, OpenStage, of_stage
from ortbench.worker.loops.chain_resident import Links, ResidentStage
from ortbench.worker.loops.cpu import CpuStage, Taken
from ortbench.worker.modes.base import Mode, Proof, Step
from ortbench.worker.proofs.fence import Fence
from ortbench.worker.session.memory import Copy
from ortbench.worker.session.tensor_memory import Bound
from ortbench.worker.session.tensors import Value
from ortbench.worker.timing import took

if TYPE_CHECKING:
    from ortbench.model.schema import LinkTimes, StageBytes

_LINK_NS = 50_000_000  # so long is each copy of a link repeated, as long as there are some and not too many
_LEAST, _MOST = 5, 200
_WANTED = "the session wants it there"


class ChainMode(PartsMode):
    """The stages of a chain, one after the other. Each ends with its fence, so that none begins before the last is done.

    The fence of the `main` stage stands for the chain's.
    """

    whole = WHOLE_CHAIN

    def __init__(self, name: str, data: ChainData, stages: Sequence[LoopMode], main: int) -> None:
        super().__init__()
        self.name = name
        self.parts = tuple(stage.name for stage in data.stages)
        self._chain, self._stages = data, stages
        self._calls: list[Copy] = [stage.run_whole for stage in stages]
        self.fence: Fence = stages[main].fence
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

    def fences(self) -> dict[str, Fence]:
        return {f"stage {name}": stage.fence for name, stage in zip(self.parts, self._stages, strict=True)}

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
            made[id(stage)] = _cpu(stage, data, made) if name == CPU else _resident(stage, data, made)
        except OrtbenchError as error:
            raise of_stage(stage.name, error) from None
    return ChainMode(name, data, list(made.values()), main_of(data.stages))


def main_of(stages: list[OpenStage]) -> int:
    """The number of the stage that a chain's EP is named after: the first one on a device, or the first one."""
    on_device = (number for number, stage in enumerate(stages) if not stage.model.provider.computes_on_host)
    return next(on_device, 0)


def _cpu(stage: OpenStage, data: ChainData, made: dict[int, LoopMode]) -> CpuStage:
    taken = []
    for joint in data.taken_by(stage):
        source = made[id(joint.source)]
        assert isinstance(source, CpuStage)
        taken.append(Taken(joint.into, source, joint.out))
    return CpuStage(stage.model, stage.loop, taken)


def _resident(stage: OpenStage, data: ChainData, made: dict[int, LoopMode]) -> ResidentStage:
    ResidentStage.single.check(stage.model)
    taken = {}
    for joint in data.taken_by(stage):
        source = made[id(joint.source)]
        assert isinstance(source, ResidentStage)
        taken[joint.taken.name] = source.handed(joint.out, stays=joint.why_copied() is None)
    given = data.given_by(stage)
    crossing = [joint for joint in given if joint.why_copied() is not None]
    read = {it.given.name for it in crossing if it.given.is_packed or not it.places()[0].on_host}
    links = Links(taken, {joint.given.name for joint in given}, read)
    made_stage = ResidentStage(stage.model, stage.loop, stage.asked.steps, links)
    made_stage.run_whole()  # so that the next is set up with something to take
    return made_stage
