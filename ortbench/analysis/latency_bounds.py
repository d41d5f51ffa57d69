"""Between what statistics of latencies lie whose neighbours wait together. Pure.

The interval of a mean is by the method of batch means: the waits are cut into a few long batches of neighbours, whose means are
nearly independent, and Student's t gives the interval of their mean (Law and Kelton, Simulation Modeling and Analysis, 3rd
ed., 9.5.3; Schmeiser, Operations Research 30 (1982) 556, on how many: between 10 and 30 lose little). Whether batches
are long enough is tested by the lag-1 correlation of their means (von Neumann's ratio, as Fishman, Management Science 24
(1978) 510, uses it): where it is too high for independent ones, they are merged, down to `FEWEST`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from ortbench.analysis.comparing.verdict import at_most
from ortbench.core.stats import DOUBT, binomial_tails, t_quantile
from ortbench.model.schema import LatencyBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Series = Sequence[float] | NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_]


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


def latency_bounds(
    latencies: Series, unserved: NDArray[np.bool_] | None = None, quantiles: Mapping[str, float] = QUANTILES
) -> dict[str, LatencyBounds]:
    """Between what the statistics of a latency lie, each end with 95 % confidence.

    A quantile lies below a latency where so few of the requests are beyond it as in at most 5 % of cases if more than its share of
    all were, and above one likewise: Clopper and Pearson, Biometrika 26 (1934) 404, for quantiles Conover, Practical Nonparametric
    Statistics, 3rd ed., 3.2. So a p99 takes 299 requests, of which none is beyond the limit; MLPerf's LoadGen claims its percentiles
    by the same sum ("early stopping"). Requests that wait together are worth fewer (`_worth`), which take the place of all (Korn and
    Graubard, Survey Methodology 24 (1998) 193).

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
    end, most = math.inf, max(0, most)
    while True:
        level = max(1, most, min(_FEW, n // 2))
        # Of what lies beyond twice as many: how much those few wait together is known badly.
        worth = min(_worth(values >= ordered[n - min(it, n)]) for it in (level, 2 * level))
        if most * worth <= binomial_tails(worth, 1 - q)[0] * n:
            end = at_most[n - 1 - most]
        if math.isfinite(end) or most == 0:
            break
        most = most * 5 // 6  # rarer ones may depend on each other less
    low = None
    while low is None and beyond <= n:  # a few that wait together are one event: more must be beyond then
        of_these = _worth(values >= ordered[n - beyond])
        if beyond * of_these >= binomial_tails(of_these, 1 - q)[1] * n:
            low = math.floor(ordered[n - beyond])
        beyond = max(beyond + 1, beyond * 6 // 5)
    return {"low": low, "high": math.ceil(end) if math.isfinite(end) else None, "requests": worth}


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
