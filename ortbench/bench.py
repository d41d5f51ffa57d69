"""From a plan to a result: starts the worker, lets the schedule ask for blocks, keeps whatever is measured."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from ortbench import __version__
from ortbench.client import Client, WorkerLost, open_worker
from ortbench.environment import environment, load_average
from ortbench.errors import BenchmarkFailed, OrtbenchError, Unsupported
from ortbench.plan import CPU, HOST_ACCESSIBLE, RESIDENT, Plan
from ortbench.result import FAILED, OK, PHASE_NAMES, UNSUPPORTED, Case, Result
from ortbench.schedule import Block, Schedule, StopRule
from ortbench.stats import paired_ratio, summarise

# All cases grow together, block by block; how much of them a crash of this very process could cost.
_KEEP_EVERY_S = 5.0


class Observer:
    """What a run tells while it goes on; the default says nothing."""

    def stage(self, text: str) -> None:
        """A step before the measurement begins, in words."""

    def progress(self, share: float) -> None:
        """How much of the budget is spent, 0 to 1; called between blocks only."""

    def changed(self, result: Result) -> None:
        """More is known: the result so far, whole in itself."""


@dataclass
class _Samples:
    """What one mode has given so far."""

    by_phase: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    blocks: dict[str, list[list[int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, block: Block, answer: dict[str, Any]) -> None:
        self.by_phase[block.phase].extend(answer["samples"])
        self.blocks[block.phase].append([block.round, block.n, answer["start_ns"]])


class Bench:
    """One run.

    Args:
        plan: what to do, already checked.
        client: the worker, which has been sent the plan's `worker_request`; it is closed at the end.
        observer: told what happens.
        while_loading: called once while the worker loads the model, for what can be done in that time.
    """

    def __init__(
        self,
        plan: Plan,
        client: Client,
        observer: Observer | None = None,
        while_loading: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan = plan
        self._client = client
        self._observer = observer or Observer()
        self._while_loading = while_loading
        self._cases = {mode: Case(mode) for mode in plan.modes}
        self._samples = {mode: _Samples() for mode in plan.modes}
        self._prepared: dict[str, dict[str, Any]] = {}
        self._kept_at = time.monotonic()
        self.interrupted = False
        self.result = Result(
            tool={"name": "ortbench", "version": __version__},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=list(plan.command),
            cases=list(self._cases.values()),
        )

    def run(self) -> Result:
        """Measure, and return the result; after Ctrl-C or a lost worker, what there is of it.

        Raises:
            BadInput, BenchmarkFailed: before anything could be measured.
        """
        try:
            self._open()
            self._measure()
        except KeyboardInterrupt:
            if not self.result.target:
                raise
            self.interrupted = True
            self.result.stopped = "interrupted"
        finally:
            self._client.close()
        self.result.environment["load_average"]["end"] = load_average()
        for case in self._cases.values():
            if case.status == OK and not self._samples[case.mode].by_phase:
                case.status, case.reason = FAILED, "the run ended before it was measured"
        self._summarise()
        return self.result

    # The worker

    def _open(self) -> None:
        """Wait for the model to be open, and describe it and the machine meanwhile."""
        self._observer.stage(f"loading {Path(self._plan.model).name}")
        self.result.environment = environment()
        model = Path(self._plan.model)
        self.result.model = {"path": str(model), "sha256": sha256(model)}
        self._while_loading()
        self._describe(self._client.receive())

    def _describe(self, opened: dict[str, Any]) -> None:
        result, plan = self.result, self._plan
        result.environment.update(opened["runtime"])
        result.model.update(inputs=opened["inputs"], outputs=opened["outputs"])
        result.target = {
            "ep": opened["ep"],
            "ep_requested": plan.target.ep,
            "ep_library": opened["library"],
            "ep_version": opened["version"],
            "device": opened["device"],
            "memory": opened["memory"],
            "fence": None,
            "ep_options": dict(plan.target.options),
            "session_config": dict(plan.target.session_config),
            "threads": plan.target.threads,
            "opt_level": plan.target.opt_level,
        }
        result.placement = opened["placement"]
        result.setup = {
            "session_ns": opened["session_ns"],
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
        if self._plan.target.require_placement:
            raise BenchmarkFailed(f"{message} (--require-placement)")
        self.result.warn("cpu-nodes", message)

    def _ask(self, do: str, **arguments: Any) -> Any:
        return self._client.ask(do, **arguments)

    def _restart(self) -> None:
        """A fresh worker after one was lost, with every mode that is still to be measured; they fail if it cannot open."""
        self._client.close()
        self._client = open_worker(self._plan)
        try:
            self._client.receive()
        except OrtbenchError as error:
            for mode in list(self._prepared):
                self._fail(mode, f"after the worker was lost the model could not be opened again: {error}")
            return
        for mode in [mode for mode in self._plan.modes if mode in self._prepared]:
            self._prepare(mode)

    # The modes

    def _measure(self) -> None:
        for mode in self._plan.modes:
            if self._cases[mode].status == OK:
                self._observer.stage(f"preparing {mode}")
                self._prepare(mode)
        self._describe_fence()
        self._keep()
        if not self._prepared:
            self.result.stopped = "no mode left to measure"
            return
        schedule = self._schedule()
        while (block := schedule.next_block()) is not None:
            self._observer.progress(schedule.progress)
            answer = self._block(block)
            if answer is None:
                for mode in self._plan.modes:
                    if mode not in self._prepared:
                        schedule.remove(mode)
                self._keep()
                continue
            self._samples[block.mode].add(block, answer)
            schedule.add(block, answer["samples"], answer["spent_ns"])
            if time.monotonic() - self._kept_at > _KEEP_EVERY_S:
                self._keep()
        self.result.stopped = schedule.stopped
        self._observer.stage("checking outputs")
        for mode in list(self._prepared):
            self._finish(mode)

    def _prepare(self, mode: str) -> None:
        """Set a mode up in the worker; what it says becomes the case, whatever it is."""
        case = self._cases[mode]
        self._prepared.pop(mode, None)
        try:
            answer = self._ask("prepare", mode=mode, warmup=self._plan.loop.warmup)
        except Unsupported as error:
            case.status, case.reason = UNSUPPORTED, str(error)
        except WorkerLost as error:
            self._fail(mode, str(error))
            self._restart()
        except BenchmarkFailed as error:
            self._fail(mode, str(error))
            case.outputs_match = False if str(error).startswith("output ") else None
        else:
            self._prepared[mode] = answer
            case.bytes_in, case.bytes_out = answer["bytes_in"], answer["bytes_out"]
            case.fence, case.zero_copy = answer["fence"], answer["zero_copy"]
            case.outputs_match = True

    def _fail(self, mode: str, reason: str) -> None:
        case = self._cases[mode]
        case.status, case.reason = FAILED, reason
        self._prepared.pop(mode, None)

    def _schedule(self) -> Schedule:
        loop = self._plan.loop
        rule = StopRule(round(loop.duration_s * 1e9), loop.precision, loop.iterations)
        estimates = {mode: answer["estimates_ns"] for mode, answer in self._prepared.items()}
        return Schedule(estimates, rule, self._plan.inputs.seed)

    def _block(self, block: Block) -> dict[str, Any] | None:
        """One block's answer; None if the mode failed in it, and the worker is up again for the others."""
        try:
            answer: dict[str, Any] = self._ask("block", mode=block.mode, phase=block.phase, n=block.n, drop=block.drop)
            return answer
        except WorkerLost as error:
            self._fail(block.mode, str(error))
            self._restart()
        except BenchmarkFailed as error:
            self._fail(block.mode, str(error))
        return None

    def _finish(self, mode: str) -> None:
        """The outputs that the timed runs left, and what is measured only once."""
        case = self._cases[mode]
        try:
            answer = self._ask("finish", mode=mode)
        except BenchmarkFailed as error:
            self._fail(mode, str(error))
            if isinstance(error, WorkerLost):
                self._restart()
            return
        case.once = answer["once"]
        if answer["differs"] is not None:
            case.outputs_match = False
            self._fail(mode, f"after the timed runs: {answer['differs']}")

    def _describe_fence(self) -> None:
        """The fence of the target is that of device-resident runs, or of the first mode that is there."""
        for mode in (RESIDENT, *self._plan.modes):
            case = self._cases.get(mode)
            if case is not None and case.fence is not None and case.status == OK:
                self.result.target["fence"] = {key: case.fence[key] for key in ("kind", "cost_ns", "how")}
                return

    # The figures

    def _keep(self) -> None:
        """Hand the result so far to whoever saves it."""
        self._summarise()
        self._observer.changed(self.result)
        self._kept_at = time.monotonic()

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
        self._compare()

    def _compare(self) -> None:
        """What needs two cases: the ratio to `cpu`, and the share of `cpu` that must be copies.

        Found anew each time: a mode that has failed since takes no part.
        """
        for case in self.result.cases:
            case.vs_cpu = case.derived = None
        cpu = self.result.case(CPU)
        if cpu is None or cpu.phases["total"] is None:
            return
        for case in self.result.cases:
            if case.status == OK and case.phases["total"] is not None:
                ratio = paired_ratio(*_paired_medians(self._samples[CPU], self._samples[case.mode]))
                case.vs_cpu = {"ratio": round(ratio.ratio, 4), "ci95": ratio.ci95 and [round(x, 4) for x in ratio.ci95]}
        resident = self.result.case(RESIDENT)
        on_host = self.result.target["memory"]["kind"] == "host"
        if resident is not None and resident.phases["total"] is not None and not on_host:
            inference = resident.phases["total"].median_ns
            cpu.derived = {"copies_ns": cpu.phases["total"].median_ns - inference, "inference_ns": inference}


def _paired_medians(one: _Samples, other: _Samples) -> tuple[list[float], list[float]]:
    """Medians of the `total` blocks of two modes, of the rounds that have both."""
    sides = []
    for taken in (one, other):
        at, medians = 0, {}
        for number, size, _ in taken.blocks["total"]:
            medians[number] = median(taken.by_phase["total"][at : at + size])
            at += size
        sides.append(medians)
    shared = sorted(sides[0].keys() & sides[1].keys())
    return [sides[0][number] for number in shared], [sides[1][number] for number in shared]


def sha256(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
