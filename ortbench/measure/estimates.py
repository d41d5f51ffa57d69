"""What is known so far of each series while it is measured: a median and its interval, in words.

Of a block nothing is kept but its median, in order, so that a look takes as long after an hour as after a second.
"""

from __future__ import annotations

import math
import time
from bisect import insort
from collections.abc import Callable, Sequence
from statistics import NormalDist, median

from ortbench.core import units
from ortbench.core.stats import sign_test_interval

EVERY_S = 0.25  # at most so often a look is taken
_MOST = 50_000  # blocks of a series that are kept: of more, one in two is let go
_EXACT = 100  # blocks up to which the sign test's rank is worked out, which takes long for many
_Z = NormalDist().inv_cdf(0.975)
Row = tuple[str, str]  # what it is of, and what is known of it


class Running:
    """The median of what blocks gave, and its 95 % interval by the sign test."""

    def __init__(self) -> None:
        self._ordered: list[float] = []

    def add(self, value: float) -> None:
        if len(self._ordered) == _MOST:
            del self._ordered[::2]
        insort(self._ordered, value)

    def text(self, rate: str | None = None) -> str:
        """The median in words: a duration, ns, or a `rate`, which is its unit; without an interval while there are few blocks."""
        if not self._ordered:
            return "–"
        middle, ends = _middle(self._ordered), _ends(self._ordered)
        name, size = (rate, 1.0) if rate else units.time_unit(middle)

        def number(value: float) -> str:
            return units.rate(value) if rate else units.time(value, size)

        shown = f"{number(middle)} {name}"
        return shown if ends is None else f"{shown} (95% CI {number(ends[0])}–{number(ends[1])})"


def _middle(ordered: Sequence[float]) -> float:
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _ends(ordered: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the median, of many by the normal approximation of the sign test's rank."""
    n = len(ordered)
    if n <= _EXACT:
        return sign_test_interval(ordered)
    rank = math.floor(n / 2 - _Z * math.sqrt(n) / 2 - 0.5)
    return ordered[rank], ordered[n - 1 - rank]


class Estimates:
    """What is known of all series, in the order in which they are `named`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._looked_at = clock, clock() - EVERY_S
        self._series: dict[str, tuple[Running, str | None]] = {}

    def named(self, name: str, rate: str | None = None) -> Running:
        """A series, of durations or of rates in a unit."""
        return self._series.setdefault(name, (Running(), rate))[0]

    def add(self, name: str, samples: Sequence[float], rate: str | None = None) -> None:
        """Take a block into account: its samples, ns, or the one rate that it had."""
        if samples:
            self.named(name, rate).add(median(samples))

    def is_due(self) -> bool:
        """Whether the last look is long enough ago; the next one is then counted from now on."""
        now = self._clock()
        if now - self._looked_at < EVERY_S:
            return False
        self._looked_at = now
        return True

    def rows(self) -> list[Row]:
        return [(name, running.text(rate)) for name, (running, rate) in self._series.items()]
