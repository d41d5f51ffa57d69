"""The search for the highest rate that meets an SLO, on servers whose edge is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ortbench.features.load.analysis import LoadPoint, meets, meets_by_figures, times_longer
from ortbench.features.load.analysis.queueing import REPEATS, RESOLUTION, TRIES, Found, Search, poisson_arrivals
from ortbench.features.load.analysis.samples import LoadSamples, case_of
from tests.expect import there
from tests.queues import MS, served, steady


def searched(capacity: float) -> Search:
    """A search up to 1000 on a server that surely meets its SLO up to a capacity, and surely violates it beyond."""
    search = Search(1000)
    while (rate := search.next()) is not None:
        search.tell(rate, rate <= capacity, rate <= capacity, 1.0)
    return search


@pytest.mark.parametrize("capacity", [30.0, 88.0, 301.0, 799.0, 950.0])
def test_the_search_finds_the_highest_rate_that_meets_the_slo(capacity: float) -> None:
    search = searched(capacity)
    found = there(search.best_rate())
    assert capacity / (1 + 1.2 * RESOLUTION) <= found.rate <= capacity
    assert found.rate == float(f"{found.rate:.3g}")
    assert found.violated_from is None or capacity < found.violated_from < found.rate * (1 + 1.2 * RESOLUTION)
    assert search.tries <= 12
    assert searched(0).best_rate() is None


def test_the_rate_that_is_found_is_looked_at_again() -> None:
    """What the first tries say by chance is taken back."""
    search, seen = Search(1000), 0
    while (rate := search.next()) is not None:
        seen += rate == 500
        is_met = rate < 400 or (rate == 500 and seen == 1)
        search.tell(rate, is_met, is_met, 1.0)
    assert there(search.best_rate()).rate < 400
    assert search.tries <= TRIES


def test_the_slo_is_violated_from_the_rate_above_which_none_is_open() -> None:
    search = Search(1000)
    for rate, met in ((400, True), (500, False), (700, False), (900, False)):
        search.tell(rate, met, met, 1.0)
    assert search.best_rate() == Found(400, 500)
    for rate, violated_from in ((600, 700), (950, None)):
        search.tell(rate, None, False, 1.0)
        assert search.best_rate() == Found(400, violated_from)


def test_tries_that_cannot_tell_go_to_lower_rates_and_end() -> None:
    search, tried = Search(1000), []
    while (rate := search.next()) is not None:
        tried.append(rate)
        search.tell(rate, None, rate < 600, 9 / tried.count(rate) if rate < 400 else math.inf)
    assert (search.best_rate(), len(tried)) == (None, TRIES)
    assert tried.count(min(tried)) >= REPEATS  # as more tries of it would tell


def of_md1(per_try: float, limit: int, seed: int, differ: float = 0) -> float | None:
    """The rate that is found of a server that takes 1 ms for each; `per_try`: requests at its capacity. With processes that `differ` by
    such a share each has one try of a rate."""
    search, taken, slo, random = Search(1000), dict[float, LoadSamples](), {"p99": limit}, np.random.default_rng(seed)
    processes, takes = [0] if differ else [], MS * random.normal(1, differ)
    while (rate := search.next()) is not None:
        at_rate = taken.setdefault(rate, LoadSamples("cpu-tensors", LoadPoint("rate", rate), processes=processes))
        if differ and at_rate.blocks and at_rate.blocks[-1].round >= processes[-1]:
            processes.append(search.tries)
            takes = MS * random.normal(1, differ)
        requests = served(poisson_arrivals(rate, per_try / 1000, seed, search.tries), steady(round(takes)))
        at_rate.blocks.append(replace(requests, round=search.tries))
        case = case_of(at_rate)
        search.tell(
            rate, meets(case, slo) and (at_rate.is_across or None), meets_by_figures(case, slo), times_longer(case, slo)
        )
    assert search.tries <= TRIES
    found = search.best_rate()
    return None if found is None else found.rate


@pytest.mark.wide
@pytest.mark.parametrize(
    ("limit_ms", "edge", "per_try", "low"), [(4, 460, 20, None), (4, 460, 2000, 0.7), (8, 710, 2000, 0.75)]
)
def test_no_rate_is_claimed_that_the_requests_do_not_show(
    limit_ms: int, edge: float, per_try: float, low: float | None
) -> None:
    """Poisson arrivals before one engine, whose p99 is the limit at an edge that a long simulation gave (within 1 %).

    With too few requests nothing is found; with enough a rate that lies closely below the edge, and hardly ever one beyond it.
    """
    rates = [rate for seed in range(20) if (rate := of_md1(per_try, limit_ms * MS, seed)) is not None]
    assert (len(rates) >= 18) == (low is not None) == bool(rates)
    assert sum(rate > edge * 1.01 for rate in rates) <= 1
    assert low is None or np.median(rates) > low * edge


@pytest.mark.wide
def test_a_rate_that_processes_of_different_speed_meet_is_met_by_others() -> None:
    """By the requests of five more processes together, as a further load has them; by tries in one process in seven of ten at most."""
    held = 0
    for seed in range(20):
        rate = there(of_md1(8000, 4 * MS, seed, differ=0.05))
        random, latencies = np.random.default_rng(seed + 1000), []
        for repeat in range(5):
            takes = round(MS * random.normal(1, 0.05))
            latencies.append(served(poisson_arrivals(rate, 8, seed + 1000, repeat), steady(takes)).latencies)
        held += bool(np.quantile(np.concatenate(latencies), 0.99) <= 4 * MS)
    assert held >= 18
