"""The sequential sign test: exact against rational arithmetic, and its error rate however often it is looked at."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from ortbench.analysis.intervals import MedianRatio, log_wager, median_ratio, most_against

ALPHAS = [Fraction(1, 20), Fraction(1, 40), Fraction(1, 100), Fraction(1, 200), Fraction(1, 1000)]
FIRST_PROOF = {Fraction(1, 40): 8, Fraction(1, 100): 9, Fraction(1, 200): 11, Fraction(1, 1000): 13}


@cache
def wager(above: int, below: int) -> Fraction:
    """The wager, exactly: (1 - p)^below is expanded, and every power of p integrated from 1/2 to 1."""
    powers = ((above + k, (-1) ** k * math.comb(below, k)) for k in range(below + 1))
    terms = (Fraction(factor, k + 1) * (1 - Fraction(1, 2 ** (k + 1))) for k, factor in powers)
    return sum(terms, Fraction(0)) * Fraction(2 ** (above + below + 1))


# The wager


def test_the_wager_is_exact() -> None:
    for n in [0, 1, 2, 3, 9, 20, 51]:
        for below in range(n // 2 + 1):
            exact = wager(n - below, below)
            expected = math.log(exact.numerator) - math.log(exact.denominator)
            assert log_wager(n - below, below) == pytest.approx(expected, abs=1e-11)
    for above, below in [(300, 0), (150, 150), (200, 100), (500, 400), (1500, 10)]:
        exact = wager(above, below)
        expected = math.log(exact.numerator) - math.log(exact.denominator)
        assert log_wager(above, below) == pytest.approx(expected, abs=1e-9)
    for n in [0, 1, 9, 60]:
        assert wager(n, 0) == Fraction(2 ** (n + 1) - 1, n + 1)
        assert log_wager(n, 0) == pytest.approx(math.log((2 ** (n + 1) - 1) / (n + 1)))


# How many signs may be against


def test_most_against_is_proved_and_one_more_is_not() -> None:
    for alpha in ALPHAS:
        for n in [*range(1, 60), 101, 150]:
            most = most_against(n, float(alpha))
            if most is None:
                assert wager(n, 0) < 1 / alpha
            else:
                assert wager(n - most, most) >= 1 / alpha
                assert wager(n - most - 1, most + 1) < 1 / alpha
        found = [most_against(n, float(alpha)) for n in range(400)]
        known = [most for most in found if most is not None]
        assert found == [None] * (400 - len(known)) + known
        assert known[0] == 0
        assert {after - before for before, after in pairwise(known)} == {0, 1}
    for alpha, first in FIRST_PROOF.items():
        assert most_against(first - 1, float(alpha)) is None
        assert most_against(first, float(alpha)) == 0
    for n in range(13, 200):
        by_alpha = [most for alpha in ALPHAS if (most := most_against(n, float(alpha))) is not None]
        assert len(by_alpha) == len(ALPHAS)
        assert by_alpha == sorted(by_alpha, reverse=True)


# The interval


def test_few_ratios() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        median_ratio([], 0.01)
    assert tuple(median_ratio([3], 0.01)) == pytest.approx((3, None, None, 1))
    assert tuple(median_ratio([2, 8], 0.01)) == pytest.approx((4, None, None, 2))
    assert tuple(median_ratio([*range(1, 9)], 0.01)) == pytest.approx((20**0.5, None, None, 8))
    assert tuple(median_ratio([*range(1, 10)], 0.01)) == pytest.approx((5, 1, 9, 9))
    against = 2
    assert wager(20 - against, against) >= 100 > wager(20 - against - 1, against + 1)
    found = median_ratio([*range(1, 21)], 0.01)
    assert tuple(found) == pytest.approx((110**0.5, 1 + against, 20 - against, 20))
    for n in [1, 9, 100]:
        bound = None if n == 1 else 1
        assert median_ratio([1.0] * n, 0.01) == MedianRatio(1, bound, bound, n)


def test_the_order_and_the_direction_of_ratios_do_not_matter() -> None:
    ratios = np.exp(np.random.default_rng(0).normal(size=50)).tolist()
    assert median_ratio(ratios, 0.01) == median_ratio(ratios[::-1], 0.01) == median_ratio(sorted(ratios), 0.01)
    for n in [1, 2, 9, 20, 51]:
        ratios = np.exp(np.random.default_rng(n).normal(size=n))
        one, other = median_ratio(ratios.tolist(), 0.01), median_ratio((1 / ratios).tolist(), 0.01)
        assert other.ratio == pytest.approx(1 / one.ratio)
        assert other.low == (None if one.high is None else pytest.approx(1 / one.high))
        assert other.high == (None if one.low is None else pytest.approx(1 / one.low))


# How often it errs, looked at after every round

STREAMS, LOOKS = 1000, 300
Logs = NDArray[np.float64]
Signs = NDArray[np.bool_]


def fair_order(first: Logs, second: Logs, generator: np.random.Generator) -> Logs:
    """The ratios of rounds of two blocks: a coin says which contender has the first one."""
    return np.where(generator.random(first.shape) < 0.5, first - second, second - first)


def gaussian(generator: np.random.Generator) -> Logs:
    return generator.normal(size=(STREAMS, LOOKS))


def heavy_tails(generator: np.random.Generator) -> Logs:
    return generator.standard_cauchy((STREAMS, LOOKS))


def two_clusters(generator: np.random.Generator) -> Logs:
    times = np.log(generator.choice([1.0, 1.5], (2, STREAMS, LOOKS))) + 0.01 * generator.normal(
        size=(2, STREAMS, LOOKS)
    )
    difference: Logs = times[0] - times[1]
    return difference


def coarse_clock(generator: np.random.Generator) -> Logs:
    """Two of three ratios are exactly 1."""
    return np.round(0.5 * generator.normal(size=(STREAMS, LOOKS)))


def bursts(generator: np.random.Generator) -> Logs:
    """Load that comes and goes after 3 blocks on average in some streams and after 1000 in others, and slows tenfold."""
    switches = generator.random((STREAMS, 2 * LOOKS)) < 1 / np.geomspace(3, 1000, STREAMS)[:, None]
    times = np.cumsum(switches, axis=1) % 2 * math.log(10) + 0.1 * generator.normal(size=switches.shape)
    return fair_order(times[:, 0::2], times[:, 1::2], generator)


def drifting_times(generator: np.random.Generator) -> Logs:
    return 0.05 * np.arange(2 * LOOKS) + 0.01 * generator.normal(size=(STREAMS, 2 * LOOKS))


def drift(generator: np.random.Generator) -> Logs:
    """Every block is 5 % slower than the one before, whoever has it."""
    times = drifting_times(generator)
    return fair_order(times[:, 0::2], times[:, 1::2], generator)


def drift_in_a_fixed_order(generator: np.random.Generator) -> Logs:
    times = drifting_times(generator)
    return times[:, 0::2] - times[:, 1::2]


def allowed(alpha: float) -> list[int]:
    """By round: how many signs may be against; -1 where there are too few rounds."""
    return [-1 if (most := most_against(n, alpha)) is None else most for n in range(1, LOOKS + 1)]


def excludes_one(ratios: Logs, against: list[int]) -> Signs:
    """By stream and round: whether the interval excludes a ratio of 1, which lies beyond it if few enough signs reach it."""
    reach = np.minimum(np.cumsum(ratios <= 0, axis=1), np.cumsum(ratios >= 0, axis=1))
    return np.asarray(reach <= np.array(against))


def share_ever(excluded: Signs) -> float:
    return float(excluded.any(axis=1).mean())


def test_signs_tell_what_the_interval_excludes() -> None:
    ratios = 0.5 + np.random.default_rng(0).normal(size=(3, LOOKS)).round(1)
    expected = excludes_one(ratios, allowed(0.01))
    for row, told in zip(np.exp(ratios).tolist(), expected, strict=True):
        intervals = [median_ratio(row[:n], 0.01) for n in range(1, LOOKS + 1)]
        assert [
            found.low is not None and not found.low <= 1 <= (found.high or 0) for found in intervals
        ] == told.tolist()
    assert expected.any()


def test_equal_contenders_are_hardly_ever_told_apart() -> None:
    for alpha in [0.01, 0.05]:
        for noise in [gaussian, heavy_tails, two_clusters, coarse_clock, bursts, drift]:
            erred = share_ever(excludes_one(noise(np.random.default_rng(1)), allowed(alpha)))
            assert erred <= 2 * alpha


def test_tests_that_err() -> None:
    once = [int(scipy_stats.binom.ppf(0.01, n, 0.5)) - 1 for n in range(1, LOOKS + 1)]
    excluded = excludes_one(gaussian(np.random.default_rng(1)), once)
    assert excluded[:, -1].mean() <= 0.02
    assert share_ever(excluded) > 0.08
    assert share_ever(excludes_one(drift_in_a_fixed_order(np.random.default_rng(1)), allowed(0.01))) == 1


# How soon it tells


def test_how_soon_contenders_are_told_apart() -> None:
    excluded = excludes_one(np.ones((1, LOOKS)), allowed(0.01))
    assert int(excluded[0].argmax()) + 1 == 9
    assert excluded[0, 8:].all()
    for p, rounds in [(0.95, 30), (0.8, 100), (0.7, 300)]:
        above = np.random.default_rng(2).random((STREAMS, rounds)) < p
        excluded = excludes_one(np.where(above, 1.0, -1.0), allowed(0.01)[:rounds])
        assert share_ever(excluded) > 0.99
