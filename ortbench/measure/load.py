"""From a plan and a load to a result: levels of a closed loop in turns, levels of an open loop one by one."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ortbench.analysis.loads.load_levels import Taken, case_of
from ortbench.analysis.loads.slo_search import Search
from ortbench.measure.clocks import locked_clocks
from ortbench.measure.environment import environment
from ortbench.measure.gpus import Watch
from ortbench.measure.load_due import Due
from ortbench.measure.load_left import Left
from ortbench.measure.load_side import LoadSide
from ortbench.measure.side import Side
from ortbench.model.result import Result
from ortbench.model.schema import Stopped
from ortbench.plan.load_plan import AUTO, LoadPlan
from ortbench.plan.plan import Observer

FEWEST_CYCLES = 5  # of a caller in a block, if all wait for one another
SHORTEST_BLOCK_NS = 20_000_000
ALONE_ROUNDS = 3  # of one caller alone where there is no closed loop
KEEP_EVERY_S = 5.0
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8
_LONGEST_BLOCK_NS = 1_000_000_000
_PATIENCE_S = (
    5.0  # how much longer than it is meant to last a level with more requests than can be served lasts, at least
)
_SEARCHED = 10  # rates that a search tries, about


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
        self._due = Due(load, side.plan.inputs.seed)
        self._level_s = self._due.level_s
        self._put = LoadSide(side, load, self._level_s, self._observer)
        self._random = random.Random(side.plan.inputs.seed)
        self._round = 0
        self._kept_at = time.monotonic()
        self._began_ns: int | None = None
        levels = len(side.plan.modes) * (len(load.closed) + (1 if load.rate == AUTO else len(self._due.rates)))
        self._left = Left(len(side.plan.modes), levels * self._level_s, self._observer.left)
        side.while_waiting = self._while_waiting
        self.interrupted = False

    @property
    def taken(self) -> list[Taken]:
        """What was taken of each level, in the order of the result."""
        return self._put.taken

    def run(self) -> Result:
        """Measure; after Ctrl-C or a lost worker the result is what there is of it.

        Raises:
            BadInput, BenchmarkFailed: before anything could be measured.
        """
        side = self._side
        why: Stopped = {"reason": "interrupted"}
        try:
            self._open()
            with locked_clocks([(side.plan, side.result)]), closing(Watch()) as watch, self._put.watched(watch):
                why = self._measure()
            side.release()
        except KeyboardInterrupt:
            if not side.is_open:
                raise
            self.interrupted = True
        finally:
            took = None if self._began_ns is None else time.perf_counter_ns() - self._began_ns
            self._put.close()
        self._put.end(why, took)
        return side.result

    def _while_waiting(self) -> None:
        self._left.tell()
        self._put.look()

    def _open(self) -> None:
        side = self._side
        self._observer.stage(f"loading {Path(side.plan.model).name} ({side.name})")
        self._left.tell()
        side.start()
        machine = environment()
        if self._meanwhile is not None:
            side.meanwhile(self._meanwhile)
        self._put.open(machine, uuid.uuid4().hex)

    def _measure(self) -> Stopped:
        side = self._side
        self._put.prepare(self._due.rates)
        self._keep()
        if not side.modes:
            return {"reason": "nothing_left", "per": "mode"}
        self._began_ns = time.perf_counter_ns()
        self._left.begin_measuring(self._expected_s())
        self._closed_levels()
        self._open_levels()
        for mode in side.modes if self._load.rate == AUTO else ():
            self._search(mode)
        for mode in side.modes:
            self._observer.stage(f"checking outputs and the fence of {mode} ({side.name})")
            side.finish(mode)
        return {"reason": "completed", "per": "load point"}

    def _expected_s(self) -> float:
        searched = _SEARCHED * len(self._side.modes) if self._load.rate == AUTO else 0
        return (len(self.taken) + searched) * self._level_s

    # Closed loop

    def _closed_levels(self) -> None:
        levels = [it for it in self.taken if not it.is_open]
        if not levels or not self._side.modes:
            return
        cycle = max(self._put.one_run_ns(mode) for mode in self._side.modes) * max(self._load.closed)
        duration_ns = round(self._level_s * 1e9)
        fitting = int(duration_ns / max(SHORTEST_BLOCK_NS, FEWEST_CYCLES * cycle))
        rounds = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, fitting))
        rounds = max(rounds, -(-duration_ns // _LONGEST_BLOCK_NS))
        self._observer.stage("measuring")
        for self._round in range(rounds):
            turns: list[Taken | str] = [*levels, *dict.fromkeys(it.mode for it in levels)]
            self._random.shuffle(turns)
            for turn in turns:
                if isinstance(turn, str):
                    self._put.alone(turn, self._round)
                elif self._put.usable(turn):
                    self._put.block(turn, duration_ns // rounds, self._round)
                if not isinstance(turn, str):
                    self._left.done(duration_ns / rounds / 1e9)
                self._keep_now_and_then()
        self._round += 1

    # Open loop

    def _open_levels(self) -> None:
        levels = [it for it in self.taken if it.is_open]
        self._random.shuffle(levels)
        if (levels and not self._load.closed) or self._load.rate == AUTO:
            for _ in range(ALONE_ROUNDS):
                for mode in self._side.modes:
                    self._put.alone(mode, self._round)
                self._round += 1
        for number, taken in enumerate(levels):
            if self._put.usable(taken):
                self._put_rate(taken, number)
                self._put.alone(taken.mode, self._round)
                self._round += 1
            self._keep()

    def _put_rate(self, taken: Taken, repeat: int) -> None:
        """A stretch of a level of an open loop, as long as a level is."""
        rate = taken.key[1]
        self._observer.stage(f"measuring {taken.mode} at {rate:g} a second")
        patience = max(self._level_s, _PATIENCE_S, 10 * self._put.one_run_ns(taken.mode) / 1e9)
        self._put.stretch(
            taken, self._due.moments(rate, self._level_s, repeat), self._level_s + patience, len(taken.stretches)
        )
        self._left.done(self._level_s)

    def _search(self, mode: str) -> None:
        """Find the highest rate of a mode that keeps the SLO; all tries of a rate make up its level."""
        search = Search(self._load.callers * 1e9 / self._put.one_run_ns(mode))
        levels: dict[float, Taken] = {}
        while (rate := search.next()) is not None and mode in self._side.modes:
            taken = levels.get(rate)
            if taken is None:
                taken = levels[rate] = self._put.add(mode, ("rate", rate))
            self._put_rate(taken, 1000 + search.tries)
            if taken.failed is not None:
                break
            last = case_of(Taken(mode, taken.key, stretches=taken.stretches[-1:], slo=self._load.slo))
            search.tell(rate, "slo" in last.checks and last.checks["slo"]["verdict"] == "passed")
            taken.kept = search.keeps(rate)
            self._put.found[mode] = search.found()
            self._keep()
        self._put.found[mode] = search.found()

    # The result

    def _keep_now_and_then(self) -> None:
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._keep()

    def _keep(self) -> None:
        self._put.keep()
        self._kept_at = time.monotonic()
