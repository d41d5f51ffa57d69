"""E-divisive means: how often it finds what is not there, and how exactly it finds what is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ortbench.features.loop.analysis.change_points import FEWEST, LEVEL, change_points

Floats = np.typing.NDArray[np.float64]
NOISES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, n: random.normal(0, 0.01, n),
    "with outliers": lambda random, n: 0.01 * random.standard_t(3, n),
    "skew, as times are": lambda random, n: 0.01 * random.exponential(1, n),
    "of two kinds of machine": lambda random, n: 0.1 * random.integers(0, 2, n) + random.normal(0, 0.01, n),
}


def test_in_noise_alone_there_is_seldom_a_step() -> None:
    for kind in NOISES:
        for count in [12, 30]:
            random, series = np.random.default_rng(7), 100
            found = sum(bool(change_points([*NOISES[kind](random, count)])) for _ in range(series))
            assert found <= LEVEL * series + 3 * (LEVEL * series) ** 0.5


def test_a_step_is_found_where_it_is() -> None:
    for count, at, size in [(12, 6, 0.1), (20, 17, 0.1), (30, 15, 0.1), (30, 4, -0.1), (30, 27, 0.1), (60, 40, 0.05)]:
        random, series = np.random.default_rng(8), 10
        found = []
        for _ in range(series):
            values = random.normal(0, 0.01, count)
            values[at:] += size
            found.append(change_points([*values]))
        hits = [any(abs(place - at) <= 1 for place in places) for places in found]
        exact = [at in places for places in found]
        assert sum(hits) >= 0.95 * series
        assert sum(exact) >= 0.9 * series
        assert sum(len(places) > 1 for places in found) <= 2


def test_several_steps() -> None:
    for levels, places in [
        ([0, 0.1, 0], [10, 20]),
        ([0, 0.1, 0.2], [10, 20]),
        ([0, 0.1, 0, 0.1], [10, 20, 30]),
        ([0.2, 0, 0.3], [10, 20]),
    ]:
        values = np.repeat(levels, 10) + np.random.default_rng(9).normal(0, 0.01, 10 * len(levels))
        assert change_points([*values]) == places


def test_a_bad_night_or_two_are_no_step() -> None:
    values = np.random.default_rng(10).normal(0, 0.01, 30)
    values[[12, 13]] += 1
    values[-1] += 1
    assert change_points([*values]) == []


def test_what_never_changes_has_no_step_and_little_is_no_series() -> None:
    assert change_points([1.0] * 40) == []
    assert [change_points([0.0] * n + [1.0] * n) for n in range(FEWEST + 1)] == [[]] * (FEWEST + 1)
    # The noise of a clock that only knows two values is no step either, and one between such levels is.
    ticks = [1.0, 2.0] * 10
    assert change_points(ticks) == []
    assert change_points([*ticks, *(it + 5 for it in ticks)]) == [20]


def test_the_same_figures_have_the_same_steps() -> None:
    values = [*np.random.default_rng(11).normal(0, 0.01, 25), *np.random.default_rng(12).normal(0.012, 0.01, 25)]
    assert len({tuple(change_points(values)) for _ in range(5)}) == 1
