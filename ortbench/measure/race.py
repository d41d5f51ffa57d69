"""A race of configurations: they take turns until all but the best are dropped, or the time is up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import psutil

from ortbench.analysis.comparing.elimination import Elimination
from ortbench.analysis.tuning import GOALS, Ratio
from ortbench.measure.bench import Bench, Series
from ortbench.measure.configuration import Configuration
from ortbench.measure.schedule import Block, Estimates, Schedule, StopRule
from ortbench.model.protocol import Samples
from ortbench.plan.plan import Observer


class RaceBench(Bench):
    """Measures the one mode that all configurations have; one that does not open, or gives other outputs than the first, is left
    out.

    Args:
        alpha: the chance that the best one for a goal is dropped.
        ends: when the time is up, by `time.monotonic`.

    Attributes:
        memory: of each configuration the resident set of its worker when all was measured, bytes.
    """

    def __init__(
        self, sides: Sequence[Configuration], alpha: float, ends: float, observer: Observer | None = None
    ) -> None:
        super().__init__(sides, observer)
        self._alpha, self._ends = alpha, ends
        self.memory: dict[str, int] = {}
        self.elimination = Elimination([], GOALS, alpha)

    def _schedule(self, estimates: Estimates[Series]) -> Schedule[Series]:
        self.elimination = Elimination([self._sides[it.side].name for it in estimates], GOALS, self._alpha)
        plan = self._sides[0].plan
        rule = StopRule(round(plan.loop.duration_s * 1e9), None, per="configuration")
        return Schedule(estimates, rule, plan.inputs.seed, self._drop)

    def _drop(self, schedule: Schedule[Series]) -> None:
        self.elimination.look()
        is_over = time.monotonic() > self._ends
        for series in self._series():
            if is_over or not self.elimination.wants(self._sides[series.side].name):
                schedule.remove(series)

    def _add(self, block: Block[Series], answer: Samples) -> None:
        super()._add(block, answer)
        side = self._sides[block.series.side]
        for goal, samples in side.streams(block.series.mode, block, answer).items():
            if goal in GOALS:
                self.elimination.add(side.name, goal, block.round, median(samples))

    def _after_blocks(self) -> None:
        self.memory = {side.name: psutil.Process(side.worker.pid).memory_info().rss for side in self._sides}

    def ratio(self, goal: str, over: str, under: str) -> Ratio | None:
        """Two configurations, as a search takes it."""
        found = self.elimination.ratio(goal, over, under)
        return None if found is None else Ratio(ratio=found.ratio, low=found.low, high=found.high, rounds=found.rounds)

    def left(self, name: str) -> list[str]:
        """The goals that a configuration can be the best for."""
        return [goal for goal in GOALS if name in self.elimination.left(goal)]
