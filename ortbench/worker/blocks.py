"""Requests for figures: blocks of samples, what is measured once, and the word to a profiler that they begin."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ortbench.model.modes import LATENCY
from ortbench.worker.host_time import HostTime
from ortbench.worker.proofs import random_nodes
from ortbench.worker.proofs.outputs import differences
from ortbench.worker.state import State
from ortbench.worker.timing import Capture, time_block

if TYPE_CHECKING:
    from ortbench.model.protocol import Captured, Finished, Samples, TracedSamples
    from ortbench.model.schema import Once

_ONCE_REPEATS = 5


def block(state: State, mode: str, phase: str, n: int, drop: int, timeline: bool = False) -> Samples:
    """Time one block; for a timeline also say when each sample began, and how long its call took.

    Where a call of ``latency`` makes several inferences, a sample is the time of one of them.
    """
    made = state.modes[mode]
    host = HostTime(made.submits().get(phase))
    starts: list[int] | None = [] if timeline else None
    made.notes_starts = timeline
    start = time.perf_counter_ns()
    calls = time_block(made, state.ranges[mode], phase, n, drop, starts=starts, host=host)
    made.rest()
    several = made.per_call if phase == LATENCY else 1
    samples, submits = (ns if several == 1 else [round(it / several) for it in ns] for ns in (calls, host.submits))
    answer: Samples = {"samples": samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start}
    if submits:
        answer["submits"] = submits
    if phase == LATENCY:
        answer["cpu"], answer["counts"] = host.cpu, host.counts
    parts = made.take_times(n)
    if parts is not None:
        answer["steps"] = parts
    if starts is None:
        return answer
    traced: TracedSamples = {**answer, "starts_ns": starts, "calls_ns": calls, "step_starts_ns": made.take_starts(n)}
    return traced


def finish(state: State, mode: str) -> Finished:
    """After the last block: the outputs as the timed runs left them, the copies that are made only once, and whether
    the fences still wait."""
    made = state.modes[mode]
    wrong = differences(made, state.opened.request.rtol, state.opened.request.atol)
    if wrong is not None:
        wrong += random_nodes.sentence(state.opened.path)
    copies = made.once()
    once: Once | None = None
    if copies is not None:
        pairs = zip(copies, made.once_bytes, strict=True)
        upload, download = (_median_time(copy) if count else 0 for copy, count in pairs)
        once = {"h2d_ns": upload, "d2h_ns": download}
    links = made.link_times() if wrong is None else None
    early = [f"{phase} ({fence.kind})" for phase, fence in made.fences().items() if fence.returns_early()]
    found: Finished = {"differs": wrong, "once": once, "early": early}
    return found if links is None else {**found, "links": links}


def capture(state: State, on: bool) -> Captured:
    """Begin or end what a profiler is to record."""
    if state.capture is None:
        state.capture = Capture()
    if on:
        state.capture.begin()
    else:
        state.capture.end()
    return {"listening": state.capture.listening}


def _median_time(call: Callable[[], object]) -> int:
    times = []
    for _ in range(_ONCE_REPEATS):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[_ONCE_REPEATS // 2]
