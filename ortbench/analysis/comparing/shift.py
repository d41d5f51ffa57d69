"""By how much one group of figures lies above another one, whatever their distribution. Pure.

The estimate is Hodges' and Lehmann's, the interval that of Mann and Whitney's test (Hollander, Wolfe & Chicken, Nonparametric
Statistical Methods, 3rd ed., 4.2 and 4.3): both are order statistics of all ratios between a figure of one and of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

_TAIL = 0.025  # on either side of a 95 % interval
_EXACT = 400  # pairs, up to which the distribution is counted out


@dataclass(frozen=True)
class Shift:
    """How many times as great figures are, and the 95 % interval of it; None where there are too few for one."""

    ratio: float
    ci95: tuple[float, float] | None

    def is_beyond(self, same: float) -> bool:
        """Whether there is a difference for certain, and one of more than a share of `same`."""
        return (
            self.ci95 is not None
            and (self.ci95[0] > 1 or self.ci95[1] < 1)
            and max(self.ratio, 1 / self.ratio) > 1 + same
        )


def shift(before: Sequence[float], after: Sequence[float]) -> Shift:
    """From one group of positive figures to another, one of each at least."""
    ratios = sorted(y / x for x in before for y in after)
    outside = _rank(len(before), len(after))
    return Shift(median(ratios), None if outside is None else (ratios[outside], ratios[-1 - outside]))


def _rank(n: int, m: int) -> int | None:
    """How many of the ordered ratios are left out at either end; None where all of them are too few."""
    if n * m > _EXACT:
        half = NormalDist().inv_cdf(1 - _TAIL) * math.sqrt(n * m * (n + m + 1) / 12)
        return math.floor(n * m / 2 - half) - 1
    share, whole = 0, math.comb(n + m, n) * _TAIL
    for rank, count in enumerate(_counts(n, m)):
        share += count
        if share > whole:
            return rank - 1 if rank else None
    raise AssertionError("all ranks together are more than a tail")


def _counts(n: int, m: int) -> list[int]:
    """In how many of the orders of n and m figures so many of one are below one of the other: the Gaussian binomial
    coefficient, the product of (1 - x^(m+i)) / (1 - x^i) for i from 1 to n, as its coefficients in x."""
    found = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for power in range(n * m, m + i - 1, -1):
            found[power] -= found[power - m - i]
        for power in range(i, n * m + 1):
            found[power] += found[power - i]
    return found
