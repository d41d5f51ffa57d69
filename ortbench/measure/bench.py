"""Runs, loops and chains: modes of one configuration, or of several whose blocks alternate, and what is asked for besides; and
races, in which configurations are dropped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from statistics import median
from typing import Any, ClassVar, NamedTuple

from ortbench.analysis.comparing.elimination import Elimination
from ortbench.analysis.estimates import Row
from ortbench.analysis.tuning import GOALS
from ortbench.core.errors import OrtbenchError
from ortbench.core.resampling import FEW
from ortbench.measure.agreement import PART_NS, agreement, disagreeing
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import describe_gpus
from ortbench.measure.experiment import TO_START, Experiment, Judge
from ortbench.measure.forecast import Forecast
from ortbench.measure.gpus import Watch
from ortbench.measure.passes import APART, IN_WORKERS, SPIN_NOT_MEASURED, Pass, give_up, take_spin, wanted, without_spin
from ortbench.measure.schedule import MAX_SAMPLES, Block, Estimates, InOrder, Schedule, StopRule, Thinning, block_size
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.protocol import Samples
from ortbench.model.result import FAILED, OK, Case, Result
from ortbench.model.schema import Stopped
from ortbench.model.tuning import Ratio
from ortbench.plan.plan import Observer

_LONGER = 3  # times as long as it is to be, a race lasts for enough rounds


def time_for(processes: int, start_s: float, round_s: float) -> float:
    """The time that so many processes take, s, by that to start one and that of a round: of their starts (see `starting_in`), and of `FEW` rounds each."""
    return max((processes - 1) * start_s / TO_START, processes * FEW * round_s)


def _round_s(estimates: Estimates[Any]) -> float:
    """About how long a round takes, s; infinite where that is not known."""
    known = [ns for of in estimates.values() for ns in of.values()]
    return math.inf if None in known else sum(block_size(ns) * ns for ns in known if ns is not None) / 1e9


class Series(NamedTuple):
    """What alternates: a mode of one of the configurations."""

    side: int
    mode: str


class Bench(Experiment[Series]):
    """One run, of one configuration or of several; the first has its options for the loop heeded. With a judge, which may end
    modes before the budget is spent, every configuration must open."""

    per = "mode"  # what a series is, in words
    _may_renew = True  # may be measured in several processes
    _kind_of_schedule: ClassVar[type[Schedule[Series]]] = Schedule

    def __init__(
        self,
        sides: Sequence[Configuration],
        observer: Observer | None = None,
        judge: Judge | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        modes = sum(len(side.plan.modes) for side in sides)
        energy = sum(len(side.plan.modes) for side in sides if side.plan.energy)
        forecast = Forecast(sides[0].plan.loop, len(sides), modes, energy=energy)
        super().__init__(sides, forecast, observer, after_open, must_open=judge is not None)
        self._judge = judge
        self._thinning = Thinning() if sides[0].plan.loop.precision == 0 else None
        self._all_decided = self._until_agreed = False

    def _open(self) -> None:
        for side in self._sides:
            if side.plan.loop.until_agreed:
                side.start_spares(FEW - 1)
        super()._open()

    def _measure(self, watch: Watch) -> Stopped | None:
        for side in self._sides:
            side.await_spares()
        with self._opening():
            for side in self._sides:
                self._prepare(side)
        self._keep()
        all_series = {it: self._sides[it.side].estimates_ns(it.mode) for it in self._series()}
        if not all_series:
            return {"reason": "nothing_left", "per": "mode"}
        self._forecast.know_modes(len(all_series))
        for it in all_series:
            self._so_far.named(self._called(self._sides[it.side], it.mode))
        self._step("measure", "measuring")
        schedule = self._schedule(all_series)
        with self._captured(), self._clocked(), self._watched(watch):
            self._time_blocks(schedule)
        self._after_blocks()
        self._finish()
        if self._until_agreed and schedule.stopped is not None and schedule.stopped["reason"] != "nothing_left":
            return agreement(self._measured())
        return {"reason": "verdict"} if self._all_decided else schedule.stopped

    def _after_blocks(self) -> None:
        """What else is timed, before the outputs of all that ran are checked."""

    @contextmanager
    def _watched(self, watch: Watch) -> Iterator[None]:
        """What held GPUs back decides which blocks enter figures, also of a run that is cut short."""
        watch.look(now=True)
        try:
            with self._looking(watch):
                yield
        finally:
            describe_gpus([side.result for side in self._sides], watch.readings, self._judge is not None)
            for side in self._sides:
                side.drop_left_out()

    @contextmanager
    def _captured(self) -> Iterator[None]:
        """What a profiler is to record: the blocks of an ordered session, without loading and warm-up."""
        sides = [side for side in self._sides if side.plan.loop.in_order]
        for side in sides:
            side.capture(True)
        yield
        for side in sides:
            side.capture(False)

    # What follows

    def _look_closer(self) -> None:
        for after, side in wanted(IN_WORKERS, self._sides):
            with self._awake(side):
                self._carry_out_pass(after, side)

    def _end(self, why: Stopped | None, lost: Collection[str] = ()) -> None:
        super()._end(why, {case.mode for side in self._sides for case in side.result.cases if case.status == FAILED})
        self._spin()
        try:
            for after, side in wanted(APART, [] if self.interrupted else self._sides):
                self._carry_out_pass(after, side)
        except KeyboardInterrupt:  # that gives up what is left of them, and leaves the results as they are
            self.interrupted = True
        if self.interrupted:
            for side in self._sides:
                give_up(side)

    def _carry_out_pass(self, after: Pass, side: Configuration) -> None:
        self._keep()
        if after.text:
            self._observer.stage(f"{after.text} ({side.name})")
        after.carry_out(side, self._observer.stage if after.step is None else partial(self._step, after.step))

    def _spin(self) -> None:
        """Measure once more without threads that spin, where that is asked for: in a worker of its own, since a session is
        made so or not. Ctrl-C gives that up and leaves the results as they are."""
        for side in self._sides:
            modes = [case.mode for case in side.result.cases if side.result.case(case.mode) is not None]
            if not side.plan.spin or not modes or self.interrupted:
                continue
            self._observer.stage(f"measuring without threads that spin ({side.name})")
            again = Bench([Configuration(without_spin(side.plan, modes), name=side.name)], self._observer)
            try:
                with side.same_model():
                    (still,) = again.run()
                take_spin(side.result, still)
            except OrtbenchError as error:
                side.result.warn(SPIN_NOT_MEASURED, f"--measure-spin gave nothing: {error}")
            except KeyboardInterrupt:
                self.interrupted = True
            self.interrupted = self.interrupted or again.interrupted
            side.keep()

    # Blocks

    def _time(self, block: Block[Series]) -> Samples | None:
        side = self._sides[block.series.side]
        with self._awake(side):
            if self._watch is not None and self._timed_by(block)[1] and self._watch.is_due:
                side.meanwhile(self._watch.look_inside)
            return side.block(block.series.mode, block)

    def _timed_by(self, block: Block[Series]) -> tuple[int, Sequence[int]]:
        return block.series.side, [self._sides[block.series.side].worker.pid]

    def _gone(self, block: Block[Series]) -> set[Series]:
        every = {Series(number, mode) for number, side in enumerate(self._sides) for mode in side.plan.modes}
        return every.difference(self._series())

    def _add(self, block: Block[Series], answer: Samples) -> None:
        if self._observer.shows_estimates and self._judge is None and block.phase == LATENCY:
            side = self._sides[block.series.side]
            self._so_far.add(self._called(side, block.series.mode), answer["samples"])
        if self._thinning is not None:
            self._thin(self._thinning, block)
        if self._judge is not None:
            judged = self._sides[block.series.side].judged(block.series.mode, block, answer)
            for phase, samples in judged.items():
                self._judge.add(*block.series, phase, block.round, samples)

    def _estimated(self) -> Sequence[Row]:
        return super()._estimated() if self._judge is None else self._judge.so_far()

    def _series(self) -> list[Series]:
        """What can be measured; where there is a judge, the modes that all configurations have."""
        found = [Series(number, mode) for number, side in enumerate(self._sides) for mode in side.modes]
        if self._judge is None:
            return found
        return [it for it in found if all(it.mode in side.modes for side in self._sides)]

    def _schedule(self, estimates: Estimates[Series]) -> Schedule[Series] | InOrder[Series]:
        plan = self._sides[0].plan
        if plan.loop.in_order:
            return InOrder(estimates, plan.loop.iterations)
        most = max(1, MAX_SAMPLES // plan.work.count)  # each step or stage is a sample
        rule = StopRule(round(plan.loop.duration_s * 1e9), plan.loop.precision, plan.loop.iterations, most, self.per)
        if self._judge is None:
            parts = self._processes(estimates)
            self._until_agreed = plan.loop.until_agreed and parts > 1
            if self._until_agreed:
                rule = rule._replace(part_ns=min(PART_NS, rule.duration_ns // parts))
            between_s = min(self._start_s, plan.loop.duration_s * len(estimates) * TO_START / max(1, parts - 1))
            return self._kind_of_schedule(
                estimates, rule, plan.inputs.seed, parts=parts, between=self._renew, between_ns=round(between_s * 1e9)
            )
        return self._kind_of_schedule(estimates, rule, plan.inputs.seed, self._end_decided, _evened)

    def _processes(self, estimates: Estimates[Series]) -> int:
        loop, budget_s = self._sides[0].plan.loop, self._sides[0].plan.loop.duration_s * len(estimates)
        is_timed = self._may_renew and loop.iterations is None
        return self._processes_in(budget_s, budget_s / max(_round_s(estimates), 1e-3) / FEW if is_timed else 1)

    def _renew(self, schedule: Schedule[Series], number: int) -> None:
        """Go on in fresh workers, from this round on."""
        before = set(self._series())
        self._check_processes()
        if self._until_agreed and not self._goes_on():
            schedule.end()
            return
        self._release_processes()
        self._begin_processes(number)
        for series in before.difference(self._series()):
            schedule.remove(series)
        self._keep()

    def _measured(self) -> list[Case]:
        (side,) = self._sides
        return [case for case in side.cases.values() if case.status == OK and case.samples]

    def _goes_on(self) -> bool:
        """Whether more processes are needed, of modes that do not agree yet or whose synchronization is to be another one; others
        are settled, unless something is asked of all modes of the last worker."""
        (side,) = self._sides
        more = {*disagreeing(self._measured()), *(it for it in side.modes if not side.has_lasting_sync(it))}
        if more and not any(wanted(IN_WORKERS, self._sides)):
            for mode in set(side.modes) - more - {CPU}:
                side.settle(mode)
        return bool(more)

    def _end_decided(self, schedule: Schedule[Series]) -> None:
        assert self._judge is not None
        wanted = {mode for mode in self._sides[0].modes if self._judge.wants(mode)}
        for series in self._series():
            if series.mode not in wanted:
                schedule.remove(series)
        self._all_decided = all(series.mode not in wanted for series in self._series())

    def _thin(self, thinning: Thinning, block: Block[Series]) -> None:
        """Keep the samples from becoming too many; what a timeline has of them goes with them."""
        cases = [case for side in self._sides for case in side.cases.values()]
        before = thinning.every
        thinning.add(self._sides[block.series.side].cases[block.series.mode], block.phase, cases)
        if thinning.every != before:
            for side in self._sides:
                side.downsample(thinning.every)
        elif block.round % thinning.every:
            self._sides[block.series.side].drop_timed_block()


class RaceBench(Bench):
    """Measures the one mode that all configurations have; one that does not open, or gives other outputs than the first, is left
    out, and so are those that there is no time for.

    Args:
        alpha: the chance that the best one for a goal is dropped.
        ends: when the time is up, by `time.monotonic`.

    Attributes:
        memory: of each configuration the resident set of its worker when all was measured, bytes.
        opened: when all were open and prepared, by `time.monotonic`.
        block_s: about how long a block of a configuration takes; infinite where that is not known.
    """

    def __init__(
        self, sides: Sequence[Configuration], alpha: float, ends: float, observer: Observer | None = None
    ) -> None:
        super().__init__(sides, observer)
        self._alpha, self._ends = alpha, ends
        self.memory: dict[str, int] = {}
        self._began = self.opened = time.monotonic()
        self.block_s = math.inf
        self.elimination = Elimination([], GOALS, alpha)

    def _is_late(self, opened: int) -> bool:
        """Each is to be prepared, which takes some half of the time to open it, and measured for half of its time or longer."""
        now = time.monotonic()
        each_s = (now - self._began) / opened
        return now + each_s + (opened + 1) * (each_s + self._sides[0].plan.loop.duration_s) / 2 > self._ends

    def _schedule(self, estimates: Estimates[Series]) -> Schedule[Series]:
        self.opened, self.block_s = time.monotonic(), _round_s(estimates) / max(1, len(estimates))
        self.elimination = Elimination([self._sides[it.side].name for it in estimates], GOALS, self._alpha)
        plan = self._sides[0].plan
        self._ends = min(self._ends, self.opened + _LONGER * len(estimates) * plan.loop.duration_s)
        rule = StopRule(round(plan.loop.duration_s * 1e9), None, per="configuration", rounds=self.elimination.rounds)
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
        import psutil  # what most runs can do without

        for side in self._sides:
            with suppress(OSError, psutil.Error):  # the system tells nothing
                self.memory[side.name] = psutil.Process(side.worker.pid).memory_info().rss

    def ratio(self, goal: str, over: str, under: str) -> Ratio | None:
        """Two configurations, as a search takes it."""
        found = self.elimination.ratio(goal, over, under)
        return None if found is None else Ratio(ratio=found.ratio, low=found.low, high=found.high, rounds=found.rounds)

    def left(self, name: str) -> list[str]:
        """The goals that a configuration can be the best for."""
        return [goal for goal in GOALS if name in self.elimination.left(goal)]


def _evened(estimates: Estimates[Series]) -> Estimates[Series]:
    """The same estimates, and so the same block size, for a mode on all configurations: those of the slowest; None if one is.

    A ratio of medians of 10 samples on one configuration and of 11 on the other would not be even-handed.
    """
    slowest: dict[tuple[str, str], float | None] = {}
    for series, phases in estimates.items():
        for phase, ns in phases.items():
            other = slowest.get((series.mode, phase), 0.0)
            slowest[series.mode, phase] = None if ns is None or other is None else max(ns, other)
    return {series: {phase: slowest[series.mode, phase] for phase in phases} for series, phases in estimates.items()}
