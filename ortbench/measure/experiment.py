"""What every kind of measurement does: it opens configurations, times blocks of their series as a schedule asks for them, saves
the results as they grow, and ends in order whatever ends it.

Kinds differ in `_measure`: `ortbench.measure.bench` (runs, loops, chains), `ortbench.measure.sweep` (its points in one session),
`ortbench.measure.load` (load points), `ortbench.features.bandwidth` (copies).
"""

from __future__ import annotations

import copy
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol

from ortbench.analysis.estimates import Estimates, Row
from ortbench.analysis.outputs import put, told
from ortbench.analysis.precision import likely_cause, trust
from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.core.files import temporary_folder
from ortbench.core.resampling import FEW
from ortbench.measure.clocks import locked_clocks
from ortbench.measure.configuration import Configuration, warmup_again_ns
from ortbench.measure.describe import describe_sync
from ortbench.measure.environment import environment
from ortbench.measure.forecast import Forecast, Step
from ortbench.measure.gpus import Watch, known_card
from ortbench.measure.noise import Meter, wait_until_quiet
from ortbench.measure.process import WorkerLost
from ortbench.measure.schedule import Block, InOrder, Schedule, SeriesT
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import HeldOutputs, Samples, Saved
from ortbench.model.result import Result
from ortbench.model.schema import Machine, Stopped
from ortbench.plan.plan import PROCESSES, Observer, Plan

if TYPE_CHECKING:  # of loads and copies, which most runs are none of
    from ortbench.analysis.loads.levels import LoadPoint
    from ortbench.plan.bandwidth_plan import CopyPlan

# How much of the results a crash of this very process could cost.
_KEEP_EVERY_S = 5.0
_KEEP_SHARE = 0.02  # of the time, at most
TO_START = 1 / 3  # of the time, that other processes may take to start


def starting_in(budget_s: float, start_s: float) -> int:
    """How many processes there can be of which all but the first start in a third of a time."""
    return 1 + int(budget_s * TO_START / start_s)


class Judge(Protocol):
    """Looks at blocks as they come and says of what more are wanted: see `ortbench.gates.live`. By itself it wants all."""

    @property
    def takes(self) -> int:
        """How many rounds a verdict takes, at least."""
        return 1

    def add(
        self, side: int, mode: str, phase: str, round: int, samples: Sequence[float], place: LoadPoint | None = None
    ) -> None:
        """Take the samples of a block into account, ns; at a load point one of the block's figures, by its name."""
        return

    def wants(self, mode: str, place: LoadPoint | None = None, rounds: int = 0) -> bool:
        """Whether more rounds than these are of use."""
        return True

    def least_runs(self, mode: str, place: LoadPoint) -> int:
        """How many runs a block of a load point takes."""
        return 1

    def so_far(self) -> list[Row]:
        """What is known of each ratio by now, in words."""
        return []


class Unjudged(Judge):
    """Several configurations, of which nothing is to be decided."""


