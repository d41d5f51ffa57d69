"""The search for the highest rate that meets an SLO, on servers whose edge is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ortbench.analysis.loads.rate_search import MOST_TRIES, REPEATS, STEP, Found, Search
from tests.expect import there


def searched(capacity: float, highest: float, noise: float = 0.0, lapses: float = 0.0, seed: int = 5) -> Search:
    """A search on a server that meets its SLO up to a capacity, more or less, and a share of the time not at all."""
    random, search = np.random.default_rng(seed), Search(highest)
    while (rate := search.next()) is not None:
        reach = capacity * math.exp(noise * random.standard_normal())
        search.tell(rate, rate <= reach and random.random() >= lapses)
    return search


@pytest.mark.parametrize("capacity", [30.0, 88.0, 301.0, 799.0, 950.0])
def test_the_search_finds_the_highest_rate_that_meets_the_slo(capacity: float) -> None:
    search = searched(capacity, 1000)
    found = there(search.found())
    assert capacity / STEP**1.5 <= found.rate <= capacity
    assert found.next95[0] < found.rate < found.next95[1] < found.rate * 1.1
    assert (found.met, found.tries >= REPEATS) == (found.tries, True)
    assert search.tries <= 20


def test_what_cannot_be_found() -> None:
    assert searched(0, 1000).found() is None
    assert searched(0, 1000).tries < 10
    assert 940 <= there(searched(1e9, 1000).found()).rate <= 1000  # never beyond what can be served


def test_a_bisection_that_went_wrong_is_put_right() -> None:
    """The first try fails by chance at half of what the server can do."""
    search = Search(1000)
    search.tell(there(search.next()), False)
    while (rate := search.next()) is not None:
        search.tell(rate, rate <= 600)
    assert 560 <= there(search.found()).rate <= 600
    assert search.tries <= MOST_TRIES


def test_most_tries_of_the_rate_that_is_found_met_the_slo() -> None:
    for seed in range(20):
        search = searched(400, 1000, noise=0.1, lapses=0.05, seed=seed)
        found = there(search.found())
        assert search.meets(found.rate)
        assert 2 * found.met > found.tries >= 1
        assert 250 < found.rate < 600


@pytest.mark.parametrize(("noise", "lapses"), [(0.005, 0.05), (0.05, 0.0), (0.1, 0.0)])
def test_the_next_run_lies_inside_as_often_as_is_said(noise: float, lapses: float) -> None:
    random = np.random.default_rng(1)
    runs: list[Found] = []
    for seed in range(80):
        found = searched(400, 400 * random.uniform(1.1, 3), noise, lapses, seed).found()
        assert found is not None
        runs.append(found)
    inside = [one.next95[0] <= other.rate <= one.next95[1] for one in runs for other in runs if one is not other]
    assert 0.92 <= sum(inside) / len(inside) <= 0.99
