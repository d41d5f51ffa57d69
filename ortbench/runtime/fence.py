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
STREAM = "stream"  # of a copy on a stream: a word copied behind it has arrived

# What a fence may leave undone and still count as one, at most: below this the timing of a readback says little.
TOLERANCE_NS = 20_000
TOLERANCE_SHARE = 0.01
_BURST_NS = 50_000_000  # the work that is queued before a fence is tried
_MAX_BURST = 128
_REPEATS = 7
_SLOW_NS, _SLOW_REPEATS = 100_000_000, 2  # for slow work noise is a smaller part, and patience matters


@dataclass(frozen=True)
class Fence:
    """A proved fence.

    Attributes:
        kind: ``run`` (the call itself waits), ``synchronize_outputs`` or ``readback``; of copies on a stream ``stream``.
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
    trial = _Trial(launch, readback, clock)
    witness, name = readback, "reading the outputs back"
    if token is not None and trial.is_ordered(token):
        witness, name = token, "reading 4 bytes back"
    for kind, wait in candidates:
        left = trial.most_left_after(wait, witness)
        if left is not None:
            cost = 0 if wait is None else trial.cost(wait)
            how = f"after {trial.burst} run(s) and this fence {left / 1000:.1f} µs were left to wait for"
            return Fence(kind, wait, cost, how)
    return Fence(READBACK, witness, trial.cost(witness), f"{name}, which waits for all {trial.burst} queued run(s)")


class _Trial:
    """Tries fences on one kind of work.

    Attributes:
        work: one launch until its data are there, ns.
        burst: how many launches are queued before a fence is tried: a short run that is not waited for shows in many.
    """

    def __init__(self, launch: Call, readback: Call, clock: Callable[[], int]) -> None:
        self._launch, self._readback, self._clock = launch, readback, clock
        launch()
        readback()
        self.work = self._work_ns()
        self.burst = max(1, min(_MAX_BURST, int(_BURST_NS / self.work)))
        self._repeats = _REPEATS if self.work < _SLOW_NS else _SLOW_REPEATS

    def _work_ns(self) -> int:
        """The smallest of three, without the readback's own time."""
        idle, whole = [], []
        for _ in range(3):
            idle.append(self._time(self._readback))
            start = self._clock()
            self._launch()
            self._readback()
            whole.append(self._clock() - start)
        return max(1, min(whole) - min(idle))

    def _time(self, call: Call) -> int:
        start = self._clock()
        call()
        return self._clock() - start

    def is_ordered(self, token: Call) -> bool:
        """Whether `token` waits for all work queued before it, to within a quarter of one run or the readback's noise."""
        left, noise = self._left_after(token, self._readback, self.burst)
        return left <= min(max(self.work // 4, noise), self.work * self.burst // 4)

    def most_left_after(self, wait: Call | None, witness: Call) -> int | None:
        """What a fence leaves of one launch or of a burst, in ns, whichever is more; None where that is too much."""
        left, noise = self._left_after(wait, witness, 1)
        # A share of the work; for short work what noise hides, but never all of it and never more than the limit.
        if left > max(self.work * TOLERANCE_SHARE, min(TOLERANCE_NS, max(noise, self.work // 4))):
            return None
        # What noise hides in one run shows in a burst that is not waited for. After so long the host's own caches are
        # cold, so the limit is a share of all that could be left.
        after_burst = self._left_after(wait, witness, self.burst)[0] if self.burst > 1 else 0
        return None if after_burst > max(TOLERANCE_NS, self.work * self.burst // 8) else max(left, after_burst, 0)

    def _left_after(self, wait: Call | None, witness: Call, count: int) -> tuple[int, int]:
        """How much longer the witness takes after the fence than with nothing left, and the noise of that, in ns.

        Both kinds of reading follow a launch, so that the host's caches are in the same state, and alternate; the
        smallest of each are compared: noise only ever adds.
        """
        idle, after = [], []
        for _ in range(self._repeats):
            self._launch()
            self._readback()
            idle.append(self._time(witness))
            for _ in range(count):
                self._launch()
            if wait is not None:
                wait()
            after.append(self._time(witness))
        return min(after) - min(idle), round(median(idle)) - min(idle)

    def cost(self, wait: Call) -> int:
        """The median time of a fence on an idle device, ns."""
        return round(median(self._time(wait) for _ in range(self._repeats)))
