"""The figures of blocks that cases at points have, and where a figure lies: by their spread, or as neighbours wait together. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING

from ortbench.analysis.intervals import Interval, at_most
from ortbench.core.stats import DOUBT, FEW, Stats, Value, binomial_tails, of_processes, t_quantile
from ortbench.model.modes import CPU_CORES, CPU_TIME, LATENCY, THROUGHPUT, UTILISATION
from ortbench.model.result import Case
from ortbench.model.schema import LatencyBounds, LoadBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Series = Sequence[float] | NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_]


P50 = "p50"  # what the median is called too
# That may be compared; the largest of all says nothing that comes again.
STATISTICS = (THROUGHPUT, "median", "p95", "p99", "mean")
CPU = (CPU_TIME, CPU_CORES)  # of whose metrics blocks have a figure each
FEWEST_BLOCKS = 3  # of which an interval is made
_FEWEST_REQUESTS = 10  # of which it is said that a queue grows
FULL = 0.98  # from which busy share of the clients on a queue grows as long as requests come


def is_full(case: Case) -> bool:
    """Whether the clients of an open loop were busy all the time: its waits grow with how long it lasts. Of a few requests nobody knows."""
    latency = case.stats(LATENCY)
    return latency is not None and latency.n >= _FEWEST_REQUESTS and (case.value(UTILISATION) or 0.0) >= FULL


def rate_of(case: Case) -> float:
    found = case.value(THROUGHPUT)
    assert found is not None
    return found


def latency_of(case: Case) -> Stats:
    found = case.stats(LATENCY)
    assert found is not None
    return found


def figure(case: Case, stat: str) -> float:
    """One of `STATISTICS`, or ``max``, of a case that was measured: inferences/s, or ns."""
    return rate_of(case) if stat == THROUGHPUT else by_name(latency_of(case), stat)


def by_name(latency: Stats, stat: str) -> int:
    """A statistic of a latency by its name or `P50`, ns."""
    found: int = getattr(latency, "median" if stat == P50 else stat)
    return found


def figures_of(block: LoadBlock) -> dict[str, float]:
    """The figures of a block: those of `CPU` and throughput by their metric, those of latency by their statistic."""
    cpu = {CPU_TIME: block.get("cpu_time"), CPU_CORES: block.get("cpu_cores")}
    return {
        THROUGHPUT: block["throughput"],
        **block["latency"],
        **{key: it for key, it in cpu.items() if it is not None},
    }


def block_figures(case: Case, stat: str) -> dict[int, float]:
    """One of `STATISTICS`, or of `CPU`, of each block of a load point, by its round; none of others, of which blocks know nothing that
    comes again."""
    wanted = "median" if stat == P50 else stat
    known = [(it["round"], figures_of(it)) for it in case.load_blocks or () if wanted in (*STATISTICS, *CPU)]
    return {number: figures[wanted] for number, figures in known if wanted in figures}


INFERENCES = "inferences/s"  # what the throughput of a load point counts


def interval(case: Case, stat: str) -> Interval | None:
    """Where a figure of a load point lies with 95 %: inferences/s and CPU cores as recorded, CPU time by the spread that was recorded,
    latencies by the spread of the blocks."""
    known = case.metrics.get(stat)
    if stat in CPU:
        return known.ci95 if isinstance(known, Value) else None if known is None else _of_mean(known)
    if stat == THROUGHPUT and isinstance(known, Value) and known.ci95 is not None:
        return known.ci95
    return interval_of(block_figures(case, stat), figure(case, stat), case.first_rounds)


def interval_of(blocks: Mapping[int, float], middle: float, processes: Sequence[int] = ()) -> Interval | None:
    """Where a figure lies with 95 % by the spread of those of its blocks, by round, or of several processes, of which this has the first
    rounds.

    Of these the logarithms are averaged (Student's t), so that no end of an interval lies below zero. None with fewer than
    `FEWEST_BLOCKS` of them.
    """
    logs = _logarithms(blocks, processes)
    if len(logs) < FEWEST_BLOCKS:
        return None
    half = _half(logs)
    return middle * math.exp(-half), middle * math.exp(half)


def _of_mean(of: Stats) -> Interval | None:
    """Where a mean above 0 lies with 95 %, as of `interval_of`; None of too few samples."""
    if of.n < FEWEST_BLOCKS or of.mean <= 0:
        return None
    half = t_quantile(of.n - 1) * of.stdev / of.mean / math.sqrt(of.n)
    return of.mean * math.exp(-half), of.mean * math.exp(half)


def _logarithms(blocks: Mapping[int, float], processes: Sequence[int]) -> list[float]:
    """Those of the figures of blocks; of several processes each is one observation, the mean of its blocks'."""
    logs = {number: math.log(max(value, 1e-9)) for number, value in blocks.items()}
    own = of_processes(logs, processes)
    return [fmean(logs[number] for number in it) for it in own] if len(own) >= FEW else [*logs.values()]


def _half(logs: Sequence[float]) -> float:
    """Half of the 95 % interval of a mean, by Student's t."""
    return t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))


