"""One side of a load: its callers, what was taken of its levels, and the result that becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ortbench.analysis.loads.levels import CONCURRENCY, RATE, put_scaling
from ortbench.analysis.loads.load import knees
from ortbench.analysis.loads.load_levels import Burst, Taken, case_of, put_clock
from ortbench.analysis.loads.load_requests import Requests
from ortbench.core.errors import OrtbenchError, WrongOutputs
from ortbench.measure.describe import describe_fence
from ortbench.measure.gpus import Watch, to_warn_of
from ortbench.measure.load_clocks import Clocks
from ortbench.measure.load_crew import Crew
from ortbench.measure.load_remarks import remark
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.schedule import Block, dropped
from ortbench.measure.side import Side
from ortbench.model.modes import LATENCY
from ortbench.model.result import FAILED, LOAD, Case
from ortbench.model.schema import Machine, SloRate, Stopped
from ortbench.plan.load_plan import LoadPlan, settings
from ortbench.plan.plan import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

_ALONE_NS = 100_000_000  # of a block of one caller alone
_MOST_RUNS = 3_000_000  # of a level that are kept
_UNITS = {CONCURRENCY: "clients", RATE: "requests/s"}  # of the axes
T = TypeVar("T")


class LoadSide:
    """A side, and the load that is put on it, piece by piece; who uses it says when, and what comes next.

    Args:
        side: not open yet.
        load: checked.
        level_s: how long a level is meant to be, s.
        observer: told what takes time.

    Attributes:
        taken: what was taken of each level.
        found: of modes for which the highest rate was looked for, that one.
    """

    def __init__(self, side: Side, load: LoadPlan, level_s: float, observer: Observer) -> None:
        self.side, self._load, self._level_s, self._observer = side, load, level_s, observer
        self._seed = side.plan.inputs.seed
        self._crew = Crew(side, load.sessions, self._seed, observer.stage)
        self._ready: dict[str, int] = {}  # callers by mode
        self._worker: Client | None = None  # that has them
        self._every: dict[int, int] = {}
        self._clocks: Clocks | None = None
        self._alone_clocks: dict[str, list[int]] = {}
        self._rows: dict[int, tuple[object, Case]] = {}
        self.taken: list[Taken] = []
        self.found: dict[str, SloRate | None] = {}

    # Before the first block

    def open(self, machine: Machine, run_id: str) -> None:
        """Wait until the model is open.

        Raises:
            BadInput, BenchmarkFailed: it cannot be opened.
        """
        self.side.open(machine, run_id)
        self.side.result.kind = LOAD
        self.fill()
        if self.side.plan.inputs.path is not None and max(self._load.closed, default=self._load.callers) > 1:
            same = "all callers have the same inputs, those of --input: mixed-up buffers would not show in the outputs"
            self.side.result.warn("same-inputs", same)

    def prepare(self, rates: Sequence[float]) -> None:
        """Set the modes up, and have the callers of all levels that are known before."""
        side = self.side
        for mode in side.to_prepare():
            self._observer.stage(f"preparing {mode} ({side.name})")
            side.while_waiting()
            side.prepare(mode)
        describe_fence(side.result)
        for mode in side.modes:
            for key in (*((CONCURRENCY, it) for it in self._load.closed), *((RATE, it) for it in rates)):
                self.add(mode, key)
        for taken in self.taken:
            if taken.failed is None:
                self._observer.stage(f"preparing callers of {taken.mode} ({side.name})")
                self._attempt(taken, lambda: None)

    def add(self, mode: str, key: tuple[str, float]) -> Taken:
        """Another level, of which nothing was taken yet."""
        taken = Taken(mode, key, slo=self._load.slo)
        self.taken.append(taken)
        return taken

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """The GPU's clocks are read inside the block, by a watch that all sides may share."""
        self._clocks = Clocks(watch, self.side.result)
        try:
            yield
        finally:
            self._clocks.end()
            if watch.readings:
                self.side.result.environment["gpu_readings"] = list(watch.readings)
            for moved in to_warn_of(watch.readings, None):
                self.side.result.warn("gpu-state", moved)

    def look(self) -> None:
        """Read the clocks if it is time to."""
        if self._clocks is not None:
            self._clocks.look()

    # Measuring

    def usable(self, taken: Taken) -> bool:
        """Whether a level can be measured as far as is known."""
        return taken.failed is None and taken.mode in self.side.modes

    def one_run_ns(self, mode: str) -> float:
        """About how long one run of one caller alone takes."""
        known = self.side.cases[mode].samples.get(LATENCY)
        if known:
            return max(1.0, sum(known) / len(known))
        return max(1.0, self.side.estimates_ns(mode).get(LATENCY) or self.side.result.setup["first_inference_ns"])

    def alone(self, mode: str, number: int) -> None:
        """A block of one caller alone, back to back: the sample of the mode's case."""
        if mode not in self.side.modes:
            return
        n = min(1000, max(3, round(_ALONE_NS / self.one_run_ns(mode))))
        begun = time.perf_counter_ns()
        self.side.block(mode, Block(number, mode, LATENCY, n, dropped(n)))
        self._alone_clocks.setdefault(mode, []).extend(self._clock_since(begun))

    def block(self, taken: Taken, duration_ns: int, number: int) -> Burst | None:
        """A block of a level of a closed loop; None where the level failed in it."""
        count = int(taken.key[1])
        burst = self._attempt(taken, lambda: self._crew.closed(taken.mode, count, duration_ns, number))
        if burst is not None:
            taken.clock_mhz += self._clock_since(burst.begin_ns)
            taken.outputs_match = True
            self._keep_burst(taken, burst)
        return burst

    def stretch(self, taken: Taken, due: Moments, cutoff_s: float, number: int, skip: int = 0) -> Requests | None:
        """A stretch of a level of an open loop; None where the level failed in it.

        Args:
            taken: the level.
            due: ns from the beginning on.
            cutoff_s: from the beginning on; no request is begun after that.
            number: of its round.
            skip: requests at the beginning that do not count.
        """
        count, cutoff_ns = self._load.callers, round(cutoff_s * 1e9)
        found = self._attempt(taken, lambda: self._crew.open(taken.mode, count, due, cutoff_ns, number))
        if found is None:
            return None
        counts = found.without_first(skip)
        taken.stretches.append(counts)
        taken.clock_mhz += self._clock_since(found.begin_ns)
        taken.outputs_match = True
        return counts

    def _clock_since(self, begun: int) -> list[int]:
        return [] if self._clocks is None else self._clocks.since(begun)

    def _attempt(self, taken: Taken, do: Callable[[], T]) -> T | None:
        """Have something done with the callers of a level; None where it failed, which the level then says."""
        name, value = taken.key
        count = int(value) if name == CONCURRENCY else self._load.callers
        try:
            if self._worker is not self.side.worker:  # it is another one now, which has no callers yet
                self._ready.clear()
                self._crew.reset()
                self._worker = self.side.worker
            if self._ready.get(taken.mode, 0) < count:
                self._crew.prepare(taken.mode, count)
                self._ready[taken.mode] = count
            return do()
        except WorkerLost as error:
            taken.failed = str(error)
            self.side.restart()
        except OrtbenchError as error:
            taken.failed = str(error)
            if isinstance(error, WrongOutputs):
                taken.outputs_match = False
        return None

    def _keep_burst(self, taken: Taken, burst: Burst) -> None:
        """Keep a block, unless there are more runs than a result holds: then one in several."""
        every = self._every.setdefault(id(taken), 1)
        if burst.round % every == 0:
            taken.bursts.append(burst)
        while len(taken.bursts) > 1 and sum(ends.size for it in taken.bursts for ends in it.ends) > _MOST_RUNS:
            every *= 2
            taken.bursts = [it for it in taken.bursts if it.round % every == 0]
            kept = "more runs were timed than a result holds: of some levels one block in several is kept, and all figures are of these"
            self.side.result.warn("load-thinned", kept)
        self._every[id(taken)] = every

    # The result

    def keep(self) -> None:
        """Bring what was taken into the result, and have it saved."""
        self.fill()
        self.side.keep()

    def close(self) -> None:
        """End the workers."""
        self._crew.close()
        self.side.close()

    def end(self, why: Stopped, took_ns: int | None) -> None:
        """The load is over: bring the result to its final form; see `ortbench.measure.side.Side.end`."""
        self.fill()
        remark(self.side.result, self._load, self.taken)
        self.side.end(why, took_ns)

    def fill(self) -> None:
        """Bring what was taken into the result."""
        side, load = self.side, self._load
        if not side.is_open:
            return
        result = side.result
        result.load = settings(load, self._seed, self._level_s)
        self.taken.sort(key=lambda it: (side.plan.modes.index(it.mode), it.is_open, it.key[1]))
        result.cases = [*side.cases.values(), *map(self._case, self.taken)]
        values = {name: sorted({it.key[1] for it in self.taken if it.key[0] == name}) for name in _UNITS}
        result.axes = [{"name": it, "unit": _UNITS[it], "values": [*found]} for it, found in values.items() if found]
        put_scaling(result)
        result.knee = knees(result)
        for mode, readings in self._alone_clocks.items():
            put_clock(side.cases[mode], readings)
        if load.slo is not None:
            result.slo = {"asked": dict(load.slo), "found": dict(self.found)}

    def _case(self, taken: Taken) -> Case:
        """The case of a load point, which is made anew where there is more of it."""
        parts = [*(it.round for it in taken.bursts), *(it.round for it in taken.stretches)]
        known = (parts, taken.failed, taken.outputs_match, taken.kept, len(taken.clock_mhz))
        before = self._rows.get(id(taken))
        if before is not None and before[0] == known and parts:
            return before[1]
        found, alone = case_of(taken), self.side.cases[taken.mode]
        if not parts and taken.failed is None and alone.status == FAILED:
            found.status, found.reason = FAILED, alone.reason
        self._rows[id(taken)] = (known, found)
        return found
