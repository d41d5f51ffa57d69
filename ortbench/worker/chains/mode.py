"""A chain in one mode. A call of ``latency`` is the whole chain; the time of each of its stages is taken inside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from numpy import median

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs
from ortbench.model.modes import LATENCY, WHOLE_CHAIN
from ortbench.worker.chains.data import ChainData, of_stage
from ortbench.worker.chains.resident import ResidentStage
from ortbench.worker.loops.base import LoopMode
from ortbench.worker.modes.base import Mode, OneAtATime, Proof, Step, TimedCall
from ortbench.worker.proofs.fence import Fence
from ortbench.worker.session.memory import Copy
from ortbench.worker.session.places import Bound
from ortbench.worker.session.tensors import Value
from ortbench.worker.timing import Ranges

if TYPE_CHECKING:
    from ortbench.model.schema import LinkTimes, StageBytes

_LINK_NS = 50_000_000  # so long is each copy of a link repeated, as long as there are some and not too many
_LEAST, _MOST = 5, 200
_WANTED = "the session wants it there"


class ChainMode(OneAtATime):
    """The stages of a chain, one after the other. Each ends with its fence, so that none begins before the last is done.

    Args:
        name: of the mode.
        data: the chain.
        stages: in their order, each set up with its links.
        main: the number of the stage whose fence stands for the chain's.
    """

    whole = WHOLE_CHAIN

    def __init__(self, name: str, data: ChainData, stages: Sequence[LoopMode], main: int) -> None:
        self.name = name
        self.parts = tuple(stage.name for stage in data.stages)
        self._chain, self._stages = data, stages
        self._runs: list[Callable[[object, object], object]] = [stage.phases()[LATENCY][0] for stage in stages]
        self._times: list[int] = []
        self._starts: list[int] = []
        self._ranges: Ranges | None = None
        self.fence: Fence = stages[main].fence
        moved = [(stage.bytes_in, stage.bytes_out) for stage in stages]
        self.bytes_in, self.bytes_out = (_sum(side) for side in zip(*moved, strict=True))

    def listen(self, ranges: Ranges) -> Ranges:
        """Put an NVTX range around every stage, if a tool listens."""
        self._ranges = ranges
        return ranges

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: (self._whole, None, None)}

    def _whole(self, _a: object, _b: object) -> None:
        done = len(self._times)
        try:
            if self._ranges is not None and (self._ranges.shows_steps or self.notes_starts):
                self._run_watched(self._ranges)
            else:
                self._run_stages()
        except OrtbenchError as error:
            raise of_stage(self.parts[len(self._times) - done], error) from None

    def _run_stages(self) -> None:
        clock, add = time.perf_counter_ns, self._times.append
        for run in self._runs:
            start = clock()
            run(None, None)
            add(clock() - start)

    def _run_watched(self, ranges: Ranges) -> None:
        """The same with a range around each stage, and a note of when it began."""
        clock, add = time.perf_counter_ns, self._times.append
        for number, run in enumerate(self._runs):
            with ranges.part(number):
                start = clock()
                run(None, None)
                add(clock() - start)
            if self.notes_starts:
                self._starts.append(start)

    def take_times(self, calls: int) -> list[int]:
        times = self._times[len(self._times) - calls * len(self._stages) :]
        self._times.clear()
        for stage in self._stages:
            stage.take_times(0)
        return times

    def take_starts(self, calls: int) -> list[int]:
        starts = self._starts[len(self._starts) - calls * len(self._stages) :]
        self._starts.clear()
        return starts

    def steps(self) -> list[Step]:
        return [(name, partial(run, None, None)) for name, run in zip(self.parts, self._runs, strict=True)]

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
    """The median time of a copy, ns."""
    times: list[int] = []
    while len(times) < _LEAST or (sum(times) < _LINK_NS and len(times) < _MOST):
        start = time.perf_counter_ns()
        copy()
        times.append(time.perf_counter_ns() - start)
    return round(median(times))
