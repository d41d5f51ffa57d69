"""What came of the requests of an open loop. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]


@dataclass(frozen=True)
class Requests:
    """A stretch of an open loop: each request that was due, in order, ns from the beginning on, shape (n,).

    Attributes:
        due: when it was.
        free: from when on the caller that served it was.
        start, end: of its run. All three are shorter than `due` where the stretch was cut off.
        cutoff_ns: when it was cut off; None where all were served.
        callers: that served it.
        cpu_ns, wall_ns: CPU time of all worker processes, and time by the clock.
        lock: how many callers were seen waiting for Python's lock, and how many were looked at; None where nobody looked.
        begin_ns: when it began.
        round: in which it was taken, from 0.
        from_ns: from when on it counts.
        caller: which one served it, from 0.
    """

    due: Moments
    free: Moments
    start: Moments
    end: Moments
    cutoff_ns: int | None
    callers: int
    cpu_ns: int
    wall_ns: int
    lock: tuple[int, int] | None = None
    begin_ns: int = 0
    round: int = 0
    from_ns: int = 0
    caller: Moments | None = None

    @property
    def waits(self) -> Moments:
        """From due to start; of those that were not begun, until it was cut off."""
        return self._from_due(self.start)

    @property
    def latencies(self) -> Moments:
        """From due to end; of those that were not begun, until it was cut off."""
        return self._from_due(self.end)

    @property
    def late(self) -> Moments:
        """How late each was issued although a caller was free, ns."""
        import numpy as np

        served = self.start.size
        return np.maximum(0, self.start - np.maximum(self.due[:served], self.free))

    @property
    def lasted_ns(self) -> int:
        """From when it counts to the last request that was due or done."""
        return max(int(self.end.max(initial=0)), int(self.due[-1])) - self.from_ns if self.due.size else 0

    @property
    def anew(self) -> NDArray[np.bool_]:
        """Which requests were due when all before them had been served: from there on nothing knows of what was before."""
        import numpy as np

        done = np.full(self.due.size, np.iinfo(np.int64).max)
        done[: self.end.size] = np.maximum.accumulate(self.end)
        return np.concatenate([[True], self.due[1:] >= done[:-1]]) if self.due.size else np.empty(0, bool)

    def without_first(self, count: int) -> Requests:
        """The same without the first requests; all of it where there are no more."""
        if self.due.size <= count:
            return self
        left, caller = slice(count, None), self.caller
        return replace(
            self,
            due=self.due[left],
            free=self.free[left],
            start=self.start[left],
            end=self.end[left],
            from_ns=int(self.due[count - 1]) if count else self.from_ns,
            caller=None if caller is None else caller[left],
        )

    def _from_due(self, moments: Moments) -> Moments:
        import numpy as np

        left = self.due[moments.size :]
        rest = np.maximum(0, (self.cutoff_ns or 0) - left)
        return np.concatenate([moments - self.due[: moments.size], rest])
