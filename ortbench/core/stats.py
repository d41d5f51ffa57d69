"""Statistics of samples: pure functions of numbers, in nanoseconds.

Samples come in blocks (short bursts, see `ortbench.measure.schedule`). Samples of one block resemble each other more than
samples of different blocks, because the machine drifts; every interval here takes that into account. NumPy is loaded when
there are samples: a command has better to do until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from ortbench.core.parts import OneOf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Taken = Mapping[int, Sequence[float] | NDArray[np.int64] | Floats]  # as `Blocks`
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
    Metric = _Metric  # as files are read


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
    rank = min(math.floor((0.5 - half_width) * n), sign_test_rank(n) or 0)
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
    rank = sign_test_rank(len(ordered))
    return None if rank is None else (ordered[rank], ordered[len(ordered) - 1 - rank])


def sign_test_rank(n: int) -> int | None:
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


# Where figures of samples that came in rounds lie, with 95 %: by resampling whole rounds
#
# **What is estimated**: the ratio (or the difference) of two figures of all samples, such as the medians that a table prints beside it.
# Not the median of ratios of pairs, which is another number where distributions are skewed or have two humps.
#
# **How**: the bootstrap (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, ch. 8 and 13) draws whole rounds, so that
# blocks that saw the same machine stay together, and what hits both hits both in every resample. Of many rounds, batches of neighbours are
# drawn, `BATCHES` of them, because neighbours resemble each other (the block bootstrap: Kuensch, Annals of Statistics 17 (1989) 1217;
# Politis & Romano, J. American Statistical Association 89 (1994) 1303).
#
# The plain percentile interval covers too seldom with few rounds: in nine of them it holds the truth in 88 to 91 % of runs, as it takes the
# spread of the drawn rounds for that of all (a factor of (n - 1) / n) and the normal's quantile for Student's. So its ends are moved out
# by just these two: Hesterberg's expanded percentile interval (The American Statistician 69 (2015) 371, 5.3). Of bursts, drift, two
# humps, and all of them after the schedule's rule to stop, `reports/coverage.md` says how often it holds.
#
# **Of several processes** each is one observation: in another one memory lies elsewhere, which all its rounds share. Their figures give
# Student's interval of the mean of the logarithms, from `FEW` on; so do rounds too few to draw from. Where the figure of all samples is
# not that mean, as of two humps, it reaches as far beyond that figure.

Blocks = Mapping[int, Sequence[float]]  # the samples of each block, by its round

BATCHES = 30  # of neighbouring rounds, at most
RESAMPLES = 2000
FEW = 3  # processes, or rounds that are not drawn from, that have an interval
_GRID = 1024  # values at which samples are counted: a figure lies between two of them
_SEED = 19930515  # so that the same samples have the same interval on every machine

MEAN = None  # in place of a quantile


class Ratio(NamedTuple):
    """A ratio of two figures and its 95 % interval; None with fewer than `FEWEST` rounds, which cannot give one."""

    ratio: float
    ci95: tuple[float, float] | None

    def scaled_to(self, ratio: float) -> Ratio:
        """The same where the ratio is another one: of figures that were rounded, or that follow from these in proportion."""
        by = ratio / self.ratio
        return Ratio(ratio, None if self.ci95 is None else (self.ci95[0] * by, self.ci95[1] * by))

    def inverse(self) -> Ratio:
        return Ratio(1 / self.ratio, None if self.ci95 is None else (1 / self.ci95[1], 1 / self.ci95[0]))


def ratio_of(
    over: Blocks, under: Blocks, q: float | None = 0.5, least: float = 1, processes: Sequence[int] = ()
) -> Ratio:
    """A quantile of all samples of `over` (or the `MEAN`) by that of `under`, in the rounds that both have; `ValueError` without any.

    Blocks of the same round were taken at about the same time. A figure below `least`, such as the clock's step, counts as that.
    `processes`: the first round of each.
    """
    import numpy as np

    shared = over.keys() & under.keys()
    one, other = (max(figure_of({number: it[number] for number in shared}, q), least) for it in (over, under))
    rounds = Rounds(shared, processes)
    if not rounds.are_enough:
        return Ratio(one / other, None)
    drawn = [np.maximum(rounds.figures(it, q), least) for it in (over, under)]
    return Ratio(one / other, rounds.interval(drawn[0] / drawn[1], one / other))


def by_few_rounds(over: Blocks, under: Blocks, q: float | None = 0.5, processes: Sequence[int] = ()) -> Ratio:
    """The same, of rounds too few to draw from by Student's interval of the ratios of each."""
    shared = over.keys() & under.keys()
    return ratio_of(over, under, q, processes=processes if len(shared) >= FEWEST else sorted(shared))


def figure_of(blocks: Taken, q: float | None = 0.5) -> float:
    """A quantile of all samples, linear between neighbours, or their `MEAN`; `ValueError` without any."""
    import numpy as np

    every = _join(list(blocks.values()))
    if not every.size:
        raise ValueError("no samples")
    return float(every.mean()) if q is MEAN else quantile(np.sort(every), q)


def of_processes(rounds: Collection[int], processes: Sequence[int]) -> list[list[int]]:
    """The rounds of each process that has some, of which `processes` has the first; empty of one process."""
    ends = [*processes[1:], math.inf]
    own = ([it for it in rounds if a <= it < b] for a, b in zip(processes, ends, strict=bool(processes)))
    return [it for it in own if it]


