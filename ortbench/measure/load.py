"""From a plan and a load to a result: levels of a closed loop in turns, levels of an open loop one by one."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ortbench.analysis import arrivals, load_levels
from ortbench.analysis.level_blocks import blocks_of
from ortbench.analysis.load import knees
from ortbench.analysis.load_levels import LATE_NS, LOCK_MATTERS, Taken
from ortbench.analysis.slo_search import Search
from ortbench.errors import OrtbenchError, WrongOutputs
from ortbench.load_plan import AUTO, PROCESS, UNIFORM, LoadPlan, callers, read_timestamps, settings
from ortbench.measure.clocks import locked_clocks
from ortbench.measure.describe import describe_fence
from ortbench.measure.environment import environment
from ortbench.measure.gpus import Watch, to_warn_of
from ortbench.measure.load_clocks import Clocks
from ortbench.measure.load_crew import Crew
from ortbench.measure.load_left import Left
from ortbench.measure.process import Client, WorkerLost
from ortbench.measure.schedule import Block, dropped
from ortbench.measure.side import Side
from ortbench.modes import TOTAL
from ortbench.plan import Observer
from ortbench.result import LOAD, OK, Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]

_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8
_LONGEST_BLOCK_NS = 1_000_000_000
_SHORTEST_BLOCK_NS = 20_000_000
_CYCLES = 5  # of a caller in a block, if all wait for one another
_ALONE_NS = 100_000_000  # of a block of one caller alone
_ALONE_ROUNDS = 3  # of these where there is no closed loop
_MOST_RUNS = 3_000_000  # of a level that are kept
_KEEP_EVERY_S = 5.0
_PATIENCE_S = (
    5.0  # how much longer than it is meant to last a level with more requests than can be served lasts, at least
)
T = TypeVar("T")


class LoadBench:
    """Puts a load on a model.

    Args:
        side: not open yet.
        load: checked.
        observer: told what happens.
        meanwhile: called once while the model is loaded.
    """

    def __init__(
        self, side: Side, load: LoadPlan, observer: Observer | None = None, meanwhile: Callable[[], None] | None = None
    ) -> None:
        self._side, self._load = side, load
        self._observer = observer or Observer()
        self._meanwhile = meanwhile
        self._seed = side.plan.inputs.seed
        self._stamps = None if load.file is None else read_timestamps(load.file)
        self._crew = Crew(side, load.sessions, self._seed, self._observer.stage)
        self._ready: dict[str, int] = {}  # callers by mode
        self._worker: Client | None = None  # that has them
        self._every: dict[int, int] = {}
        self._random = random.Random(self._seed)
        self._round = 0
        self._kept_at = time.monotonic()
        self._clocks: Clocks | None = None
        self._alone_clocks: dict[str, list[int]] = {}
        self._searches: dict[str, Search] = {}
        self._began_ns: int | None = None
        levels = len(side.plan.modes) * (len(load.closed) + (1 if load.rate == AUTO else len(self._rates)))
        self._left = Left(len(side.plan.modes), levels * self.level_s, self._observer.left)
        side.while_waiting = self._while_waiting
        self.taken: list[Taken] = []
        self.interrupted = False

    @property
    def level_s(self) -> float:
        """How long a level is meant to be, s."""
        return self._load.level_s(None if self._stamps is None else self._stamps[-1])

    @property
    def _rates(self) -> tuple[float, ...]:
        rate = self._load.rate
        if isinstance(rate, tuple):
            return rate
        return () if rate == AUTO or self._stamps is None else (arrivals.own_rate(self._stamps),)

    def run(self) -> Result:
        """Measure; after Ctrl-C or a lost worker the result is what there is of it.

        Raises:
            BadInput, BenchmarkFailed: before anything could be measured.
        """
        side, why = self._side, "interrupted"
        try:
            self._open()
            with locked_clocks([(side.plan, side.result)]), closing(Watch()) as watch:
                self._clocks = Clocks(watch, side.result)
                try:
                    why = self._measure()
                finally:
                    self._clocks.end()
                    self._note_gpus(watch)
            side.release()
        except KeyboardInterrupt:
            if not side.is_open:
                raise
            self.interrupted = True
        finally:
            took = None if self._began_ns is None else time.perf_counter_ns() - self._began_ns
            self._crew.close()
            side.close()
        self._fill()
        self._say()
        side.end(why, took)
        return side.result

    def _while_waiting(self) -> None:
        self._left.tell()
        if self._clocks is not None:
            self._clocks.look()

    def _note_gpus(self, watch: Watch) -> None:
        if watch.readings:
            self._side.result.environment["gpu_readings"] = list(watch.readings)
        for moved in to_warn_of(watch.readings, None):
            self._side.result.warn("gpu-state", moved)

    # Before the first block

    def _open(self) -> None:
        side, load = self._side, self._load
        self._observer.stage(f"loading {Path(side.plan.model).name} ({side.name})")
        self._left.tell()
        side.start()
        machine = environment()
        if self._meanwhile is not None:
            side.meanwhile(self._meanwhile)
        side.open(machine, uuid.uuid4().hex)
        side.result.kind = LOAD
        self._fill()
        if side.plan.inputs.path is not None and max(load.closed, default=load.callers) > 1:
            message = (
                "all callers have the same inputs, those of --input: mixed-up buffers would not show in the outputs"
            )
            side.result.warn("same-inputs", message)

    def _measure(self) -> str:
        side = self._side
        for mode in side.to_prepare():
            self._observer.stage(f"preparing {mode} ({side.name})")
            self._left.tell()
            side.prepare(mode)
        describe_fence(side.result)
        self.taken = [
            Taken(mode, self._load.sessions, key, slo=self._load.slo)
            for mode in side.modes
            for key in (*(("concurrency", it) for it in self._load.closed), *(("rate", it) for it in self._rates))
        ]
        for taken in self.taken:
            if taken.failed is None:
                self._observer.stage(f"preparing callers of {taken.mode}")
                self._attempt(taken, lambda: None)
        self._keep()
        if not side.modes:
            return "no mode left to measure"
        self._began_ns = time.perf_counter_ns()
        self._left.begin_measuring(self._expected_s())
        self._closed_levels()
        self._open_levels()
        for mode in side.modes if self._load.rate == AUTO else ():
            self._search(mode)
        for mode in side.modes:
            self._observer.stage(f"checking outputs and the fence of {mode} ({side.name})")
            side.finish(mode)
        return "levels: all of them"

    def _expected_s(self) -> float:
        searched = 10 * len(self._side.modes) if self._load.rate == AUTO else 0
        return (len(self.taken) + searched) * self.level_s

    # Callers, and what becomes of them

    def _attempt(self, taken: Taken, do: Callable[[], T]) -> T | None:
        """Have something done with the callers of a level; None where it failed, which the level then says."""
        name, value = taken.key
        count = int(value) if name == "concurrency" else self._load.callers
        try:
            if self._worker is not self._side.worker:  # it is another one now, which has no callers yet
                self._ready.clear()
                self._crew.reset()
                self._worker = self._side.worker
            if self._ready.get(taken.mode, 0) < count:
                self._crew.prepare(taken.mode, count)
                self._ready[taken.mode] = count
            return do()
        except WorkerLost as error:
            taken.failed = str(error)
            self._side.restart()
        except OrtbenchError as error:
            taken.failed = str(error)
            if isinstance(error, WrongOutputs):
                taken.outputs_match = False
        return None

    def _usable(self, taken: Taken) -> bool:
        return taken.failed is None and taken.mode in self._side.modes

    def _alone(self, mode: str) -> None:
        """A block of one caller alone, back to back: the sample of the mode's case."""
        if mode not in self._side.modes:
            return
        ns = self._one_run_ns(mode)
        n = min(1000, max(3, round(_ALONE_NS / ns)))
        begun = time.perf_counter_ns()
        self._side.block(mode, Block(self._round, mode, TOTAL, n, dropped(n)))
        assert self._clocks is not None
        self._alone_clocks.setdefault(mode, []).extend(self._clocks.since(begun))

    def _one_run_ns(self, mode: str) -> float:
        known = self._side.cases[mode].samples_ns.get(TOTAL)
        if known:
            return max(1.0, sum(known) / len(known))
        return max(1.0, self._side.estimates_ns(mode).get(TOTAL) or self._side.result.setup["first_run_ns"])

    # Closed loop

    def _closed_levels(self) -> None:
        levels = [it for it in self.taken if not it.is_open]
        if not levels or not self._side.modes:
            return
        cycle = max(self._one_run_ns(mode) for mode in self._side.modes) * max(self._load.closed)
        duration_ns = round(self.level_s * 1e9)
        fitting = int(duration_ns / max(_SHORTEST_BLOCK_NS, _CYCLES * cycle))
        rounds = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, fitting))
        rounds = max(rounds, -(-duration_ns // _LONGEST_BLOCK_NS))
        self._observer.stage("measuring")
        for self._round in range(rounds):
            turns: list[Taken | str] = [*levels, *dict.fromkeys(it.mode for it in levels)]
            self._random.shuffle(turns)
            for turn in turns:
                if isinstance(turn, str):
                    self._alone(turn)
                elif self._usable(turn):
                    self._block(turn, duration_ns // rounds, check=self._round in (0, rounds - 1))
                if not isinstance(turn, str):
                    self._left.done(duration_ns / rounds / 1e9)
                self._keep_now_and_then()
        self._round += 1

    def _block(self, taken: Taken, duration_ns: int, check: bool) -> None:
        count = int(taken.key[1])
        burst = self._attempt(taken, lambda: self._crew.closed(taken.mode, count, duration_ns, check, self._round))
        if burst is None:
            return
        assert self._clocks is not None
        taken.clock_mhz += self._clocks.since(burst.begin_ns)
        taken.outputs_match = taken.outputs_match or check
        every = self._every.setdefault(id(taken), 1)
        if burst.round % every == 0:
            taken.bursts.append(burst)
        while len(taken.bursts) > 1 and sum(ends.size for it in taken.bursts for ends in it.ends) > _MOST_RUNS:
            every *= 2
            taken.bursts = [it for it in taken.bursts if it.round % every == 0]
            kept = "more runs were timed than a result holds: of some levels one block in several is kept, and all figures are of these"
            self._side.result.warn("load-thinned", kept)
        self._every[id(taken)] = every

    # Open loop

    def _open_levels(self) -> None:
        levels = [it for it in self.taken if it.is_open]
        self._random.shuffle(levels)
        if (levels and not self._load.closed) or self._load.rate == AUTO:
            for _ in range(_ALONE_ROUNDS):
                for mode in self._side.modes:
                    self._alone(mode)
                self._round += 1
        for number, taken in enumerate(levels):
            if self._usable(taken):
                self._put_rate(taken, number)
                self._alone(taken.mode)
                self._round += 1
            self._keep()

    def _put_rate(self, taken: Taken, repeat: int) -> None:
        """One level of an open loop."""
        due = self._due(taken.key[1], repeat)
        self._observer.stage(f"measuring {taken.mode} at {taken.key[1]:g} a second")
        patience = max(self.level_s, _PATIENCE_S, 10 * self._one_run_ns(taken.mode) / 1e9)
        cutoff_ns = round((self.level_s + patience) * 1e9)
        count = self._load.callers
        found = self._attempt(taken, lambda: self._crew.open(taken.mode, count, due, cutoff_ns))
        self._left.done(self.level_s)
        if found is None:
            return
        taken.requests = found
        assert self._clocks is not None
        taken.clock_mhz = self._clocks.since(found.begin_ns)
        taken.outputs_match = True
        if found.cutoff_ns is not None:
            what = f"of {due.size} requests at {taken.key[1]:g} a second {found.start.size} were served by {taken.mode}"
            more = "the level was cut off, and its latencies are lower bounds"
            self._side.result.warn("overload", f"{what}: {more}")

    def _due(self, rate: float, repeat: int) -> Moments:
        if self._stamps is not None:
            return arrivals.replayed(self._stamps, rate, self.level_s)
        if self._load.arrivals == UNIFORM:
            return arrivals.uniform(rate, self.level_s)
        return arrivals.poisson(rate, self.level_s, self._seed, repeat)

    def _search(self, mode: str) -> None:
        """Find the highest rate of a mode that keeps the SLO."""
        search = Search(self._load.callers * 1e9 / self._one_run_ns(mode))
        self._searches[mode] = search
        while (rate := search.next()) is not None and mode in self._side.modes:
            taken = Taken(mode, self._load.sessions, ("rate", rate), slo=self._load.slo)
            self.taken.append(taken)
            self._put_rate(taken, 1000 + search.tries)
            if taken.failed is not None:
                return
            search.tell(rate, bool(load_levels.level(taken)["slo_held"]))
            self._keep()

    # The result

    def _keep_now_and_then(self) -> None:
        if time.monotonic() - self._kept_at > _KEEP_EVERY_S:
            self._keep()

    def _keep(self) -> None:
        self._fill()
        self._side.keep()
        self._kept_at = time.monotonic()

    def _fill(self) -> None:
        """Bring what was taken into the result."""
        result, load = self._side.result, self._load
        if not self._side.is_open:
            return
        result.load = settings(load, self._seed, self.level_s)
        self.taken.sort(key=lambda it: (self._side.plan.modes.index(it.mode), it.is_open, it.key[1]))
        result.levels = [{**load_levels.level(it), "blocks": blocks_of(it)} for it in self.taken]
        result.knee = knees(result.levels)
        if load.slo is not None:
            found = {mode: search.found() for mode, search in self._searches.items()}
            result.slo = {"asked": dict(load.slo), "found": found}
        if load.is_open:
            result.back_to_back = {}
            for mode, case in self._side.cases.items():
                if case.status == OK and case.samples_ns.get(TOTAL):
                    result.back_to_back[mode] = load_levels.back_to_back(
                        case.samples_ns[TOTAL], self._alone_clocks.get(mode, ())
                    )

    def _say(self) -> None:
        """Warn of what a reader of the figures should know."""
        result = self._side.result
        waiting: dict[str, tuple[float, str]] = {}
        for it in result.levels:
            at = callers(it["concurrency"]) if "concurrency" in it else f"{it['rate']:g} requests a second"
            if (it["lock_wait"] or 0) > max(LOCK_MATTERS, waiting.get(it["mode"], (0.0, ""))[0]):
                waiting[it["mode"]] = (it["lock_wait"] or 0, at)
            if (late := it.get("late") or 0) > 0.01:
                how = f"later than {LATE_NS / 1e6:g} ms after they were due although a caller was free"
                message = f"{late:.1%} of the requests of {it['mode']} at {at} were issued {how}: the machine was busy"
                result.warn("late-requests", message)
        for mode, (share, at) in waiting.items():
            cure = "" if self._load.sessions == PROCESS else "; --sessions process measures without that"
            message = f"callers of {mode} waited for Python's lock {share:.0%} of their time at {at}, because copies and Python itself hold it{cure}"
            result.warn("lock-wait", message)
