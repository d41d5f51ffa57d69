"""Loads: the load points of one configuration or several, and the orders in which their blocks come.

Without a judge rounds of a closed loop come first, then a stretch of each rate, in each of several processes; then a search for the
highest rate, in which all tries of a rate are in processes of their own. With one, load points of all configurations take turns, round
by round, until it knows enough: in each round a load point has a block on
every configuration, one right after the other, in an order shuffled from the seed. A block at a rate is a stretch of requests
that are due at the same moments on all; its first requests come to clients that have just been woken, and do not count.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ortbench.analysis.estimates import Row
from ortbench.analysis.loads.levels import (
    CONCURRENCY,
    INFERENCES,
    RATE,
    LoadPoint,
    figures_of,
    holds,
    longer,
    meets,
)
from ortbench.analysis.loads.load_levels import (
    ClosedLoopBlock,
    LoadSamples,
    Requests,
    burst_block,
    case_of,
    slo_rate,
    stretch_block,
)
from ortbench.analysis.loads.rate_search import TRIES, Search
from ortbench.core.resampling import FEW
from ortbench.measure.client_pool import LEAST_RUNS
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import say_what_moved
from ortbench.measure.experiment import TO_START, Experiment, Judge, Unjudged, starting_in
from ortbench.measure.forecast import Forecast
from ortbench.measure.gpus import Watch
from ortbench.measure.load_configuration import (
    ALONE_S,
    FEWEST_CYCLES,
    SHORTEST_BLOCK_NS,
    SKIPPED,
    ArrivalSchedule,
    LoadSide,
)
from ortbench.model.modes import THROUGHPUT
from ortbench.model.result import Result
from ortbench.model.schema import PROCESS, LoadBlock, Stopped
from ortbench.plan.load_plan import AUTO, LoadPlan
from ortbench.plan.plan import PROCESSES, Observer, Plan

_ALONE_ROUNDS, _ALONE_RUNS = 3, 3  # of one client alone where it is not in all rounds, and in each of them at least
# What a block takes besides its time: clients begin together, and their outputs are compared.
_BESIDE_S, _BESIDE_PROCESSES_S = 0.05, 0.12
# Before and after all blocks: a process of a client begins, and each of its modes; samples and reports are written.
_PROCESS_S, _PROCESS_MODE_S, _WRITING_S = 1.0, 0.5, 1.0
# Without a judge
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8
_LONGEST_BLOCK_NS = 1_000_000_000
_FEWEST_REQUESTS = 20  # at a rate in each of several processes
# How much longer than it is meant to last a stretch with more requests than can be served lasts, at least.
_PATIENCE_S, _JUDGED_PATIENCE_S = 5.0, 1.0


@dataclass
class Point:
    """A load point, what is taken of it on each configuration, how long a judged block of it is, and how far it is."""

    mode: str
    place: LoadPoint
    taken: tuple[LoadSamples, ...]
    block_s: float = 0.0
    rounds: int = 0

    @property
    def is_open(self) -> bool:
        return self.taken[0].is_open


class Turn(NamedTuple):
    """What comes next: a block of a load point on every configuration, or without one a block of one client alone of a mode.
    Requests are due at the same moments for the same `repeat`. With a `shape` all inferences of the block have that one."""

    number: int
    mode: str
    point: Point | None = None
    seconds: float = 0.0
    repeat: int = 0
    shape: int | None = None


def forecast_of(plans: Sequence[Plan], load: LoadPlan, judge: Judge | None = None) -> Forecast:
    due, modes = ArrivalSchedule(load, plans[0].inputs.seed), sum(len(plan.modes) for plan in plans)
    level_s, shapes = due.level_s, max(map(blocks_a_round, plans))
    beside_s = _BESIDE_PROCESSES_S if load.sessions == PROCESS else _BESIDE_S
    processes = max((*load.closed, load.workers)) - 1 if load.sessions == PROCESS else 0
    rounds = max(_MOST_ROUNDS, math.ceil(level_s)) + 2 if load.closed else 0  # as each process has whole ones
    may_be_several = load.file is None and (judge is None or isinstance(judge, Unjudged))
    given = plans[0].loop.processes if may_be_several else 1

    def place_s(place: LoadPoint, run_s: float) -> float:
        if judge:
            block_s = max(due.judged_block_s(place, judge.least_runs(it, place), run_s) for it in plans[0].modes)
            return max(judge.takes, math.ceil(level_s / block_s)) * (block_s + beside_s)
        # Clients that have the device one after the other take as long together as one alone.
        least_s, times = (0.0, 1) if place.kind == RATE else (_FEWEST_ROUNDS * LEAST_RUNS * place.value * run_s, rounds)
        return max(level_s, least_s) + times * beside_s

    def measuring_s(run_s: float, modes: int) -> float:
        closed_s = sum(place_s(LoadPoint(CONCURRENCY, it), run_s) for it in load.closed) * shapes
        rated_s = sum(shapes * place_s(LoadPoint(RATE, it), run_s) + ALONE_S for it in due.rates)
        searched_s = TRIES * level_s if load.rate == AUTO else 0.0
        alone = rounds + (_ALONE_ROUNDS if load.is_open else 0)
        blocks_s = modes * (closed_s + rated_s + searched_s + alone * (ALONE_S + _ALONE_RUNS * run_s))
        starts_s = ((given or PROCESSES) - 1) * ((len(plans) + processes) * _PROCESS_S + modes * _PROCESS_MODE_S)
        starts_s = starts_s if given else min(starts_s, TO_START * modes * (closed_s + rated_s))
        starts_s = max(0.0, starts_s - TO_START * modes * closed_s)  # by which blocks of clients become shorter
        return blocks_s + starts_s + processes * (_PROCESS_S + modes * _PROCESS_MODE_S) + _WRITING_S

    return Forecast(plans[0].loop, len(plans), modes, measuring_s=measuring_s)


def blocks_a_round(plan: Plan) -> int:
    """How many blocks a load point takes in a round: one, and one of each shape that is measured apart."""
    return 1 + (len(plan.stream.shapes) if plan.stream is not None else 0)


class LoadExperiment(Experiment[Any]):
    """A load on configurations, all of which must open; one of a single configuration needs no judge."""

    def __init__(
        self,
        sides: Sequence[Configuration],
        load: LoadPlan,
        judge: Judge | None = None,
        observer: Observer | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        plan = sides[0].plan
        self._verdicts = judge  # None where nothing is to be decided
        if judge is None and len(sides) > 1:
            judge = Unjudged()
        self._load, self._judge = load, judge
        self._due = ArrivalSchedule(load, plan.inputs.seed)
        self._level_s = self._due.level_s
        self._shapes = [None, *range(blocks_a_round(plan) - 1)]  # of blocks of a load point: of all, and of each apart
        super().__init__(sides, forecast_of([side.plan for side in sides], load, judge), observer, after_open)
        self._loads = [LoadSide(side, load, self._level_s, self._observer) for side in sides]
        self._random = random.Random(plan.inputs.seed)
        self._skipped, self._patience_s = (0, _PATIENCE_S) if judge is None else (SKIPPED, _JUDGED_PATIENCE_S)
        if load.rate == AUTO:  # a try of too high a rate takes no longer than the search has time for
            self._patience_s = 0.0
        self._to_come_s = 0.0
        self._count, self._closed = 1, 0  # processes, and load points of clients of all configurations
        self._closed_s = self._level_s  # how long one of these is

    @property
    def taken(self) -> list[list[LoadSamples]]:
        """What was taken of each load point, by configuration, in the order of the results."""
        return [it.taken for it in self._loads]

    def _open(self) -> None:
        super()._open()
        for it in self._loads:
            it.opened()
        self._forecast.know_modes(sum(len(it.side.plan.modes) for it in self._loads))

    def _measure(self, watch: Watch) -> Stopped | None:
        with self._watched(watch):
            with self._opening():
                for it in self._loads:
                    self._prepare(it.side)
                    with self._awake(it.side):
                        it.have_clients(self._due.rates)
            self._keep()
            points = list(self._points())
            if not (self._loads[0].side.modes if self._judge is None else points):
                return {"reason": "nothing_left", "per": "mode" if self._judge is None else "load point"}
            self._forecast.begin("measure")
            self._divide(points)
            for it in self._loads:
                for point in points:
                    self._so_far.named(*self._row(it, point.mode, point.place))
            with self._clocked():
                for turn in self._in_order(points) if self._judge is None else self._in_rounds(points, self._judge):
                    self._carry_out(turn)
                is_decided = self._judge is not None and not any(self._wanted(it, self._judge) for it in points)
                self._finish()
            return {"reason": "verdict"} if is_decided else {"reason": "completed", "per": "load point"}

    def _points(self) -> Iterator[Point]:
        """The load points that all configurations have; for a judge those alone that can be measured on all."""
        keys = [{(it.mode, it.key): it for it in side.taken} for side in self._loads]
        for (mode, key), first in keys[0].items():
            taken = (first, *(other[mode, key] for other in keys[1:] if (mode, key) in other))
            point = Point(mode, LoadPoint(*key), taken)
            if len(taken) == len(keys) and (self._judge is None or self._usable(point)):
                if self._judge is not None:
                    point.block_s = self._judged_block_s(point, self._judge)
                yield point

    def _divide(self, points: Sequence[Point]) -> None:
        """Into processes. A gate has one process a side, and so has a file of arrivals, which is replayed as it is."""
        modes = len(self._loads[0].side.modes)
        searched = TRIES * modes if self._load.rate == AUTO else 0
        blocks_s = len(points) * len(self._shapes) * len(self._sides) * self._level_s
        if self._verdicts is None and self._load.file is None:
            fit = [self._level_s / self._least_s(it) / (1 if it.is_open else FEW) for it in points]
            self._count = self._processes_in(blocks_s + searched * self._level_s, min(fit, default=PROCESSES))
        if self._count > 1:
            for it in self._loads:
                it.processes.append(0)
        self._closed = len(self._shapes) * len(self._sides) * sum(not it.is_open for it in points)
        self._shorten(self._start_s)
        more_s = 0.0 if self._closed or not points else (self._count - 1) * self._start_s
        self._tell_to_come(blocks_s + more_s + searched * self._level_s)

    def _shorten(self, a_start_s: float) -> None:
        """Blocks of clients, by what starts take, up to a third."""
        shorter_s = (self._count - 1) * a_start_s / max(self._closed, 1)
        self._closed_s = self._level_s - min(shorter_s, TO_START * self._level_s)

    def _least_s(self, point: Point) -> float:
        """The shortest block of a load point, or the shortest stretch that tells of a process."""
        if point.block_s or point.is_open:
            return point.block_s or _FEWEST_REQUESTS / point.place.value
        return max(SHORTEST_BLOCK_NS, self._cycle_ns(self._loads[0])) / 1e9

    def _cycle_ns(self, own: LoadSide) -> float:
        return FEWEST_CYCLES * max(own.one_run_ns(mode) for mode in own.side.modes) * max(self._load.closed)

    def _renew(self, number: int) -> None:
        """Go on in fresh workers, from this round on."""
        begun = time.monotonic()
        self._check_processes()
        self._release_processes()
        for it in self._loads:
            it.clients.close()
        self._begin_processes(number)
        for it in self._loads:
            with self._awake(it.side):
                it.begin_process(number)
        self._shorten(time.monotonic() - begun)
        self._keep_now_and_then()

    def _usable(self, point: Point) -> bool:
        return all(side.usable(it) for side, it in zip(self._loads, point.taken, strict=True))

    # A turn

    def _carry_out(self, turn: Turn) -> None:
        point = turn.point
        for it in self._shuffled() if point is None or self._usable(point) else ():
            side = self._loads.index(it)
            with self._awake(it.side), self._noted(it, side, turn):
                if point is None:
                    it.alone(turn.mode, turn.number)
                    continue
                found = self._block(it, point.taken[side], turn)
            shown = self._observer.shows_estimates
            if (self._judge is not None or shown) and found is not None and turn.shape is None:
                block = burst_block(found) if isinstance(found, ClosedLoopBlock) else stretch_block(found)
                if block is not None:
                    self._take(it, side, turn.mode, point.place, block, turn.number)
            if not self._usable(point):
                return

    def _take(self, it: LoadSide, side: int, mode: str, place: LoadPoint, block: LoadBlock, round: int) -> None:
        if self._judge is not None:
            for name, figure in figures_of(block).items():
                self._judge.add(side, mode, name, round, [figure], place)
        if self._verdicts is None:
            name, rate = self._row(it, mode, place)
            self._so_far.add(name, [figures_of(block)[THROUGHPUT if rate else "median"]], rate)
        self._tell_estimates()

    def _row(self, it: LoadSide, mode: str, place: LoadPoint) -> tuple[str, str | None]:
        """What a row of estimates is of, and the unit of the rate that a closed loop has."""
        name = f"{mode} {place.kind}={place.value:g}"
        return self._called(it.side, name), INFERENCES if place.kind == CONCURRENCY else None

    def _estimated(self) -> Sequence[Row]:
        return super()._estimated() if self._verdicts is None else self._verdicts.so_far()

    @contextmanager
    def _noted(self, it: LoadSide, side: int, turn: Turn) -> Iterator[None]:
        """The noise of the machine inside."""
        pids, start_ns = it.pids, time.perf_counter_ns()
        before = self._noise.begin(pids)
        yield
        self._noise.end(side, pids, before, turn.number, start_ns)
        self._noise.look()

    def _shuffled(self) -> list[LoadSide]:
        return self._random.sample(self._loads, len(self._loads)) if self._in_turns else self._loads

    def _block(self, it: LoadSide, taken: LoadSamples, turn: Turn) -> ClosedLoopBlock | Requests | None:
        """A block of a closed loop, so long; of an open loop a stretch of the requests that are due in that time."""
        if not taken.is_open:
            return it.block(taken, round(turn.seconds * 1e9), turn.number, turn.shape)
        due = self._due.moments(taken.key[1], turn.seconds, turn.repeat)
        patience_s = max(turn.seconds, self._patience_s, 10 * it.one_run_ns(taken.mode) / 1e9)
        return it.stretch(taken, due, turn.seconds + patience_s, turn.number, self._skipped, turn.shape)

    # The order without a judge, of one configuration

    def _in_order(self, points: Sequence[Point]) -> Iterator[Turn]:
        (own,) = self._loads
        closed, rated = ([it for it in points if it.is_open is is_open] for is_open in (False, True))
        number = 0
        for process in range(self._count if points else 1):
            if process and own.side.modes:
                self._renew(number)
                self._done(0.0 if closed else self._start_s)
            number = yield from self._closed_rounds(own, closed, number)
            number = yield from self._stretches(own, rated, number, process)
        modes = [*own.side.modes] if self._load.rate == AUTO else []
        for left, mode in zip(range(len(modes), 0, -1), modes, strict=True):
            self._tell_to_come(TRIES * left * self._level_s)
            number = yield from self._searched(own, mode, number)

    def _closed_rounds(self, own: LoadSide, points: Sequence[Point], first: int) -> Generator[Turn, None, int]:
        """Rounds of a process, from that number on, of a block of each load point, and one of one client alone of each mode, shuffled;
        the number of the next one."""
        if not points or not own.side.modes:
            return first
        cycle = self._cycle_ns(own)
        duration_ns = round(self._closed_s * 1e9)
        rounds = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, int(duration_ns / max(SHORTEST_BLOCK_NS, cycle))))
        # A block of two runs of each client, of which one counts, lasts so long whatever it was meant to.
        rounds = max(rounds, -(-duration_ns // max(_LONGEST_BLOCK_NS, round(2 * cycle / FEWEST_CYCLES))))
        each = max(2, round(rounds / self._count)) if self._count > 1 else rounds
        each_s = duration_ns // (each * self._count) / 1e9
        self._observer.stage("measuring")
        for number in range(first, first + each):
            turns = [Turn(number, it.mode, it, each_s, shape=shape) for it in points for shape in self._shapes]
            turns += [Turn(number, mode) for mode in dict.fromkeys(it.mode for it in points)]
            self._random.shuffle(turns)
            for turn in turns:
                yield turn
                if turn.point is not None:
                    self._done(self._level_s / each / self._count)
                self._keep_now_and_then()
        return first + each

    def _stretches(self, own: LoadSide, points: list[Point], number: int, process: int) -> Generator[Turn, None, int]:
        """A stretch of each load point, shuffled, and after each a block of one client alone; rounds as of `_closed_rounds`."""
        self._random.shuffle(points)
        if (points and not self._load.closed) or self._load.rate == AUTO:
            for _ in range(-(-_ALONE_ROUNDS // self._count) if points else _ALONE_ROUNDS):
                yield from (Turn(number, mode) for mode in own.side.modes)
                number += 1
        for repeat, point in enumerate(points, process * len(points)):
            if self._usable(point):
                for shape in self._shapes:
                    if self._usable(point):
                        yield from self._stretch(point, number, self._level_s / self._count, repeat, shape=shape)
                yield Turn(number, point.mode)
                number += 1
            self._keep()
        return number

    def _stretch(
        self, point: Point, number: int, seconds: float, repeat: int, before: str = "", shape: int | None = None
    ) -> Iterator[Turn]:
        """A stretch at a rate; `before` is said before what is measured."""
        self._observer.stage(f"{before}measuring {point.mode} at {point.place.value:g} a second")
        yield Turn(number, point.mode, point, seconds, repeat, shape)
        self._done(seconds)

    def _searched(self, own: LoadSide, mode: str, number: int) -> Generator[Turn, None, int]:
        """Find the highest rate of a mode that meets the SLO, in the time of so many tries; all tries of a rate make up its load point,
        and of several processes each has one of them."""
        most = own.side.plan.loop.processes or starting_in(TRIES * self._level_s, self._start_s)
        most += self._process - 1
        search, slo = Search(own.highest_rate(mode)), self._load.slo or {}
        points: dict[float, Point] = {}
        until = time.monotonic() + (TRIES - 1) * self._level_s
        while (rate := search.next()) is not None and mode in own.side.modes and time.monotonic() < until:
            point = points.get(rate)
            if point is None:
                added = own.add(mode, ("rate", rate))
                point = points[rate] = Point(mode, LoadPoint(*added.key), (added,))
            (taken,) = point.taken
            if self._count > 1 and taken.stretches and taken.stretches[-1].round >= own.processes[-1]:
                if self._process == most:
                    break
                self._renew(number)
            of_all = f"try {search.tries + 1} of at most {TRIES}: "
            yield from self._stretch(point, number, self._level_s, 1000 + search.tries, of_all)
            number += 1
            if taken.failed is not None:
                break
            so_far = case_of(taken)
            is_met = meets(so_far, slo)
            search.tell(rate, is_met if taken.is_across else is_met and None, holds(so_far, slo), longer(so_far, slo))
            own.found[mode] = slo_rate(search.found(), {it: point.taken[0] for it, point in points.items()})
            self._keep()
        own.found.setdefault(mode, None)
        return number

    def _done(self, seconds: float) -> None:
        self._tell_to_come(max(0.0, self._to_come_s - seconds))

    # The order with a judge

    def _in_rounds(self, points: Sequence[Point], judge: Judge) -> Iterator[Turn]:
        self._tell_to_come(sum(self._time_s(it, judge) for it in points))
        number = 0
        for process in range(self._count):
            if process:
                self._renew(number)
            self._observer.stage("measuring")
            number = yield from self._judged_rounds(points, judge, number, (process + 1) / self._count)

    def _judged_rounds(
        self, points: Sequence[Point], judge: Judge, first: int, share: float
    ) -> Generator[Turn, None, int]:
        """Rounds from that number on, until such a share of the time is over; the number of the next one."""
        number = first
        while chosen := [it for it in points if self._goes_on(it, judge, share)]:
            if number - first < -(-_ALONE_ROUNDS // self._count):
                yield from (Turn(number, mode) for mode in dict.fromkeys(it.mode for it in points))
            self._random.shuffle(chosen)
            for point in chosen:
                if self._usable(point):
                    for shape in self._shapes:
                        yield Turn(number, point.mode, point, point.block_s, repeat=number, shape=shape)
                    if self._usable(point):
                        point.rounds += 1
                    else:
                        self._keep()
                    self._tell_to_come(sum(self._time_s(it, judge) for it in points if self._goes_on(it, judge)))
                self._keep_now_and_then()
            number += 1
        return number

    def _judged_block_s(self, point: Point, judge: Judge) -> float:
        run_s = 0.0 if point.is_open else max(it.one_run_ns(point.mode) for it in self._loads) / 1e9
        return self._due.judged_block_s(point.place, judge.least_runs(point.mode, point.place), run_s)

    def _time_s(self, point: Point, judge: Judge) -> float:
        """About how long the rounds of a load point take that are still to come, if it is not decided before."""
        most = max(judge.takes, math.ceil(self._lasts_s(point) / point.block_s))
        return max(0, most - point.rounds) * point.block_s * len(self._sides) * len(self._shapes)

    @staticmethod
    def _wanted(point: Point, judge: Judge) -> bool:
        return judge.wants(point.mode, point.place, point.rounds)

    def _lasts_s(self, point: Point) -> float:
        return self._level_s if point.is_open else self._closed_s

    def _goes_on(self, point: Point, judge: Judge, share: float = 1.0) -> bool:
        is_time = point.rounds < judge.takes or point.rounds * point.block_s < self._lasts_s(point) * share
        return self._usable(point) and is_time and self._wanted(point, judge)

    # Besides

    @contextmanager
    def _watched(self, watch: Watch) -> Iterator[None]:
        for it in self._loads:
            it.watch(watch)
        try:
            with self._looking(watch):
                yield
        finally:
            for it in self._loads:
                say_what_moved(it.side.result, watch.readings)

    def _tell_to_come(self, seconds: float) -> None:
        self._to_come_s = seconds
        self._forecast.know_left(seconds)
        self._tell_left()

    def _save_all(self) -> None:
        for it in self._loads:
            it.fill()
        super()._save_all()

    def _close(self) -> None:
        for it in self._loads:
            it.clients.close()
        super()._close()

    def _end(self, why: Stopped | None, lost: Collection[str] = ()) -> None:
        for it in self._loads:
            it.fill()
            it.remark()
        super()._end(why)