class Experiment(Generic[SeriesT]):
    """One measurement of configurations that are not open yet; with several, one works while all others are paused.

    Args:
        after_open: given the results so far when every model is open; what it raises ends the measurement.
        must_open: every configuration must; else one that does not is left out, as long as another opens.

    Attributes:
        not_opened: configurations that were left out, and why.
    """

    counts_waits = True  # whether the time between blocks is part of the budget

    def __init__(
        self,
        sides: Sequence[Configuration],
        forecast: Forecast,
        observer: Observer | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
        must_open: bool = True,
    ) -> None:
        self._sides = list(sides)
        self._in_turns = len(self._sides) > 1
        self._forecast, self._is_forecast = forecast, False
        self._observer = observer or Observer()
        self._after_open, self._must_open = after_open, must_open
        self._so_far = Estimates()
        self._watch: Watch | None = None  # while GPUs are looked at
        self._kept_at, self._keep_took = time.monotonic(), 0.0
        self._took_ns: int | None = None
        self._process, self._open_s = 1, 0.0  # what it takes to open and prepare all
        self._noise = Meter()
        for side in self._sides:
            side.while_waiting = self._while_waiting
        self.interrupted = False
        self.not_opened: list[tuple[Configuration, OrtbenchError]] = []

    def run(self) -> list[Result]:
        """Measure, and return the result of every configuration that opened; after Ctrl-C or a lost worker what there is of them;
        `BadInput` or `BenchmarkFailed`: before anything could be measured."""
        why: Stopped | None = {"reason": "interrupted"}
        try:
            with self._opening():
                self._open()
            self._wait_until_quiet()
            with locked_clocks([(side.plan, side.result) for side in self._sides]):
                with closing(Watch()) as watch:
                    self._noise.on_gpu = self._others_on_gpu(watch)
                    why = self._measure(watch)
                self._look_closer()
            for side in self._sides:
                with self._awake(side):
                    side.release()
        except KeyboardInterrupt:
            if not self._has_begun():
                raise
            self.interrupted = True
        except WorkerLost as error:
            why = self._lost(error)
        finally:
            self._close()
        self._end(why)
        return self.results

    @property
    def results(self) -> list[Result]:
        return [side.result for side in self._sides]

    # What kinds differ in

    def _measure(self, watch: Watch) -> Stopped | None:
        """All that enters figures; returns why it ended."""
        raise NotImplementedError

    def _look_closer(self) -> None:
        """What else is asked of the workers that have measured."""

    def _has_begun(self) -> bool:
        """Whether the results are of use already."""
        return all(side.is_open for side in self._sides)

    def _lost(self, error: WorkerLost) -> Stopped:
        """Why it ended, where configurations could not go on without a worker."""
        raise error

    def _close(self) -> None:
        for side in self._sides:
            side.close()

    def _end(self, why: Stopped | None, lost: Collection[str] = ()) -> None:
        for side in self._sides:
            side.end(why, self._took_ns, lost)

    # Opening

    def _open(self) -> None:
        """Wait for every model to be open, one worker after the other, and describe the machine meanwhile."""
        run_id = uuid.uuid4().hex
        machine: Machine | None = None
        opened: list[Configuration] = []
        for side in self._sides:
            if opened and self._is_late(len(opened)):
                break
            self._step("open", f"loading {Path(side.plan.model).name} ({side.name})")
            try:
                side.start()
                machine = machine or environment()
                with self._awake(side):
                    side.open(copy.deepcopy(machine), run_id)
                opened.append(side)
                self._forecast.know_first(id(side), side.first_ns / 1e9)
            except BenchmarkFailed as error:
                if self._must_open or not self._in_turns:
                    raise
                self.not_opened.append((side, error))
                side.close()
        if not opened:
            raise self.not_opened[0][1]
        self._sides = opened
        if self._after_open is not None:
            self._after_open([side.result for side in opened])
        self._hold_outputs()

    def _hold_outputs(self) -> None:
        """Compare the outputs of configurations that take the same inputs: those of a gate with the baseline's, which comes last, others
        with those of the CPU EP, or of the first.

        The same model must give the same outputs wherever it runs, but for a lower precision that an EP chose, which is marked; another
        model may differ, and then says so.

        Raises:
            BenchmarkFailed: outputs of the same model differ, in a gate; else the modes of the configuration that differs fail.
        """
        alike: dict[str, list[Configuration]] = {}
        for side in self._sides:
            alike.setdefault(side.takes(), []).append(side)
        for found in alike.values():
            first = found[-1] if self._must_open else min(found, key=lambda it: trust(it.result.target["ep"]))
            if others := [it for it in found if it is not first]:
                self._hold(first, others)

    def _hold(self, first: Configuration, others: Sequence[Configuration]) -> None:
        with temporary_folder() as folder:
            with self._awake(first):
                written: Saved = first.ask("save_outputs", folder=folder)
                if not written["saved"]:
                    return
            for side in others:
                with self._awake(side):
                    held: HeldOutputs = side.ask("hold_outputs", folder=folder)
                one, base = side.result, first.result
                same_model = one.model["sha256"] == base.model["sha256"]
                may_lower = same_model and not side.plan.inputs.strict_outputs and _ep(one) != _ep(base)
                found = told(first.name, held, [one.target["ep"], base.target["ep"]] if may_lower else [])
                put(one, found)
                if held["differs"] is None or found["doubt"] is not None:
                    continue
                message = f"the outputs of {side.name} are not those of {first.name}: {held['differs']}"
                if not same_model:
                    one.warn("outputs-differ", message)
                    continue
                message += likely_cause(list(dict.fromkeys(it.target["ep"] for it in (one, base))), held["relative"])
                if self._must_open:
                    raise BenchmarkFailed(message)
                side.reject(message)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """What is inside has to be done again in another process."""
        begun = time.monotonic()
        yield
        self._open_s += time.monotonic() - begun

    @property
    def _start_s(self) -> float:
        """How long it takes to go on in another process."""
        spared_ns = sum(
            (it.plan.loop.warmup_ns - warmup_again_ns(it.plan)) * (1 if it.plan.loop.until_agreed else len(it.modes))
            for it in self._sides
        )
        return max(self._open_s - spared_ns / 1e9, 0.1)

    def _processes_in(self, budget_s: float, most: float) -> int:
        """In how many processes it is measured, as each has its memory elsewhere, which its intervals do not show: unless that is said, so
        many at most, and as many as start in a third of the time."""
        loop = self._sides[0].plan.loop
        if loop.processes is not None or any(side.timeline is not None for side in self._sides):
            return loop.processes or 1
        # Later ones start sooner where they were started early, and a run that ends early leaves more for starts.
        start_s = self._start_s * (2 / 3 if loop.until_agreed else 1)
        found = min(PROCESSES, starting_in(budget_s, start_s), int(most))
        return found if found >= FEW else 1

    def _check_processes(self) -> None:
        """What is checked at the end of workers, before others go on."""
        for side in self._sides:
            with self._awake(side):
                side.check()

    def _release_processes(self) -> None:
        for side in self._sides:
            with self._awake(side):
                side.release()
        self._noise.look(now=True)  # while the CPU time of those that end can be read

    def _begin_processes(self, number: int) -> None:
        """Go on in fresh workers, from this round on."""
        self._process += 1
        for side in self._sides:
            self._observer.stage(f"starting process {self._process} ({side.name})")
            with self._awake(side):
                side.begin_process(self._process, number)
            describe_sync(side.result)

    def _is_late(self, opened: int) -> bool:
        """Whether no time is left to open more than so many."""
        return False

    def _prepare(self, side: Configuration) -> None:
        for mode in side.to_prepare():
            self._step("prepare", f"preparing {mode} ({side.name})")
            with self._awake(side):
                side.prepare(mode)
            if mode in side.modes:
                self._forecast.know_warm(id(side), (side.estimates_ns(mode).get(LATENCY) or side.first_ns) / 1e9)
                self._tell_forecast()
        if not side.modes:
            self._forecast.give_up(id(side))
            self._tell_forecast()
        describe_sync(side.result)

    def _tell_forecast(self) -> None:
        """Say how long it takes, once: when each configuration has a mode whose inferences are known to be warm."""
        if self._forecast.is_warm and not self._is_forecast:
            self._is_forecast = True
            self._observer.forecast(self._forecast.left_s())

    @contextmanager
    def _awake(self, side: Configuration) -> Iterator[None]:
        """One configuration works, all others are paused. A configuration that is alone is never paused."""
        if self._in_turns:
            side.resume()
        try:
            yield
        finally:
            if self._in_turns:
                side.pause()

    # Noise of the machine

    @property
    def _asked(self) -> Plan | CopyPlan:
        """What says how long a quiet machine is waited for."""
        return self._sides[0].plan

    def _wait_until_quiet(self) -> None:
        """Where that is asked for; `BenchmarkFailed` where it must be quiet and never is."""
        wait_s, must = self._asked.wait_quiet_s, self._asked.require_quiet
        if wait_s is None and not must:
            return
        self._step("prepare", "waiting for a quiet machine")
        why = wait_until_quiet(wait_s or 0.0, self._observer.stage)
        if why is None:
            return
        said = f"the machine was not quiet{f' within {wait_s:g} s' if wait_s else ''}: {why}"
        if must:
            raise BenchmarkFailed(f"{said} (--require-quiet)")
        for result in self.results:
            result.warn("never-quiet", f"{said}; it was measured all the same")

    def _others_on_gpu(self, watch: Watch) -> Callable[[], int | None]:
        """What tells how many processes that are no workers of this measurement compute on the workers' GPU."""
        cards = {side.worker.pid: card for side in self._sides if (card := known_card(side.result.target)) is not None}
        if not cards:
            return lambda: None
        own = Counter(cards.values())
        return lambda: max(max(0, watch.processes(card) - count) for card, count in own.items())

    def _timed_by(self, block: Block[SeriesT]) -> tuple[int, Sequence[int]]:
        """The number of the result that a block is of, and the process ids of the workers that time it."""
        raise NotImplementedError

    def _put_noise(self) -> None:
        for number, result in enumerate(self.results):
            result.noise = self._noise.found(number)

    # Blocks

    def _time_blocks(self, schedule: Schedule[SeriesT] | InOrder[SeriesT]) -> None:
        asked_ns = time.perf_counter_ns()
        while (block := schedule.next_block()) is not None:
            self._tell_progress(schedule.progress)
            whose, pids = self._timed_by(block)
            before = self._noise.begin(pids)
            answer = self._time(block)
            if answer is None:
                for series in self._gone(block):
                    schedule.remove(series)
                self._keep()
                asked_ns = time.perf_counter_ns()
                continue
            switches = answer.get("counts", {}).get("involuntary_switches", 0)
            self._noise.end(whose, pids, before, block.round, answer["start_ns"], switches)
            waited_ns = time.perf_counter_ns() - asked_ns if self.counts_waits else 0
            schedule.add(block, answer["samples"], answer["spent_ns"], waited_ns)
            asked_ns = time.perf_counter_ns()
            self._noise.look()
            self._add(block, answer)
            self._tell_estimates()
            if self._watch is not None:
                self._watch.look(between=True)
            self._keep_now_and_then()

    def _time(self, block: Block[SeriesT]) -> Samples | None:
        """Time a block; None where its series failed in it."""
        raise NotImplementedError

    def _gone(self, block: Block[SeriesT]) -> Iterable[SeriesT]:
        """What is not to be measured any more, as a block failed."""
        return [block.series]

    def _add(self, block: Block[SeriesT], answer: Samples) -> None:
        """What else is done with a block's samples than the schedule does."""

    def _finish(self) -> None:
        for side in self._sides:
            with self._awake(side):
                for mode in side.modes:
                    self._step("finish", f"checking outputs and synchronization of {mode} ({side.name})")
                    side.finish(mode)

    @contextmanager
    def _clocked(self) -> Iterator[None]:
        """How long what is inside takes is part of the results, also of a measurement that is cut short."""
        self._noise.look(now=True)
        began = time.monotonic_ns()
        try:
            yield
        finally:
            self._took_ns = time.monotonic_ns() - began
            self._noise.look(now=True)
            self._put_noise()

    @contextmanager
    def _looking(self, watch: Watch) -> Iterator[None]:
        """The GPUs are read inside, between blocks and while they last."""
        self._watch = watch
        try:
            yield
        finally:
            watch.look(now=True)
            self._watch = None

    # What is told and saved meanwhile

    def _step(self, step: Step, text: str) -> None:
        self._forecast.begin(step)
        self._observer.stage(text)
        self._tell_left()

    def _tell_estimates(self) -> None:
        if self._observer.shows_estimates and self._so_far.is_due():
            self._observer.estimates(self._estimated())

    def _estimated(self) -> Sequence[Row]:
        return self._so_far.rows()

    def _called(self, side: Configuration, what: str) -> str:
        """What a row of estimates is of."""
        return f"{what} ({side.name})" if self._in_turns else what

    def _tell_left(self) -> None:
        self._observer.left(self._forecast.left_s())

    def _tell_progress(self, share: float) -> None:
        self._forecast.measured(share)
        self._tell_left()

    def _while_waiting(self) -> None:
        self._tell_left()
        if self._watch is not None:
            self._watch.look()

    def _keep_now_and_then(self) -> None:
        if time.monotonic() - self._kept_at > max(_KEEP_EVERY_S, self._keep_took / _KEEP_SHARE):
            self._keep()

    def _keep(self) -> None:
        begun = time.monotonic()
        self._put_noise()
        self._save_all()
        self._kept_at = time.monotonic()
        self._keep_took = self._kept_at - begun

    def _save_all(self) -> None:
        for side in self._sides:
            side.keep()


def _ep(result: Result) -> tuple[str, dict[str, str]]:
    """What may choose a precision."""
    return result.target["ep"], result.target["ep_options"]
