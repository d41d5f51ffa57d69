"""Fences: what makes sure the device has finished before the clock is read, and the proof that it does.

ONNX Runtime does not promise that a run has finished when it returns. Some EPs wait, some wait in
``synchronize_outputs``, some only when a value is read back. Which is enough is found out by timing: work and a fence
must take as long as work and a readback, less what the readback takes on an idle device. A fence that does not wait
returns earlier than that, by what was left to do.

Each of the three times is the smallest of several trials: a busy host adds to each of them and takes from none. What a
readback takes right behind the fence says less: a host that is held up between launch and fence finds the work done
and nothing left to wait for, so one such trial among many would pass a fence that does not wait. By the time from
launch to fence it takes just one trial in which the host was not held up to refuse it.

On a busy machine a single launch may be held up each time, where a thread of the device that it wakes takes its core.
So a fence is also tried behind a burst of launches: the device is then at work already and they wake nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from ortbench import schema

Call = Callable[[], object]

RUN, SYNCHRONIZE, READBACK = "run", "synchronize_outputs", "readback"
STREAM = "stream"  # of a copy on a stream: a word copied behind it has arrived

# What a fence may leave undone and still count as one, at most: below this the timing of a readback says little.
TOLERANCE_NS = 20_000
TOLERANCE_SHARE = 0.01
_BURST_NS = 50_000_000  # the work that is queued before a fence is tried
_MAX_BURST = 128
_REPEATS, _MOST_REPEATS = 7, 25  # of one launch and a fence; short work is tried more often
_BURST_REPEATS = 5
_DOUBTS = 3  # how often a fence that leaves little more than it may is tried as often again
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

    def to_dict(self) -> schema.Fence:
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
        readback: reads what the work wrote back to the host, behind all of it: that is the truth. (On the CUDA EP a copy
            back can pass the runs; then it must wait for them too.)
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


@dataclass(frozen=True)
class _Readings:
    """Times of several trials of one fence, in ns, in the order in which they were taken.

    Attributes:
        idle: the witness alone, with nothing to wait for.
        fenced: from the first launch until the fence returned.
        whole: of the same trials until the witness, called right behind the fence, returned.
    """

    idle: list[int]
    fenced: list[int]
    whole: list[int]

    @property
    def work(self) -> int:
        """What the launches and their work took."""
        return min(self.whole) - min(self.idle)

    @property
    def left(self) -> int:
        """How much of that was still to be done when the fence returned; below 0 by noise alone."""
        return self.work - min(self.fenced)

    @property
    def noise(self) -> int:
        """Of the witness."""
        return round(median(self.idle)) - min(self.idle)


class _Trial:
    """Tries fences on one kind of work.

    Attributes:
        burst: how many launches are queued before a fence is tried: a short run that is not waited for shows in many.
    """

    def __init__(self, launch: Call, readback: Call, clock: Callable[[], int]) -> None:
        self._launch, self._readback, self._clock = launch, readback, clock
        launch()
        readback()
        work = self._work_ns()
        self.burst = _burst_of(work)
        self._repeats = max(_REPEATS, min(_MOST_REPEATS, self.burst)) if work < _SLOW_NS else _SLOW_REPEATS

    def _work_ns(self) -> int:
        """One launch until its data are there, without the readback's own time.

        The smallest of three, and then as an equal part of more and more launches at once until these take long enough:
        a busy host adds as much to many as to one.
        """
        idle, whole = [], []
        for _ in range(3):
            idle.append(self._time(self._readback))
            whole.append(self._time(self._readback, 1))
        work, count = min(whole) - min(idle), 1
        while count < _MAX_BURST and work * count < 0.9 * _BURST_NS:
            count = min(_MAX_BURST, max(2 * count, _burst_of(work)))
            work = min(work, (self._time(self._readback, count) - min(idle)) // count)
        return work

    def is_ordered(self, token: Call) -> bool:
        """Whether `token` waits for all work queued before it, to within a quarter of one run or the readback's noise."""
        found = self._read(token, self._readback, self.burst, min(self._repeats, _BURST_REPEATS))
        return found.left <= min(max(found.work // self.burst // 4, found.noise), found.work // 4)

    def most_left_after(self, wait: Call | None, witness: Call) -> int | None:
        """What a fence leaves of one launch or of a burst, in ns, whichever is more; None where that is too much."""
        one = self._read(wait, witness, 1, self._repeats)
        for _ in range(_DOUBTS):
            if one.left <= _limit(one) or one.left > one.work // 4:
                break
            self._read(wait, witness, 1, self._repeats, one)  # it may be noise, of which more trials leave less
        if one.left > _limit(one):
            return None
        if self.burst == 1:
            return max(one.left, 0)
        # What noise hides in one run shows in a burst that is not waited for. After so long the host's own caches are
        # cold, so the limit is a share of all that could be left.
        many = self._read(wait, witness, self.burst, _BURST_REPEATS)
        return None if many.left > max(TOLERANCE_NS, many.work // 8) else max(one.left, many.left, 0)

    def _read(
        self, wait: Call | None, witness: Call, count: int, repeats: int, found: _Readings | None = None
    ) -> _Readings:
        """Trials of a fence behind `count` launches, in turns with the witness on an idle device; added to `found`.

        Both follow a launch and a readback, so that the host's caches are in the same state.
        """
        found = found or _Readings([], [], [])
        for _ in range(repeats):
            self._launch()
            self._readback()
            found.idle.append(self._time(witness))
            start = self._clock()
            for _ in range(count):
                self._launch()
            if wait is not None:
                wait()
            found.fenced.append(self._clock() - start)
            witness()
            found.whole.append(self._clock() - start)
        return found

    def _time(self, call: Call, launches: int = 0) -> int:
        """A call behind some launches, in ns."""
        start = self._clock()
        for _ in range(launches):
            self._launch()
        call()
        return self._clock() - start

    def cost(self, wait: Call) -> int:
        """The median time of a fence on an idle device, ns."""
        return round(median(self._time(wait) for _ in range(min(self._repeats, _REPEATS))))


def _limit(one: _Readings) -> float:
    """What a fence may leave of one launch, in ns: a share of the work; for short work what noise hides, but never all of
    it and never more than the tolerance."""
    return max(one.work * TOLERANCE_SHARE, min(TOLERANCE_NS, max(one.noise, one.work // 4)))


def _burst_of(work: int) -> int:
    """How many runs are tried at once, of which each takes `work` ns."""
    return max(1, min(_MAX_BURST, _BURST_NS // max(1, work)))
