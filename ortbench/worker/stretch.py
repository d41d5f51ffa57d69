"""The request for a stretch: runs one behind the other for a while, beside which somebody else reads a meter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ortbench.model.modes import LATENCY
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.model.protocol import Stretched

_APART_NS = 1_000_000  # finer than meters tell, and few enough for an answer


def stretch(state: State, mode: str, seconds: float) -> Stretched:
    """Run a mode for so many seconds, at least once, each run fenced as its samples are; several a call count as several."""
    made = state.modes[mode]
    call, a, b = made.phases()[LATENCY]
    ended: list[tuple[int, int]] = []
    count = noted = 0
    start = now = time.perf_counter_ns()
    until = start + round(seconds * 1e9)
    while not count or now < until:
        call(a, b)
        now = time.perf_counter_ns()
        count += made.per_call
        if now - noted >= _APART_NS:
            ended.append((count, now))
            noted = now
        made.take_times(0)  # of a loop or a chain: nobody wants the times of its parts
    if ended[-1][0] != count:
        ended.append((count, now))
    made.rest()
    return {"start_ns": start, "ended": ended}
