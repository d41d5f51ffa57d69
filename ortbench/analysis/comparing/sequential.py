"""A verdict from pairs that arrive one by one, right however often it is looked at. Pure.

Two contenders alternate: each round gives a block of both, in random order, and so one ratio. Whether it lies above
or below a number is all that is used: the sign test, which asks nothing of the noise. Bursts of load, outliers,
two clusters of times change neither its error rate nor the meaning of what it tests, the median ratio; a fair order
makes both signs equally likely for equal contenders, whatever the machine did before.

A test that is repeated after every round must pay for it. Here it is a wager against the hypothesis "at most half of the
ratios lie above": the likelihood ratio of the signs, averaged over all chances p from 1/2 to 1 that they might have
instead, is a supermartingale under it, and by Ville's inequality (Étude critique de la notion de collectif, 1939) it
ever exceeds 1/alpha with probability at most alpha. Averaging over alternatives is Robbins' method of mixtures (Annals
of Mathematical Statistics 41 (1970) 1397); its use for quantiles, as an interval that holds at all times at once, is
Howard and Ramdas', Bernoulli 28 (2022) 1704.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple


class MedianRatio(NamedTuple):
    """The median ratio and where it lies: `low` and `high` are None while there are too few rounds to say."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int


def median_ratio(ratios: Sequence[float], alpha: float) -> MedianRatio:
    """The median of paired ratios with an interval that may be looked at after every round.

    Args:
        ratios: one of each round, above zero, n >= 1, in any order. The median of an even number of them lies halfway in
            logarithms, so that the inverse ratios have the inverse median.
        alpha: the chance, for each end on its own, that this end is ever on the wrong side of the true median.

    Raises:
        ValueError: no ratios.
    """
    if not ratios:
        raise ValueError("a median ratio needs at least one round")
    ordered = sorted(ratios)
    n = len(ordered)
    middle = ordered[n // 2] if n % 2 else math.sqrt(ordered[n // 2 - 1] * ordered[n // 2])
    against = most_against(n, alpha)
    if against is None:
        return MedianRatio(middle, None, None, n)
    return MedianRatio(middle, ordered[against], ordered[n - 1 - against], n)


@lru_cache
def fewest(alpha: float) -> int:
    """How many rounds give an interval, at least: those that prove something at level alpha where all signs are the same."""
    return next(n for n in count(1) if most_against(n, alpha) is not None)


@lru_cache(maxsize=100_000)
def most_against(n: int, alpha: float) -> int | None:
    """How many of n signs may be against a direction that is still proved at level alpha; None: n is too few."""
    if log_wager(n, 0) < math.log(1 / alpha):
        return None
    low, high = 0, n // 2  # proved at low, not at high: half of the signs prove nothing
    while high - low > 1:
        middle = (low + high) // 2
        if log_wager(n - middle, middle) >= math.log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def log_wager(above: int, below: int) -> float:
    """The logarithm of what one unit has become that was wagered on signs being above more often than below; `above` >=
    `below`.

    It is the integral of p^above (1 - p)^below over p from 1/2 to 1, times 2, over (1/2)^(above + below).
    """
    from scipy import special  # takes longer to import than most commands that may need it take to run

    n = above + below
    beta = special.betaln(above + 1, below + 1)
    # P(p > 1/2) of a Beta(above + 1, below + 1) is the chance of at most `above` heads in n + 1 throws.
    share = math.log(special.bdtr(above, n + 1, 0.5))
    return float((n + 1) * math.log(2) + beta + share)
