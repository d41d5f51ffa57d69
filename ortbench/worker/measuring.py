"""Requests about modes: set one up (its syncs and proofs, a check of its outputs, what warms it up), and its figures: blocks of
samples, and what is measured once.

And requests of a stream: inferences in a given order of shapes in mode `cpu-tensors`, or in a session that is closed and opened again now
and then, and what the worker's process holds after them.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput, BenchmarkFailed, NotWritten, WrongOutputs
from ortbench.core.units import size
from ortbench.model.modes import DEPTH, LATENCY, RUN, SYNCS, is_rate
from ortbench.plan.target import Inputs, inputs_from
from ortbench.worker import Stages, State, first_run, session, tensors
from ortbench.worker.input_arrays import resolve_shapes
from ortbench.worker.proofs import check_outputs, find_difference
from ortbench.worker.session import Model
from ortbench.worker.sync import Syncs
from ortbench.worker.tensors import Value, index_sizes
from ortbench.worker.timing import (
    Capture,
    HostTime,
    Ranges,
    TimedCall,
    no_garbage_collection,
    time_block,
    time_call,
    time_paced,
    warm_up,
)

if TYPE_CHECKING:
    from ortbench.model import protocol, schema
    from ortbench.model.protocol import Samples, TracedSamples
    from ortbench.model.schema import ProcessReading
    from ortbench.worker.memory import BoundTensor
    from ortbench.worker.mode_base import Mode


_ONCE_REPEATS = 5
_CLOSE_UPS, _CLOSE_UP_NS = 8, 1_000_000_000  # a slow model is looked at fewer times


def prepare(
    state: State, mode: str, warmup: int | None, depth: int = DEPTH, warmup_ns: int = 0, least_sync: str = RUN
) -> protocol.Prepared:
    """Set a mode up, prove its sync and what it claims, check its outputs, and warm it up: with `warmup` runs, or without a number with as
    many as fill `warmup_ns`, those of the proofs counted. Syncs cheaper than `least_sync` returned early elsewhere, and are not tried."""
    stages = Stages()
    cheaper = SYNCS[: SYNCS.index(least_sync)]
    try:
        with state.opened.model.syncs.excluding("run", cheaper) if cheaper else nullcontext():
            return _prepare(state, mode, warmup, warmup_ns, depth, stages)
    except WrongOutputs as error:
        raise WrongOutputs(f"{error}{tensors.random_nodes_note(state.opened.path)}") from None


def _prepare(
    state: State, mode: str, warmup: int | None, warmup_ns: int, depth: int, stages: Stages
) -> protocol.Prepared:
    tolerances = state.opened.request.rtol, state.opened.request.atol
    made, times = _make_checked(state, mode, depth, stages)
    syncs = made.syncs()
    earlier = {phase: [sync.proof.work_ns] for phase, sync in syncs.items() if sync.proof is not None}
    spent_ns = {phase: sync.spent_ns for phase, sync in syncs.items()}
    earlier[LATENCY] = times
    spent_ns[LATENCY] = sum(times) + sum(it.spent_ns for it in {id(it): it for it in syncs.values()}.values())
    results: dict[str, Any] = {}
    for proof in made.proofs(*tolerances, state.modes):
        start_ns = time.perf_counter_ns()
        results[proof.key] = proof.prove()
        spent_ns[LATENCY] += time.perf_counter_ns() - start_ns
        stages.end(proof.stage)
    estimates = {}
    for phase, call in made.phases().items():
        budget = warmup_ns if phase == LATENCY else warmup_ns // 5
        estimates[phase] = warm_up(call, warmup, budget - spent_ns.get(phase, 0), earlier.get(phase, ()))
        made.wait_idle()
    stages.end("warming up")
    state.modes[mode] = made
    state.ranges[mode] = made.set_ranges(Ranges(made))
    return {
        "bytes_in": made.bytes_in,
        "bytes_out": made.bytes_out,
        "sync": {
            **made.sync.to_dict(),
            "h2d": None if made.h2d_sync is None else made.h2d_sync.to_dict(),
            "d2h": None if made.d2h_sync is None else made.d2h_sync.to_dict(),
        },
        "zero_copy": results.get("zero_copy"),
        "external": results.get("external"),
        "graph": results.get("graph"),
        "places": _describe_memories(state, made),
        "pipeline": None,
        "inferences_per_sample": made.per_call if is_rate(mode, LATENCY) else None,
        "estimates_ns": estimates,
        "stages": stages.spans,
        **made.details(),  # type: ignore[typeddict-item]
    }


def _make_checked(state: State, mode: str, depth: int, stages: Stages) -> tuple[Mode, list[int]]:
    """A mode whose outputs are right, and what the calls of ``latency`` took that showed it, ns. What a few µs of work leave to wait for
    is less than a busy host can tell from nothing: where outputs are not there, the sync does not wait, and the next one is tried."""
    request = state.opened.request
    while True:
        made = state.opened.make(mode, depth)
        stages.end("binding, verifying the synchronization")
        try:
            return made, check_outputs(made, request.rtol, request.atol)
        except NotWritten:
            if made.sync.proof is None or not state.opened.model.syncs.refuse("run", made.sync.kind):
                raise
        finally:
            stages.end("comparing outputs")


def _describe_memories(state: State, mode: Mode) -> schema.TensorMemories:
    def describe(tensor: BoundTensor) -> schema.TensorMemory:
        why = tensor.reason or state.opened.host_reasons.get(tensor.name, "the session's memory info")
        return {"name": tensor.name, "memory": tensor.memory, "why": why, "usual": tensor.is_usual}

    ins, outs = mode.bound_tensors()
    return {"inputs": [*map(describe, ins)], "outputs": [*map(describe, outs)]}


def block(
    state: State, mode: str, phase: str, n: int, drop: int, timeline: bool = False, every_ns: int | None = None
) -> protocol.Samples:
    """Time one block; for a timeline also say when each sample began, and how long its call took. Where a call of ``latency`` makes several
    inferences, a sample is the time of one of them. With `every_ns` at least n calls begin one each so long."""
    made = state.modes[mode]
    if every_ns is not None:
        return paced_block(made, n, drop, every_ns, timeline)
    host = HostTime(made.enqueues().get(phase))
    starts: list[int] | None = [] if timeline else None
    made.records_starts = timeline
    start = time.perf_counter_ns()
    calls = time_block(made, state.ranges[mode], phase, n, drop, starts=starts, host=host)
    made.wait_idle()
    count = made.per_call if phase == LATENCY else 1
    samples, enqueues = (ns if count == 1 else [round(it / count) for it in ns] for ns in (calls, host.enqueues))
    answer: protocol.Samples = {"samples": samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start}
    if enqueues:
        answer["enqueues"] = enqueues
    if phase == LATENCY:
        answer["cpu"], answer["counts"] = host.cpu, host.counts
    step_times = made.take_times(n)
    if step_times is not None:
        answer["steps"] = step_times
    if starts is None:
        return answer
    traced: protocol.TracedSamples = {
        **answer,
        "starts_ns": starts,
        "calls_ns": calls,
        "step_starts_ns": made.take_starts(n),
    }
    return traced


def paced_block(made: Mode, n: int, drop: int, every_ns: int, timeline: bool) -> protocol.Samples:
    """A block of calls that begin at set moments."""
    start = time.perf_counter_ns()
    begin, calls = made.streams(drop)[0]
    paced = time_paced((begin, calls[:drop]), made.streams(n), every_ns)
    made.wait_idle()
    answer: protocol.Samples = {
        "samples": paced.samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start,
        "paced": {"cpu_ns": paced.cpu_ns, "missed": paced.missed},
    }  # fmt: skip
    if not timeline:
        return answer
    traced: protocol.TracedSamples = {
        **answer, "starts_ns": paced.starts, "calls_ns": paced.samples, "step_starts_ns": [],
    }  # fmt: skip
    return traced


def finish(state: State, mode: str) -> protocol.Finished:
    """After the last block: the outputs as the timed runs left them, copies that are made only once, and whether the syncs still wait."""
    made = state.modes[mode]
    wrong = find_difference(made, state.opened.request.rtol, state.opened.request.atol)
    if wrong is not None:
        wrong += tensors.random_nodes_note(state.opened.path)
    copies = made.one_time_copies()
    once: schema.Once | None = None
    if copies is not None:
        pairs = zip(copies, made.one_time_bytes, strict=True)
        upload, download = (
            sorted(time_call(copy) for _ in range(_ONCE_REPEATS))[_ONCE_REPEATS // 2] if count else 0
            for copy, count in pairs
        )
        once = {"h2d_ns": upload, "d2h_ns": download}
    alone = made.time_separately(_ONCE_REPEATS) if wrong is None else {}
    early = [f"{phase} ({sync.kind})" for phase, sync in made.syncs().items() if sync.returns_early()]
    return {"differs": wrong, "once": once, "early": early, **alone}  # type: ignore[typeddict-item]


def capture(state: State, on: bool) -> protocol.Captured:
    if state.capture is None:
        state.capture = Capture()
    if on:
        state.capture.begin()
    else:
        state.capture.end()
    return {"listening": state.capture.listening}


def time_steps(state: State, mode: str) -> protocol.StepTimes:
    return {"inferences": step_times(state.modes[mode])}


def step_times(
    mode: Mode, most: int = _CLOSE_UPS, budget_ns: int = _CLOSE_UP_NS, clock: Callable[[], int] = time.perf_counter_ns
) -> list[list[tuple[str, int, int]]]:
    """Time the steps of some inferences, after one that is not timed, for a timeline only: name, start and duration in ns of each. The clock
    is read between the work and its sync, which no sample may have inside it. One is always timed, none begun once the budget is spent."""
    steps = mode.steps()
    for _, call in steps:
        call()
    start_ns = clock()
    inferences: list[list[tuple[str, int, int]]] = []
    while not inferences or (len(inferences) < most and clock() - start_ns < budget_ns):
        taken = []
        for name, call in steps:
            start = clock()
            kept = call()
            taken.append((name, start, clock() - start))
            del kept  # freed outside the clock, as in a sample
        inferences.append(taken)
    return inferences


def measure_copies(state: State, modes: Sequence[str], runs: int) -> dict[str, schema.Measured]:
    from ortbench.worker import inspection  # most runs need none of it, and would wait for it

    return inspection.measure_copies({name: state.modes[name] for name in modes}, runs)


MOST_BYTES = 2 * 10**9  # of all inputs


def size_inputs(path: str, model: Model, requests: Sequence[Inputs]) -> list[Inputs]:
    """The same, which know how many entries integers index into; `BadInput` where the inputs of all take too much."""
    held = 0
    for request in requests:
        shapes, _ = resolve_shapes(model.inputs, request.shapes, request.dims)
        held += sum(spec.nbytes(shapes[spec.name]) for spec in model.inputs if spec.name in shapes)
    if held > MOST_BYTES:
        reason = f"{size(held)}, more than {size(MOST_BYTES)}: give fewer or smaller shapes"
        raise BadInput(f"the inputs of all {len(requests)} shapes take {reason}")
    sizes = index_sizes(path, model.inputs) if requests and requests[0].index_sizes is None else None
    return [it if sizes is None else replace(it, index_sizes=sizes) for it in requests]


def without_session(model: Model) -> Model:
    return replace(model, session=None, syncs=Syncs())


class Stream:
    """Calls, one a shape. With `reopen` the session ends after so many of them; nobody else may have it then."""

    def __init__(self, path: str, model: Model, arrays: Sequence[dict[str, Value]], reopen: int | None) -> None:
        self._path, self._model, self._arrays = path, model, arrays
        self._reopen = self._left = reopen
        self._calls = self._made_calls()

    def _made_calls(self) -> list[TimedCall]:
        return [first_run.cpu_call(self._model, arrays) for arrays in self._arrays]

    def run(self, order: Sequence[int], starts: list[int] | None = None) -> list[int]:
        """The durations of calls, ns, in an order of shapes; when they began is added to `starts`."""
        samples = []
        for at in order:
            if self._left is not None:
                if self._left == 0:
                    self._open_again()
                self._left = (self._left or self._reopen or 1) - 1
            call, a, b = self._calls[at]
            start = time.perf_counter_ns()
            kept = call(a, b)
            end = time.perf_counter_ns()
            del kept  # outside the clock
            samples.append(end - start)
            if starts is not None:
                starts.append(start)
        return samples

    def _open_again(self) -> None:
        self._calls.clear()
        self._model = without_session(self._model)
        gc.collect()
        self._model = session.open_model(self._path, self._model.target, self._model.provider)
        self._calls = self._made_calls()


def begin_stream(state: State, mode: str, inputs: Sequence[dict[str, Any]], reopen: int | None) -> dict[str, object]:
    """Make the inputs of all shapes, so that they do not look like growth. With `reopen` the mode is gone with its session."""
    opened = state.opened
    path, model = opened.path, opened.model
    if inputs or reopen is not None:
        requests = size_inputs(path, model, [inputs_from(it) for it in inputs])
        arrays = [first_run.make_inputs(path, model, it)[0] for it in requests] or [opened.data.arrays]
        state.others[Stream] = Stream(path, model, arrays, reopen)
    if reopen is not None:
        del state.modes[mode], state.ranges[mode]
        opened.model = without_session(opened.model)
    return {}


def time_stream(
    state: State, mode: str, n: int, order: Sequence[int] | None, drop: int = 0, timeline: bool = False
) -> Samples:
    """Time n inferences, in an order of shapes where there are several, and read what the process holds then. The first `drop` of the
    order are run before."""
    stream: Stream | None = state.others.get(Stream)
    if stream is None:
        return {**block(state, mode, LATENCY, n, drop, timeline), "reading": reading()}
    order = [0] * n if order is None else order
    starts: list[int] | None = [] if timeline else None
    stream.run(order[:drop])
    host, start = HostTime(), time.perf_counter_ns()
    with no_garbage_collection():
        host.begin()
        samples = stream.run(order[drop:], starts)
        host.end()
    spent = time.perf_counter_ns() - start
    answer: Samples = {
        "samples": samples, "start_ns": start, "spent_ns": spent, "cpu": host.cpu, "counts": host.counts, "reading": reading(),
    }  # fmt: skip
    if starts is None:
        return answer
    traced: TracedSamples = {**answer, "starts_ns": starts, "calls_ns": samples, "step_starts_ns": []}
    return traced


def reading() -> ProcessReading:
    """What this process holds now; None for what the system does not tell."""
    try:
        with open("/proc/self/smaps_rollup") as file:
            sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in file if line.endswith("kB\n")}
        return {
            "resident": sizes["Rss"],
            # Without what is mapped from files: that is private until another process maps the file too.
            "private": sizes["Anonymous"] + sizes["Swap"],
            "handles": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
        }
    except (OSError, LookupError):
        return _read_by_psutil()


def _read_by_psutil() -> ProcessReading:
    try:
        import psutil  # another environment may lack it
    except ImportError:
        return {"resident": None, "private": None, "handles": None, "threads": None}
    try:
        process = psutil.Process()
        handles = getattr(process, "num_handles", None) or getattr(process, "num_fds", None)
        return {
            "resident": process.memory_info().rss,
            "private": getattr(process.memory_full_info(), "uss", None),
            "handles": None if handles is None else handles(),
            "threads": process.num_threads(),
        }
    except (OSError, psutil.Error):
        raise BenchmarkFailed("the system does not tell how much memory this process has") from None