def paired_reach(ratios: Mapping[int, float], processes: Sequence[int] = ()) -> float | None:
    """How many times as great or small the ratio of two load points may be, by the ratios of their blocks of the same rounds, as
    `interval_of`."""
    logs = _logarithms(ratios, processes)
    return None if len(logs) < FEWEST_BLOCKS else math.exp(_half(logs))


# Statistics of latencies whose neighbours wait together
#
# The interval of a mean is by the method of batch means: the waits are cut into a few long batches of neighbours, whose means are
# nearly independent, and Student's t gives the interval of their mean (Law and Kelton, Simulation Modeling and Analysis, 3rd
# ed., 9.5.3; Schmeiser, Operations Research 30 (1982) 556, on how many: between 10 and 30 lose little). Whether batches
# are long enough is tested by the lag-1 correlation of their means (von Neumann's ratio, as Fishman, Management Science 24
# (1978) 510, uses it): where it is too high for independent ones, they are merged, down to `FEWEST`.


BATCHES = (32, 16, 8)  # from the most to the fewest: each step merges two neighbours
FEWEST = BATCHES[-1]
_LEAST_BATCH = 4  # requests in a batch
_TEST = 0.9  # confidence with which correlation must be seen for batches to be merged


def mean_interval(series: Series, confidence: float = 0.95) -> tuple[float, float] | None:
    """The interval of the mean of a series whose neighbours resemble each other, by batch means.

    Args:
        series: in the order of time, shape (n,).
        confidence: of the interval.

    Returns:
        (low, high); None where there are too few for `FEWEST` batches.
    """
    import numpy as np

    values = np.asarray(series, dtype=np.float64)
    for batches in BATCHES:
        size = values.size // batches
        if size < _LEAST_BATCH:
            continue
        # What does not fill the last batch is left out at the start, where the queue was still empty.
        means = values[values.size - size * batches :].reshape(batches, size).mean(axis=1)
        if batches == FEWEST or not are_correlated(means):
            half = t_quantile(batches - 1, 0.5 + confidence / 2) * float(means.std(ddof=1)) / math.sqrt(batches)
            center = float(values.mean())
            return center - half, center + half
    return None


QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
# Requests that tell for certain that a statistic is below a limit, at least: none of them may be beyond it.
LEAST = {"p50": 20, "mean": BATCHES[-1] * _LEAST_BATCH, "p90": 32, "p95": 59, "p99": 299, "max": 1}
_SAME = 1.1  # how many times as wide as of independent requests an interval is that shows nothing else
_FEW = 20  # requests that lie beyond a level, of whose neighbourhood something can be said
_TAIL = 40  # the longest, whose tail is told


def latency_bounds(
    latencies: Series, unserved: NDArray[np.bool_] | None = None, quantiles: Mapping[str, float] = QUANTILES
) -> dict[str, LatencyBounds]:
    """Between what the statistics of a latency lie, each end with 95 % confidence.

    A quantile lies below a latency where so few of the requests are beyond it as in at most 5 % of cases if more than its share of
    all were, and above one likewise: Clopper and Pearson, Biometrika 26 (1934) 404, for quantiles Conover, Practical Nonparametric
    Statistics, 3rd ed., 3.2. So a p99 takes 299 requests, of which none is beyond the limit; MLPerf's LoadGen claims its percentiles
    by the same sum ("early stopping"). Requests that wait together are worth fewer (`_worth`), which take the place of all (Korn and
    Graubard, Survey Methodology 24 (1998) 193). Where these are too few, what is seen far below a limit may still tell (`_tail_bound`).

    Args:
        latencies: in the order of time, ns, shape (n,), n >= 1.
        unserved: which of them were never served, and waited at least so long, shape (n,).
        quantiles: those that are looked at besides mean and maximum, by their names.
    """
    import numpy as np

    values = np.asarray(latencies, dtype=np.float64)
    ordered = np.sort(values)
    at_most = ordered if unserved is None else np.sort(np.where(unserved, np.inf, values))
    largest, are_known = math.ceil(ordered[-1]), math.isfinite(at_most[-1])
    inside = mean_interval(values, 1 - 2 * DOUBT)
    low, high = (None, None) if inside is None else (max(0, math.floor(inside[0])), math.ceil(inside[1]))
    found: dict[str, LatencyBounds] = {
        "mean": {"low": low, "high": high if are_known else None, "requests": values.size},
        "max": {"low": largest, "high": largest if are_known else None, "requests": values.size},  # of these alone
    }
    return found | {name: _quantile_bounds(values, ordered, at_most, q) for name, q in quantiles.items()}


