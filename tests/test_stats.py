"""Statistics: exact on small samples, and their intervals cover what they promise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from ortbench.core.stats import Stats, _sign_test_rank, median_interval, summarise, t_quantile
from tests.expect import there

REPEATS = 1000


def test_summaries() -> None:
    shuffled = [7000, 1000, 10000, 4000, 2000, 9000, 3000, 8000, 5000, 6000]
    assert summarise(shuffled) == Stats(
        n=10,
        min=1000,
        mean=5500,
        median=5500,
        p90=9100,
        p95=9550,
        p99=9910,
        max=10000,
        stdev=3028,  # 1000 × √(82.5 / 9)
        mad=2500,
        ci95=(2000, 9000),
    )
    samples = [5, 9, 1, 4]
    assert summarise(np.array(samples, dtype=np.int64)) == summarise(samples)
    assert summarise([42]) == Stats(1, 42, 42, 42, 42, 42, 42, 42, 0, 0, (42, 42))
    assert summarise([100, 300]) == Stats(2, 100, 200, 200, 280, 290, 298, 300, 141, 100, (100, 300))
    assert summarise([7] * 50, [10] * 5) == Stats(50, 7, 7, 7, 7, 7, 7, 7, 0, 0, (7, 7))
    assert summarise([100] * 99 + [1_000_000]) == Stats(
        n=100,
        min=100,
        mean=10_099,
        median=100,
        p90=100,
        p95=100,
        p99=10_099,  # 1 % of the way from the 99th to the 100th
        max=1_000_000,
        stdev=99_990,
        mad=0,
        ci95=(100, 100),
    )
    found = summarise([100] * 50 + [200] * 50)
    assert (found.median, found.mad, found.stdev, found.ci95) == (150, 50, 50, (100, 200))
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def drifting() -> list[int]:
    """Ten blocks of ten, each 100 ns slower than the one before."""
    return [1000 + 100 * block + sample for block in range(10) for sample in range(10)]


def test_drift_across_blocks_widens_the_interval() -> None:
    assert median_interval(drifting()) == (1309, 1600)
    assert median_interval(drifting(), [10] * 10) == (1102, 1807)
    assert summarise(drifting(), [10] * 10).ci95 == (1102, 1807)
    same = list(range(10)) * 10
    assert median_interval(same, [10] * 10) == median_interval(same) == (3, 6)
    assert median_interval(drifting(), [100]) == median_interval(drifting())
    backwards = drifting()[::-1]
    assert median_interval(backwards) == median_interval(drifting())
    assert median_interval(backwards, [10] * 10) == median_interval(drifting(), [10] * 10)
    interleaved = [1000 + 100 * block + sample for sample in range(10) for block in range(10)]
    assert median_interval(interleaved, [10] * 10) == (1309, 1600)


def test_exact_coverage_of_independent_samples() -> None:
    """The chance that between low + 1 and high samples lie below the median is a sum of the binomial."""
    for n, least in [(6, 0.96), (10, 0.97), (44, 0.935), (50, 0.935), (100, 0.94), (1000, 0.945)]:
        low, high = median_interval(range(n))
        below = scipy_stats.binom(n, 0.5)
        assert least <= below.cdf(high) - below.cdf(low) <= 0.98


def share_covering(samples: NDArray[np.int64], median: float, block_sizes: Sequence[int] | None) -> float:
    intervals = [median_interval(row, block_sizes) for row in samples]
    return sum(low <= median <= high for low, high in intervals) / len(intervals)


def test_coverage_of_independent_samples() -> None:
    for n in [60, 300]:
        generator = np.random.default_rng(1)
        samples = np.round(1e6 * np.exp(0.3 * generator.standard_normal((REPEATS, n)))).astype(np.int64)
        assert 0.935 <= share_covering(samples, 1e6, None) <= 0.985
    generator = np.random.default_rng(2)
    samples = np.round(1e6 * np.exp(0.3 * generator.standard_normal((REPEATS, 300)))).astype(np.int64)
    assert 0.935 <= share_covering(samples, 1e6, [15] * 20) <= 0.985


def test_t_quantile() -> None:
    for degrees in [*range(1, 61), 100, 1000, 100_000]:
        exact = scipy_stats.t.ppf(0.975, degrees)
        assert t_quantile(degrees) == pytest.approx(exact, rel=0.002)
        if degrees >= 20:  # far better where the expansion has converged
            assert t_quantile(degrees) == pytest.approx(exact, rel=2e-7)


def test_sign_test_rank_is_the_largest_with_95_percent() -> None:
    for n in range(1, 6):
        assert _sign_test_rank(n) is None
        assert 1 - 2 * 0.5**n < 0.95  # even from the smallest to the largest
    for n in [*range(6, 61), 999, 1000]:
        rank = there(_sign_test_rank(n))
        below = scipy_stats.binom(n, 0.5)
        assert 1 - 2 * below.cdf(rank) >= 0.95
        assert 1 - 2 * below.cdf(rank + 1) < 0.95
    for n in [1001, 1002, 1500, 5000, 99_999]:
        rank = there(_sign_test_rank(n))
        exact = int(scipy_stats.binom.ppf(0.025, n, 0.5)) - 1
        assert rank in (exact - 1, exact, exact + 1)
        assert 1 - 2 * scipy_stats.binom.cdf(rank, n, 0.5) >= 0.949


def test_blocks_of_different_sizes() -> None:
    samples = [10] * 30 + [20] * 10 + [30] * 20
    # Half of the samples are 10, so the median lies halfway between 10 and 20.
    assert summarise(samples).median == 15
    assert median_interval(samples) == (10, 20)
    assert median_interval(samples, [30, 10, 20]) == (10, 30)
    # Half of every block lies below 100, whether all of it is 100 or half of it 90.
    samples = [100] * 40 + ([90] * 5 + [110] * 5) * 6
    assert median_interval(samples) == (100, 100)
    assert median_interval(samples, [10] * 10) == (100, 100)
