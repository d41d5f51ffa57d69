"""Statistics of samples: pure functions of numbers, in nanoseconds.

Samples come in blocks (short bursts, see `ortbench.measure.schedule`). Samples of one block resemble each other more than
samples of different blocks, because the machine drifts; every interval here takes that into account. NumPy is loaded when
there are samples: a command has better to do until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from ortbench.core.parts import OneOf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[np.int64] | NDArray[np.float64]

# A percentile needs at least one sample beyond it, or it is only another name for the slowest one.
SAMPLES_FOR = {"p95": 20, "p99": 100}
FEWEST = 6  # samples or rounds that have a 95 % interval
# Student's t for 95 % two-sided at 1 and 2 degrees of freedom, where the expansion in `t_quantile` is too coarse.
_T_SMALL = {1: 12.706, 2: 4.303}


class _Metric(OneOf):
    __slots__ = ()


@dataclass(frozen=True)
class Stats(_Metric):
    """The samples of a metric in numbers, in the metric's unit; times are integer nanoseconds.

    `ci95` is the 95 % interval of the median (see `median_interval`), `mad` the median absolute deviation (unscaled), `stdev`
    the sample standard deviation (n - 1; 0 for one sample).
    """

    n: int
    min: float
    mean: float
    median: float
    p90: float
    p95: float
    p99: float
    max: float
    stdev: float
    mad: float
    ci95: tuple[float, float]


def percentile(stats: Stats, name: str) -> float | None:
    """One of the percentiles, or another statistic; None with too few samples for it."""
    value: float = getattr(stats, name)
    return value if stats.n >= SAMPLES_FOR.get(name, 0) else None


@dataclass(frozen=True)
class Value(_Metric):
    """A metric that is one number, its 95 % interval (None where it has none), and whether it was derived, not measured."""

    value: float
    ci95: tuple[float, float] | None = None
    derived: bool = False


if TYPE_CHECKING:
    Metric = Stats | Value
else:
    Metric = _Metric  # as the door reads it


def summarise(samples: Sequence[float] | Samples, block_sizes: Sequence[int] | None = None) -> Stats:
    """Describe samples.

    Args:
        samples: durations in ns, or other figures, shape (n,), n >= 1, in the order in which they were taken.
        block_sizes: how many consecutive samples each block holds (sum n); None when they are independent.

    Raises:
        ValueError: no samples.
    """
    import numpy as np

    x = np.asarray(samples)
    if x.size == 0:
        raise ValueError("no samples to summarise")
    to_number: Callable[[float], float] = round if x.dtype.kind == "i" else lambda value: round(float(value), 6)
    ordered = np.sort(x)
    # Quantiles are linear between order statistics: type 7 of Hyndman & Fan, The American Statistician 50 (1996) 361.
    median, p90, p95, p99 = (quantile(ordered, q) for q in (0.5, 0.9, 0.95, 0.99))
    lo, hi = median_interval(x, block_sizes, ordered=ordered)
    return Stats(
        n=int(x.size),
        min=to_number(ordered[0]),
        mean=to_number(float(x.mean())),
        median=to_number(median),
        p90=to_number(p90),
        p95=to_number(p95),
        p99=to_number(p99),
        max=to_number(ordered[-1]),
        stdev=to_number(float(x.std(ddof=1))) if x.size > 1 else 0,
        mad=to_number(quantile(np.sort(np.abs(x - median)), 0.5)),
        ci95=(to_number(lo), to_number(hi)),
    )


def quantile(ordered: NDArray[np.int64] | NDArray[np.float64], q: float) -> float:
    """A quantile of samples in order, linear between neighbours."""
    at = (ordered.size - 1) * q
    below = math.floor(at)
    above = min(below + 1, ordered.size - 1)
    return float(ordered[below]) + (at - below) * (float(ordered[above]) - float(ordered[below]))


def median_interval(
    samples: Sequence[float] | Samples, block_sizes: Sequence[int] | None = None, *, ordered: Samples | None = None
) -> tuple[float, float]:
    """The 95 % confidence interval of the median of samples that come in blocks.

    Woodruff's interval (J. American Statistical Association 47 (1952) 635): the standard error of the share of
    samples below the median is carried over to quantiles. With blocks as clusters it is taken between blocks; it is
    never smaller than that of independent samples, which gives the usual order-statistic interval (Conover,
    Practical Nonparametric Statistics, 3rd ed., 3.2).

    Args:
        samples: durations in ns, shape (n,), n >= 1.
        block_sizes: samples per block, in order (sum n); None when the samples are independent.
        ordered: the samples sorted, where the caller has them already.

    Returns:
        (low, high), both of them samples. With few samples or blocks this is (min, max), which may cover less.
    """
    import numpy as np

    x = np.asarray(samples)
    if ordered is None:
        ordered = np.sort(x)
    n = x.size
    half_width = NormalDist().inv_cdf(0.975) * 0.5 / math.sqrt(n)
    if block_sizes is not None and len(block_sizes) > 1:
        sizes = np.asarray(block_sizes, dtype=np.float64)
        starts = np.concatenate([[0], np.cumsum(block_sizes)[:-1]])
        median = quantile(ordered, 0.5)
        # A sample equal to the median counts half, so that ties do not shift a block's share.
        below = np.add.reduceat((x < median) + 0.5 * (x == median), starts)
        residual = below - sizes * (below.sum() / n)
        blocks = sizes.size
        between = math.sqrt(blocks / (blocks - 1) * float(residual @ residual)) / n
        half_width = max(half_width, t_quantile(blocks - 1) * between)
    # The normal approximation falls short for some n; the sign test's rank, which is exact, is the least there is.
    rank = min(math.floor((0.5 - half_width) * n), _sign_test_rank(n) or 0)
    low = max(rank, 0)
    return ordered[low].item(), ordered[n - 1 - low].item()


def t_quantile(degrees: int, q: float = 0.975) -> float:
    """Student's t, a quantile (97.5 % unless told otherwise), within 0.2 % of the exact value; for others from 7 degrees on.

    The expansion in powers of 1/degrees of Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.5; SciPy has
    the exact one but takes longer to import than a short benchmark takes to run.
    """
    if degrees in _T_SMALL and q == 0.975:
        return _T_SMALL[degrees]
    z = NormalDist().inv_cdf(q)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / degrees + g2 / degrees**2 + g3 / degrees**3 + g4 / degrees**4


DOUBT = 0.05  # that a claim is wrong which is made with 95 % confidence
_MOST_TERMS = 500  # of a binomial sum; beyond so many the normal approximation is within one


def binomial_tails(n: int, share: float) -> tuple[int, int]:
    """The most of n that show something by chance in at most `DOUBT` of cases where `share` of all do, -1 for none; and the fewest."""
    if n * share > _MOST_TERMS:
        reach = NormalDist().inv_cdf(1 - DOUBT) * math.sqrt(n * share * (1 - share)) + 0.5
        return math.floor(n * share - reach), math.ceil(n * share + reach)
    most, k = -1, 0
    term = total = (1 - share) ** n
    while total < 1 - DOUBT:
        most = k if total <= DOUBT else most
        k += 1
        term *= (n - k + 1) / k * share / (1 - share)
        total += term
    return most, k + 1


def sign_test_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the median of independent values, by the sign test; None with fewer than `FEWEST`."""
    ordered = sorted(values)
    rank = _sign_test_rank(len(ordered))
    return None if rank is None else (ordered[rank], ordered[len(ordered) - 1 - rank])


def _sign_test_rank(n: int) -> int | None:
    """How many order statistics to leave out at each end for 95 % of a median (Conover, 3.2); None when n < `FEWEST`."""
    if n > 1000:  # the normal approximation, with its continuity correction, is within one rank here
        return math.floor(n / 2 - NormalDist().inv_cdf(0.975) * math.sqrt(n) / 2 - 0.5)
    total, term = 0, 1
    for k in range(n + 1):
        total += term
        if total * 40 > 2**n:  # more than 2.5 % lies at or below k
            return k - 1 if k >= 1 else None
        term = term * (n - k) // (k + 1)
    return None
