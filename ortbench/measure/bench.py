"""From plans to results: starts a worker for each, lets the schedule ask for blocks, keeps whatever is measured."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.measure.clocks import locked_clocks
from ortbench.measure.describe import describe_fence, describe_gpus
from ortbench.measure.environment import environment
from ortbench.measure.forecast import Forecast, Step
from ortbench.measure.gpus import Watch
from ortbench.measure.held_outputs import hold_outputs
from ortbench.measure.passes import APART, IN_WORKERS, Pass, give_up, wanted
from ortbench.measure.schedule import MAX_SAMPLES, Block, Estimates, InOrder, Schedule, StopRule
from ortbench.measure.side import Side
from ortbench.measure.spin import NOT_MEASURED, take_spin, without_spin
from ortbench.measure.thinning import Thinning
from ortbench.model.result import FAILED, Result
from ortbench.model.schema import Machine, Stopped
from ortbench.plan.plan import Observer

# All cases grow together, block by block; how much of them a crash of this very process could cost.
_KEEP_EVERY_S = 5.0
_KEEP_SHARE = 0.02  # of the time, at most


class Lane(NamedTuple):
    """What alternates: a mode of one of the sides."""

    side: int
    mode: str


class Judge(Protocol):
    """Looks at blocks as they come and says of which modes enough is known: see `ortbench.gate.contests.Jury`."""

    def add(self, side: int, mode: str, phase: str, round: int, samples: Sequence[float]) -> None:
        """Take the samples of a block, ns, into account."""

    def decided(self) -> list[str]:
        """The modes that need no more blocks."""


class Bench:
    """One run, of one side or of several whose blocks alternate.

    Args:
        sides: at least one. The first has its options for the loop heeded.
        observer: told what happens.
        meanwhile: called once while the first model is loaded, for what can be done in that time.
        judge: may end modes before the budget is spent. With one every side must open; without one a side that does
            not is left out, as long as another opens.
        after_open: given the results so far when every model is open; what it raises ends the run.

    Attributes:
        lane: what alternates, in words.
    """

    lane = "mode"

    def __init__(
        self,
        sides: Sequence[Side],
        observer: Observer | None = None,
        meanwhile: Callable[[], None] | None = None,
        judge: Judge | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        self._sides = list(sides)
        self._in_turns = len(self._sides) > 1
        self._observer = observer or Observer()
        self._meanwhile = meanwhile
        self._judge = judge
        self._after_open = after_open
        self._kept_at, self._keep_took = time.monotonic(), 0.0
        self._thinning = Thinning() if self._sides[0].plan.loop.precision == 0 else None
        self._all_decided = False
        modes = sum(len(side.plan.modes) for side in self._sides)
        energy = sum(len(side.plan.modes) for side in self._sides if side.plan.energy)
        self._forecast = Forecast(self._sides[0].plan.loop, len(self._sides), modes, energy=energy)
        for side in self._sides:
            side.while_waiting = self._tell_left
        self._took_ns: int | None = None
        self.interrupted = False
        self.not_opened: list[tuple[Side, OrtbenchError]] = []

    def run(self) -> list[Result]:
        """Measure, and return the result of every side that opened; after Ctrl-C or a lost worker, what there is of it.

        Raises:
            BadInput, BenchmarkFailed: before anything could be measured.
        """
        why: Stopped | None = {"reason": "interrupted"}
        try:
            self._open()
            with locked_clocks([(side.plan, side.result) for side in self._sides]):
                with closing(Watch()) as watch:
                    why = self._measure(watch)
                for after, side in wanted(IN_WORKERS, self._sides):
                    with self._awake(side):
                        self._carry_out(after, side)
            for side in self._sides:
                with self._awake(side):
                    side.release()
        except KeyboardInterrupt:
            if not all(side.is_open for side in self._sides):
                raise
            self.interrupted = True
        finally:
            for side in self._sides:
                side.close()
        lost = {case.mode for side in self._sides for case in side.result.cases if case.status == FAILED}
        for side in self._sides:
            side.end(why, self._took_ns, lost)
        self._spin()
        try:
            for after, side in wanted(APART, [] if self.interrupted else self._sides):
                self._carry_out(after, side)
        except KeyboardInterrupt:  # that gives up what is left of them, and leaves the results as they are
            self.interrupted = True
        if self.interrupted:
            for side in self._sides:
                give_up(side)
        return [side.result for side in self._sides]

    def _step(self, step: Step, text: str) -> None:
        self._forecast.begin(step)
        self._observer.stage(text)
        self._tell_left()

    def _tell_left(self) -> None:
        self._observer.left(self._forecast.left_s())

    def _carry_out(self, after: Pass, side: Side) -> None:
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
            again = Bench([Side(without_spin(side.plan, modes), name=side.name)], self._observer)
            try:
                (still,) = again.run()
                take_spin(side.result, still)
            except OrtbenchError as error:
                side.result.warn(NOT_MEASURED, f"--spin gave nothing: {error}")
            except KeyboardInterrupt:
                self.interrupted = True
            self.interrupted = self.interrupted or again.interrupted
            side.keep()

    @contextmanager
    def _awake(self, side: Side) -> Iterator[None]:
        """One side works, all others are paused. A side that is alone is never paused."""
        if self._in_turns:
            side.resume()
        try:
            yield
        finally:
            if self._in_turns:
                side.pause()

    def _open(self) -> None:
        """Wait for every model to be open, one worker after the other, and describe the machine meanwhile."""
        run_id = uuid.uuid4().hex
        machine: Machine | None = None
        opened: list[Side] = []
        for side in self._sides:
            self._step("open", f"loading {Path(side.plan.model).name} ({side.name})")
            side.start()
            if machine is None:
                machine = environment()
            try:
                with self._awake(side):
                    if self._meanwhile is not None:
                        side.meanwhile(self._meanwhile)
                        self._meanwhile = None
                    side.open(copy.deepcopy(machine), run_id)
                opened.append(side)
                self._forecast.know_run(side.result.setup["first_inference_ns"] / 1e9)
            except BenchmarkFailed as error:
                if self._judge is not None or len(self._sides) == 1:
                    raise
                self.not_opened.append((side, error))
                side.close()
        if not opened:
            raise self.not_opened[0][1]
        self._sides = opened
        if self._after_open is not None:
            self._after_open([side.result for side in opened])
        hold_outputs(opened, self._awake, must_match=self._judge is not None)

    def _measure(self, watch: Watch) -> Stopped | None:
        for side in self._sides:
            for mode in side.to_prepare():
                self._step("prepare", f"preparing {mode} ({side.name})")
                with self._awake(side):
                    side.prepare(mode)
            describe_fence(side.result)
        self._keep()
        lanes = {lane: self._sides[lane.side].estimates_ns(lane.mode) for lane in self._lanes()}
        if not lanes:
            return {"reason": "nothing_left", "per": "mode"}
        self._forecast.know_modes(len(lanes))
        self._step("measure", "measuring")
        schedule = self._schedule(lanes)
        with self._captured(), self._clocked(), self._watched(watch):
            self._time_blocks(schedule, set(lanes), watch)
        self._after_blocks()
        for side in self._sides:
            with self._awake(side):
                for mode in side.modes:
                    self._step("finish", f"checking outputs and the fence of {mode} ({side.name})")
                    side.finish(mode)
        return {"reason": "verdict"} if self._all_decided else schedule.stopped

    def _after_blocks(self) -> None:
        """What else is timed, before the outputs of all that ran are checked."""

    @contextmanager
    def _clocked(self) -> Iterator[None]:
        """How long all blocks take together is part of the results, also of a run that is cut short."""
        began = time.monotonic_ns()
        try:
            yield
        finally:
            self._took_ns = time.monotonic_ns() - began

    @contextmanager
    def _watched(self, watch: Watch) -> Iterator[None]:
        """What held GPUs back decides which blocks enter figures, also of a run that is cut short."""

        def meanwhile() -> None:
            self._tell_left()
            watch.look()

        for side in self._sides:
            side.while_waiting = meanwhile
        watch.look(now=True)
        try:
            yield
        finally:
            watch.look(now=True)
            for side in self._sides:
                side.while_waiting = self._tell_left
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

    def _time_blocks(self, schedule: Schedule[Lane] | InOrder[Lane], lanes: set[Lane], watch: Watch) -> None:
        asked_ns = time.perf_counter_ns()
        while (block := schedule.next_block()) is not None:
            self._forecast.measured(schedule.progress)
            self._tell_left()
            side = self._sides[block.lane.side]
            with self._awake(side):
                answer = side.block(block.lane.mode, block)
            if answer is None:
                for lane in lanes.difference(self._lanes()):
                    schedule.remove(lane)
                self._keep()
                asked_ns = time.perf_counter_ns()
                continue
            schedule.add(block, answer["samples"], answer["spent_ns"], time.perf_counter_ns() - asked_ns)
            asked_ns = time.perf_counter_ns()
            if self._thinning is not None:
                self._thin(self._thinning, block)
            if self._judge is not None:
                for phase, samples in side.judged(block.lane.mode, block, answer).items():
                    self._judge.add(*block.lane, phase, block.round, samples)
            watch.look()
            if time.monotonic() - self._kept_at > max(_KEEP_EVERY_S, self._keep_took / _KEEP_SHARE):
                self._keep()

    def _lanes(self) -> list[Lane]:
        """What can be measured; where there is a judge, the modes that all sides have."""
        lanes = [Lane(number, mode) for number, side in enumerate(self._sides) for mode in side.modes]
        if self._judge is None:
            return lanes
        return [lane for lane in lanes if all(lane.mode in side.modes for side in self._sides)]

    def _schedule(self, lanes: Estimates[Lane]) -> Schedule[Lane] | InOrder[Lane]:
        plan = self._sides[0].plan
        if plan.loop.in_order:
            return InOrder(lanes, plan.loop.iterations)
        most = max(1, MAX_SAMPLES // plan.work.count)  # each step or stage is a sample
        rule = StopRule(round(plan.loop.duration_s * 1e9), plan.loop.precision, plan.loop.iterations, most, self.lane)
        if self._judge is None:
            return Schedule(lanes, rule, plan.inputs.seed)
        return Schedule(lanes, rule, plan.inputs.seed, self._end_decided, _evened)

    def _end_decided(self, schedule: Schedule[Lane]) -> None:
        assert self._judge is not None
        decided = self._judge.decided()
        for mode in decided:
            for number in range(len(self._sides)):
                schedule.remove(Lane(number, mode))
        self._all_decided = {lane.mode for lane in self._lanes()} <= set(decided)

    def _thin(self, thinning: Thinning, block: Block[Lane]) -> None:
        """Keep the samples from becoming too many; what a timeline has of them goes with them."""
        cases = [case for side in self._sides for case in side.cases.values()]
        before = thinning.every
        thinning.add(self._sides[block.lane.side].cases[block.lane.mode], block.phase, cases)
        if thinning.every != before:
            for side in self._sides:
                side.thin_timeline(thinning.every)
                side.say_thinned(thinning.every)
        elif block.round % thinning.every:
            self._sides[block.lane.side].drop_timed_block()

    def _keep(self) -> None:
        begun = time.monotonic()
        for side in self._sides:
            side.keep()
        self._kept_at = time.monotonic()
        self._keep_took = self._kept_at - begun


def _evened(lanes: Estimates[Lane]) -> Estimates[Lane]:
    """The same estimates, and so the same block size, for a mode on all sides: those of the slowest; None if one is.

    A ratio of medians of 10 samples on one side and of 11 on the other would not be even-handed.
    """
    slowest: dict[tuple[str, str], float | None] = {}
    for lane, phases in lanes.items():
        for phase, ns in phases.items():
            other = slowest.get((lane.mode, phase), 0.0)
            slowest[lane.mode, phase] = None if ns is None or other is None else max(ns, other)
    return {lane: {phase: slowest[lane.mode, phase] for phase in phases} for lane, phases in lanes.items()}
