"""Whether samples have two humps, and where these are. Pure.

Whether: by the dip, the greatest distance between the samples' distribution and the nearest one with a single hump (Hartigan & Hartigan, The
Dip Test of Unimodality, Annals of Statistics 13 (1985) 70), which asks nothing of the humps' shapes: a long tail is none. A sharp hump with a
share p beside another has a dip of about p / 2, whatever their number. Where: at the split into two groups whose logarithms
differ most between and least within (Otsu, IEEE Transactions on Systems, Man, and Cybernetics 9 (1979) 62).

There is a package for the dip alone, compiled for some systems; these lines give the same numbers (`tests/test_humps.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MOST = 500  # samples, of which the dip is taken: quantiles of them where there are more
_LEAST_DIP = 0.06  # blocks that are each at a place of their own have less: nine of them 1/18
_SURELY = 0.65  # by the root of the number of samples: 99 % of uniform ones, which come nearest to two humps, have less
_LEAST_SHARE = 0.1  # of samples, which a hump has
_LEAST_APART = 1.2  # times as far from 0 as the other


class Hump(NamedTuple):
    """The median of the samples of a hump, and which share of all they are."""

    place: float
    share: float


def two_humps(samples: Sequence[float]) -> tuple[Hump, Hump] | None:
    """The two humps of samples, the lower one first; None where there is one, or too little to tell."""
    import numpy as np

    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    few = ordered
    if few.size > _MOST:
        few = ordered[np.linspace(0, ordered.size - 1, _MOST).round().astype(int)]
    if few.size < 1 / _LEAST_SHARE or dip(few) < max(_LEAST_DIP, _SURELY / math.sqrt(few.size)):
        return None
    at = _split(ordered)
    low, high = (Hump(float(np.median(it)), it.size / ordered.size) for it in (ordered[:at], ordered[at:]))
    is_seen = min(low.share, high.share) >= _LEAST_SHARE and high.place >= _LEAST_APART * low.place
    return (low, high) if is_seen else None


def _split(ordered: Floats) -> int:
    """How many samples the lower of the two groups has."""
    import numpy as np

    logs = np.log(np.maximum(ordered, 1e-9))
    counts = np.arange(1, logs.size)
    sums = np.cumsum(logs)[:-1]
    apart = sums / counts - (logs.sum() - sums) / (logs.size - counts)
    return int(np.argmax(counts * (logs.size - counts) * apart**2)) + 1


def dip(ordered: Floats) -> float:
    """The dip of samples in order, n >= 1; from 1 / (2 n) to 1/4.

    The nearest distribution with one hump is convex up to it and concave from it on. So the stretch in which the hump lies is
    narrowed down, from all samples on: to where the greatest convex function below the samples' distribution and the least concave one
    above it are farthest apart, until that is not farther than what was left outside already.
    """
    n = ordered.size
    low, high, found = 0, n - 1, 1.0  # distances are in 1/n, twice as great as the dip
    while low < high:
        below, above = _hull(ordered, low, high, convex=True), _hull(ordered, low, high, convex=False)
        distance, begin, end = _farthest(ordered, below, above)
        if distance < found:
            break
        outside = [_off(ordered, a, b, 1) for a, b in pairwise(below) if b <= begin]
        outside += [_off(ordered, a, b, -1) for a, b in pairwise(above) if a >= end]
        found = max([found, *outside])
        if (begin, end) == (low, high):
            break
        low, high = begin, end
    return found / (2 * n)


def _hull(ordered: Floats, low: int, high: int, *, convex: bool) -> list[int]:
    """The samples from `low` to `high` at which the greatest convex function below their distribution bends, or the least concave
    one above it."""
    found: list[int] = []
    for it in range(low, high + 1):
        while len(found) > 1:
            a, b = found[-2:]
            turn = (ordered[b] - ordered[a]) * (it - a) - (b - a) * (ordered[it] - ordered[a])
            if (turn > 0) if convex else (turn < 0):
                break
            found.pop()
        found.append(it)
    return found


def _farthest(ordered: Floats, below: list[int], above: list[int]) -> tuple[float, int, int]:
    """How far the two functions are apart at most, and between which samples they bend around that place."""
    import numpy as np

    if len(below) == len(above) == 2:
        return 1.0, below[0], above[-1]
    bends = np.array(sorted({*below[1:-1], *above[1:-1]}))
    apart = np.interp(ordered[bends], ordered[above], above) - np.interp(ordered[bends], ordered[below], below) + 1
    last = int(bends[apart.size - 1 - int(np.argmax(apart[::-1]))])
    return float(apart.max()), max(it for it in below if it <= last), min(it for it in above if it >= last)


def _off(ordered: Floats, begin: int, end: int, way: int) -> float:
    """How far the distribution is from a straight line between two samples, above it (`way` 1) or below (-1)."""
    import numpy as np

    if end - begin < 2 or ordered[end] == ordered[begin]:
        return 1.0
    numbers = np.arange(begin, end + 1)
    line = (ordered[numbers] - ordered[begin]) * ((end - begin) / (ordered[end] - ordered[begin]))
    return float((way * (numbers - begin - line)).max()) + 1
