"""Loads: load points of a closed loop in turns, those of an open loop one by one, and a search for the highest rate."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ortbench.analysis.loads import queueing
from ortbench.analysis.loads.levels import Search
from ortbench.analysis.loads.load_levels import Burst, Requests, Taken, case_of
from ortbench.measure.experiment import Experiment
from ortbench.measure.forecast import Forecast
from ortbench.measure.gpus import Watch
from ortbench.measure.load_side import LoadSide
from ortbench.measure.side import Side
from ortbench.model.result import Result
from ortbench.model.schema import Stopped
from ortbench.plan.load_plan import AUTO, UNIFORM, LoadPlan, read_timestamps
from ortbench.plan.plan import Observer

FEWEST_CYCLES = 5  # of a caller in a block, if all wait for one another
SHORTEST_BLOCK_NS = 20_000_000
ALONE_ROUNDS = 3  # of one caller alone where there is no closed loop
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8
_LONGEST_BLOCK_NS = 1_000_000_000
_SEARCHED = 10  # rates that a search tries, about


class Due:
    """Makes the moments of a load before anything begins."""

    def __init__(self, load: LoadPlan, seed: int) -> None:
        self._load, self._seed = load, seed
        self._stamps = None if load.file is None else read_timestamps(load.file)

    @property
    def level_s(self) -> float:
        """How long a load point is meant to be, s."""
        return self._load.level_s(None if self._stamps is None else self._stamps[-1])

    @property
    def rates(self) -> tuple[float, ...]:
        """Of the load points that are known before."""
        rate = self._load.rate
        if isinstance(rate, tuple):
            return rate
        return () if rate == AUTO or self._stamps is None else (queueing.own_rate(self._stamps),)

    def longest_s(self, rate: float) -> float | None:
        """How long a file of arrivals goes on at a rate, s; None where arrivals are made up."""
        return None if self._stamps is None else (len(self._stamps) - 1) / rate

    def moments(self, rate: float, duration_s: float, repeat: int) -> queueing.Moments:
        """When requests are due, ns from the beginning on, shape (n,); the same for the same `repeat`."""
        if self._stamps is not None:
            return queueing.replayed(self._stamps, rate, duration_s)
        if self._load.arrivals == UNIFORM:
            return queueing.uniform(rate, duration_s)
        return queueing.poisson(rate, duration_s, self._seed, repeat)


class LoadExperiment(Experiment[Any]):
    """A load on one configuration or several, all of which must open; the order of its blocks is what kinds of it differ in."""

    patience_s = (
        5.0  # how much longer than it is meant to last a stretch with more requests than can be served lasts, at least
    )
    skipped = 0  # requests at the beginning of a stretch

    def __init__(
        self,
        sides: Sequence[Side],
        load: LoadPlan,
        observer: Observer | None = None,
        meanwhile: Callable[[], None] | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        plan = sides[0].plan
        self._load = load
        self._due = Due(load, plan.inputs.seed)
        self._level_s = self._due.level_s
        modes = len(sides) * len(plan.modes)
        levels = modes * (len(load.closed) + (1 if load.rate == AUTO else len(self._due.rates)))
        forecast = Forecast(plan.loop, len(sides), modes, measuring_s=levels * self._level_s)
        super().__init__(sides, forecast, observer, meanwhile, after_open)
        self._loads = [LoadSide(side, load, self._level_s, self._observer) for side in sides]
        self._random = random.Random(plan.inputs.seed)

    def _open(self) -> None:
        super()._open()
        for it in self._loads:
            it.opened()

    def _measure(self, watch: Watch) -> Stopped | None:
        with self._watched(watch):
            for it in self._loads:
                self._prepare(it.side)
                with self._awake(it.side):
                    it.have_callers(self._due.rates)
            self._keep()
            if (lacking := self._lacking()) is not None:
                return {"reason": "nothing_left", "per": lacking}
            self._forecast.begin("measure")
            with self._clocked():
                why = self._time_levels()
                self._finish()
            return why

    def _lacking(self) -> str | None:
        """What there must be to be measured and is not."""
        raise NotImplementedError

    def _time_levels(self) -> Stopped:
        """Time blocks of all load points, in the order of this kind of load."""
        raise NotImplementedError

    def _block(
        self, it: LoadSide, taken: Taken, seconds: float, number: int, repeat: int = 0
    ) -> Burst | Requests | None:
        """A block of a load point: of a closed loop so long, of an open loop a stretch of requests that are due in that time,
        at the same moments for the same `repeat`."""
        with self._awake(it.side):
            if not taken.is_open:
                return it.block(taken, round(seconds * 1e9), number)
            due = self._due.moments(taken.key[1], seconds, repeat)
            patience_s = max(seconds, self.patience_s, 10 * it.one_run_ns(taken.mode) / 1e9)
            return it.stretch(taken, due, seconds + patience_s, number, self.skipped)

    def _alone(self, it: LoadSide, mode: str, number: int) -> None:
        """A block of one caller alone of a mode."""
        with self._awake(it.side):
            it.alone(mode, number)

    @contextmanager
    def _watched(self, watch: Watch) -> Iterator[None]:
        """The GPUs' clocks at each load point are part of the results."""
        for it in self._loads:
            it.watch(watch)
        try:
            with self._looking(watch):
                yield
        finally:
            for it in self._loads:
                it.say_what_moved(watch)

    def _tell_to_come(self, seconds: float) -> None:
        self._forecast.know_left(seconds)
        self._tell_left()

    def _save_all(self) -> None:
        for it in self._loads:
            it.fill()
        super()._save_all()

    def _close(self) -> None:
        for it in self._loads:
            it.close()
        super()._close()

    def _end(self, why: Stopped | None, lost: Collection[str] = ()) -> None:
        for it in self._loads:
            it.fill()
            it.remark()
        super()._end(why)


