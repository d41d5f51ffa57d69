"""Arrivals, intervals of what waits together, the search for a rate, and a generator that hides late requests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, t

from ortbench.analysis.load_points import LEAST, QUANTILES, latency_bounds, mean_interval
from ortbench.core.stats import DOUBT, binomial_tails, t_quantile
from ortbench.features.load.analysis import queueing
from ortbench.features.load.analysis.queueing import FEWEST_CYCLES, cycle_interval, fairness, rate_interval
from ortbench.features.load.model import own_rate
from tests.expect import there
from tests.queues import MS, disagreements, hidden, md1_wait, served, steady


def test_uniform_and_replayed_arrivals() -> None:
    assert list(queueing.uniform_arrivals(4, 1)) == [0, 250 * MS, 500 * MS, 750 * MS]
    assert list(queueing.uniform_arrivals(0.1, 1)) == [0]
    seconds = [0.0, 0.5, 0.5, 2.0]
    assert own_rate(seconds) == 1.5
    assert list(queueing.replayed_arrivals(seconds, None, 10)) == [0, 500 * MS, 500 * MS, 2000 * MS]
    assert list(queueing.replayed_arrivals(seconds, 3.0, 10)) == [0, 250 * MS, 250 * MS, 1000 * MS]
    assert list(queueing.replayed_arrivals(seconds, None, 1)) == [0, 500 * MS, 500 * MS]
    assert queueing.poisson_arrivals(0.001, 1, seed=0).size == 1


def test_poisson_arrivals_follow_from_the_seed() -> None:
    first = queueing.poisson_arrivals(1000, 20, seed=3)
    assert list(queueing.poisson_arrivals(1000, 20, seed=3)) == list(first)
    assert list(queueing.poisson_arrivals(1000, 20, seed=3, repeat=1)) != list(first)
    between = np.diff(first)
    assert first[-1] < 20e9
    assert between.min() >= 0
    assert first.size == pytest.approx(20_000, abs=4 * np.sqrt(20_000))
    # Exponential: the standard deviation is the mean, and neighbours know nothing of one another.
    assert between.std() / between.mean() == pytest.approx(1, abs=0.05)
    assert abs(np.corrcoef(between[:-1], between[1:])[0, 1]) < 0.03


def autoregressive(phi: float, count: int, generator: np.random.Generator) -> np.ndarray:
    """A series whose neighbours correlate by phi, around 0; the variance of its mean is known: 1 / (n (1 - phi)²)."""
    noise = generator.standard_normal(count + 500)
    values = np.empty(noise.size)
    last = 0.0
    for number, it in enumerate(noise):
        last = values[number] = phi * last + it
    return values[500:]


def test_the_interval_holds_the_mean_as_often_as_it_says_however_neighbours_correlate() -> None:
    for phi in [0.0, 0.6, 0.9]:
        generator = np.random.default_rng(7)
        tries, count = 100, 2000
        intervals = [mean_interval(autoregressive(phi, count, generator)) for _ in range(tries)]
        assert None not in intervals
        held = sum(low <= 0 <= high for low, high in filter(None, intervals))
        width = np.mean([high - low for low, high in filter(None, intervals)]) / 2
        true = 1.96 / np.sqrt(count) / (1 - phi)
        assert 0.92 <= held / tries <= 0.98
        assert 0.9 <= width / true <= 1.25


def test_the_interval_by_cycles_holds_the_mean_wait_as_often_as_it_says_and_is_narrower() -> None:
    """Of M/D/1, whose mean wait is known: where requests find the server idle, nothing is left of what was before."""
    for utilisation in [0.3, 0.5, 0.7]:
        service, tries, held, widths = MS, 40, 0, list[tuple[float, float]]()
        theory = md1_wait(service, utilisation)
        for seed in range(tries):
            record = served(queueing.poisson_arrivals(utilisation * 1000, 20, seed), steady(service))
            by_cycles, by_batches = cycle_interval(record.waits, record.anew), mean_interval(record.waits)
            assert by_cycles is not None
            assert by_batches is not None
            held += by_cycles[0] <= theory <= by_cycles[1]
            widths.append((by_cycles[1] - by_cycles[0], by_batches[1] - by_batches[0]))
        assert 0.88 <= held / tries <= 0.99
        cycles, batches = np.array(widths).T
        assert cycles.mean() < batches.mean()
        assert np.quantile(cycles, 0.95) < np.quantile(batches, 0.95)


def test_few_cycles_and_alike_ones_leave_batches() -> None:
    times = np.where(np.arange(4000) // 1000 % 2, MS, MS // 4)
    record = served(queueing.poisson_arrivals(500, 8, seed=1)[:4000], lambda count: times[:count])
    assert record.anew.sum() > 10 * FEWEST_CYCLES
    size = record.due.size
    assert cycle_interval(record.waits, record.anew) == mean_interval(record.waits)
    assert cycle_interval(np.ones(size), record.anew) == (1.0, 1.0)
    series, anew = np.random.default_rng(1).standard_normal(1000), np.arange(1000) % 20 == 0
    assert cycle_interval(series, anew) == mean_interval(series)


def test_the_interval_by_cycles_by_hand() -> None:
    values = np.random.default_rng(3).exponential(1.0, 3000)
    anew = np.arange(values.size) % 3 == 0
    cycles = (values - values.mean()).reshape(-1, 3).sum(axis=1)
    half = t.ppf(0.975, 999) * np.sqrt((cycles @ cycles) * 1000 / 999) / 3000
    low, high = there(cycle_interval(values, anew))
    assert (high - low) / 2 == pytest.approx(half, rel=1e-9)


def test_few_samples_and_other_confidences() -> None:
    assert mean_interval([1.0] * 31) is None
    assert mean_interval([1.0] * 32) == (1.0, 1.0)
    series = np.random.default_rng(1).standard_normal(1000)
    narrow, wide = mean_interval(series, 0.95), mean_interval(series, 0.99)
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert t_quantile(7, 0.995) == pytest.approx(3.4995, rel=0.002)
    assert t_quantile(31, 0.995) == pytest.approx(2.7440, rel=0.002)
    assert t_quantile(7) == pytest.approx(2.3646, rel=0.002)


def test_rates_of_blocks_and_fairness() -> None:
    assert rate_interval([1.0, 2.0]) is None
    low, high = rate_interval([1.0, 2.0, 3.0]) or (0.0, 0.0)
    assert low == 0.0
    assert high == pytest.approx(2 + 4.303 / np.sqrt(3))
    assert fairness([5, 5, 5]) == 1
    assert fairness([9, 0, 0]) == pytest.approx(1 / 3)
    assert fairness([0, 0]) is None


# Queueing theory as witness


def test_an_honest_record_agrees_with_theory_and_one_that_hides_late_requests_does_not() -> None:
    for utilisation in [0.3, 0.5, 0.7]:
        service, count = 2 * MS, 60_000
        rate = utilisation * 1e9 / service
        due = queueing.poisson_arrivals(rate, count / rate, seed=1)
        record = served(due, steady(service))
        theory = md1_wait(service, due.size * service / due[-1])
        interval = there(cycle_interval(record.waits, record.anew, 0.99))
        assert interval[0] <= theory <= interval[1]
        assert interval[1] - interval[0] < 0.2 * theory
        assert disagreements(record, steady(service)(due.size), due) == []
        liar = hidden(record)
        assert len(disagreements(liar, steady(service)(due.size), due)) == 2
        assert mean_interval(liar.waits, 0.99) == (0, 0)


@pytest.mark.parametrize(("utilisation", "p99_ms"), [(0.3, 2.90), (0.7, 7.41)])
def test_bounds_of_a_percentile_hold_also_where_requests_wait_together(utilisation: float, p99_ms: float) -> None:
    """Of M/D/1, whose p99 a long simulation gave; as if requests were independent, the second would be wrong in 45 of 100 runs."""
    wrong = [0, 0]
    for seed in range(150):
        due = queueing.poisson_arrivals(utilisation * 1000, 2000 / (utilisation * 1000), seed)
        found = latency_bounds(served(due, steady(MS)).latencies)["p99"]
        wrong[0] += found["high"] is not None and found["high"] < p99_ms * MS
        wrong[1] += found["low"] is not None and found["low"] > p99_ms * MS
    assert max(wrong) <= 0.09 * 150


def test_tails_of_the_binomial_distribution() -> None:
    for n, share in [
        (298, 0.01),
        (299, 0.01),
        (473, 0.01),
        (59, 0.05),
        (5, 0.5),
        (1, 0.01),
        (2000, 0.01),
        (10**5, 0.01),
    ]:
        most, fewest = binomial_tails(n, share)
        assert binom.cdf(most, n, share) <= DOUBT < binom.cdf(most + 1 + (n > 50_000), n, share)
        assert binom.sf(fewest - 1, n, share) <= DOUBT < binom.sf(fewest - 2 - (n > 50_000), n, share)
    for stat, q in QUANTILES.items():
        least = LEAST[stat] if stat != "p50" else LEAST[stat] // 4  # of fewer than 32 four count for one
        assert binomial_tails(least, 1 - q)[0] == 0
        assert binomial_tails(least - 1, 1 - q)[0] == -1
