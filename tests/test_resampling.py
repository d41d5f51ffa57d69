"""Figures of resampled rounds: exact on small samples, and intervals cover what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from ortbench.core import units
from ortbench.core.stats import (
    BATCHES,
    FEW,
    FEWEST,
    MEAN,
    Ratio,
    Rounds,
    _draw_counts,
    by_few_rounds,
    figure_of,
    ratio_of,
    student,
)
from tests.benchmarks.coverage import coverage
from tests.expect import there


def test_ratios_of_figures() -> None:
    rounds = range(6)
    one, other = {it: [200 + it, 300 + it, 900] for it in rounds}, {it: [100, 150, 160] for it in rounds}
    assert ratio_of(one, other).ratio == 302.5 / 150
    assert ratio_of(one, other, MEAN).ratio == pytest.approx((1400 + 5) / 410)
    assert ratio_of(other, other) == Ratio(1.0, (1.0, 1.0))
    assert ratio_of(one, {it: of for it, of in other.items() if it}) == Ratio(303 / 150, None)  # five common rounds
    tripled = {it: [3 * ns for ns in of] for it, of in one.items()}  # however rounds differ, pairs do not
    assert there(ratio_of(tripled, one).ci95) == pytest.approx((3, 3))
    assert ratio_of({0: [0]}, {0: [4]}).ratio == 0.25  # less than the clock's step counts as one
    with pytest.raises(ValueError, match="no samples"):
        ratio_of({0: [1]}, {1: [1]})


def test_a_resample_has_the_figures_of_the_samples_that_it_has() -> None:
    """Each resample by itself, sample by sample."""
    random = np.random.default_rng(1)
    for count, most in [(FEWEST, 20), (17, 3), (BATCHES, 2000)]:
        blocks = {it: random.integers(1, most, 7).tolist() for it in range(count)}
        rounds = Rounds(blocks.keys())
        for q in (0.5, 0.95):
            figures = rounds.figures(blocks, q)
            for number in range(0, 2000, 400):
                times = _draw_counts(count)[number].astype(int)
                samples = np.concatenate([np.tile(blocks[it], times[it]) for it in range(count)])
                assert figures[number] == pytest.approx(np.quantile(samples, q))
        means = rounds.figures(blocks, MEAN)
        assert float(means.mean()) == pytest.approx(figure_of(blocks, MEAN), rel=0.02)


def test_of_many_rounds_neighbours_are_drawn_together() -> None:
    """A quarter of 300 rounds at one stretch is slower: so is every part of it, so that a tenth of what is drawn is not."""
    blocks = {it: [2.0 if it < 75 else 1.0] for it in range(300)}
    figures = Rounds(blocks.keys()).figures(blocks, MEAN)
    assert set(np.round((figures - 1) * BATCHES, 6) % 0.5) == {0.0}


NOISES = [
    "drift: 5 %, and 0.5 % a round",
    "bursts of 4 blocks",
    "two humps, 15 to 45 % by block",
]


@pytest.mark.wide
@pytest.mark.parametrize("rounds", [8, None])
@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_holds_the_truth_as_often_as_it_says(noise: str, rounds: int | None) -> None:
    """With eight rounds, and in runs that end when the schedule ends them. `reports/coverage.md` has more, and of more runs."""
    [(held, _)] = coverage(noise, rounds, 150)
    assert 0.92 <= held <= 0.98


def test_of_several_processes_each_is_an_observation() -> None:
    """Two modes whose ratio each process has another 5 % off, as memory lies elsewhere: the rounds of all of them do not show that."""
    random = np.random.default_rng(7)
    starts, runs = [0, 6, 12, 18, 24], 400
    held = {"processes": 0, "rounds": 0}
    for _ in range(runs):
        own = np.exp(0.05 * random.standard_normal(len(starts))).repeat(6)
        samples = 1000 * np.exp(0.01 * random.standard_normal((2, 30, 5)))
        one, other = ({at: it.tolist() for at, it in enumerate(of)} for of in (samples[0] * own[:, None], samples[1]))
        for name, processes in (("processes", starts), ("rounds", [])):
            low, high = there(ratio_of(one, other, processes=processes).ci95)
            held[name] += low <= 1 <= high
    assert held["processes"] >= 0.92 * runs
    assert held["rounds"] < 0.9 * runs


def test_what_is_found_of_all_samples_is_not_at_the_end_of_its_interval() -> None:
    """Of two humps the median of all samples can be far from the mean of the processes' medians."""
    own = [100.0, 100, 104, 198, 200]
    low, high = student(own, 102)
    plain, top = student(own, float(np.exp(np.log(own).mean())))
    assert low < 102 / 1.5 < 102 * 1.5 < high
    assert high == pytest.approx(top)
    assert student(own, 300)[1] > 400
    assert student(own, 300)[0] == pytest.approx(plain)


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((1.004, 1.43), "1.004 to 1.43"), ((0.95, 1.0204), "0.9500 to 1.0204"), ((0.98, 1.02), "0.980 to 1.020"),
        ((1.0, 1.3), "1.000 to 1.30"), ((1.101, 1.102), "1.101 to 1.102"),
    ],
)  # fmt: skip
def test_an_end_that_is_no_bound_does_not_look_like_one(ends: tuple[float, float], text: str) -> None:
    assert " to ".join(units.ends(ends, units.change)) == text


def test_a_speedup_has_the_digits_of_its_interval() -> None:
    for interval, value, text, both in [
        ((1.0066, 1.0191), 1.0142, "1.014×", ["1.007", "1.019"]),
        ((1.0018, 1.0046), 1.0045, "1.004×", ["1.002", "1.005"]),
        ((0.952, 1.07), 1.016, "1.016×", ["0.952", "1.07"]),
        ((2.451, 2.453), 2.452, "2.452×", ["2.451", "2.453"]),
    ]:
        assert (units.times(value, interval), units.ends(interval, units.digits)) == (text, both)


def test_two_processes_have_the_interval_of_their_rounds() -> None:
    one, other = {it: [200 + it] for it in range(8)}, {it: [100] for it in range(8)}
    assert ratio_of(one, other, processes=[0, 4]) == ratio_of(one, other)
    assert ratio_of(one, other, processes=[0, 3, 6]) != ratio_of(one, other)


def test_few_rounds_are_observations_where_they_are_too_few_to_draw_from() -> None:
    one, other = {it: [200 + it] for it in range(8)}, {it: [100] for it in range(8)}
    for count in range(1, 9):
        found = by_few_rounds({it: one[it] for it in range(count)}, other)
        assert (found.ci95 is None) == (count < FEW)
    assert by_few_rounds(one, other) == ratio_of(one, other)


def test_an_interval_of_counts_does_not_go_below_none() -> None:
    rounds = Rounds([0, 1, 2], [0, 1, 2])
    assert rounds.interval(rounds.figures({0: [0], 1: [0], 2: [9]}, MEAN), 3.0)[0] == 0
