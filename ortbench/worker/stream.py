"""Requests of a stream: inferences in a given order of shapes in mode `cpu-tensors`, or in a session that is closed and opened again now
and then, and what the worker's process holds after them."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.units import size
from ortbench.model.modes import LATENCY
from ortbench.plan.target import Inputs, inputs_from
from ortbench.worker import measuring
from ortbench.worker.inputs.arrays import resolve_shapes
from ortbench.worker.inputs.model_file import index_sizes
from ortbench.worker.proofs.sync import Syncs
from ortbench.worker.session import first_run, session
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Value
from ortbench.worker.state import State
from ortbench.worker.timing import HostTime, TimedCall, no_garbage_collection

if TYPE_CHECKING:
    from ortbench.model.protocol import Samples, TracedSamples
    from ortbench.model.schema import ProcessReading

MOST_BYTES = 2 * 10**9  # of all inputs


def sized(path: str, model: Model, requests: Sequence[Inputs]) -> list[Inputs]:
    """The same, which know how many entries integers index into; `BadInput` where the inputs of all take too much."""
    held = 0
    for it in requests:
        shapes, _ = resolve_shapes(model.inputs, it.shapes, it.dims)
        held += sum(spec.nbytes(shapes[spec.name]) for spec in model.inputs if spec.name in shapes)
    if held > MOST_BYTES:
        reason = f"{size(held)}, more than {size(MOST_BYTES)}: give fewer or smaller shapes"
        raise BadInput(f"the inputs of all {len(requests)} shapes take {reason}")
    sizes = index_sizes(path, model.inputs) if requests and requests[0].index_sizes is None else None
    return [it if sizes is None else replace(it, index_sizes=sizes) for it in requests]


def closed(model: Model) -> Model:
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
        self._model = closed(self._model)
        gc.collect()
        self._model = session.open_model(self._path, self._model.target, self._model.provider)
        self._calls = self._made_calls()


def begin_stream(state: State, mode: str, inputs: Sequence[dict[str, Any]], reopen: int | None) -> dict[str, object]:
    """Make the inputs of all shapes, so that they do not look like growth. With `reopen` the mode is gone with its session."""
    opened = state.opened
    path, model = opened.path, opened.model
    if inputs or reopen is not None:
        requests = sized(path, model, [inputs_from(it) for it in inputs])
        arrays = [first_run.make_inputs(path, model, it)[0] for it in requests] or [opened.data.arrays]
        state.others[Stream] = Stream(path, model, arrays, reopen)
    if reopen is not None:
        del state.modes[mode], state.ranges[mode]
        opened.model = closed(opened.model)
    return {}


def time_stream(
    state: State, mode: str, n: int, order: Sequence[int] | None, drop: int = 0, timeline: bool = False
) -> Samples:
    """Time n inferences, in an order of shapes where there are several, and read what the process holds then. The first `drop` of the
    order are run before."""
    stream: Stream | None = state.others.get(Stream)
    if stream is None:
        return {**measuring.block(state, mode, LATENCY, n, drop, timeline), "reading": reading()}
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
