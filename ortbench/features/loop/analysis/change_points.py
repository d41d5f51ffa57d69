"""Where a series of figures steps from one level to another, and by how much the one lies above the other. Pure.

Where: E-divisive means (Matteson & James, A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data, J.
American Statistical Association 109 (2014) 334): the place where what is before differs most from what follows, by the energy
distance, is a change point if shuffled series seldom differ as much anywhere; then the same on either side of it. It needs no
threshold for the size of a step and no distribution of the noise.

By how much: the estimate is Hodges' and Lehmann's, the interval that of Mann and Whitney's test (Hollander, Wolfe & Chicken,
Nonparametric Statistical Methods, 3rd ed., 4.2 and 4.3): both are order statistics of all ratios between a figure of one and of
the other, whatever their distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


LEVEL = 0.01  # the share of series without a step in which one is found
FEWEST = 3  # figures of a level: one or two may be a bad night
_SHUFFLES = 499  # with LEVEL these allow four that differ as much
_SEED = 20140304  # so that the same figures have the same steps


def change_points(values: Sequence[float]) -> list[int]:
    """The numbers of the values, in order, that are the first ones of another level, ascending."""
    import numpy as np

    random, found = np.random.default_rng(_SEED), []
    stretches = [(0, len(values))]
    while stretches:
        begin, end = stretches.pop()
        at = _change_point(np.asarray(values[begin:end], dtype=np.float64), random)
        if at is not None:
            found.append(begin + at)
            stretches += [(begin, begin + at), (begin + at, end)]
    return sorted(found)


def certain_steps(values: Sequence[float], same: float) -> list[int]:
    """The change points of positive figures that are beyond `same` and beyond the noise for certain: the least of the others is none,
    and its levels are one."""
    places = change_points([math.log(value) for value in values])
    while True:
        bounds = [0, *places, len(values)]
        levels = [values[a:b] for a, b in pairwise(bounds)]
        sizes = [shift(before, after) for before, after in pairwise(levels)]
        doubtful = [at for at, size in enumerate(sizes) if not size.is_beyond(same)]
        if not doubtful:
            return places
        del places[min(doubtful, key=lambda at: abs(math.log(sizes[at].ratio)))]


def _change_point(values: Floats, random: np.random.Generator) -> int | None:
    """The one place of a stretch where its level changes for certain, None without."""
    import numpy as np

    if len(values) < 2 * FEWEST:
        return None
    distances = np.abs(values[:, None] - values[None, :])
    divergence = _Divergence(len(values))
    at, greatest = divergence.greatest(distances)
    if greatest <= 0:
        return None
    allowed = int(LEVEL * (_SHUFFLES + 1)) - 1
    for _ in range(_SHUFFLES):
        order = random.permutation(len(values))
        allowed -= divergence.greatest(distances[np.ix_(order, order)])[1] >= greatest * (1 - 1e-9)
        if allowed < 0:
            return None
    return at


class _Divergence:
    """By how much a stretch of `n` figures differs from the one before it: of every place, and every end of what follows.

    For m figures before and k after it is mk / (m + k) times twice the mean distance between a figure before and one after,
    less the mean distances between two before and two after.
    """

    def __init__(self, n: int) -> None:
        import numpy as np

        place, end = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
        possible = (place >= FEWEST) & (end - place >= FEWEST)
        before, after = np.maximum(place, 2), np.maximum(end - place, 2)
        weight = possible * before * after / (before + after)
        between, within = weight / (before * after), weight / (after * (after - 1))
        # The sums inside what is before, inside both, and between, all from those of the distances' upper left corners.
        self._of_end = -within
        self._of_place = 2 * between + within + weight / (before * (before - 1))
        self._of_corner = 2 * (between + within)

    def greatest(self, distances: Floats) -> tuple[int, float]:
        """Where and how great it is, by the distances of any two figures, shape (n, n); 0 where nothing differs."""
        import numpy as np

        sums = np.zeros(self._of_end.shape)
        np.cumsum(distances.cumsum(0), 1, out=sums[1:, 1:])
        until = sums.diagonal().copy()
        sums *= self._of_corner
        sums += self._of_end * until
        sums -= self._of_place * until[:, None]
        best = int(sums.argmax())
        return best // sums.shape[1], float(sums.flat[best])


_TAIL = 0.025  # on either side of a 95 % interval
_EXACT = 400  # pairs, up to which the distribution is counted out


class Shift(NamedTuple):
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
