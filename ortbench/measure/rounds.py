"""Rounds of blocks of all series, which a test or the agreement of processes may end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.stats import FEW
from ortbench.measure.passes import IN_WORKERS, wanted_passes
from ortbench.measure.schedule import (
    MAX_SAMPLES,
    Estimates,
    InOrder,
    Schedule,
    Series,
    StopRule,
    equal_estimates,
    round_s,
)
from ortbench.measure.stopping import PART_NS, TO_START, disagreeing_modes, reason_of_processes
from ortbench.model.modes import CPU
from ortbench.model.result import OK, Case
from ortbench.model.schema import Stopped

if TYPE_CHECKING:
    from ortbench.measure.driver import Driver


class Rounds:
    """The blocks of a driver: rounds of all series, in one process or in several; see `ortbench.measure.schedule.Schedule`."""

    def __init__(self, driver: Driver, series: Estimates[Series]) -> None:
        self._driver = driver
        self._is_decided = self._until_agreed = False
        for number, mode in series:
            driver.progress.estimates.named(driver.name_row(number, mode))
        driver.progress.begin("measure", "measuring")
        self._schedule = self._make_schedule(series)
        self.next_block, self.add, self.remove = self._schedule.next_block, self._schedule.add, self._schedule.remove

    @property
    def progress(self) -> float:
        return self._schedule.progress

    @property
    def stopped(self) -> Stopped | None:
        stopped = self._schedule.stopped
        if self._until_agreed and stopped is not None and stopped["reason"] != "nothing_left":
            return reason_of_processes(self._measured())
        return {"reason": "verdict"} if self._is_decided else stopped

    def _make_schedule(self, series: Estimates[Series]) -> Schedule[Series] | InOrder[Series]:
        first = self._driver.configurations[0]
        plan, loop = first.plan, first.plan.loop
        if loop.in_order:
            return InOrder(series, loop.iterations)
        most = max(1, MAX_SAMPLES // plan.work.count)  # each step or stage is a sample
        rule = StopRule(round(loop.duration_s * 1e9), loop.precision, loop.iterations, most, first.per)
        if self._driver.test is not None:
            return first.schedule(series, rule, plan.inputs.seed, self._end_decided, equal_estimates)
        budget_s = loop.duration_s * len(series)
        is_timed = first.may_renew and loop.iterations is None
        rounds = budget_s / max(round_s(series), 1e-3)
        parts = self._driver.count_processes(budget_s, rounds / FEW if is_timed else 1)
        self._until_agreed = loop.until_agreed and parts > 1
        if self._until_agreed:
            rule = rule._replace(part_ns=min(PART_NS, rule.duration_ns // parts))
        between_ns = round(min(self._driver.start_s, budget_s * TO_START / max(1, parts - 1)) * 1e9)
        return first.schedule(
            series, rule, plan.inputs.seed, parts=parts, between=self._begin_process, between_ns=between_ns
        )

    def _end_decided(self, schedule: Schedule[Series]) -> None:
        driver = self._driver
        assert driver.test is not None
        open_modes = {mode for mode in driver.configurations[0].modes if driver.test.needs_more(mode)}
        series = driver.series()
        for one in series:
            if one.mode not in open_modes:
                schedule.remove(one)
        self._is_decided = all(it.mode not in open_modes for it in series)

    def _begin_process(self, schedule: Schedule[Series], round: int) -> None:
        before = set(self._driver.series())
        self._driver.check_processes()
        if self._until_agreed and not self._needs_more_processes():
            schedule.end()
            return
        self._driver.begin_processes(round)
        for series in before.difference(self._driver.series()):
            schedule.remove(series)
        self._driver.save()

    def _measured(self) -> Sequence[Case]:
        (configuration,) = self._driver.configurations
        return [case for case in configuration.cases.values() if case.status == OK and case.samples]

    def _needs_more_processes(self) -> bool:
        """Whether there are modes that do not agree yet or whose synchronization is to be another one; others are settled, unless
        something is asked of all modes of the last worker."""
        (configuration,) = self._driver.configurations
        unsynchronized = [mode for mode in configuration.modes if not configuration.has_lasting_sync(mode)]
        more = {*disagreeing_modes(self._measured()), *unsynchronized}
        if more and not any(wanted_passes(IN_WORKERS, [configuration])):
            for mode in set(configuration.modes) - more - {CPU}:
                configuration.settle(mode)
        return bool(more)
