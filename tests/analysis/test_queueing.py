"""Arrivals, and intervals of what waits together, with queueing theory as witness."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from ortbench.analysis.load_points import LEAST, QUANTILES, latency_bounds, mean_interval
from ortbench.core.stats import DOUBT, binomial_tails
from ortbench.features.load.analysis import queueing
from ortbench.features.load.analysis.queueing import cycle_interval, fairness, rate_interval
from ortbench.features.load.model import own_rate
from tests.expect import there
from tests.queues import MS, md1_wait, served, steady


def test_uniform_and_replayed_arrivals() -> None:
    seconds = [0.0, 0.5, 0.5, 2.0]
    assert own_rate(seconds) == 1.5
    for arrivals, ms in (
        (queueing.uniform_arrivals(4, 1), [0, 250, 500, 750]),
        (queueing.uniform_arrivals(0.1, 1), [0]),
        (queueing.replayed_arrivals(seconds, None, 10), [0, 500, 500, 2000]),
        (queueing.replayed_arrivals(seconds, 3.0, 10), [0, 250, 250, 1000]),
        (queueing.replayed_arrivals(seconds, None, 1), [0, 500, 500]),
    ):
        assert [at / MS for at in arrivals] == ms


def test_poisson_arrivals_follow_from_the_seed() -> None:
    first = queueing.poisson_arrivals(1000, 20, seed=3)
    assert list(queueing.poisson_arrivals(1000, 20, seed=3)) == list(first)
    assert list(queueing.poisson_arrivals(1000, 20, seed=3, repeat=1)) != list(first)
    assert queueing.poisson_arrivals(0.001, 1, seed=0).size == 1
    between = np.diff(first)
    assert (first[-1] < 20e9, between.min() >= 0) == (True, True)
    assert first.size == pytest.approx(20_000, abs=4 * np.sqrt(20_000))
    # Exponential: the standard deviation is the mean, and neighbours know nothing of one another.
    assert between.std() / between.mean() == pytest.approx(1, abs=0.05)
    assert abs(np.corrcoef(between[:-1], between[1:])[0, 1]) < 0.03


@pytest.mark.parametrize(("utilisation", "p99_ms"), [(0.3, 2.90), (0.7, 7.41)])
def test_intervals_hold_where_requests_wait_together(utilisation: float, p99_ms: float) -> None:
    """Of M/D/1, whose mean wait is known, and its p99 by a long simulation; as if requests were independent, the p99 would be wrong in
    45 of 100 runs. Where requests find the server idle nothing is left of what was before: by cycles an interval is narrower."""
    runs, too_low, too_high, held, narrower = 60, 0, 0, 0, []
    for seed in range(runs):
        record = served(queueing.poisson_arrivals(utilisation * 1000, 6 / utilisation, seed), steady(MS))
        p99 = latency_bounds(record.latencies)["p99"]
        too_low += p99["high"] is not None and p99["high"] < p99_ms * MS
        too_high += p99["low"] is not None and p99["low"] > p99_ms * MS
        cycles, batches = there(cycle_interval(record.waits, record.anew)), there(mean_interval(record.waits))
        held += cycles[0] <= md1_wait(MS, utilisation) <= cycles[1]
        narrower.append((batches[1] - batches[0]) - (cycles[1] - cycles[0]))
    assert max(too_low, too_high) <= 0.09 * runs
    assert 0.88 <= held / runs <= 0.99
    assert np.mean(narrower) > 0


@pytest.mark.parametrize(("alike", "count"), [(0.9, 1200), (0.99, 1200), (0.99, 6000)])
def test_no_slo_is_met_by_chance_while_a_machine_drifts(alike: float, count: int) -> None:
    """Log-normal times whose neighbours correlate so; the limit is their p99."""
    met, runs = 0, 100
    for seed in range(runs):
        steps = np.random.default_rng(seed).standard_normal(count)
        steps[1:] *= np.sqrt(1 - alike**2)
        latencies = (np.exp(lfilter([1], [1, -alike], steps)) * MS).astype(np.int64)
        high = latency_bounds(latencies)["p99"]["high"]
        met += high is not None and high < 10.24 * MS
    assert met <= 0.05 * runs


def test_few_samples_rates_and_fairness() -> None:
    assert (mean_interval([1.0] * 31), mean_interval([1.0] * 32)) == (None, (1.0, 1.0))
    assert rate_interval([1.0, 2.0]) is None
    assert rate_interval([1.0, 2.0, 3.0]) == pytest.approx((0, 2 + 4.303 / np.sqrt(3)))
    assert [fairness(it) for it in ([5, 5, 5], [9, 0, 0], [0, 0])] == [1, pytest.approx(1 / 3), None]


def test_tails_of_the_binomial_distribution() -> None:
    for n, share in ((298, 0.01), (299, 0.01), (59, 0.05), (5, 0.5), (1, 0.01), (10**5, 0.01)):
        most, fewest = binomial_tails(n, share)
        assert binom.cdf(most, n, share) <= DOUBT < binom.cdf(most + 1 + (n > 50_000), n, share)
        assert binom.sf(fewest - 1, n, share) <= DOUBT < binom.sf(fewest - 2 - (n > 50_000), n, share)
    for stat, q in QUANTILES.items():
        least = LEAST[stat] if stat != "p50" else LEAST[stat] // 4  # of fewer than 32 four count for one
        assert [binomial_tails(it, 1 - q)[0] for it in (least, least - 1)] == [0, -1]
