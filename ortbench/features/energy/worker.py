from __future__ import annotations

import time

from ortbench.features.energy.model import StretchTimes
from ortbench.model.modes import LATENCY
from ortbench.worker import State

_APART_NS = 1_000_000  # between ends of a stretch: finer than meters tell, and few enough for an answer


def run_stretch(state: State, mode: str, seconds: float) -> StretchTimes:
    """Run a mode for so many seconds, at least once, each run synced as its samples are; several a call count as several."""
    made = state.modes[mode]
    call, a, b = made.phases()[LATENCY]
    ends: list[tuple[int, int]] = []
    count = noted = 0
    start = now = time.perf_counter_ns()
    until = start + round(seconds * 1e9)
    while not count or now < until:
        call(a, b)
        now = time.perf_counter_ns()
        count += made.per_call
        if now - noted >= _APART_NS:
            ends.append((count, now))
            noted = now
        made.take_times(0)  # of a loop or a chain: nobody wants the times of its parts
    if ends[-1][0] != count:
        ends.append((count, now))
    made.wait_idle()
    return {"start_ns": start, "ended": ends}
