"""Fences: what makes sure the device has finished before the clock is read, and the proof that it does.

ONNX Runtime does not promise that a run has finished when it returns. Some EPs wait, some wait in
``synchronize_outputs``, some only when a value is read back. Which is enough is found out by timing: after work and a
fence, reading something back must take no longer than on an idle device. If the fence does not wait, the readback does
the waiting instead, and takes longer by what was left to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Call = Callable[[], object]

RUN, SYNCHRONIZE, READBACK = "run", "synchronize_outputs", "readback"

# What a fence may leave undone and still count as one: below this the timing of a readback says nothing.
TOLERANCE_NS = 10_000
TOLERANCE_SHARE = 0.01
_BURST_NS = 50_000_000  # the work that is queued before a fence is tried
_MAX_BURST = 128
_REPEATS = 7


@dataclass(frozen=True)
class Fence:
    """A proved fence.

    Attributes:
        kind: ``run`` (the call itself waits), ``synchronize_outputs`` or ``readback``.
        wait: the call to make, or None where the work's own call waits.
        cost_ns: its median on an idle device; it is part of every sample that it ends.
        how: the evidence, for the report.
    """

    kind: str
    wait: Call | None
    cost_ns: int
    how: str

    def to_dict(self) -> dict[str, Any]:
        """For the result file."""
        return {"kind": self.kind, "cost_ns": self.cost_ns, "how": self.how}


def prove(
    launch: Call,
    candidates: Sequence[tuple[str, Call | None]],
    readback: Call,
    token: Call | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Fence:
    """The cheapest fence that is proved for this work.

    Args:
        launch: starts the work.
        candidates: (kind, wait) from the cheapest on; wait None stands for `launch` itself.
        readback: reads what the work wrote back to the host; data cannot arrive before it exists, so it is the truth.
        token: reads one small device value back. If it is ordered behind the work, which is tested first, it is a
            cheaper and steadier witness than `readback`, and the fence of last resort.
        clock: in ns.
    """
    launch()
    readback()
    work = _work_ns(launch, readback, clock)
    burst = max(1, min(_MAX_BURST, int(_BURST_NS / max(work, 1))))
    repeats = _REPEATS if work * burst < 4 * _BURST_NS else 3
    witness, name = readback, "reading the outputs back"
    if token is not None and _is_ordered(launch, token, readback, work, burst, repeats, clock):
        witness, name = token, "reading 4 bytes back"
    for kind, wait in candidates:
        fence = _try(kind, wait, launch, witness, work, burst, repeats, clock)
        if fence is not None:
            return fence
    cost = _cost(witness, repeats, clock)
    return Fence(READBACK, witness, cost, f"{name}, which waits for all {burst} queued run(s)")


def _work_ns(launch: Call, readback: Call, clock: Callable[[], int]) -> int:
    """One launch until its data are there, in ns: the smallest of three, without the readback's own cost."""
    idle, whole = [], []
    for _ in range(3):
        start = clock()
        readback()
        middle = clock()
        launch()
        readback()
        idle.append(middle - start)
        whole.append(clock() - middle)
    return max(1, min(whole) - min(idle))


def _is_ordered(
    launch: Call, token: Call, readback: Call, work: int, burst: int, repeats: int, clock: Callable[[], int]
) -> bool:
    """Whether `token` waits for work queued before it.

    If it did not, next to all of the burst would be left for the readback; a quarter is a limit no noise crosses.
    """
    left = _left_after(token, launch, readback, burst, repeats, clock)
    return left <= max(TOLERANCE_NS, work * burst // 4)


def _try(
    kind: str,
    wait: Call | None,
    launch: Call,
    witness: Call,
    work: int,
    burst: int,
    repeats: int,
    clock: Callable[[], int],
) -> Fence | None:
    """The fence if it leaves nothing to wait for, after one launch and after a burst of them."""
    allowed = max(TOLERANCE_NS, round(work * TOLERANCE_SHARE))
    left = 0
    for count in sorted({1, burst}):
        left = max(left, _left_after(wait, launch, witness, count, repeats, clock))
        if left > allowed:
            return None
    cost = 0 if wait is None else _cost(wait, repeats, clock)
    return Fence(
        kind, wait, cost, f"after {burst} run(s) and this fence {max(left, 0) / 1000:.1f} µs were left to wait for"
    )


def _left_after(
    wait: Call | None, launch: Call, witness: Call, count: int, repeats: int, clock: Callable[[], int]
) -> int:
    """What is left of the work after the fence, in ns, by how much longer the witness takes than on an idle device.

    Idle and loaded readings alternate, and the smallest of each are compared: noise only ever adds.
    """
    idle, after = [], []
    for _ in range(repeats):
        witness()
        start = clock()
        witness()
        idle.append(clock() - start)
        for _ in range(count):
            launch()
        if wait is not None:
            wait()
        start = clock()
        witness()
        after.append(clock() - start)
    return min(after) - min(idle)


def _cost(wait: Call, repeats: int, clock: Callable[[], int]) -> int:
    costs = []
    for _ in range(repeats):
        start = clock()
        wait()
        costs.append(clock() - start)
    return round(median(costs))
