"""Requests of open loops: when they are due, statistics of what waits in a queue, and the highest rate at which a server meets an SLO. Pure.

**Queue.** A request that waits long mostly has neighbours that do too, so the mean of n waits is known worse than that of n independent
ones. But whenever a request finds the server idle, all begins anew, and what one such cycle of requests waits says nothing of the
next. So the interval of the mean is by the regenerative method: a ratio of sums over independent cycles, with one standard deviation
known from hundreds of them (Crane and Lemoine, An Introduction to the Regenerative Method for Simulation Analysis, 1977; Law and
Kelton, Simulation Modeling and Analysis, 3rd ed., 9.5.3). Batch means, of which there are few, would need a Student's t that is
wider by up to a third.

Where there are too few cycles, where arrivals come in bursts of their own, or where the machine's own drift makes cycles alike that
are neighbours, it is by batch means (`ortbench.analysis.load_points`).

**Rate search.** All requests at a rate, of one try or more, say whether it meets the SLO (`ortbench.features.load.analysis.meets`). Near the edge no
number of tries tells, and far from it one does. So bisection finds about where the edge is, by the figures alone; the rates that are
tried then lie so far below (`BACK`) that the tries that are left can tell. Where a rate met the SLO early, those between it and the
edge follow.

A rate is looked at after each try, and of several rates the highest that passes is taken, each of which makes a claim by chance
likelier. That the claims hold all the same as often as is said, simulated servers show (`tests/analysis/test_rate_search.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ortbench.analysis.load_points import BATCHES, QUANTILES, are_correlated, mean_interval
from ortbench.core.stats import DOUBT, FEW, MEAN, figure_of, student, t_quantile
from ortbench.features.load.model import own_rate
from ortbench.model.schema import LatencyBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Series = Sequence[float] | NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_]
    Moments = NDArray[np.int64]


_TEST_OF_CYCLES = 0.99  # confidence for cycles not to count as independent: they are, but for the machine and bursts
FEWEST_CYCLES = 100  # below that the ratio of sums is biased, and one long cycle decides


def cycle_interval(series: Series, anew: NDArray[np.bool_], confidence: float = 0.95) -> tuple[float, float] | None:
    """The interval of the mean of waits in the order of time, shape (n,), by the cycles that they make up, or by batch means where cycles
    do not tell; None where there are too few for either. `anew`: at which of them a cycle begins, shape (n,); at the first one too."""
    import numpy as np

    values = np.asarray(series, dtype=np.float64)
    begins = np.flatnonzero(anew)
    if begins.size < FEWEST_CYCLES:
        return mean_interval(values, confidence)
    center = float(values.mean())
    # How much more or less than the mean all requests of a cycle waited together: independent, and 0 in sum.
    beyond = np.add.reduceat(values - center, begins)
    groups = np.add.reduceat(beyond, np.arange(BATCHES[0]) * begins.size // BATCHES[0])
    if are_correlated(groups, _TEST_OF_CYCLES):
        return mean_interval(values, confidence)
    spread = float(np.sqrt((beyond @ beyond) * begins.size / (begins.size - 1)))
    half = t_quantile(begins.size - 1, 0.5 + confidence / 2) * spread / values.size
    return center - half, center + half


def bounds_across(bounds: dict[str, LatencyBounds], processes: Sequence[Moments]) -> dict[str, LatencyBounds]:
    """The wider of such bounds and of those by the figures of each of several processes (Student's, of their logarithms): in another one
    all requests may take longer. `processes`: the latencies in each."""
    import numpy as np

    if len(processes) < FEW:
        return bounds
    found = dict(bounds)
    for stat, within in bounds.items():
        if stat == "max":  # of these requests alone
            continue
        figures = np.array([figure_of({0: it}, QUANTILES.get(stat, MEAN)) for it in processes])
        low, high = student(figures, float(figures.mean()), 1 - DOUBT)
        found[stat] = {
            "low": None if within["low"] is None else min(within["low"], math.floor(low)),
            "high": None if within["high"] is None else max(within["high"], math.ceil(high)),
            "requests": within["requests"],
        }
    return found


def rate_interval(rates: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of rates of blocks, which are independent; None with fewer than three."""
    if len(rates) < 3:
        return None
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
    half = t_quantile(len(rates) - 1) * spread / math.sqrt(len(rates))
    return max(0.0, mean - half), mean + half


def fairness(counts: Sequence[int]) -> float | None:
    """Jain's index of the clients' runs, from 1/n (one has all) to 1 (all have as many); None without any.

    Jain, Chiu and Hawe, DEC Research Report TR-301 (1984).
    """
    squares = sum(count * count for count in counts)
    return None if not squares else sum(counts) ** 2 / (len(counts) * squares)


# When requests are due: made before a loop begins, whatever happens in it

MOST_REQUESTS = 2_000_000  # of a load point: they are kept in memory, and more say nothing new


def uniform_arrivals(rate: float, duration_s: float) -> Moments:
    """Moments at equal distances, ns from the load point's start on, shape (n,), int64; at least one."""
    import numpy as np

    count = min(MOST_REQUESTS, max(1, int(rate * duration_s)))
    return np.round(np.arange(count) * (1e9 / rate)).astype(np.int64)


def poisson_arrivals(rate: float, duration_s: float, seed: int, repeat: int = 0) -> Moments:
    """Moments of a Poisson process, as `uniform_arrivals` gives them, of NumPy's default generator: one seed and repeat give the same."""
    import numpy as np

    generator = np.random.default_rng([seed, repeat])
    wanted = min(MOST_REQUESTS, int(rate * duration_s) + 1)
    moments = np.cumsum(generator.exponential(1e9 / rate, wanted))
    while moments[-1] < duration_s * 1e9 and moments.size < MOST_REQUESTS:
        more = np.cumsum(generator.exponential(1e9 / rate, max(16, wanted // 4)))
        moments = np.concatenate([moments, moments[-1] + more])
    kept = moments[moments < duration_s * 1e9][:MOST_REQUESTS]
    return np.round(kept if kept.size else moments[:1]).astype(np.int64)


def replayed_arrivals(seconds: Sequence[float], rate: float | None, duration_s: float) -> Moments:
    """Moments of a file, as `uniform_arrivals` gives them: `seconds` ascend from 0, and are stretched to a mean rate, if any."""
    import numpy as np

    moments = np.asarray(seconds, dtype=np.float64) * (1.0 if rate is None else own_rate(seconds) / rate)
    return np.round(moments[moments <= duration_s][:MOST_REQUESTS] * 1e9).astype(np.int64)


RESOLUTION = 0.05  # of the rate, at which bisection ends
BACK = 0.85  # by how much lower the next rate is, where tries cannot tell
REPEATS = 3  # tries of a rate that met the SLO, before higher ones follow
TRIES = 18  # of all rates, at most
_LOWEST = 0.01  # of the highest rate: below that no rate is looked for


class Found(NamedTuple):
    """The highest rate that was shown to meet the SLO, and the lowest above it from which on all that were tried violate it, if any."""

    rate: float
    violated_from: float | None


@dataclass
class _Rate:
    """What all tries of a rate say: whether it meets the SLO, None where they cannot tell; whether its figures do; and how many more
    tries would tell."""

    met: bool | None = None
    holds: bool = False
    more: float = 0.0
    tries: int = 0


class Search:
    """Looks between no requests and the most that can be served per second (`highest`)."""

    def __init__(self, highest: float) -> None:
        self._highest = highest
        self._rates: dict[float, _Rate] = {}
        self._edge: float | None = None  # about where it is, once bisection has ended
        self._given_up: set[float] = set()  # rates that the tries left cannot tell of
        self._at = 0.0  # the rate that is tried then

    @property
    def tries(self) -> int:
        """How many there were so far, of all rates."""
        return sum(it.tries for it in self._rates.values())

    def tell(self, rate: float, met: bool | None, holds: bool, longer: float) -> None:
        """Whether a rate meets the SLO by all requests so far, see `meets` and `meets_by_figures`, and how many times as many would tell."""
        known = self._rates.setdefault(rate, _Rate())
        known.met, known.holds, known.tries = met, holds, known.tries + 1
        known.more = known.tries * (longer - 1)

    def next(self) -> float | None:
        """The rate to try next, per second; None when enough is known."""
        if self.tries >= TRIES:
            return None
        if self._edge is None:
            high = min((rate for rate, it in self._rates.items() if not it.holds), default=self._highest)
            low = max((rate for rate, it in self._rates.items() if it.holds and rate < high), default=0.0)
            if high - low > RESOLUTION * high:
                middle = _round_rate((low + high) / 2)
                return middle if middle >= _LOWEST * self._highest else None
            self._edge = high
            self._at = max((it for it in self._met_rates() if it >= BACK * low), default=self._nearby_rate(low * BACK))
        while self._at >= _LOWEST * self._highest:
            known = self._rates.get(self._at, _Rate())
            # The tries that are left may tell that it meets the SLO.
            is_open = known.met is None and known.holds and known.more <= TRIES - self.tries
            if not known.tries or (known.met and known.tries < REPEATS) or is_open:
                return self._at
            if known.met is not True:
                self._given_up.add(self._at)
            lower = max(self._met_rates(), default=None)
            upper = min((rate for rate in self._given_up if lower is None or rate > lower), default=self._edge)
            if lower is None:
                self._at = self._nearby_rate(upper * BACK)
            elif upper < lower * (1 + RESOLUTION):
                return None
            else:
                self._at = self._nearby_rate(math.sqrt(lower * upper))
        return None

    def best_rate(self) -> Found | None:
        """The highest rate that met the SLO below all that violated it; None without one."""
        violated = [rate for rate, it in self._rates.items() if it.met is False]
        met = max((it for it in self._met_rates() if it < min(violated, default=math.inf)), default=None)
        others = max((rate for rate, it in self._rates.items() if it.met is not False), default=0.0)
        return None if met is None else Found(met, min((it for it in violated if it > others), default=None))

    def _nearby_rate(self, rate: float) -> float:
        """A rate, or the one next to it of which tries have not told: their requests count together."""
        told = {*self._given_up, *self._met_rates()}
        known = [it for it in self._rates if abs(it / rate - 1) < RESOLUTION / 2 and it not in told]
        return min(known, key=lambda it: abs(it - rate), default=_round_rate(rate))

    def _met_rates(self) -> list[float]:
        return [rate for rate, it in self._rates.items() if it.met]


def _round_rate(rate: float) -> float:
    """With three digits, as it is shown."""
    return float(f"{rate:.3g}")