class Rounds:
    """Rounds that all blocks share, from which resamples are drawn: the same ones for every figure, so that figures stay paired. Of
    `FEW` `processes` or more, of which this has the first rounds, there are no resamples: figures are those of each process."""

    def __init__(self, shared: Collection[int], processes: Sequence[int] = ()) -> None:
        ordered = sorted(shared)
        self._processes = of_processes(ordered, processes)
        self._count = min(len(ordered), BATCHES)
        bounds = [round(len(ordered) * it / self._count) for it in range(self._count + 1)] if ordered else []
        self._batches = [ordered[a:b] for a, b in pairwise(bounds)]

    @property
    def are_enough(self) -> bool:
        return self._are_of_processes or self._count >= FEWEST

    @property
    def _are_of_processes(self) -> bool:
        return len(self._processes) >= FEW

    def figures(self, blocks: Taken, q: float | None = 0.5) -> Floats:
        """A quantile of all samples of each resample, or their `MEAN`, shape (`RESAMPLES`,), or (processes,); there must be `are_enough`."""
        import numpy as np

        if self._are_of_processes:
            return np.array([figure_of({it: blocks[it] for it in own}, q) for own in self._processes])
        batches = [_join([blocks[number] for number in batch]) for batch in self._batches]
        drawn = _draw_counts(self._count)
        # Numbers of samples are whole, so that their sums are exact in any order.
        sizes = drawn @ np.array([it.size for it in batches], dtype=np.float64)
        if q is MEAN:
            means: Floats = drawn @ np.array([math.fsum(it) for it in batches]) / sizes
            return means
        batches = [np.sort(it) for it in batches]
        grid = _grid(batches, q)
        ranks = np.stack([np.searchsorted(it, grid, side="right") for it in batches], axis=1).astype(np.float64)

        def find_values(order: Floats) -> Floats:
            """The sample of each resample that so many lie before: the first value of the grid that more do not lie above."""
            first, last = np.zeros(RESAMPLES, np.int64), np.full(RESAMPLES, grid.size - 1)
            for _ in range(int(grid.size - 1).bit_length()):
                middle = (first + last) // 2
                is_before = np.einsum("rb,rb->r", drawn, ranks[middle]) <= order
                first, last = np.where(is_before, middle + 1, first), np.where(is_before, last, middle)
            found: Floats = grid[np.minimum(first, last)]
            return found

        rank = q * (sizes - 1)
        below = np.floor(rank)
        low = find_values(below)
        return low + (rank - below) * (find_values(np.minimum(below + 1, sizes - 1)) - low)

    def interval(self, figures: Floats, found: float) -> tuple[float, float]:
        """The 95 % interval by what resamples, or processes, have in place of the figure that was found."""
        import numpy as np

        if self._are_of_processes:
            return student(figures, found)
        spread = math.sqrt(self._count / (self._count - 1)) * t_quantile(self._count - 1)
        outside = NormalDist().cdf(-spread)
        low, high = np.quantile(figures, (outside, 1 - outside))
        return min(float(low), found), max(float(high), found)


def by_processes(stats: Stats, blocks: Taken, processes: Sequence[int]) -> Stats:
    """The same where of several processes the interval of the median is by theirs: in each memory lies elsewhere."""
    if not processes or not (rounds := Rounds(blocks, processes)).are_enough:
        return stats
    low, high = rounds.interval(rounds.figures(blocks), stats.median)
    return replace(stats, ci95=(round(low), round(high)))


def summarise_blocks(blocks: Taken, processes: Sequence[int]) -> Stats:
    """Describe the samples of blocks, by their rounds, of which each process has the first in `processes`."""
    import numpy as np

    found = summarise(np.concatenate([*blocks.values()]), [len(it) for it in blocks.values()])
    return by_processes(found, blocks, processes)


def student(of: Floats | Sequence[float], found: float, q: float = 0.975) -> tuple[float, float]:
    """Student's interval of the mean, 95 % unless told otherwise, of logarithms where all figures have one; where the figure that was
    found of all samples is not that mean, as far beyond it too."""
    import numpy as np

    figures = np.asarray(of)
    times = found > 0 and bool((figures > 0).all())
    taken, told = (np.log(figures), math.log(found)) if times else (figures, found)
    reach = t_quantile(taken.size - 1, q) * taken.std(ddof=1) / math.sqrt(taken.size)
    ends = min(taken.mean(), told) - reach, max(taken.mean(), told) + reach
    low, high = (float(np.exp(it) if times else it) for it in ends)
    # Rounding may move an end past what was found.
    return min(max(low, 0.0) if (figures >= 0).all() else low, found), max(high, found)


def _join(parts: Sequence[Sequence[float] | NDArray[np.int64] | Floats]) -> Floats:
    import numpy as np

    return np.concatenate([np.asarray(it, dtype=np.float64) for it in parts]) if parts else np.empty(0)


@lru_cache(maxsize=8)
def _draw_counts(count: int) -> Floats:
    """How often each of so many batches is drawn in each resample, shape (`RESAMPLES`, count)."""
    import numpy as np

    chosen = np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))
    return np.stack([(chosen == number).sum(axis=1) for number in range(count)], axis=1).astype(np.float64)


def _grid(batches: Sequence[Floats], q: float) -> Floats:
    """Values between the least quantile of a batch and the greatest, where that of every resample lies, and one beyond either."""
    import numpy as np

    ends = [quantile(it, q) for it in batches]
    sorted_values = np.sort(np.concatenate(batches))  # np.unique loads numpy.ma
    values = sorted_values[np.diff(sorted_values, prepend=-np.inf) != 0]
    begin = max(int(np.searchsorted(values, min(ends), side="right")) - 2, 0)
    inside = values[begin : int(np.searchsorted(values, max(ends))) + 2]
    chosen: Floats = inside[np.linspace(0, inside.size - 1, min(inside.size, _GRID)).round().astype(int)]
    return chosen