def _quantile_bounds(
    values: NDArray[np.float64], ordered: NDArray[np.float64], at_most: NDArray[np.float64], q: float
) -> LatencyBounds:
    """Those of a quantile, of latencies as they came and in order, and in order with those that are not known as infinite."""
    n = values.size
    most, beyond = binomial_tails(n, 1 - q)
    end, most, worth = math.inf, max(0, most), n
    while True:
        rank = max(1, most, min(_FEW, n // 2))
        # Of what lies beyond twice as many: how much those few wait together is known badly. Nor are rarer ones worth more: of several
        # looks the best would be taken.
        worth = min(worth, *(_worth(values >= ordered[n - min(it, n)]) for it in (rank, 2 * rank)))
        if most * worth <= binomial_tails(worth, 1 - q)[0] * n:
            end = at_most[n - 1 - most]
        if math.isfinite(end) or most == 0:
            break
        most = most * 5 // 6
    if most == 0:
        end = min(end, _tail_bound(values, ordered, at_most, q))
    low = None
    while low is None and beyond <= n:  # a few that wait together are one event: more must be beyond then
        of_these = _worth(values >= ordered[n - beyond])
        if beyond * of_these >= binomial_tails(of_these, 1 - q)[1] * n:
            low = math.floor(ordered[n - beyond])
        beyond = max(beyond + 1, beyond * 6 // 5)
    return {"low": low, "high": math.ceil(end) if math.isfinite(end) else None, "requests": worth}


def _tail_bound(
    values: NDArray[np.float64], ordered: NDArray[np.float64], at_most: NDArray[np.float64], q: float
) -> float:
    """Below what a quantile lies for two reasons at once, of latencies as in `_quantile_bounds`; infinite of too few.

    Requests above a limit have a cause of their own, or are the tail of what lies below. Those with a cause of their own do not depend on
    what drifts below, so that all requests count in full: the binomial sum bounds their mean share even if it varies with time
    (Hoeffding, Annals of Mathematical Statistics 27 (1956) 713). Those of the tail come together as the `_TAIL` longest do. What these
    are worth bounds the share above the level where they begin, and beyond it that share is taken to fall at least as fast as latency
    rises: by a power law, from which Weissman, J. American Statistical Association 73 (1978) 812, extrapolates quantiles, of index 1,
    the slowest that a mean exists with. Simulated queues and drifts show how often the bound holds (`tests/analysis/test_queueing.py`).
    """
    n = values.size
    rank, most = min(max(_TAIL, math.ceil(2 * (1 - q) * n)), n // 2), binomial_tails(n, 1 - q)[0]
    if most < 0 or not rank:
        return math.inf
    worth = min(_worth(values >= ordered[n - it]) for it in (rank, 2 * rank))
    if worth < BATCHES[0]:
        return math.inf
    beyond = math.ceil(rank * worth / n)
    share = beyond / worth
    while binomial_tails(worth, share)[0] < beyond:
        share *= 1.02
    return float(max(at_most[n - 1 - most], at_most[n - 1 - rank] * max(1.0, share / (1 - q))))


def _worth(beyond: NDArray[np.bool_]) -> int:
    """How many independent requests would tell as well what share of all lies beyond something; with too few to know, one of four."""
    n, share = beyond.size, float(beyond.mean())
    inside = mean_interval(beyond, 1 - 2 * DOUBT)
    if inside is None:
        return max(1, n // _LEAST_BATCH)
    alone = NormalDist().inv_cdf(1 - DOUBT) * math.sqrt(share * (1 - share) / n)
    half = (inside[1] - inside[0]) / 2
    return n if half <= _SAME * alone else max(1, int(n * (alone / half) ** 2))


def are_correlated(means: NDArray[np.float64], confidence: float = _TEST) -> bool:
    """Whether neighbours among means resemble each other more than independent ones would."""
    import numpy as np

    off = means - means.mean()
    total = float(off @ off)
    if total == 0.0:
        return False
    steps = np.diff(means)
    # 1 - half of von Neumann's ratio: of independent ones it is 0 with this standard deviation.
    count = means.size
    lag = 1 - float(steps @ steps) / (2 * total)
    return lag > NormalDist().inv_cdf(confidence) * math.sqrt((count - 2) / (count**2 - 1))


def keeps_to(within: LatencyBounds, most_ns: int) -> bool | None:
    """Whether what lies within these bounds is at most so much, False where it is more, else None."""
    return at_most((within["low"], within["high"]), most_ns)
