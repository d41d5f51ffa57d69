"""The sequential sign test: exact against rational arithmetic, and its error rate however often it is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from ortbench.analysis.intervals import MedianRatio, log_wager, median_ratio, most_against

# By alpha: how many rounds prove something where all signs are the same.
FIRST_PROOF = {Fraction(1, 40): 8, Fraction(1, 100): 9, Fraction(1, 200): 11, Fraction(1, 1000): 13}


@cache
def wager(above: int, below: int) -> Fraction:
    """The wager, exactly: (1 - p)^below is expanded, and every power of p integrated from 1/2 to 1."""
    powers = ((above + k, (-1) ** k * math.comb(below, k)) for k in range(below + 1))
    terms = (Fraction(factor, k + 1) * (1 - Fraction(1, 2 ** (k + 1))) for k, factor in powers)
    return sum(terms, Fraction(0)) * Fraction(2 ** (above + below + 1))


def test_the_wager_is_exact() -> None:
    few = [(n - below, below) for n in (0, 1, 2, 3, 9, 20, 51) for below in range(n // 2 + 1)]
    for above, below in (*few, (300, 0), (150, 150), (130, 110), (200, 100), (500, 400), (1500, 10)):
        exact = wager(above, below)
        expected = math.log(exact.numerator) - math.log(exact.denominator)
        assert log_wager(above, below) == pytest.approx(expected, abs=1e-9 if above + below <= 200 else 2e-4)
    assert wager(9, 0) == Fraction(2**10 - 1, 10)


@pytest.mark.parametrize("alpha", FIRST_PROOF, ids=str)
def test_most_against_is_proved_and_one_more_is_not(alpha: Fraction) -> None:
    for n in (*range(FIRST_PROOF[alpha], 60), 101, 150):
        most = most_against(n, float(alpha))
        assert most is not None
        assert wager(n - most, most) >= 1 / alpha > wager(n - most - 1, most + 1)
    found = [most_against(n, float(alpha)) for n in range(200)]
    known = [most for most in found if most is not None]
    assert found == [None] * FIRST_PROOF[alpha] + known
    assert (known[0], {after - before for before, after in pairwise(known)}) == (0, {0, 1})


def test_few_ratios() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        median_ratio([], 0.01)
    for ratios, found in (
        ([3], (3, None, None, 1)),
        ([2, 8], (4, None, None, 2)),
        (range(1, 9), (20**0.5, None, None, 8)),
        (range(1, 10), (5, 1, 9, 9)),
        (range(1, 21), (110**0.5, 3, 18, 20)),  # two may be against
    ):
        assert tuple(median_ratio([*ratios], 0.01)) == pytest.approx(found)
    assert median_ratio([1.0] * 9, 0.01) == MedianRatio(1, 1, 1, 9)


# How often it errs, looked at after every round

STREAMS, LOOKS = 1000, 300
Logs = NDArray[np.float64]


def gaussian(generator: np.random.Generator) -> Logs:
    return generator.normal(size=(STREAMS, LOOKS))


def coarse_clock(generator: np.random.Generator) -> Logs:
    """Two of three ratios are exactly 1."""
    return np.round(0.5 * generator.normal(size=(STREAMS, LOOKS)))


def bursts(generator: np.random.Generator) -> Logs:
    """Load that comes and goes after 3 to 1000 blocks on average, and slows tenfold; a coin says which contender is first."""
    switches = generator.random((STREAMS, 2 * LOOKS)) < 1 / np.geomspace(3, 1000, STREAMS)[:, None]
    times = np.cumsum(switches, axis=1) % 2 * math.log(10) + 0.1 * generator.normal(size=switches.shape)
    first, second = times[:, 0::2], times[:, 1::2]
    return np.where(generator.random(first.shape) < 0.5, first - second, second - first)


def excludes_one(ratios: Logs, alpha: float) -> NDArray[np.bool_]:
    """By stream and round: whether the interval excludes a ratio of 1, which lies beyond it if few enough signs reach it."""
    allowed = [-1 if (most := most_against(n, alpha)) is None else most for n in range(1, ratios.shape[1] + 1)]
    reach = np.minimum(np.cumsum(ratios <= 0, axis=1), np.cumsum(ratios >= 0, axis=1))
    return np.asarray(reach <= np.array(allowed))


@pytest.mark.parametrize("noise", [gaussian, coarse_clock, bursts])
def test_equal_contenders_are_hardly_ever_told_apart(noise: Callable[[np.random.Generator], Logs]) -> None:
    for alpha in (0.01, 0.05):
        assert excludes_one(noise(np.random.default_rng(1)), alpha).any(axis=1).mean() <= 2 * alpha


def test_contenders_that_differ_are_told_apart() -> None:
    for p, rounds in ((0.95, 30), (0.8, 100), (0.7, 300)):
        above = np.random.default_rng(2).random((STREAMS, rounds)) < p
        assert excludes_one(np.where(above, 1.0, -1.0), 0.01).any(axis=1).mean() > 0.99