class LoadBench(LoadExperiment):
    """The load of one side."""

    def __init__(
        self, side: Side, load: LoadPlan, observer: Observer | None = None, meanwhile: Callable[[], None] | None = None
    ) -> None:
        super().__init__([side], load, observer, meanwhile)
        (self._put,) = self._loads
        self._round = 0
        self._to_come_s = 0.0

    @property
    def taken(self) -> list[Taken]:
        """What was taken of each load point, in the order of the result."""
        return self._put.taken

    def _lacking(self) -> str | None:
        return None if self._put.side.modes else "mode"

    def _time_levels(self) -> Stopped:
        is_searched = self._load.rate == AUTO
        searched = _SEARCHED * len(self._put.side.modes) if is_searched else 0
        self._to_come_s = (len(self.taken) + searched) * self._level_s
        self._tell_to_come(self._to_come_s)
        self._closed_levels([it for it in self.taken if not it.is_open])
        self._open_levels([it for it in self.taken if it.is_open])
        for mode in self._put.side.modes if is_searched else ():
            self._search(mode)
        return {"reason": "completed", "per": "load point"}

    def _closed_levels(self, levels: Sequence[Taken]) -> None:
        """Rounds of a block of each load point, and one of one caller alone of each mode, shuffled."""
        if not levels:
            return
        cycle = max(self._put.one_run_ns(mode) for mode in self._put.side.modes) * max(self._load.closed)
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
                    self._alone(self._put, turn, self._round)
                else:
                    if self._put.usable(turn):
                        self._block(self._put, turn, duration_ns // rounds / 1e9, self._round)
                    self._done(self._level_s / rounds)
                self._keep_now_and_then()
        self._round += 1

    def _open_levels(self, levels: list[Taken]) -> None:
        """A stretch of each load point, shuffled, and after each a block of one caller alone."""
        self._random.shuffle(levels)
        if (levels and not self._load.closed) or self._load.rate == AUTO:
            for _ in range(ALONE_ROUNDS):
                for mode in self._put.side.modes:
                    self._alone(self._put, mode, self._round)
                self._round += 1
        for number, taken in enumerate(levels):
            if self._put.usable(taken):
                self._put_rate(taken, number)
                self._alone(self._put, taken.mode, self._round)
                self._round += 1
            self._keep()

    def _put_rate(self, taken: Taken, repeat: int) -> None:
        """A stretch of a load point of an open loop, as long as a load point is."""
        self._observer.stage(f"measuring {taken.mode} at {taken.key[1]:g} a second")
        self._block(self._put, taken, self._level_s, len(taken.stretches), repeat)
        self._done(self._level_s)

    def _search(self, mode: str) -> None:
        """Find the highest rate of a mode that keeps the SLO; all tries of a rate make up its level."""
        search = Search(self._load.callers * 1e9 / self._put.one_run_ns(mode))
        levels: dict[float, Taken] = {}
        while (rate := search.next()) is not None and mode in self._put.side.modes:
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

    def _done(self, seconds: float) -> None:
        self._to_come_s = max(0.0, self._to_come_s - seconds)
        self._tell_to_come(self._to_come_s)
