"""Timing one block: the loop every figure comes from, inside NVTX ranges for Nsight Systems.

The ranges are pushed around the same calls that take the time: domain ``ortbench``, one range per block named by its
mode, in it one per phase and iteration named ``<mode>/<phase>``.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ortbench.result import PHASE_NAMES
from ortbench.runtime.modes import Mode

DOMAIN = "ortbench"


class Ranges:
    """NVTX ranges of one mode; without the nvtx package (it has no macOS build) they cost and do nothing."""

    def __init__(self, mode: str) -> None:
        self.push: Callable[[Any], object] = _nothing
        self.pop: Callable[[], object] = _nothing
        self.block: Any = None
        self.phase: dict[str, Any] = dict.fromkeys(PHASE_NAMES)
        try:
            import nvtx
        except ImportError:
            return
        domain = nvtx.get_domain(DOMAIN)
        self.push, self.pop = domain.push_range, domain.pop_range
        self.block = domain.get_event_attributes(message=mode)
        self.phase = {
            phase: domain.get_event_attributes(message=f"{mode}/{phase}", category=phase) for phase in self.phase
        }


def _nothing(*_: Any) -> None:
    """No NVTX."""


def time_block(
    mode: Mode, ranges: Ranges, phase: str, n: int, drop: int, clock: Callable[[], int] = time.perf_counter_ns
) -> list[int]:
    """Time n iterations of one phase of a mode, after `drop` that are not recorded.

    Args:
        mode: set up.
        ranges: its NVTX ranges.
        phase: ``total`` for whole inferences, or one of the mode's other phases.
        n: samples to take.
        drop: iterations before them.
        clock: monotonic, ns.

    Returns:
        Durations in ns, in order.
    """
    call, a, b = mode.phases()[phase]
    push, pop, attributes = ranges.push, ranges.pop, ranges.phase[phase]
    samples: list[int] = []
    add = samples.append
    with _no_garbage_collection():
        for _ in range(drop):
            call(a, b)
        push(ranges.block)
        try:
            for _ in range(n):
                push(attributes)
                try:
                    start = clock()
                    kept = call(a, b)
                    end = clock()
                finally:
                    pop()
                add(end - start)
                del kept  # what a run returned is freed outside the clock: it ends with the outputs readable
        finally:
            pop()
    return samples


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection inside a sample would be Python's time, not the runtime's (timeit does the same)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
