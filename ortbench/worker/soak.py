"""Requests of a soak: inferences in a given order of shapes, and what the worker's process holds after them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortbench.model.modes import LATENCY
from ortbench.plan.target import inputs_from
from ortbench.worker import measuring
from ortbench.worker.state import State
from ortbench.worker.stream import Stream, closed, made
from ortbench.worker.timing import HostTime, no_garbage_collection

if TYPE_CHECKING:
    from ortbench.model.protocol import Samples, TracedSamples
    from ortbench.model.schema import ProcessReading


def soak_begin(state: State, mode: str, inputs: Sequence[dict[str, Any]], reopen: int | None) -> dict[str, object]:
    """Make the inputs of all shapes, so that they do not look like growth. With `reopen` the mode is gone with its session."""
    opened = state.opened
    arrays = made(opened.path, opened.model, [inputs_from(it) for it in inputs]) or [opened.data.arrays]
    if inputs or reopen is not None:
        state.stream = Stream(opened.path, opened.model, arrays, reopen)
    if reopen is not None:
        del state.modes[mode], state.ranges[mode]
        opened.model = closed(opened.model)
    return {}


def soak_block(
    state: State, mode: str, n: int, order: Sequence[int] | None, drop: int = 0, timeline: bool = False
) -> Samples:
    """Time n inferences, in an order of shapes where there are several, and read what the process holds then. The first `drop` of the
    order are run before."""
    if state.stream is None:
        return {**measuring.block(state, mode, LATENCY, n, drop, timeline), "reading": reading()}
    order = [0] * n if order is None else order
    starts: list[int] | None = [] if timeline else None
    state.stream.run(order[:drop])
    host, start = HostTime(), time.perf_counter_ns()
    with no_garbage_collection():
        host.begin()
        samples = state.stream.run(order[drop:], starts)
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
    process = psutil.Process()
    handles = getattr(process, "num_handles", None) or getattr(process, "num_fds", None)
    return {
        "resident": process.memory_info().rss,
        "private": getattr(process.memory_full_info(), "uss", None),
        "handles": None if handles is None else handles(),
        "threads": process.num_threads(),
    }
