"""Rounds of blocks of all series, which a test or the agreement of processes may end, and configurations with the shapes of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BenchmarkFailed
from ortbench.core.stats import FEW
from ortbench.measure.configuration import Configuration
from ortbench.measure.passes import IN_WORKERS, wanted_passes
from ortbench.measure.process import request_of
from ortbench.measure.progress import PART_NS, TO_START, disagreeing_modes, reason_of_processes
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
from ortbench.model.modes import BYTES_D2H, BYTES_H2D, CPU
from ortbench.model.result import OK, Case
from ortbench.model.schema import Machine, Stopped
from ortbench.plan.plan import Plan

if TYPE_CHECKING:
    from ortbench.measure.driver import Driver


class Rounds:
    """The blocks of a driver: rounds of all series, in one process or in several; see `ortbench.measure.schedule.Schedule`."""

    def __init__(self, driver: Driver, series: Estimates[Series]) -> None:
        self._driver = driver
        self._is_decided = self._until_agreed = False
        for number, mode in series:
            driver.progress.estimates.series(driver.name_row(number, mode))
        driver.progress.begin("measure", "measuring")
        self._schedule = self._make_schedule(series)
        self.next_block, self.add, self.remove = self._schedule.next_block, self._schedule.add, self._schedule.remove

    @property
    def progress(self) -> float:
        return self._schedule.progress

    @property
    def end_reason(self) -> Stopped | None:
        stopped = self._schedule.end_reason
        if self._until_agreed and stopped is not None and stopped["reason"] != "nothing_left":
            return reason_of_processes(self._measured_cases())
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

    def _measured_cases(self) -> Sequence[Case]:
        (configuration,) = self._driver.configurations
        return [case for case in configuration.cases.values() if case.status == OK and case.samples]

    def _needs_more_processes(self) -> bool:
        """Whether there are modes that do not agree yet or whose synchronization is to be another one; others are settled, unless
        something is asked of all modes of the last worker."""
        (configuration,) = self._driver.configurations
        unsynchronized = [mode for mode in configuration.modes if not configuration.has_lasting_sync(mode)]
        more = {*disagreeing_modes(self._measured_cases()), *unsynchronized}
        if more and not any(wanted_passes(IN_WORKERS, [configuration])):
            for mode in set(configuration.modes) - more - {CPU}:
                configuration.settle(mode)
        return bool(more)


def shape_requests(plan: Plan) -> list[dict[str, Any]]:
    """The inputs of each shape, as a worker takes them; none where there is one shape."""
    if plan.stream is None:
        return []
    sizes = request_of(plan)["inputs"]["index_sizes"]
    return [{**asdict(it.inputs), "index_sizes": sizes} for it in plan.stream.shapes]


class StreamConfiguration(Configuration):
    """Its blocks are of one client, one inference after the other, of the shapes of the plan's stream.

    Attributes:
        asked: the shapes of the last block, by their numbers; None where there is one.
        drops: whether the first inferences of a block do not count.
        reopen: after so many inferences the session is closed and opened again; None for never.
    """

    asked: list[int] | None = None
    drops = True
    reopen: int | None = None
    is_soak = False  # whose blocks are such also where there is one shape

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        stream = self.plan.stream
        self._order = None if stream is None else stream.numbers(self.plan.inputs.seed)
        self._streams = self.is_soak or stream is not None

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        if self.plan.stream is not None:
            self.result.items = None  # shapes have different ones

    def prepare(self, mode: str) -> None:
        super().prepare(mode)
        if mode not in self.modes or not self._streams:
            return
        if self.plan.stream is not None:
            self.cases[mode].set_metric(BYTES_H2D, None)
            self.cases[mode].set_metric(BYTES_D2H, None)
        try:
            self.ask("begin_stream", mode=mode, inputs=shape_requests(self.plan), reopen=self.reopen)
        except BenchmarkFailed as error:
            self.fail(mode, str(error))

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask for a block of the stream, where a block is asked for."""
        if do != "block" or not self._streams:
            return super().ask(do, **arguments)
        n, drop = arguments["n"], arguments["drop"] if self.drops else 0
        order = None if self._order is None else list(islice(self._order, n + drop))
        self.asked = None if order is None else order[drop:]
        more = {"timeline": True} if arguments.get("timeline") else {}
        return super().ask("time_stream", mode=arguments["mode"], n=n, order=order, drop=drop, **more)
