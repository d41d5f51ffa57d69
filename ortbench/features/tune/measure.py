"""Races: configurations of one mode in turns, of which those that cannot be the best for a goal any more are dropped."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from statistics import median
from typing import Any

from ortbench.features.tune.analysis import GOALS, Elimination
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.progress import Progress
from ortbench.measure.schedule import Block, Estimates, Schedule, Series, StopRule, round_s
from ortbench.model.protocol import Samples

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


class Racer(Configuration):
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

    def block(self, block: Block[Series]) -> Samples | None:
        answer = super().block(block)
        for goal, samples in {} if answer is None else self.streams(block, answer).items():
            if goal in GOALS:
                self._race.elimination.add(self.name, goal, block.round, median(samples))
        return answer

    def after_blocks(self, progress: Progress) -> None:
        import psutil  # what most runs can do without

        with suppress(OSError, psutil.Error):
            self.memory = psutil.Process(self.worker.pid).memory_info().rss
