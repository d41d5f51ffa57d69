"""The driver of every measurement: it opens configurations, times blocks of their series as a schedule asks for them, saves the
results as they grow, and ends in order whatever ends it.

A series is what is measured: a mode of a configuration, at a load point, of a size. Kinds differ in their `Configuration`, which
opens, prepares, times a block and finishes, and in their schedule, which says what comes next.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from ortbench.core import features
from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.core.stats import FEW
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import describe_gpus, describe_sync
from ortbench.measure.environment import environment, locked_clocks
from ortbench.measure.gpus import Watch
from ortbench.measure.noise import Meter, wait_until_quiet
from ortbench.measure.passes import APART, IN_WORKERS, SPIN_NOT_MEASURED, Pass, compare_outputs, give_up, wanted_passes
from ortbench.measure.process import WorkerLost
from ortbench.measure.progress import Forecast, Progress, Row, SequentialTest, processes_that_start
from ortbench.measure.schedule import Block, BlockSource, Estimates, Series, Thinning
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import Samples
from ortbench.model.result import FAILED, Result
from ortbench.model.schema import Machine, Stopped
from ortbench.plan.plan import PROCESSES, Observer

# How much of the results a crash of this very process could cost.
_KEEP_EVERY_S = 5.0
_KEEP_SHARE = 0.02  # of the time, at most


NotOpened = tuple[Configuration, OrtbenchError]  # and why


class Driver:
    """One measurement of configurations that are not open yet; with several, one works while all others are paused. The first has its
    options for the loop heeded.

    Args:
        schedule: makes what says which blocks come, of estimates of all series, such as `ortbench.measure.rounds.Rounds`.
        test: may end modes before the budget is spent; then every configuration must open.
        after_open: given the results so far when every model is open; what it raises ends the measurement.
        forecast: of the time that is left; by default that of rounds.
        after_save: called, with what did not open, when the results so far have been saved.

    Attributes:
        configurations: of those that are open, from then on.
        not_opened: configurations that were left out, and why.
        process: the number of the one that is measured in, from 1.
    """

    def __init__(
        self,
        configurations: Sequence[Configuration],
        schedule: Callable[[Driver, Estimates[Series]], BlockSource],
        observer: Observer | None = None,
        test: SequentialTest | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
        *,
        forecast: Forecast | None = None,
        after_save: Callable[[Sequence[NotOpened]], None] = lambda _: None,
    ) -> None:
        self.configurations = list(configurations)
        self.in_turns = len(self.configurations) > 1
        self.progress = Progress(observer or Observer(), forecast or _forecast(configurations))
        self.process = 1
        self.interrupted = False
        self.not_opened: list[NotOpened] = []
        self.test = test
        self._must_open = test is not None or self.configurations[0].must_open
        self._after_open, self._after_save = after_open, after_save
        self._make_schedule = schedule
        self._watch: Watch | None = None  # while GPUs are looked at
        self._saved_at, self._saving_s = time.monotonic(), 0.0
        self._took_ns: int | None = None
        self._opening_s = 0.0  # what it takes to open and prepare all
        self._noise = Meter()
        self._thinning = Thinning() if self.configurations[0].plan.loop.precision == 0 else None
        for configuration in self.configurations:
            configuration.while_waiting = self._while_waiting

    def run(self) -> list[Result]:
        """Measure, and return the result of every configuration that opened; after Ctrl-C or a lost worker what there is of them;
        `BadInput` or `BenchmarkFailed`: before anything could be measured."""
        why: Stopped | None = {"reason": "interrupted"}
        try:
            with self._timing_opening():
                self._open()
            self._wait_until_quiet()
            clocks = self.configurations[0].plan.lock_clocks
            with nullcontext() if clocks is None else locked_clocks(self.results, clocks):
                with closing(Watch()) as watch:
                    self._noise.on_gpu = watch.count_others(
                        {it.worker.pid: it.result.target for it in self.configurations}
                    )
                    why = self._measure(watch)
                for after, configuration in wanted_passes(IN_WORKERS, self.configurations):
                    with self.awake(configuration):
                        self._carry_out_pass(after, configuration)
            for configuration in self.configurations:
                with self.awake(configuration):
                    configuration.release()
        except KeyboardInterrupt:
            if not all(it.is_open for it in self.configurations):
                raise
            self.interrupted = True
        except WorkerLost as error:
            why = self.configurations[0].reason_without_worker(error)
        finally:
            for configuration in self.configurations:
                configuration.close()
        self._end(why)
        return self.results

    @property
    def results(self) -> list[Result]:
        return [it.result for it in self.configurations]

    def _open(self) -> None:
        """Wait for every model to be open, one worker after the other, and describe the machine meanwhile."""
        run_id = uuid.uuid4().hex
        machine: Machine | None = None
        opened: list[Configuration] = []
        is_default = self.configurations[0].plan.loop.until_agreed
        for configuration in self.configurations if is_default or self.test is not None else ():
            configuration.start_spares(FEW if is_default else 1)
        for configuration in self.configurations:
            if opened and configuration.is_too_late(len(opened)):
                break
            self.progress.begin("open", f"loading {configuration.title}")
            try:
                configuration.start()
                machine = machine or environment()
                with self.awake(configuration):
                    configuration.open(copy.deepcopy(machine), run_id)
                opened.append(configuration)
                self.progress.forecast.know_first(id(configuration), configuration.first_ns / 1e9)
            except BenchmarkFailed as error:
                if self._must_open or not self.in_turns:
                    raise
                self.not_opened.append((configuration, error))
                configuration.close()
        if not opened:
            raise self.not_opened[0][1]
        self.configurations = opened
        if self._after_open is not None:
            self._after_open(self.results)
        if len(opened) > 1:
            compare_outputs(opened, self.awake, self._must_open)

    def _warmup_ns(self, configuration: Configuration) -> int:
        """How long the first mode of a configuration is warmed up: all of them warm the one machine."""
        loop = configuration.plan.loop
        return max(loop.warmup_ns // len(self.configurations), loop.warmup_again_ns)

    def _prepare(self, configuration: Configuration) -> None:
        configuration.warmup_ns = self._warmup_ns(configuration)
        for mode in configuration.modes_to_prepare():
            self.progress.begin("prepare", f"preparing {mode} ({configuration.name})")
            with self.awake(configuration):
                configuration.prepare(mode)
            if mode in configuration.modes:
                warm_ns = configuration.estimates_ns(mode).get(LATENCY) or configuration.first_ns
                self.progress.forecast.know_warm(id(configuration), warm_ns / 1e9)
                self.progress.tell_forecast()
        if not configuration.modes:
            self.progress.forecast.give_up(id(configuration))
            self.progress.tell_forecast()
        describe_sync(configuration.result)
        with self.awake(configuration):
            configuration.prepare_all(self.progress)

    @contextmanager
    def _timing_opening(self) -> Iterator[None]:
        """What is inside has to be done again in another process."""
        begun = time.monotonic()
        yield
        self._opening_s += time.monotonic() - begun

    @contextmanager
    def awake(self, configuration: Configuration) -> Iterator[None]:
        """One configuration works, all others are paused. A configuration that is alone is never paused."""
        if self.in_turns:
            configuration.resume()
        try:
            yield
        finally:
            if self.in_turns:
                configuration.pause()

    def _measure(self, watch: Watch) -> Stopped | None:
        """All that enters figures; returns why it ended."""
        for configuration in self.configurations:
            configuration.await_spares()
            configuration.watch = watch
        with self._timing_opening():
            for configuration in self.configurations:
                self._prepare(configuration)
        self.save()
        series = {it: self.configurations[it.configuration].estimates_ns(it.mode) for it in self.series()}
        if not series:
            return {"reason": "nothing_left", "per": self.configurations[0].per}
        self.progress.forecast.know_modes(len(series))
        schedule = self._make_schedule(self, series)
        if schedule.end_reason is not None:
            return schedule.end_reason
        with self._capturing(), self._timing(), self._watching(watch):
            self._time_blocks(schedule)
        for configuration in self.configurations:
            configuration.after_blocks(self.progress)
        if any(it.steps_after_blocks for it in self.configurations):
            self.save()
        for configuration in self.configurations:
            with self.awake(configuration):
                for mode in configuration.modes:
                    what = f"outputs and synchronization of {mode} ({configuration.name})"
                    self.progress.begin("finish", f"checking {what}")
                    configuration.finish(mode)
        return schedule.end_reason

    def series(self) -> list[Series]:
        """What can be measured; where a test compares them, the modes that all configurations have."""
        series = [Series(number, mode) for number, it in enumerate(self.configurations) for mode in it.modes]
        if self.test is None:
            return series
        return [it for it in series if all(it.mode in other.modes for other in self.configurations)]

    def _time_blocks(self, schedule: BlockSource) -> None:
        asked_ns, series = time.perf_counter_ns(), set(self.series())
        while (block := schedule.next_block()) is not None:
            self.progress.tell_share(schedule.progress)
            number = block.series.configuration
            configuration = self.configurations[number]
            pids = configuration.pids
            waits = self._noise.begin(pids)
            with self.awake(configuration):
                if pids and configuration.can_look_inside and self._watch is not None and self._watch.is_due:
                    configuration.worker.meanwhile = self._watch.look_inside
                answer = configuration.block(block)
            if answer is None:
                for lost in series.difference(self.series()):
                    schedule.remove(lost)
                self.save()
                asked_ns = time.perf_counter_ns()
                continue
            switches = answer.get("counts", {}).get("involuntary_switches", 0)
            self._noise.end(number, pids, waits, block.round, answer["start_ns"], switches)
            configuration.add_noise(self._noise, number, block.round)
            schedule.add(block, answer["samples"], answer["spent_ns"], time.perf_counter_ns() - asked_ns)
            asked_ns = time.perf_counter_ns()
            self._noise.look()
            self._add(block, answer)
            if self._watch is not None:
                self._watch.look(between=True)
            self.save_if_due()

    def _add(self, block: Block[Series], answer: Samples) -> None:
        """Tell of a block's samples, thin them, and give them to the test."""
        number, mode = block.series
        configuration = self.configurations[number]
        if self.test is None:
            for name, samples, unit in configuration.shown_samples(block, answer):
                self.progress.add(self.name_row(number, name), samples, unit)
        if self._thinning is not None:  # what a timeline has of samples goes with them
            cases, every = [case for it in self.configurations for case in it.cases.values()], self._thinning.every
            self._thinning.add(configuration.cases[mode], block.phase, cases)
            if self._thinning.every != every:
                for each in self.configurations:
                    each.downsample(self._thinning.every)
            elif block.round % every and configuration.timeline is not None:
                configuration.timeline.blocks.pop()
        if self.test is not None:
            for phase, samples in configuration.samples_for_verdict(block, answer).items():
                self.test.add(number, mode, phase, block.round, samples, block.point)
        self.progress.tell_estimates(self._rows)

    def _rows(self) -> Sequence[Row]:
        rows = self.progress.estimates.rows() if self.test is None else self.test.progress_rows()
        own = [(self.name_row(n, what), text) for n, it in enumerate(self.configurations) for what, text in it.rows()]
        return [*rows, *own]

    def name_row(self, number: int, what: str) -> str:
        return f"{what} ({self.configurations[number].name})" if self.in_turns else what

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        """What a profiler is to record: the blocks of an ordered session, without loading and warm-up."""
        configurations = [it for it in self.configurations if it.plan.loop.in_order]
        for configuration in configurations:
            configuration.capture(True)
        yield
        for configuration in configurations:
            configuration.capture(False)

    @contextmanager
    def _timing(self) -> Iterator[None]:
        """How long what is inside takes is part of the results, also of a measurement that is cut short."""
        self._noise.look(now=True)
        began = time.monotonic_ns()
        try:
            yield
        finally:
            self._took_ns = time.monotonic_ns() - began
            self._noise.look(now=True)
            self._set_noise()

    @contextmanager
    def _watching(self, watch: Watch) -> Iterator[None]:
        """The GPUs are read inside, between blocks and while they last. What throttled them decides which blocks enter figures, also of
        a run that is cut short."""
        if not self.configurations[0].watches_gpus:
            yield
            return
        watch.look(now=True)
        self._watch = watch
        try:
            yield
        finally:
            watch.look(now=True)
            self._watch = None
            describe_gpus(
                self.results, watch.readings, self.test is not None, self.configurations[0].leaves_out_throttled
            )
            for configuration in self.configurations:
                configuration.drop_left_out()

    @property
    def start_s(self) -> float:
        """How long it takes to go on in another process."""
        spared_ns = sum(self._warmup_ns(it) - it.plan.loop.warmup_again_ns for it in self.configurations)
        return max(self._opening_s - spared_ns / 1e9, 0.1)

    def count_processes(self, budget_s: float, most: float) -> int:
        """In how many processes it is measured, as each has its memory elsewhere, which its intervals do not show: unless that is said, so
        many at most, and as many as start in a third of the time."""
        asked = self.configurations[0].plan.loop.processes
        if asked is not None or any(it.timeline is not None for it in self.configurations):
            return asked or 1
        # Later ones start sooner where they were started early, and a run that ends early leaves more for starts.
        start_s = self.start_s * (2 / 3 if self.configurations[0].plan.loop.until_agreed else 1)
        count = min(PROCESSES, processes_that_start(budget_s, start_s), int(most))
        return count if count >= FEW else 1

    def check_processes(self) -> None:
        """What is checked at the end of workers, before others go on."""
        for configuration in self.configurations:
            with self.awake(configuration):
                configuration.check()

    def begin_processes(self, round: int) -> None:
        """End the workers in order, and go on in fresh ones from this round on."""
        for configuration in self.configurations:
            with self.awake(configuration):
                configuration.release()
        self._noise.look(now=True)  # while the CPU time of those that end can be read
        self.process += 1
        for configuration in self.configurations:
            self.progress.observer.stage(f"starting process {self.process} ({configuration.name})")
            with self.awake(configuration):
                configuration.begin_process(self.process, round)
            describe_sync(configuration.result)

    def _end(self, why: Stopped | None) -> None:
        lost = {
            case.mode
            for configuration in self.configurations
            for case in configuration.cases.values()
            if case.status == FAILED
        }
        for configuration in self.configurations:
            configuration.end(why, self._took_ns, lost)
        try:
            for configuration in self.configurations:
                self._measure_without_spin(configuration)
            for after, configuration in wanted_passes(APART, [] if self.interrupted else self.configurations):
                self._carry_out_pass(after, configuration)
        except KeyboardInterrupt:  # that gives up what is left of them, and leaves the results as they are
            self.interrupted = True
        if self.interrupted:
            for configuration in self.configurations:
                give_up(configuration)

    def _carry_out_pass(self, after: Pass, configuration: Configuration) -> None:
        self.save()
        if after.text:
            self.progress.observer.stage(f"{after.text} ({configuration.name})")
        after.carry_out(
            configuration,
            self.progress.observer.stage if after.step is None else partial(self.progress.begin, after.step),
        )

    def _measure_without_spin(self, configuration: Configuration) -> None:
        """Measure once more without threads that spin, where that is asked for: in a worker of its own, since a session is made so or
        not."""
        plan, result = configuration.plan, configuration.result
        modes = [case.mode for case in result.cases if result.case(case.mode) is not None]
        if not plan.spin or not modes or self.interrupted:
            return
        from ortbench.measure.extra_inferences import take_spin, without_spin  # most runs do without

        self.progress.observer.stage(f"measuring without threads that spin ({configuration.name})")
        again = Driver(
            [Configuration(without_spin(plan, modes), name=configuration.name)],
            self._make_schedule,
            self.progress.observer,
        )
        try:
            with configuration.same_model():
                (still,) = again.run()
            take_spin(result, still)
        except OrtbenchError as error:
            result.warn(SPIN_NOT_MEASURED, f"--measure-spin gave nothing: {error}")
        finally:
            self.interrupted = self.interrupted or again.interrupted
            configuration.keep()

    def _wait_until_quiet(self) -> None:
        """Where that is asked for; `BenchmarkFailed` where it must be quiet and never is."""
        plan = self.configurations[0].plan
        if plan.wait_quiet_s is None and not plan.require_quiet:
            return
        self.progress.begin("prepare", "waiting for a quiet machine")
        why = wait_until_quiet(plan.wait_quiet_s or 0.0, self.progress.observer.stage)
        if why is None:
            return
        within = f" within {plan.wait_quiet_s:g} s" if plan.wait_quiet_s else ""
        sentence = f"the machine was not quiet{within}: {why}"
        if plan.require_quiet:
            raise BenchmarkFailed(f"{sentence} (--require-quiet)")
        for result in self.results:
            result.warn("never-quiet", f"{sentence}; it was measured all the same")

    def _set_noise(self) -> None:
        for number, result in enumerate(self.results):
            result.noise = self._noise.noise_of(number)

    def _while_waiting(self) -> None:
        self.progress.tell_left()
        if self._watch is not None:
            self._watch.look()

    def save_if_due(self) -> None:
        if time.monotonic() - self._saved_at > max(_KEEP_EVERY_S, self._saving_s / _KEEP_SHARE):
            self.save()

    def save(self) -> None:
        """Hand the results so far to whoever saves them."""
        begun = time.monotonic()
        self._set_noise()
        for configuration in self.configurations:
            configuration.keep()
        self._after_save(self.not_opened)
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - begun


def _forecast(configurations: Sequence[Configuration]) -> Forecast:
    modes = sum(len(it.plan.modes) for it in configurations)
    forecast = [option for option, (_, it) in features.passes().items() if it.is_forecast]
    passes = sum(len(it.plan.modes) * sum(map(it.plan.has_pass, forecast)) for it in configurations)
    switch = sum(it.steps_after_blocks for it in configurations)
    plan = configurations[0].plan
    loop = replace(plan.loop, duration_s=max(plan.loop.duration_s, plan.paced_block_s))
    return Forecast(loop, len(configurations), modes, passes=passes, switch=switch)
