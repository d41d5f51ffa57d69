"""One plan and its worker: opens it, has modes set up and blocks timed, and keeps whatever is measured as a result."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ortbench import __version__
from ortbench.analysis import gpu_activity
from ortbench.analysis.hidden_copies import hidden
from ortbench.analysis.link import add_shares
from ortbench.analysis.pairs import block_medians, shared
from ortbench.errors import BadInput, BenchmarkFailed, OrtbenchError, Unsupported
from ortbench.files import sha256
from ortbench.measure.environment import load_average
from ortbench.measure.gpus import Reading, what_moved
from ortbench.measure.process import Client, WorkerLost, open_worker, worker_for
from ortbench.measure.schedule import Block
from ortbench.modes import CPU, CPU_TENSOR_MODES, DEVICE, HOST_ACCESSIBLE, PIPELINED, RESIDENT, TOTAL
from ortbench.options import settings
from ortbench.plan import POLICIES, Plan, is_nvidia
from ortbench.result import FAILED, OK, PHASE_NAMES, UNSUPPORTED, Case, Result
from ortbench.stats import paired_ratio, summarise
from ortbench.timeline import Failure, Node, Span, TimedBlock, Timeline

# Enough profiled runs for a median, and not much more than a second of them.
_PROFILED_NS = 1_000_000_000
_PROFILED_RUNS = (3, 20)


@dataclass
class _Samples:
    """What one mode has given so far."""

    by_phase: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    blocks: dict[str, list[list[int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, block: Block[Any], answer: dict[str, Any]) -> None:
        self.by_phase[block.phase].extend(answer["samples"])
        self.blocks[block.phase].append([block.round, block.n, answer["start_ns"]])


def _nowhere(_: Result) -> None:
    """Nobody keeps it."""


class Side:
    """One worker's part of a run, and the result it becomes.

    Args:
        plan: what to do, already checked.
        client: the worker, if it is there already and has been sent the plan's `worker_request`.
        keep: saves the result so far; called whenever more is known.
        name: what messages call it; by default its EP.
        timeline: where to write down what happens when; None where nobody wants to know.
    """

    def __init__(
        self,
        plan: Plan,
        client: Client | None = None,
        keep: Callable[[Result], None] = _nowhere,
        name: str | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.plan = plan
        self.name = name or plan.target.ep
        self.timeline = timeline
        self._client = client
        self._keep = keep
        self._cases = {mode: Case(mode) for mode in plan.modes}
        self._samples = {mode: _Samples() for mode in plan.modes}
        self._prepared: dict[str, dict[str, Any]] = {}
        self.result = Result(
            tool={"name": "ortbench", "version": __version__},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=list(plan.command),
            cases=list(self._cases.values()),
        )

    @property
    def modes(self) -> list[str]:
        """The modes that are set up and have not failed."""
        return list(self._prepared)

    @property
    def is_open(self) -> bool:
        """Whether the model was opened, so that the result is whole in itself."""
        return bool(self.result.target)

    # The worker

    def start(self) -> None:
        """Have a worker begin to load the model."""
        if self._client is None:
            self._client = open_worker(self.plan)

    def open(self, environment: dict[str, Any], run_id: str) -> None:
        """Wait until the model is open, and describe it.

        Raises:
            BadInput, BenchmarkFailed: it cannot be opened.
        """
        model = Path(self.plan.model)
        self.result.environment = environment
        self.result.model = {"path": str(model), "sha256": sha256(model)}
        self._describe(self._receive_opened("loading"), run_id)

    def _receive_opened(self, stage: str) -> dict[str, Any]:
        """What the worker says of the model that it was sent when it was started."""
        started = self._worker.started_ns
        with self._stage(stage, started) as parts:
            opened: dict[str, Any] = self._worker.receive()
            parts.append(("starting the worker with ONNX Runtime", started, opened["stages"][0][1] - started))
            parts += opened["stages"]
        return opened

    @property
    def _worker(self) -> Client:
        assert self._client is not None, "the side was not started"
        return self._client

    def pause(self) -> None:
        """Stop the worker, so that it takes nothing from another one; `resume` lets it go on."""
        if self._client is not None:
            self._client.pause()

    def resume(self) -> None:
        """Let the worker go on after `pause`."""
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

    def close(self) -> None:
        """End the worker."""
        if self._client is not None:
            self._client.close()

    @contextmanager
    def _stage(self, name: str, begun: int | None = None) -> Iterator[list[tuple[str, int, int]]]:
        """A stage of the timeline, however it ends; takes its parts: name, start and duration."""
        begun = time.perf_counter_ns() if begun is None else begun
        parts: list[tuple[str, int, int]] = []
        try:
            yield parts
        finally:
            if self.timeline is not None:
                whole = Span(name, begun, time.perf_counter_ns() - begun)
                self.timeline.stages += [whole, *(Span(*part) for part in parts)]

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask the worker; see `ortbench.measure.process.Client.ask`."""
        return self._worker.ask(do, **arguments)

    def _describe(self, opened: dict[str, Any], run_id: str) -> None:
        result, plan = self.result, self.plan
        result.environment.update(opened["runtime"])
        result.model.update(inputs=opened["inputs"], outputs=opened["outputs"])
        result.target = {
            "ep": opened["ep"],
            "ep_requested": plan.target.ep,
            "policy": POLICIES.get(plan.target.ep),
            "ep_library": opened["library"],
            "ep_version": opened["version"],
            "device": opened["device"],
            "memory": opened["memory"],
            "fence": None,
            **settings(plan.target),
        }
        if plan.measure_copies and not is_nvidia(opened["ep"]):
            reason = f"is by NVIDIA's CUPTI, which sees nothing of {opened['ep']}: leave it out"
            raise BadInput(f"--measure-copies {reason}", "--measure-copies")
        result.placement = opened["placement"]
        result.setup = {
            "run_id": run_id,
            "session_ns": opened["session_ns"],
            "engine_cache": opened["engine_cache"],
            "first_run_ns": opened["first_run_ns"],
            "seed": plan.inputs.seed,
            "expected_outputs": opened["expected"],
        }
        for note in opened["notes"]:
            result.warn(note["code"], note["message"])
        if opened["guessed_dims"]:
            names = ", ".join(opened["guessed_dims"])
            result.warn("dims-set-to-1", f"symbolic dimensions set to 1: {names}; give others with --dim or --shape")
        for case in self._cases.values():
            if opened["unsupported"] is not None:
                case.status, case.reason = UNSUPPORTED, opened["unsupported"]
        self._check_placement()

    def _check_placement(self) -> None:
        operators = self.result.placement["cpu_operators"]
        if not operators:
            return
        count = sum(operators.values())
        listed = ", ".join(f"{name} ({n})" if n > 1 else name for name, n in operators.items())
        memcpy = self.result.placement["memcpy_nodes"]
        copies = f"; {memcpy} Memcpy nodes copy between them in every run" if memcpy else ""
        message = f"{count} node(s) stay on the CPU: {listed}{copies}"
        if self.plan.target.require_placement:
            raise BenchmarkFailed(f"{message} (--require-placement)")
        self.result.warn("cpu-nodes", message)

    def _restart(self) -> None:
        """A fresh worker after one was lost, with every mode that is still to be measured; they fail if it cannot open."""
        self.close()
        self._client = open_worker(self.plan)
        try:
            self._receive_opened("loading again")
        except OrtbenchError as error:
            for mode in list(self._prepared):
                self.fail(mode, f"after the worker was lost the model could not be opened again: {error}")
            return
        for mode in [mode for mode in self.plan.modes if mode in self._prepared]:
            self.prepare(mode)

    # The modes

    def to_prepare(self) -> list[str]:
        """The modes that can be set up as far as is known."""
        return [mode for mode in self.plan.modes if self._cases[mode].status == OK]

    def prepare(self, mode: str) -> None:
        """Set a mode up in the worker; what it says becomes the case, whatever it is."""
        case = self._cases[mode]
        self._prepared.pop(mode, None)
        try:
            with self._stage(f"preparing {mode}") as parts:
                loop = self.plan.loop
                answer = self.ask("prepare", mode=mode, warmup=loop.warmup, depth=loop.depth)
                parts += answer["stages"]
        except Unsupported as error:
            case.status, case.reason = UNSUPPORTED, str(error)
        except WorkerLost as error:
            self.fail(mode, str(error))
            self._restart()
        except BenchmarkFailed as error:
            self.fail(mode, str(error))
            case.outputs_match = False if str(error).startswith("output ") else None
        else:
            self._prepared[mode] = answer
            case.bytes_in, case.bytes_out = answer["bytes_in"], answer["bytes_out"]
            case.fence, case.zero_copy = answer["fence"], answer["zero_copy"]
            case.pipeline = answer["pipeline"]
            case.external, case.graph = answer["external"], answer["graph"]
            case.runs_per_sample = answer["runs_per_sample"]
            case.outputs_match = True

    def reject(self, reason: str) -> None:
        """Give every mode up because its outputs are wrong."""
        for mode in self.to_prepare():
            self.fail(mode, reason)
            self._cases[mode].outputs_match = False

    def fail(self, mode: str, reason: str) -> None:
        """Give a mode up; what was measured of it is kept."""
        case = self._cases[mode]
        case.status, case.reason = FAILED, reason
        self._prepared.pop(mode, None)
        if self.timeline is not None:
            self.timeline.failures.append(Failure(mode, time.perf_counter_ns(), reason))

    def estimates_ns(self, mode: str) -> dict[str, float | None]:
        """About how long one iteration of each phase that is to be timed takes, by the warm-up; None without one."""
        phases = self.plan.loop.phases
        estimates: dict[str, float | None] = self._prepared[mode]["estimates_ns"]
        return {phase: ns for phase, ns in estimates.items() if phases is None or phase in phases}

    def block(self, mode: str, block: Block[Any]) -> dict[str, Any] | None:
        """Time one block and keep its samples; None if the mode failed in it, and the worker is up again for others."""
        more = {} if self.timeline is None else {"timeline": True}
        try:
            answer: dict[str, Any] = self.ask("block", mode=mode, phase=block.phase, n=block.n, drop=block.drop, **more)
        except WorkerLost as error:
            self.fail(mode, str(error))
            self._restart()
        except BenchmarkFailed as error:
            self.fail(mode, str(error))
        else:
            if self.timeline is not None:
                self.timeline.blocks.append(self._timed(mode, block, answer))
            self._samples[mode].add(block, answer)
            return answer
        return None

    def _timed(self, mode: str, block: Block[Any], answer: dict[str, Any]) -> TimedBlock:
        return TimedBlock(
            mode=mode,
            phase=block.phase,
            round=block.round,
            dropped=block.drop,
            first=len(self._samples[mode].by_phase[block.phase]),
            n=block.n,
            start_ns=answer["start_ns"],
            duration_ns=answer["spent_ns"],
            starts_ns=answer["starts_ns"],
            samples_ns=answer["calls_ns"],
        )

    def capture(self, on: bool) -> None:
        """Tell a profiler that what it is to record begins, or has ended; see `ortbench.worker.timing.Capture`."""
        try:
            answer = self.ask("capture", on=on)
        except BenchmarkFailed as error:
            self.result.warn("not-captured", f"the profiler was not told what to record: {error}")
            return
        self.result.setup["profiler_listens"] = answer["listening"]

    def finish(self, mode: str) -> None:
        """The outputs that the timed runs left, and what is measured only once."""
        case = self._cases[mode]
        try:
            with self._stage(f"checking {mode}"):
                answer = self.ask("finish", mode=mode)
        except BenchmarkFailed as error:
            self.fail(mode, str(error))
            if isinstance(error, WorkerLost):
                self._restart()
            return
        case.once = answer["once"]
        if answer["differs"] is not None:
            case.outputs_match = False
            self.fail(mode, f"after the timed runs: {answer['differs']}")

    def look_closer(self, tell: Callable[[str], None]) -> None:
        """After the measurement, for the timeline only: a close-up of every mode, and ONNX Runtime's own profile.

        What goes wrong costs the result nothing; the timeline says what it lacks.

        Args:
            tell: what is going on, in words.
        """
        assert self.timeline is not None
        if not self.modes:
            self.timeline.missing.append("close-ups and profiled runs: no mode is left to look at")
            return
        passes = [(f"close-up of {mode}", partial(self._close_up, self.timeline, mode)) for mode in self.modes]
        if not self.plan.nodes:  # else `profile_nodes` profiles them all the same
            passes.append(("profiled runs", partial(self._profile, self.timeline)))
        for name, go in passes:
            tell(f"{name} ({self.plan.target.ep})")
            try:
                with self._stage(name):
                    go()
            except OrtbenchError as error:
                self.timeline.missing.append(f"{name}: {error}")
                if isinstance(error, WorkerLost):
                    return

    def _close_up(self, timeline: Timeline, mode: str) -> None:
        inferences = self.ask("close_up", mode=mode)["inferences"]
        timeline.close_ups[mode] = [[Span(*step) for step in steps] for steps in inferences]

    def _profile(self, timeline: Timeline) -> None:
        self._show_profile(timeline, self.ask("profile"))

    def _show_profile(self, timeline: Timeline, answer: dict[str, Any]) -> None:
        timeline.profiled_runs = [Span(f"profiled run {number}", *run) for number, run in enumerate(answer["runs"], 1)]
        timeline.nodes = [Node.of(event) for event in answer["nodes"]]

    def describe_fence(self) -> None:
        """The fence of the target is that of device-resident runs, or of the first mode that is there."""
        for mode in (RESIDENT, *self.plan.modes):
            case = self._cases.get(mode)
            if case is not None and case.fence is not None and case.status == OK:
                self.result.target["fence"] = {key: case.fence[key] for key in ("kind", "cost_ns", "how")}
                return

    def describe_gpus(self, readings: Sequence[Reading]) -> None:
        """What NVML said while it was measured; on a machine without an NVIDIA GPU nothing."""
        if readings:
            self.result.environment["gpu_readings"] = list(readings)
        for sentence in what_moved(readings):
            self.result.warn("gpu-state", sentence)

    def end(self, why: str | None) -> None:
        """The measurement is over: bring the result to its final form."""
        self.result.stopped = why
        self.result.environment["load_average"]["end"] = load_average()
        for case in self._cases.values():
            if case.status == OK and not self._samples[case.mode].by_phase:
                case.status, case.reason = FAILED, "the run ended before it was measured"
        self.keep()

    def measure_copies(self) -> None:
        """Have CUPTI look into some runs, when all figures are there; what goes wrong is a warning."""
        modes = [mode for mode in self.modes if mode in gpu_activity.MODES]
        try:
            if not modes:
                raise BenchmarkFailed(f"none of {', '.join(gpu_activity.MODES)} was measured")
            for mode, found in self.ask("measure_copies", modes=modes, runs=self._profiled_runs()).items():
                case = self._cases[mode]
                case.measured = found
                if case.zero_copy is not None:
                    case.zero_copy = gpu_activity.zero_copy(case.zero_copy, found)
        except OrtbenchError as error:
            self.result.warn("copies-not-measured", f"--measure-copies gave nothing: {error}")

    def _profiled_runs(self) -> int:
        medians = [median for case in self.result.cases if (median := case.median(TOTAL))]
        slowest = max(medians, default=self.result.setup["first_run_ns"])
        least, most = _PROFILED_RUNS
        return int(max(least, min(most, _PROFILED_NS // max(slowest, 1))))

    def profile_nodes(self) -> None:
        """Profile some runs, in a worker of their own and when all figures are there: nothing of them may enter one."""
        runs, traced = self._profiled_runs(), self.timeline is not None
        try:
            with self._stage("profiling nodes"), worker_for(self.plan) as client:
                answer = client.ask("nodes", **self.plan.worker_request(), runs=runs, timeline=traced)
            self.result.nodes = answer["found"]
            if self.timeline is not None:
                self._show_profile(self.timeline, answer["profile"])
        except OrtbenchError as error:
            self.result.warn("nodes-failed", f"--nodes gave nothing: {error}")
            if self.timeline is not None:
                self.timeline.missing.append(f"profiled runs: {error}")
        self.keep()

    # The figures

    def keep(self) -> None:
        """Hand the result so far to whoever saves it."""
        self._summarise()
        self._keep(self.result)

    def _summarise(self) -> None:
        """Statistics of every case from its samples. A failed case keeps what was measured of it."""
        for mode, case in self._cases.items():
            taken = self._samples[mode]
            case.samples_ns = dict(taken.by_phase)
            case.blocks = dict(taken.blocks)
            for phase in PHASE_NAMES:
                if taken.by_phase.get(phase):
                    case.phases[phase] = summarise(taken.by_phase[phase], [size for _, size, _ in taken.blocks[phase]])
            if mode in (RESIDENT, HOST_ACCESSIBLE):  # inference is all there is to them
                case.phases["inference"] = case.phases["total"]
        for case in self.result.cases:  # found anew each time: a mode that has failed since takes no part
            case.vs_cpu = case.derived = None
        self._compare_with_cpu()
        self._derive_copies()
        self._describe_pipeline()
        add_shares(self.result)

    def _compare_with_cpu(self) -> None:
        """How many times as fast as `cpu` each mode is."""
        cpu = self.result.case(CPU)
        if cpu is None or cpu.phases[TOTAL] is None:
            return
        for case in self.result.cases:
            if case.status == OK and case.phases[TOTAL] is not None:
                case.vs_cpu = _ratio(cpu, case)

    def _derive_copies(self) -> None:
        """What must be copies of a run with CPU tensors: what device-resident has less."""
        resident = self.result.case(RESIDENT)
        inference = None if resident is None else resident.median(TOTAL)
        if inference is None or self.result.target["memory"]["kind"] == "host":
            return
        for case in filter(None, map(self.result.case, CPU_TENSOR_MODES)):
            total = case.median(TOTAL)
            if total is not None:
                case.derived = {"copies_ns": total - inference, "inference_ns": inference}

    def _describe_pipeline(self) -> None:
        """What mode `pipelined` hides, and how much that brings over mode `device`."""
        case, device = self._cases.get(PIPELINED), self.result.case(DEVICE)
        if case is not None and case.pipeline is not None:
            against = None if device is None or case.status != OK else _ratio(device, case)
            case.pipeline.update(hidden(case), vs_device=against)


def _ratio(base: Case, case: Case) -> dict[str, Any] | None:
    """How many times as fast as `base` a case is, with its 95 % interval, over paired blocks; None without any."""
    pairs = shared(block_medians(base, TOTAL), block_medians(case, TOTAL))
    if not pairs[0]:
        return None
    ratio = paired_ratio(*pairs)
    return {"ratio": round(ratio.ratio, 4), "ci95": ratio.ci95 and [round(x, 4) for x in ratio.ci95]}
