"""One plan and its worker: opens it, has modes set up and blocks timed, and keeps whatever is measured as a result.

What the driver asks of series: a kind overrides `open`, `prepare`, `block` and `finish`, and what else it does otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.analysis.derive import derive
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, Unsupported, WrongOutputs
from ortbench.core.files import ModelFiles
from ortbench.measure.describe import describe, describe_finished, describe_prepared, new_result, note_lost_engine
from ortbench.measure.environment import load_average
from ortbench.measure.gpus import Watch
from ortbench.measure.noise import Meter
from ortbench.measure.process import Client, WorkerLost, open_worker, worker_for
from ortbench.measure.progress import Progress
from ortbench.measure.schedule import (
    Block,
    Schedule,
    Series,
    add_host_time,
    stage_samples,
    streams,
    timed_block,
    token_samples,
)
from ortbench.model.modes import LATENCY, PACED, READBACK, RUN, SYNCS, is_rate
from ortbench.model.protocol import Captured, Failure, Finished, Opened, Prepared, Samples, Span, Stage, Timeline
from ortbench.model.result import FAILED, NOT_MEASURED, OK, UNSUPPORTED, Case, Result
from ortbench.model.schema import Machine, Stopped
from ortbench.plan.plan import Plan
from ortbench.plan.target import Target


class Configuration:
    """One worker's part of a measurement, and the result it becomes.

    Args:
        client: the worker, if it is there already and has been sent the plan's `worker_request`.
        keep: saves the result so far; called whenever more is known.
        name: what messages call it; by default its EP.
        timeline: where to write down what happens when; None where nobody wants to know.

    Attributes:
        while_waiting: called each second for which the worker is waited for.
        kept: by option, what a pass of its worker keeps for the part that is done apart.
    """

    per = "mode"  # what a series is, in words
    schedule: type[Schedule[Series]] = Schedule  # of its rounds
    may_renew = True  # may be measured in several processes
    must_open = False  # also where others open
    can_look_inside = True  # at GPUs, while a block lasts
    watches_gpus = True
    leaves_out_throttled = True  # rounds while a GPU was throttled
    has_close_ups = True  # for a timeline
    steps_after_blocks = 0  # that the forecast counts on
    watch: Watch | None = None  # at GPUs, from when it is measured on
    _not_again = "the model could not be opened again"

    def __init__(
        self,
        plan: Plan,
        client: Client | None = None,
        keep: Callable[[Result], None] = lambda _: None,
        name: str | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.plan = plan
        self.models = [plan.model, *(it.model for it in plan.stages)]
        self.model_files = ModelFiles(self.models)
        self.name = name or plan.target.ep
        self.warmup_ns = plan.loop.warmup_ns  # of the next mode
        self._least_sync: dict[str, str] = {}  # by mode, the cheapest one that did not return early in any process
        self.timeline = timeline
        self._client = client
        self._spares: list[Client] = []  # workers that were started and wait
        self.while_waiting: Callable[[], None] = lambda: None
        self.kept: dict[str, Any] = {}
        self._keep = keep
        self.cases = {mode: Case(mode) for mode in plan.modes}
        self._prepared: dict[str, Prepared] = {}
        self.result = new_result(plan.command, cases=list(self.cases.values()), note=plan.note, name=plan.name)

    @property
    def modes(self) -> list[str]:
        """The modes that are set up and have not failed."""
        return list(self._prepared)

    @property
    def title(self) -> str:
        return f"{Path(self.plan.model).name} ({self.name})"

    @property
    def is_open(self) -> bool:
        """Whether the model was opened, so that the result is whole in itself."""
        return bool(self.result.target)

    def is_too_late(self, opened: int) -> bool:
        """Whether there is no time to open it, beside so many others."""
        return False

    def accepts(self) -> str:
        """What an open model or chain is run on, in a text: the same for configurations whose outputs must be the same too."""
        # Of what is left out the result has what came of it.
        given = replace(self.plan.inputs, shapes={}, dims={}, lengths={}, expect=None)
        inputs = [(it["name"], it["type"], it.get("tensors", it["shape"])) for it in self.result.model["inputs"]]
        stages = [(it.inputs, it.steps.fill, it.steps.first_dims) for it in self.plan.stages]
        return f"{inputs} {given} {stages}"

    def start(self) -> None:
        if self._client is None:
            self._client = open_worker(self.plan, *self._spares[:1])
            del self._spares[:1]

    def open(self, machine: Machine, run_id: str) -> None:
        """Wait until the model is open, and describe it; `BadInput` or `BenchmarkFailed` where it cannot be opened."""
        for model in self.models:
            self.model_files.digest(model)  # while the worker loads them
        opened = self._receive_opened("loading")
        describe(self.result, self.plan, machine, self.model_files, run_id, opened)
        is_on_host = self.result.target["memory"]["kind"] == "host"
        if is_on_host and self.plan.loop.until_agreed:  # no link is copied over: the time tells more of the latency
            self.plan = replace(self.plan, loop=replace(self.plan.loop, phases=(LATENCY,)))
        if is_on_host and self.plan.on_host:
            self.plan = replace(self.plan, modes=self.plan.on_host)
            self.cases = {mode: self.cases[mode] for mode in self.plan.modes}
            self.result.cases = list(self.cases.values())

    def _receive_opened(self, stage: str) -> Opened:
        started = self.worker.started_ns
        with self.stage(stage, started) as parts:
            with self.same_model():
                opened: Opened = self.worker.receive()
            parts.append(("starting the worker with ONNX Runtime", started, opened["stages"][0][1] - started))
            parts += opened["stages"]
        return opened

    @contextmanager
    def same_model(self) -> Iterator[None]:
        """Inside the block another process opens the model, which is to be as it was; `BenchmarkFailed` where it is not."""
        try:
            yield
        except OrtbenchError:
            self.model_files.check()
            raise
        self.model_files.check()

    @property
    def worker(self) -> Client:
        assert self._client is not None, "the configuration was not started"
        self._client.while_waiting, self._client.name = self.while_waiting, self.name
        return self._client

    def pause(self) -> None:
        """Stop the worker, so that it takes nothing from another one; `resume` lets it go on."""
        if self._client is not None:
            self._client.pause()

    def resume(self) -> None:
        if self._client is not None:
            self._client.resume()

    def release(self) -> None:
        """End the session in order where its EP keeps something for the next one, which it may write only then."""
        if self.plan.target.engine_cache is None:
            return
        try:
            self.ask("release")
        except OrtbenchError as error:
            self.result.warn(
                "engine-not-kept", f"the session did not end in order, the engine may not be kept: {error}"
            )
        note_lost_engine(self.result)

    @property
    def pids(self) -> list[int]:
        """The processes that time its blocks."""
        return [self.worker.pid]

    def reason_without_worker(self, error: WorkerLost) -> Stopped:
        """Why the measurement ended, where it could not go on without a worker; raises the error where there is nothing to keep."""
        raise error

    def close(self) -> None:
        self._close_worker()
        while self._spares:
            self._spares.pop().close()

    def _close_worker(self) -> None:
        if self._client is not None:
            self._client.close()

    def start_spares(self, count: int) -> None:
        """Start the workers of so many processes, but for the one that it has, which load ONNX Runtime while the first one opens the model."""
        self._spares = [worker_for(self.plan) for _ in range(count - (self._client is not None))]

    def await_spares(self) -> None:
        """Wait until they are idle, so that nothing of them runs beside what is measured."""
        self._spares = [it for it in self._spares if it.is_loaded()]

    @contextmanager
    def stage(self, name: str, begun: int | None = None) -> Iterator[list[Stage]]:
        """A stage of the timeline, however it ends; takes its parts: name, start and duration."""
        begun = time.perf_counter_ns() if begun is None else begun
        parts: list[Stage] = []
        try:
            yield parts
        finally:
            if self.timeline is not None:
                whole = Span(name, begun, time.perf_counter_ns() - begun)
                self.timeline.stages += [whole, *(Span(*part) for part in parts)]

    def ask(self, do: str, **arguments: Any) -> Any:
        return self.worker.ask(do, **arguments)

    def restart(self) -> None:
        """A fresh worker after one was lost, with every mode that is still to be measured; they fail if it cannot open."""
        self._set_up_again(f"after the worker was lost {self._not_again}", self._start_again)

    def check(self) -> None:
        """What is checked at the end of a worker, before another one goes on."""
        for mode in self.modes:
            self.finish(mode, goes_on=True)

    def settle(self, mode: str) -> None:
        """What was measured of a mode is enough: it is in no further process."""
        del self._prepared[mode]

    def has_lasting_sync(self, mode: str) -> bool:
        """Whether what ends a mode's samples did not come to return early by the end of a process."""
        sync = self.cases[mode].sync
        return sync is None or self._least_sync.get(mode, sync["kind"]) == sync["kind"]

    def begin_process(self, number: int, round: int) -> None:
        """Go on in another worker, the `number`th, from this round on; what does not run there fails."""
        syncs = {mode: self.cases[mode].sync for mode in self.modes}
        self.warmup_ns = self.plan.loop.warmup_again_ns
        self._set_up_again(f"in process {number} {self._not_again}", self._start_again)
        for mode in self.modes:
            case = self.cases[mode]
            case.processes = [*(case.processes or [0]), round]
            # The first process says what ends samples; those that ended by what returned early in this one are left out.
            first = syncs[mode]
            if first and case.sync and case.sync["kind"] != first["kind"] and case.mode in self._least_sync:
                self.result.warn(
                    "synchronization-differs",
                    f"in process {number} {first['kind']} returned before the device had finished with {case.mode}, so its samples of the processes "
                    f"before are left out; what waits for its inferences now is {case.sync['kind']}",
                )
                case.samples.clear()
                case.blocks.clear()
                (case.block_medians or {}).clear()
                case.host, case.processes = None, [round]
            else:
                case.sync = first

    def _start_again(self) -> None:
        self._close_worker()
        plan, target = self.plan, self.plan.target
        if (target.ep, target.library, self.result.target["ep"]) == (Target().ep, None, CPU_EP):
            plan = replace(plan, target=replace(target, ep=CPU_EP))  # which another search would find, as slowly
        self._client = open_worker(plan, *self._spares[:1])
        del self._spares[:1]

    def _set_up_again(self, lacking: str, start: Callable[[], None] = lambda: None) -> None:
        try:
            start()
            self._receive_opened("loading again")
        except OrtbenchError as error:
            for mode in list(self._prepared):
                self.fail(mode, f"{lacking}: {error}")
            return
        for mode in [mode for mode in self.plan.modes if mode in self._prepared]:
            self.prepare(mode)

    def modes_to_prepare(self) -> list[str]:
        return [mode for mode in self.plan.modes if self.cases[mode].status == OK]

    def prepare(self, mode: str) -> None:
        """Set a mode up in the worker; what it says becomes the case, whatever it is."""
        case = self.cases[mode]
        self._prepared.pop(mode, None)
        try:
            with self.stage(f"preparing {mode}") as parts:
                loop = self.plan.loop
                answer: Prepared = self.ask(
                    "prepare",
                    mode=mode,
                    warmup=loop.warmup,
                    depth=loop.depth,
                    warmup_ns=self.warmup_ns,
                    least_sync=self._least_sync.get(mode, RUN),
                )
                parts += answer["stages"]
        except Unsupported as error:
            if case.samples:  # in the process before
                self.fail(mode, str(error))
            else:
                case.status, case.reason = UNSUPPORTED, str(error)
        except BenchmarkFailed as error:
            self._give_up(mode, error)
            if isinstance(error, WrongOutputs):
                case.checks["outputs"] = {"verdict": "failed", "how": str(error)}
        else:
            self._prepared[mode] = answer
            self.warmup_ns = self.plan.loop.warmup_again_ns
            if "stage_bytes" not in answer and answer["sync"]["kind"] in SYNCS:
                self._least_sync[mode] = answer["sync"]["kind"]
            describe_prepared(case, answer)

    def prepare_all(self, progress: Progress) -> None:
        """What is prepared when all modes are."""

    def _give_up(self, mode: str, error: BenchmarkFailed) -> None:
        """Fail a mode that the worker failed at, or was lost in; it is up again for others then."""
        self.fail(mode, str(error))
        if isinstance(error, WorkerLost):
            self.restart()

    def reject(self, reason: str) -> None:
        for mode in self.modes_to_prepare():
            self.fail(mode, reason)
            self.cases[mode].checks["outputs"] = {"verdict": "failed", "how": reason}

    def fail(self, mode: str, reason: str) -> None:
        """Give a mode up; what was measured of it is kept."""
        case = self.cases[mode]
        case.status, case.reason = FAILED, reason
        self._prepared.pop(mode, None)
        if self.timeline is not None:
            self.timeline.failures.append(Failure(mode, time.perf_counter_ns(), reason))

    @property
    def first_ns(self) -> int:
        return self.result.setup["first_inference_ns"]

    def estimates_ns(self, mode: str) -> dict[str, float | None]:
        """About how long one iteration of each phase that is to be timed takes, by the warm-up; None without one."""
        phases, every_ns = self.plan.loop.phases, self.plan.pace.every_ns
        known = self._prepared[mode]["estimates_ns"].items()
        estimates = {phase: ns for phase, ns in known if phases is None or phase in phases}
        return estimates if every_ns is None or is_rate(mode, LATENCY) else {**estimates, PACED: every_ns}

    def block(self, block: Block[Series]) -> Samples | None:
        """Time one block and keep its samples; None if the mode failed in it, and the worker is up again for others."""
        mode = block.series.mode
        more: dict[str, Any] = {} if self.timeline is None else {"timeline": True}
        if block.phase == PACED:
            more["every_ns"] = self.plan.pace.every_ns
        try:
            answer = self.ask("block", mode=mode, phase=block.phase, n=block.n, drop=block.drop, **more)
        except BenchmarkFailed as error:
            self._give_up(mode, error)
            return None
        if self.timeline is not None:
            first = len(self.cases[mode].samples.get(block.phase, ()))
            self.timeline.blocks.append(timed_block(block, answer, first))
        timed: Samples = answer
        case = self.cases[mode]
        for phase, samples in self.streams(block, timed).items():
            case.samples.setdefault(phase, []).extend(samples)
            case.blocks.setdefault(phase, []).append([block.round, len(samples), timed["start_ns"]])
        add_host_time(case, timed, block.n * case.inferences(block.phase))
        return timed

    def streams(self, block: Block[Series], answer: Samples) -> dict[str, list[int] | list[float]]:
        """The samples of a block and of what comes with it, by phase; see `ortbench.measure.schedule.streams`."""
        runs = block.n * self.cases[block.series.mode].inferences(block.phase)
        return streams(answer, block.phase, runs, part=self.plan.work.part)

    def samples_for_verdict(self, block: Block[Series], answer: Samples) -> dict[str, list[int] | list[float]]:
        """The same, and of chains each of the stages by itself, of loops that generate the first token and later ones."""
        work = self.plan.work
        return {**self.streams(block, answer), **stage_samples(answer, work.stages), **token_samples(answer, work)}

    def shown_samples(self, block: Block[Series], answer: Samples) -> Sequence[tuple[str, Sequence[float], str | None]]:
        """What a block adds to the estimates that are shown: of what, durations, ns, or a rate, and the unit of a rate."""
        return [(block.series.mode, answer["samples"], None)] if block.phase == LATENCY else []

    def rows(self) -> Sequence[tuple[str, str]]:
        """What is shown besides estimates."""
        return []

    def add_noise(self, noise: Meter, number: int, round: int) -> None:
        """What is known of the noise in the last block, besides what is read from its processes."""

    def drop_left_out(self) -> None:
        """Leave the blocks of rounds that figures are without out of the timeline, and say so there."""
        throttled = self.result.throttled
        if self.timeline is None or throttled is None or not throttled["left_out"]:
            return
        rounds = set(throttled["rounds"])
        self.timeline.keep_rounds(lambda number: number not in rounds)
        self.timeline.missing.append(f"{len(rounds)} rounds of blocks while the GPU was throttled")

    def downsample(self, every: int) -> None:
        """Leave the blocks of all but each nth round out of the timeline, as they are out of the samples, and say so once."""
        if self.timeline is not None:
            self.timeline.keep_rounds(lambda number: number % every == 0)
        code = "samples-downsampled"
        self.result.warnings[:] = [it for it in self.result.warnings if it["code"] != code]
        note = f"it keeps 1 in {every} rounds, and times, page faults and switches are of these"
        self.result.warn(code, f"more inferences were timed than a result holds: {note}")

    def capture(self, on: bool) -> None:
        """Tell a profiler that what it is to record begins, or has ended; see `ortbench.worker.timing.Capture`."""
        try:
            answer: Captured = self.ask("capture", on=on)
        except BenchmarkFailed as error:
            self.result.warn("not-captured", f"the profiler was not told what to record: {error}")
            return
        self.result.setup["profiler_listens"] = answer["listening"]

    def after_blocks(self, progress: Progress) -> None:
        """What else is timed, before the outputs of all that ran are checked."""

    def finish(self, mode: str, goes_on: bool = False) -> None:
        """The outputs that the timed runs left, and what is measured only once. A synchronization that came to return early fails the mode,
        unless it `goes_on` in another process, which has a better one."""
        case = self.cases[mode]
        try:
            with self.stage(f"checking {mode}"):
                answer: Finished = self.ask("finish", mode=mode)
        except BenchmarkFailed as error:
            self._give_up(mode, error)
            return
        describe_finished(self.result, case, answer)
        if answer["differs"] is not None:
            case.checks["outputs"] = {"verdict": "failed", "how": f"after the timed runs: {answer['differs']}"}
            self.fail(mode, f"after the timed runs: {answer['differs']}")
        elif answer["early"]:
            if (
                goes_on
                and mode in self._least_sync
                and not any(it.startswith(("h2d", "d2h")) for it in answer["early"])
            ):
                self._least_sync[mode] = READBACK
                return
            syncs = " and of ".join(answer["early"])
            self.fail(
                mode, f"after the timed runs: the device was not done when the synchronization of {syncs} returned"
            )

    def samples_apart(self) -> Any:
        """The samples that the result itself has not, of a kind that has a file for them; None of others."""

    def write_samples(self, folder: Path) -> None:
        """Write them beside the result."""

    def keep(self) -> None:
        """Hand the result so far to whoever saves it."""
        derive(self.result)
        self._keep(self.result)

    def end(self, why: Stopped | None, took_ns: int | None, lost: Collection[str] = ()) -> None:
        """The measurement is over, which took so long from its first block to its last: bring the result to its final form. Modes
        that are `lost` failed in a configuration, and are measured in none."""
        self.result.stopped, self.result.took_ns = why, took_ns
        self.result.environment["load_average"]["end"] = load_average()
        for case in self.cases.values():
            if case.status == OK and not case.samples:
                if why is not None and why["reason"] == "interrupted":
                    case.status, case.reason = NOT_MEASURED, "interrupted before its first block"
                    continue
                elsewhere = "not measured, because it failed in another configuration"
                case.status = FAILED
                case.reason = elsewhere if case.mode in lost else "the run ended before it was measured"
        self.keep()
