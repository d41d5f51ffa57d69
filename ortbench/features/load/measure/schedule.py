"""Loads: the load points of one configuration or several, and the orders in which their blocks come.

Without a test rounds of a closed loop come first, then a stretch of each rate, in each of several processes; then a search for the
highest rate, in which all tries of a rate are in processes of their own. With one, load points of all configurations take turns, round
by round, until it is decided: in each round a load point has a block on
every configuration, one right after the other, in an order shuffled from the seed. A block at a rate is a stretch of requests
that are due at the same moments on all; its first requests come to clients that have just been woken, and do not count.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from ortbench.core.stats import FEW
from ortbench.features.load.analysis import CONCURRENCY, RATE, LoadPoint, meets_by_figures, meets_slo, times_longer
from ortbench.features.load.analysis.queueing import TRIES, Search
from ortbench.features.load.analysis.samples import LoadSamples, case_of, slo_rate
from ortbench.features.load.measure import (
    ALONE_S,
    FEWEST_CYCLES,
    SHORTEST_BLOCK_NS,
    SKIPPED,
    ArrivalSchedule,
    LoadBlock,
    LoadConfiguration,
    row_of,
)
from ortbench.features.load.measure.client_pool import LEAST_RUNS
from ortbench.features.load.model import PROCESS
from ortbench.features.load.plan import AUTO, PaddedStream, load_in
from ortbench.measure.driver import Driver
from ortbench.measure.progress import TO_START, Forecast, SequentialTest, Undecided, processes_that_start
from ortbench.measure.schedule import Block, Estimates, Series
from ortbench.model.modes import LATENCY
from ortbench.model.schema import Stopped
from ortbench.plan.plan import PROCESSES, Plan

_ALONE_ROUNDS, _ALONE_RUNS = 3, 3  # of one client alone where it is not in all rounds, and in each of them at least
# What a block takes besides its time: clients begin together, and their outputs are compared.
_BESIDE_S, _BESIDE_PROCESSES_S = 0.05, 0.12
# Before and after all blocks: a process of a client begins, and each of its modes; samples and reports are written.
_PROCESS_S, _PROCESS_MODE_S, _WRITING_S = 1.0, 0.5, 1.0
# Without a test
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8
_LONGEST_BLOCK_NS = 1_000_000_000
_FEWEST_REQUESTS = 20  # at a rate in each of several processes
# How much longer than it is meant to last a stretch with more requests than can be served lasts, at least.
_PATIENCE_S, _TESTED_PATIENCE_S = 5.0, 1.0


@dataclass
class Point:
    """A load point of a mode: what is taken of it on each configuration, how long a block that a test looks at is, and how far it is."""

    taken: tuple[LoadSamples, ...]
    block_s: float = 0.0
    rounds: int = 0

    @property
    def mode(self) -> str:
        return self.taken[0].mode

    @property
    def load_point(self) -> LoadPoint:
        return self.taken[0].point

    @property
    def is_open(self) -> bool:
        return self.taken[0].is_open


class Turn(NamedTuple):
    """A block of a load point on every configuration, or without one of one client alone of a mode. Requests are due at the same moments
    for the same `repeat`. With a `shape` all inferences of the block have that one."""

    number: int
    mode: str
    point: Point | None = None
    seconds: float = 0.0
    repeat: int = 0
    shape: int | None = None


def forecast_of(plans: Sequence[Plan], test: SequentialTest | None = None) -> Forecast:
    load = load_in(plans[0])
    due, modes = ArrivalSchedule(load, plans[0].inputs.seed), sum(len(plan.modes) for plan in plans)
    longest_s = due.point_s
    shapes = {is_open: 1 + max(blocks_apart(it, is_open) for it in plans) for is_open in (False, True)}
    in_processes = [it for it in map(load_in, plans) if it.sessions == PROCESS]
    beside_s = _BESIDE_PROCESSES_S if in_processes else _BESIDE_S
    processes = max((max((*it.client_counts, it.workers)) - 1 for it in in_processes), default=0)
    rounds = max(_MOST_ROUNDS, math.ceil(longest_s)) + 2 if load.client_counts else 0  # as each process has whole ones
    may_be_several = load.file is None and (test is None or isinstance(test, Undecided))
    given = plans[0].loop.processes if may_be_several else 1
    rates = load.rates

    def point_s(point: LoadPoint, run_s: float) -> float:
        if test:
            block_s = max(due.tested_block_s(point, test.least_runs(it, point), run_s) for it in plans[0].modes)
            return max(test.needed_rounds, math.ceil(longest_s / block_s)) * (block_s + beside_s)
        # Clients that have the device one after the other take as long together as one alone.
        least_s, times = (0.0, 1) if point.kind == RATE else (_FEWEST_ROUNDS * LEAST_RUNS * point.value * run_s, rounds)
        return max(longest_s, least_s) + times * beside_s

    def measuring_s(run_s: float, modes: int) -> float:
        closed_s = sum(point_s(LoadPoint(CONCURRENCY, it), run_s) for it in load.client_counts) * shapes[False]
        rated_s = sum(shapes[True] * point_s(LoadPoint(RATE, it), run_s) + ALONE_S for it in rates)
        searched_s = TRIES * longest_s if load.rate == AUTO else 0.0
        alone = rounds + (_ALONE_ROUNDS if load.is_open else 0)
        blocks_s = modes * (closed_s + rated_s + searched_s + alone * (ALONE_S + _ALONE_RUNS * run_s))
        starts_s = ((given or PROCESSES) - 1) * ((len(plans) + processes) * _PROCESS_S + modes * _PROCESS_MODE_S)
        starts_s = starts_s if given else min(starts_s, TO_START * modes * (closed_s + rated_s))
        starts_s = max(0.0, starts_s - TO_START * modes * closed_s)  # by which blocks of clients become shorter
        return blocks_s + starts_s + processes * (_PROCESS_S + modes * _PROCESS_MODE_S) + _WRITING_S

    return Forecast(plans[0].loop, len(plans), modes, measuring_s=measuring_s)


def blocks_apart(plan: Plan, is_open: bool = False) -> int:
    """How many blocks a load point takes in a round beside that of all shapes: one of each shape; where requests are padded one in which
    they come one shape after the other, but none at a rate, which takes no switches."""
    count = 0 if plan.stream is None else len(plan.stream.shapes)
    return int(count > 1 and not is_open) if load_in(plan).pads else count


class LoadSchedule:
    """The blocks of a load on configurations that are open, in one process or in several."""

    progress = None  # how much is left it tells itself

    def __init__(self, driver: Driver, _: Estimates[Series]) -> None:
        self._driver = driver
        self._configurations = cast(list[LoadConfiguration], driver.configurations)
        self._first = self._configurations[0]
        self._load = load = load_in(self._first.plan)
        self._test = driver.test if driver.test is not None or not driver.in_turns else Undecided()
        self._due = self._first.due
        self._level_s = self._due.point_s
        self._random = random.Random(self._first.plan.inputs.seed)
        self._skipped, self._patience_s = (0, _PATIENCE_S) if self._test is None else (SKIPPED, _TESTED_PATIENCE_S)
        if load.rate == AUTO:  # a try of too high a rate takes no longer than the search has time for
            self._patience_s = 0.0
        self._to_come_s = 0.0
        self.end_reason: Stopped | None = None
        self._points = [*self._usable_points()]
        if self._test is not None and not self._points:
            self.end_reason = {"reason": "nothing_left", "per": "load point"}
            return
        driver.progress.forecast.begin("measure")
        self._split_into_processes()
        for number in range(len(self._configurations)):
            for point in self._points:
                name, unit = row_of(point.mode, point.load_point)
                driver.progress.estimates.series(driver.name_row(number, name), unit)
        self._blocks = self._in_turns(self._turns_in_order() if self._test is None else self._in_rounds(self._test))

    def next_block(self) -> Block[Series] | None:
        block = next(self._blocks, None)
        if block is None and self.end_reason is None:
            test = self._driver.test
            is_decided = test is not None and not any(self._is_wanted(it, test) for it in self._points)
            self.end_reason = {"reason": "verdict"} if is_decided else {"reason": "completed", "per": "load point"}
        return block

    def add(self, block: Block[Series], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        """Nothing: configurations keep what they have taken."""

    def remove(self, series: Series) -> None:
        """Nothing: `LoadConfiguration.is_usable` says what can be measured."""

    def _in_turns(self, turns: Iterator[Turn]) -> Iterator[Block[Series]]:
        """The blocks of each turn, of configurations in a shuffled order."""
        for turn in turns:
            if turn.point is not None and not self._is_usable(turn.point):
                continue
            order = self._configurations
            if self._driver.in_turns:
                order = self._random.sample(order, len(order))
            for configuration in order:
                if turn.shape is not None and turn.shape >= blocks_apart(configuration.plan):
                    continue
                number = self._configurations.index(configuration)
                yield self._block(configuration, Series(number, turn.mode), turn)
                if turn.point is not None and not self._is_usable(turn.point):
                    break

    def _block(self, configuration: LoadConfiguration, series: Series, turn: Turn) -> LoadBlock:
        if turn.point is None:
            return LoadBlock(turn.number, series, LATENCY, 0, 0)
        block = configuration.load_block(
            series, turn.number, turn.point.load_point, turn.seconds, turn.repeat, self._patience_s
        )
        requests = 0 if turn.point.is_open else self._request_count(turn)
        return replace(block, skipped=self._skipped, shape=turn.shape, requests=requests)

    def _request_count(self, turn: Turn) -> int:
        """How many requests that are padded a client has in a block: all of them at least twice, by the time of the slowest configuration,
        so that all have the same; 0 where a time ends the block."""
        stream = self._first.plan.stream
        if not isinstance(stream, PaddedStream):
            return 0
        every_ns = len(stream.requests) * max(it.inference_ns(turn.mode) for it in self._configurations)
        return len(stream.requests) * max(2, round(turn.seconds * 1e9 / every_ns))

    def _usable_points(self) -> Iterator[Point]:
        """The load points that all configurations have; for a test those alone that can be measured on all."""
        by_key = [{(it.mode, it.point): it for it in configuration.taken} for configuration in self._configurations]
        for key in by_key[0]:
            point = Point(tuple(samples[key] for samples in by_key if key in samples))
            if len(point.taken) == len(by_key) and (self._test is None or self._is_usable(point)):
                if self._test is not None:
                    run_s = max(it.inference_ns(point.mode) for it in self._configurations) / 1e9
                    stream, least = self._first.plan.stream, self._test.least_runs(point.mode, point.load_point)
                    if isinstance(stream, PaddedStream):  # so that every request is in a block, wherever it begins
                        least = max(least, 2 * len(stream.requests))
                    point.block_s = self._due.tested_block_s(point.load_point, least, run_s)
                yield point

    def _is_usable(self, point: Point) -> bool:
        return all(it.is_usable(taken) for it, taken in zip(self._configurations, point.taken, strict=True))

    def _split_into_processes(self) -> None:
        """A gate has one process a configuration, and so has a file of arrivals, which is replayed as it is."""
        driver, points = self._driver, self._points
        searched = TRIES * len(self._first.modes) if self._load.rate == AUTO else 0
        blocks = [sum(1 + blocks_apart(it.plan, point.is_open) for it in self._configurations) for point in points]
        blocks_s = sum(blocks) * self._level_s
        self._count = 1
        if driver.test is None and self._load.file is None:
            fit = [self._level_s / self._least_s(it) / (1 if it.is_open else FEW) for it in points]
            self._count = driver.count_processes(blocks_s + searched * self._level_s, min(fit, default=PROCESSES))
        if self._count > 1:
            for configuration in self._configurations:
                configuration.processes.append(0)
        self._closed = sum(count for count, it in zip(blocks, points, strict=True) if not it.is_open)
        self._shorten(driver.start_s)
        more_s = 0.0 if self._closed or not points else (self._count - 1) * driver.start_s
        self._tell_to_come(blocks_s + more_s + searched * self._level_s)

    def _shorten(self, a_start_s: float) -> None:
        """Blocks of clients, by what starts take, up to a third."""
        shorter_s = (self._count - 1) * a_start_s / max(self._closed, 1)
        self._closed_s = self._level_s - min(shorter_s, TO_START * self._level_s)

    def _least_s(self, point: Point) -> float:
        """The shortest block of a load point, or the shortest stretch that tells of a process."""
        if point.block_s or point.is_open:
            return point.block_s or _FEWEST_REQUESTS / point.load_point.value
        return max(SHORTEST_BLOCK_NS, self._cycle_ns()) / 1e9

    def _cycle_ns(self) -> float:
        return FEWEST_CYCLES * max(map(self._first.inference_ns, self._first.modes)) * max(self._load.client_counts)

    def _begin_processes(self, number: int) -> None:
        """Go on in fresh workers, from this round on."""
        begun = time.monotonic()
        self._driver.check_processes()
        self._driver.begin_processes(number)
        self._shorten(time.monotonic() - begun)
        self._driver.save_if_due()

    # The order without a test, of one configuration

    def _turns_in_order(self) -> Iterator[Turn]:
        points = self._points
        closed, rated = ([it for it in points if it.is_open is is_open] for is_open in (False, True))
        number = 0
        for process in range(self._count if points else 1):
            if process and self._first.modes:
                self._begin_processes(number)
                self._count_off(0.0 if closed else self._driver.start_s)
            number = yield from self._closed_rounds(closed, number)
            number = yield from self._stretches(rated, number, process)
        modes = [*self._first.modes] if self._load.rate == AUTO else []
        for left, mode in zip(range(len(modes), 0, -1), modes, strict=True):
            self._tell_to_come(TRIES * left * self._level_s)
            number = yield from self._search(mode, number)

    def _closed_rounds(self, points: Sequence[Point], first: int) -> Generator[Turn, None, int]:
        """Rounds of a process, from that number on, of a block of each load point, and one of one client alone of each mode, shuffled;
        the number of the next one."""
        if not points or not self._first.modes:
            return first
        cycle = self._cycle_ns()
        duration_ns = round(self._closed_s * 1e9)
        rounds = min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, int(duration_ns / max(SHORTEST_BLOCK_NS, cycle))))
        # A block of two runs of each client, of which one counts, lasts so long whatever it was meant to.
        rounds = max(rounds, -(-duration_ns // max(_LONGEST_BLOCK_NS, round(2 * cycle / FEWEST_CYCLES))))
        each = max(2, round(rounds / self._count)) if self._count > 1 else rounds
        each_s = duration_ns // (each * self._count) / 1e9
        self._driver.progress.observer.stage("measuring")
        for number in range(first, first + each):
            turns = [turn for it in points for turn in self._turns_of(number, it, each_s)]
            turns += [Turn(number, mode) for mode in dict.fromkeys(it.mode for it in points)]
            self._random.shuffle(turns)
            for turn in turns:
                yield turn
                if turn.point is not None:
                    self._count_off(self._level_s / each / self._count)
                self._driver.save_if_due()
        return first + each

    def _stretches(self, points: list[Point], number: int, process: int) -> Generator[Turn, None, int]:
        """A stretch of each load point, shuffled, and after each a block of one client alone; rounds as of `_closed_rounds`."""
        self._random.shuffle(points)
        if (points and not self._load.client_counts) or self._load.rate == AUTO:
            for _ in range(-(-_ALONE_ROUNDS // self._count) if points else _ALONE_ROUNDS):
                yield from (Turn(number, mode) for mode in self._first.modes)
                number += 1
        for repeat, point in enumerate(points, process * len(points)):
            if self._is_usable(point):
                for turn in self._turns_of(number, point, self._level_s / self._count, repeat):
                    yield from self._stretch(turn)
                yield Turn(number, point.mode)
                number += 1
            self._driver.save()
        return number

    def _turns_of(self, number: int, point: Point, seconds: float, repeat: int = 0) -> list[Turn]:
        """A turn of all shapes together, and one of each apart."""
        count = max(blocks_apart(it.plan, point.is_open) for it in self._configurations)
        return [Turn(number, point.mode, point, seconds, repeat, shape) for shape in (None, *range(count))]

    def _stretch(self, turn: Turn, before: str = "") -> Iterator[Turn]:
        """A stretch at a rate; `before` is said before what is measured."""
        assert turn.point is not None
        rate = turn.point.load_point.value
        self._driver.progress.observer.stage(f"{before}measuring {turn.mode} at {rate:g} a second")
        yield turn
        self._count_off(turn.seconds)

    def _search(self, mode: str, number: int) -> Generator[Turn, None, int]:
        """Find the highest rate of a mode that meets the SLO, in the time of so many tries; all tries of a rate make up its load point,
        and of several processes each has one of them."""
        own, driver = self._first, self._driver
        most = own.plan.loop.processes or processes_that_start(TRIES * self._level_s, driver.start_s)
        most += driver.process - 1
        search, slo = Search(own.highest_rate(mode)), self._load.slo or {}
        points: dict[float, Point] = {}
        until = time.monotonic() + (TRIES - 1) * self._level_s
        while (rate := search.next()) is not None and mode in own.modes and time.monotonic() < until:
            point = points.get(rate)
            if point is None:
                point = points[rate] = Point((own.add(mode, LoadPoint(RATE, rate)),))
            (taken,) = point.taken
            if self._count > 1 and taken.blocks and taken.blocks[-1].round >= own.processes[-1]:
                if driver.process == most:
                    break
                self._begin_processes(number)
            of_all = f"try {search.tries + 1} of at most {TRIES}: "
            yield from self._stretch(Turn(number, mode, point, self._level_s, 1000 + search.tries), of_all)
            number += 1
            if taken.failed is not None:
                break
            so_far = case_of(taken)
            search.tell(rate, meets_slo(so_far, slo), meets_by_figures(so_far, slo), times_longer(so_far, slo))
            own.best_rates[mode] = slo_rate(search.best_rate(), {it: point.taken[0] for it, point in points.items()})
            self._driver.save()
        own.best_rates.setdefault(mode, None)
        return number

    def _count_off(self, seconds: float) -> None:
        self._tell_to_come(max(0.0, self._to_come_s - seconds))

    # The order with a test

    def _in_rounds(self, test: SequentialTest) -> Iterator[Turn]:
        self._tell_to_come(sum(self._time_s(it, test) for it in self._points))
        number = 0
        for process in range(self._count):
            if process:
                self._begin_processes(number)
            self._driver.progress.observer.stage("measuring")
            number = yield from self._tested_rounds(test, number, (process + 1) / self._count)

    def _tested_rounds(self, test: SequentialTest, first: int, share: float) -> Generator[Turn, None, int]:
        """Rounds from that number on, until such a share of the time is over; the number of the next one."""
        number, points = first, self._points
        while chosen := [it for it in points if self._goes_on(it, test, share)]:
            if number - first < -(-_ALONE_ROUNDS // self._count):
                yield from (Turn(number, mode) for mode in dict.fromkeys(it.mode for it in points))
            self._random.shuffle(chosen)
            for point in chosen:
                if self._is_usable(point):
                    yield from self._turns_of(number, point, point.block_s, number)
                    if self._is_usable(point):
                        point.rounds += 1
                    else:
                        self._driver.save()
                    self._tell_to_come(sum(self._time_s(it, test) for it in points if self._goes_on(it, test)))
                self._driver.save_if_due()
            number += 1
        return number

    def _time_s(self, point: Point, test: SequentialTest) -> float:
        """About how long the rounds of a load point take that are still to come, if it is not decided before."""
        most = max(test.needed_rounds, math.ceil(self._lasts_s(point) / point.block_s))
        blocks = sum(1 + blocks_apart(it.plan, point.is_open) for it in self._configurations)
        return max(0, most - point.rounds) * point.block_s * blocks

    @staticmethod
    def _is_wanted(point: Point, test: SequentialTest) -> bool:
        return test.needs_more(point.mode, point.load_point, point.rounds)

    def _lasts_s(self, point: Point) -> float:
        return self._level_s if point.is_open else self._closed_s

    def _goes_on(self, point: Point, test: SequentialTest, share: float = 1.0) -> bool:
        is_time = point.rounds < test.needed_rounds or point.rounds * point.block_s < self._lasts_s(point) * share
        return self._is_usable(point) and is_time and self._is_wanted(point, test)

    def _tell_to_come(self, seconds: float) -> None:
        self._to_come_s = seconds
        self._driver.progress.tell_left_s(seconds)
