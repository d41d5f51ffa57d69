"""Races: configurations of one mode in turns, of which those that cannot be the best for a goal any more are dropped."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, cast

from ortbench.features.load.analysis import CONCURRENCY, RATE, LoadPoint, meets
from ortbench.features.load.analysis.blocks import cpu_of, join_cpu
from ortbench.features.load.analysis.samples import case_of
from ortbench.features.load.measure import LoadConfiguration
from ortbench.features.load.plan import load_in
from ortbench.features.tune.analysis import Elimination, Halving, tail_of
from ortbench.features.tune.model import GOALS, LOAD_GOALS, P99
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.progress import Progress
from ortbench.measure.schedule import Block, Estimates, Schedule, Series, StopRule, round_s
from ortbench.model.modes import CPU_TIME
from ortbench.model.protocol import Samples
from ortbench.model.schema import Stopped

_LONGER = 3  # times as long as it is to be, a race lasts for enough rounds


class Race:
    """What is known of the racers, and when it is over.

    Args:
        alpha: the chance that the best one for a goal is dropped.
        ends: when the time is up, by `time.monotonic`.

    Attributes:
        opened: when all were open and prepared, by `time.monotonic`.
        block_s: about how long a block of a configuration takes; infinite where that is not known.
    """

    def __init__(self, alpha: float, ends: float) -> None:
        self._alpha, self._ends = alpha, ends
        self._began = self.opened = time.monotonic()
        self.block_s = math.inf
        self.elimination = Elimination([], GOALS, alpha)
        self.violating: set[str] = set()  # which racers violate an SLO, for certain

    goals = GOALS

    @property
    def outcome(self) -> Elimination | Halving:
        """Which racers are left, and how they compare."""
        return self.elimination

    def is_too_late(self, opened: int, duration_s: float) -> bool:
        """Each is to be prepared, which takes some half of the time to open it, and measured for half of its time or longer."""
        now = time.monotonic()
        each_s = (now - self._began) / opened
        return now + each_s + (opened + 1) * (each_s + duration_s) / 2 > self._ends

    def schedule(self, driver: Driver, series: Estimates[Series]) -> Schedule[Series]:
        names = {it: driver.configurations[it.configuration].name for it in series}
        plan = driver.configurations[0].plan
        self.opened, self.block_s = time.monotonic(), round_s(series) / len(series)
        self.elimination = Elimination([*names.values()], GOALS, self._alpha)
        self._ends = min(self._ends, self.opened + _LONGER * len(series) * plan.loop.duration_s)
        for number, mode in series:
            driver.progress.estimates.series(driver.name_row(number, mode))
        driver.progress.begin("measure", "measuring")

        def drop(schedule: Schedule[Series]) -> None:
            self.elimination.look()
            is_over = time.monotonic() > self._ends
            for one in driver.series():
                if is_over or not self.elimination.needs_more(names[one]):
                    schedule.remove(one)

        rule = StopRule(round(plan.loop.duration_s * 1e9), None, per="configuration", rounds=self.elimination.rounds)
        return Schedule(series, rule, plan.inputs.seed, drop)


class InRace(Configuration):
    """A configuration in a race; one that does not open, or gives other outputs than the first, is left out, and so are those that
    there is no time for.

    Attributes:
        memory: the resident set of its worker when all was measured, bytes; None where the system tells nothing.
    """

    def __init__(self, *arguments: Any, race: Race, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._race = race
        self.memory: int | None = None

    def is_too_late(self, opened: int) -> bool:
        return self._race.is_too_late(opened, self.plan.loop.duration_s)

    def after_blocks(self, progress: Progress) -> None:
        import psutil  # what most runs can do without

        with suppress(OSError, psutil.Error):
            self.memory = psutil.Process(self.worker.pid).memory_info().rss

    @property
    def failure(self) -> str | None:
        return next((case.reason for case in self.cases.values()), None)


class Racer(InRace):
    """A configuration in a race back to back."""

    def block(self, block: Block[Series]) -> Samples | None:
        answer = super().block(block)
        for goal, samples in {} if answer is None else self.streams(block, answer).items():
            if goal in GOALS:
                self._race.elimination.add(self.name, goal, block.round, median(samples))
        return answer


REQUESTS = (24, 40, 72)  # of each configuration in the rounds of a race
_LEAST_S = 0.25  # of a block
_PATIENCE_S = 1.0  # for which more requests than can be served are waited for


def race_s(rate: float, share: float = 1.0) -> float:
    """About how long a race takes a configuration that stays to its end, s, at so many requests per second; `share`: see `LoadRace`."""
    return sum(max(_LEAST_S, share * it / rate) for it in REQUESTS)


class LoadRace(Race):
    """The same under load.

    Args:
        slo: ns by statistic.
        share: of the requests that each has, where time is short.
    """

    def __init__(self, ends: float, slo: Mapping[str, int], share: float) -> None:
        super().__init__(1.0, ends)
        self._slo, self._share = slo, share
        self.halving = Halving([])

    goals = LOAD_GOALS

    @property
    def outcome(self) -> Halving:
        return self.halving

    def schedule(self, driver: Driver, series: Estimates[Series]) -> LoadRounds:  # type: ignore[override]
        self.opened = time.monotonic()
        racers = cast(Sequence[LoadRacer], driver.configurations)
        self.halving = Halving([racers[it.configuration].name for it in series])
        driver.progress.begin("measure", "measuring")
        return LoadRounds(driver, [*series], self.blocks(racers, [*series]))

    def blocks(self, racers: Sequence[LoadRacer], series: Sequence[Series]) -> Iterator[Block[Series]]:
        """In each round a block of each configuration that is left, of requests that are due at the same moments on all."""
        shuffled = random.Random(racers[0].plan.inputs.seed)
        for number, requests in enumerate(REQUESTS):
            left = [it for it in series if self.halving.needs_more(racers[it.configuration].name)]
            if len(left) < 2 or time.monotonic() > self._ends:
                return
            for one in shuffled.sample(left, len(left)):
                racer = racers[one.configuration]
                if racer.failure is None:
                    seconds = max(_LEAST_S, self._share * requests / racer.requests_per_s(one.mode))
                    yield racer.load_block(one, number, racer.point, seconds, number, _PATIENCE_S)
            there = [it for it in racers if it.has_round(number)]
            violating = [it.name for it in there if self._slo and meets(case_of(it.taken[0]), self._slo) is False]
            self.halving.look({it.name: it.figures for it in there}, violating)
            self.violating = self.halving.violating


class LoadRounds:
    """The blocks of a race under load, as a driver asks for them."""

    progress = None

    def __init__(self, driver: Driver, series: Sequence[Series], blocks: Iterator[Block[Series]]) -> None:
        self._blocks = blocks
        self.end_reason: Stopped | None = None if series else {"reason": "nothing_left", "per": "mode"}

    def next_block(self) -> Block[Series] | None:
        block = next(self._blocks, None)
        if block is None:
            self.end_reason = {"reason": "completed"}
        return block

    def add(self, block: Block[Series], samples: Sequence[int], spent_ns: int, waited_ns: int = 0) -> None:
        """Nothing: configurations keep what they have taken."""

    def remove(self, series: Series) -> None:
        """Nothing: what has failed says so itself."""


class LoadRacer(InRace, LoadConfiguration):
    """A configuration in a race under load."""

    must_open = False

    @property
    def point(self) -> LoadPoint:
        load = load_in(self.plan)
        return LoadPoint(RATE, load.rates[0]) if load.is_open else LoadPoint(CONCURRENCY, load.client_counts[0])

    def requests_per_s(self, mode: str) -> float:
        if self.point.kind == RATE:
            return self.point.value
        return self.point.value * 1e9 / self.inference_ns(mode)

    def end(self, why: Stopped | None, took_ns: int | None, lost: Collection[str] = ()) -> None:
        """Nothing: no result is made of it."""

    @property
    def figures(self) -> dict[str, float]:
        """Those of all requests so far, ns by goal."""
        import numpy as np

        blocks = self.taken[0].blocks
        cpu = join_cpu(map(cpu_of, blocks))
        tail = tail_of(np.concatenate([it.latencies for it in blocks]))
        return {P99: tail, CPU_TIME: max(1.0, cpu.cpu_ns / max(1, cpu.inferences))}

    def has_round(self, number: int) -> bool:
        return self.failure is None and any(it.round == number for it in self.taken[0].blocks)

    @property
    def failure(self) -> str | None:
        if not self.taken:
            return super().failure or "it was not prepared"
        return self.taken[0].failed or super().failure
