"""Statistics: exact on small samples, figures of resampled rounds, and intervals that cover what they promise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ortbench.core import stats, units
from tests.benchmarks.coverage import coverage
from tests.expect import there


@pytest.mark.parametrize(
    ("samples", "sizes", "found"),
    [
        # n, min, mean, median, p90, p95, p99, max, stdev (1000 × √(82.5 / 9)), mad, ci95
        ([7000, 1000, 10000, 4000, 2000, 9000, 3000, 8000, 5000, 6000], None,
         stats.Stats(10, 1000, 5500, 5500, 9100, 9550, 9910, 10000, 3028, 2500, (2000, 9000))),
        ([42], None, stats.Stats(1, 42, 42, 42, 42, 42, 42, 42, 0, 0, (42, 42))),
        ([100, 300], None, stats.Stats(2, 100, 200, 200, 280, 290, 298, 300, 141, 100, (100, 300))),
        ([7] * 50, [10] * 5, stats.Stats(50, 7, 7, 7, 7, 7, 7, 7, 0, 0, (7, 7))),
        # 1 % of the way from the 99th to the 100th
        ([100] * 99 + [1_000_000], None, stats.Stats(100, 100, 10_099, 100, 100, 100, 10_099, 1_000_000, 99_990, 0, (100, 100))),
        ([100] * 50 + [200] * 50, None, stats.Stats(100, 100, 150, 150, 200, 200, 200, 200, 50, 50, (100, 200))),
    ],
)  # fmt: skip
def test_summaries(samples: list[int], sizes: Sequence[int] | None, found: stats.Stats) -> None:
    assert stats.summarise(samples, sizes) == stats.summarise(np.array(samples), sizes) == found
    with pytest.raises(ValueError, match="no samples"):
        stats.summarise([])


def test_drift_across_blocks_widens_the_interval() -> None:
    """Ten blocks of ten, each 100 ns slower than the one before."""
    drifting = [1000 + 100 * block + sample for block in range(10) for sample in range(10)]
    interleaved = [1000 + 100 * block + sample for sample in range(10) for block in range(10)]
    same = list(range(10)) * 10
    for samples, apart, in_blocks in (
        (drifting, (1309, 1600), (1102, 1807)),
        (drifting[::-1], (1309, 1600), (1102, 1807)),
        (interleaved, (1309, 1600), (1309, 1600)),
        (same, (3, 6), (3, 6)),
    ):
        assert (stats.median_interval(samples), stats.median_interval(samples, [10] * 10)) == (apart, in_blocks)
    assert stats.median_interval(drifting, [100]) == (1309, 1600)


def test_blocks_of_different_sizes() -> None:
    samples = [10] * 30 + [20] * 10 + [30] * 20  # half are 10, so the median lies halfway between 10 and 20
    assert (stats.summarise(samples).median, stats.median_interval(samples)) == (15, (10, 20))
    assert stats.median_interval(samples, [30, 10, 20]) == (10, 30)
    # Half of every block lies below 100, whether all of it is 100 or half of it 90.
    samples = [100] * 40 + ([90] * 5 + [110] * 5) * 6
    assert stats.median_interval(samples) == stats.median_interval(samples, [10] * 10) == (100, 100)


def test_exact_coverage_of_independent_samples() -> None:
    """The chance that between low + 1 and high samples lie below the median is a sum of the binomial."""
    for n in [*range(6, 61), 100, 999, 1000, 1001, 1500, 99_999]:
        below = scipy_stats.binom(n, 0.5)
        low, high = there(stats.sign_test_interval(range(n)))
        assert below.cdf(high) - below.cdf(low) >= (0.95 if n <= 1000 else 0.949)
        # With one more left out at each end it would be too seldom.
        assert below.cdf(high - 1) - below.cdf(low + 1) < (0.95 if n <= 1000 else 0.951)
        low, high = stats.median_interval(range(n))
        assert 0.949 <= below.cdf(high) - below.cdf(low) <= (0.98 if n >= 30 else 0.997)


def test_coverage_of_samples_in_blocks() -> None:
    assert [stats.sign_test_interval(range(n)) for n in range(1, 6)] == [None] * 5
    generator = np.random.default_rng(2)
    samples = np.round(1e6 * np.exp(0.3 * generator.standard_normal((500, 300)))).astype(np.int64)
    intervals = [stats.median_interval(row, [15] * 20) for row in samples]
    assert 0.935 <= np.mean([low <= 1e6 <= high for low, high in intervals]) <= 0.985


def test_t_quantile() -> None:
    for degrees in [*range(1, 61), 100, 1000, 100_000]:
        # Far better where the expansion has converged.
        exact = scipy_stats.t.ppf(0.975, degrees)
        assert stats.t_quantile(degrees) == pytest.approx(exact, rel=2e-7 if degrees >= 20 else 2e-3)
    for degrees in (7, 31):
        assert stats.t_quantile(degrees, 0.995) == pytest.approx(scipy_stats.t.ppf(0.995, degrees), rel=2e-3)


# Figures of rounds, and of resamples of them


def test_ratios_of_figures() -> None:
    rounds = range(6)
    one, other = {it: [200 + it, 300 + it, 900] for it in rounds}, {it: [100, 150, 160] for it in rounds}
    assert stats.ratio_of(one, other).ratio == 302.5 / 150
    assert stats.ratio_of(one, other, stats.MEAN).ratio == pytest.approx((1400 + 5) / 410)
    assert stats.ratio_of(other, other) == stats.Ratio(1.0, (1.0, 1.0))
    assert stats.ratio_of(one, {it: of for it, of in other.items() if it}) == stats.Ratio(
        303 / 150, None
    )  # five common rounds
    tripled = {it: [3 * ns for ns in of] for it, of in one.items()}  # however rounds differ, pairs do not
    assert there(stats.ratio_of(tripled, one).ci95) == pytest.approx((3, 3))
    assert stats.ratio_of({0: [0]}, {0: [4]}).ratio == 0.25  # less than the clock's step counts as one
    with pytest.raises(ValueError, match="no samples"):
        stats.ratio_of({0: [1]}, {1: [1]})


@pytest.mark.parametrize(("count", "most"), [(stats.FEWEST, 20), (17, 3), (stats.BATCHES, 2000)])
def test_a_resample_has_the_figures_of_the_samples_that_it_has(count: int, most: int) -> None:
    random = np.random.default_rng(1)
    blocks = {it: random.integers(1, most, 7).tolist() for it in range(count)}
    rounds = stats.Rounds(blocks.keys())
    for q in (0.5, 0.95):
        figures = rounds.figures(blocks, q)
        for number in range(0, 2000, 400):
            times = stats._draw_counts(count)[number].astype(int)
            samples = np.concatenate([np.tile(blocks[it], times[it]) for it in range(count)])
            assert figures[number] == pytest.approx(np.quantile(samples, q))
    assert rounds.figures(blocks, stats.MEAN).mean() == pytest.approx(stats.figure_of(blocks, stats.MEAN), rel=0.02)


def test_of_many_rounds_neighbours_are_drawn_together() -> None:
    """A quarter of 300 rounds at one stretch is slower: so is every part of it, so that a tenth of what is drawn is not."""
    blocks = {it: [2.0 if it < 75 else 1.0] for it in range(300)}
    figures = stats.Rounds(blocks.keys()).figures(blocks, stats.MEAN)
    assert set(np.round((figures - 1) * stats.BATCHES, 6) % 0.5) == {0.0}


@pytest.mark.wide
@pytest.mark.parametrize("rounds", [8, None])
@pytest.mark.parametrize("noise", ["drift: 5 %, and 0.5 % a round", "two humps, 15 to 45 % by block"])
def test_the_interval_holds_the_truth_as_often_as_it_says(noise: str, rounds: int | None) -> None:
    """With eight rounds, and in runs that end when the schedule ends them. `reports/coverage.md` has more, and of more runs."""
    held, _ = coverage(noise, rounds, 150)
    assert 0.92 <= held <= 0.98


def test_of_several_processes_each_is_an_observation() -> None:
    """Two modes whose ratio each process has another 5 % off, as memory lies elsewhere: the rounds of all of them do not show that."""
    random, starts, runs = np.random.default_rng(7), [0, 6, 12, 18, 24], 150
    held = {"processes": 0, "rounds": 0}
    for _ in range(runs):
        own = np.exp(0.05 * random.standard_normal(len(starts))).repeat(6)
        samples = 1000 * np.exp(0.01 * random.standard_normal((2, 30, 5)))
        one, other = ({at: it.tolist() for at, it in enumerate(of)} for of in (samples[0] * own[:, None], samples[1]))
        for name, processes in (("processes", starts), ("rounds", [])):
            low, high = there(stats.ratio_of(one, other, processes=processes).ci95)
            held[name] += low <= 1 <= high
    assert held["processes"] >= 0.92 * runs > 0.9 * runs > held["rounds"]


def test_few_processes_and_few_rounds() -> None:
    one, other = {it: [200 + it] for it in range(8)}, {it: [100] for it in range(8)}
    assert stats.ratio_of(one, other, processes=[0, 4]) == stats.ratio_of(one, other) == stats.by_few_rounds(one, other)
    assert stats.ratio_of(one, other, processes=[0, 3, 6]) != stats.ratio_of(one, other)
    for count in range(1, 9):  # few are observations where they are too few to draw from
        found = stats.by_few_rounds({it: one[it] for it in range(count)}, other)
        assert (found.ci95 is None) == (count < stats.FEW)
    counts = stats.Rounds([0, 1, 2], [0, 1, 2])  # of which an interval does not go below none
    assert counts.interval(counts.figures({0: [0], 1: [0], 2: [9]}, stats.MEAN), 3.0)[0] == 0


def test_what_is_found_of_all_samples_is_not_at_the_end_of_its_interval() -> None:
    """Of two humps the median of all samples can be far from the mean of the processes' medians."""
    own = [100.0, 100, 104, 198, 200]
    low, high = stats.student(own, 102)
    plain, top = stats.student(own, float(np.exp(np.log(own).mean())))
    assert low < 102 / 1.5 < 102 * 1.5 < high == pytest.approx(top)
    assert stats.student(own, 300)[1] > 400
    assert stats.student(own, 300)[0] == pytest.approx(plain)


# Their digits


def test_an_end_that_is_no_bound_does_not_look_like_one() -> None:
    for ends, text in (
        ((1.004, 1.43), "1.004 to 1.43"), ((0.95, 1.0204), "0.9500 to 1.0204"), ((0.98, 1.02), "0.980 to 1.020"),
        ((1.0, 1.3), "1.000 to 1.30"), ((1.101, 1.102), "1.101 to 1.102"),
    ):  # fmt: skip
        assert " to ".join(units.ends(ends, units.change)) == text
    for interval, value, text, both in (
        ((1.0066, 1.0191), 1.0142, "1.014×", ["1.007", "1.019"]),
        ((1.0018, 1.0046), 1.0045, "1.004×", ["1.002", "1.005"]),
        ((0.952, 1.07), 1.016, "1.016×", ["0.952", "1.07"]),
    ):
        assert (units.times(value, interval), units.ends(interval, units.digits)) == (text, both)
