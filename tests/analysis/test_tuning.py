"""Successive elimination and the search for settings, on simulated blocks: how often they err, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ortbench.features.tune.analysis import ALPHA, TOGETHER, Elimination, Search
from ortbench.features.tune.model import FIRST, Configuration, Ratio, Tried
from ortbench.model.modes import CPU_TIME, LATENCY
from tests.expect import there

Times = Mapping[str, float]


def raced(
    times: Times, seed: int, alpha: float, rounds: int = 60, noise: float = 0.05
) -> tuple[Elimination, dict[str, int]]:
    """A race of configurations with these true medians, with a machine that drifts and now and then is busy; and how many blocks
    each had."""
    dice = np.random.default_rng(seed)
    found, taken = Elimination(list(times), [LATENCY], alpha), dict.fromkeys(times, 0)
    for number in range(rounds):
        drift = 1 + 0.3 * np.sin(number / 7)
        wanted = [name for name in times if found.needs_more(name)]
        for name in wanted:
            burst = 3.0 if dice.random() < 0.1 else 1.0
            found.add(
                name, LATENCY, number, times[name] * drift * burst * float(np.exp(noise * dice.standard_normal()))
            )
            taken[name] += 1
        found.look()
    return found, taken


def test_what_is_clearly_worse_takes_few_blocks_and_a_decided_race_none() -> None:
    found, taken = raced({"best": 1.0, "slow": 1.5, "slower": 4.0}, seed=1, alpha=0.05)
    assert found.candidates(LATENCY) == ["best"]
    assert max(taken.values()) < found.rounds < 30
    assert (found.leader(LATENCY), found.needs_more("best")) == ("best", False)
    found, taken = raced({"one": 1.0, "same": 1.0, "slow": 2.0}, seed=1, alpha=0.05, rounds=200, noise=0.001)
    assert "slow" not in found.candidates(LATENCY)
    assert taken["slow"] < taken["one"] < 200  # which are the same, for certain


def test_a_configuration_is_wanted_as_long_as_it_can_be_the_best_for_one_goal() -> None:
    found = Elimination(["fast", "frugal"], [LATENCY, CPU_TIME], 0.05)
    for number in range(30):
        for name, latency, cpu in (("fast", 1, 8), ("frugal", 2, 4)):
            found.add(name, LATENCY, number, latency)
            found.add(name, CPU_TIME, number, cpu)
        found.look()
    assert (found.candidates(LATENCY), found.candidates(CPU_TIME)) == (["fast"], ["frugal"])
    assert not found.needs_more("fast")
    alone = Elimination(["alone"], [LATENCY], 0.05)
    assert not alone.needs_more("alone")


VALUES = {
    "threads": ["t1", "t2"],
    "spinning": ["off"],
    "execution": ["p2"],
    "level": ["basic", "none"],
    "arena": ["no"],
}


def is_idle(settings: Mapping[str, str], name: str) -> bool:
    return name == "spinning" and settings.get("threads") == "t1" and "execution" not in settings


def joined(name: str, value: str) -> Mapping[str, str]:
    return {"threads": "t1"} if name == "execution" else {}


def searched(time_of: Callable[[dict[str, str]], float], together: int = TOGETHER) -> Search:
    """A search whose races are exact."""
    search = Search(VALUES, is_idle, joined, ("threads", "spinning", "execution"))
    while len(found := search.candidates()[:together]) > 1:
        base = time_of(dict(found[0]))
        search.tell([tried(it, time_of(dict(it)) / base) for it in found])
    return search


def tried(of: Configuration, latency: float, why: str | None = None) -> Tried:
    ratio = Ratio(ratio=latency, low=latency * 0.999, high=latency * 1.001, rounds=20)
    found = {} if why else {LATENCY: ratio, CPU_TIME: ratio}
    return Tried(settings=[list(it) for it in of], ratios=found, left=[], memory=None, failed=why)


def test_a_configuration_lies_against_the_first_where_its_race_and_that_of_its_base_put_it() -> None:
    search = Search({"a": ["1"], "b": ["1", "2"]})
    one, both, unknown = (("a", "1"),), (("a", "1"), ("b", "1")), (("a", "1"), ("b", "2"))
    search.tell([tried(FIRST, 1.0), tried(one, 0.5)])
    race = [tried(one, 1.0), tried(both, 2.0), tried(unknown, 1.0)]
    race[2]["ratios"][LATENCY]["low"] = None
    search.tell(race)
    ratio, ends = search.against_first(both)[LATENCY]
    assert [ratio, *there(ends)] == pytest.approx([1.0, 0.998, 1.002], abs=1e-3)
    assert search.against_first(unknown)[LATENCY] == (0.5, None)


CASES: list[tuple[str, Callable[[dict[str, str]], float], dict[str, str]]] = [
    ("nothing matters", lambda it: 1.0, {}),
    ("one value", lambda it: 0.8 if it.get("level") == "basic" else 1.0, {"level": "basic"}),
    (
        "two that add up",
        lambda it: (0.8 if it.get("level") == "basic" else 1) * (0.9 if it.get("arena") else 1),
        {"level": "basic", "arena": "no"},
    ),
    (
        "two that help together alone",
        lambda it: 0.6 if (it.get("threads"), it.get("execution")) == ("t1", "p2") else 1 + 0.2 * len(it),
        {"threads": "t1", "execution": "p2"},
    ),
    (
        "one that is of use beside another",
        lambda it: (0.9 if it.get("threads") == "t2" else 1) * (0.8 if it.get("spinning") and it.get("threads") == "t2" else 1),
        {"threads": "t2", "spinning": "off"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("together", [2, 3, TOGETHER])
@pytest.mark.parametrize(("time_of", "best"), [it[1:] for it in CASES], ids=[it[0] for it in CASES])
def test_the_search_finds_the_best_of_the_grid(
    time_of: Callable[[dict[str, str]], float], best: dict[str, str], together: int
) -> None:
    search = searched(time_of, together)
    assert search.incumbent in search.finalists()
    assert dict(search.incumbent) == best
    assert min(map(time_of, map(dict, search.every()))) == pytest.approx(time_of(best))
    assert len(search.tried_configurations) < len(search.every())


def test_idle_settings_are_not_measured_twice() -> None:
    every = Search(VALUES, is_idle, joined, ("threads", "spinning", "execution")).every()
    assert len(every) == len(set(every)) == 3 * 2 * 2 * 3 * 2 - 6
    assert (("threads", "t1"), ("spinning", "off")) not in every


def test_what_fails_is_told_and_never_the_best() -> None:
    search = Search({"level": ["basic", "none"]})
    search.tell(
        [tried(FIRST, 1.0), tried((("level", "basic"),), 0.5, why="outputs differ"), tried((("level", "none"),), 0.9)]
    )
    assert search.failures == {(("level", "basic"),): "outputs differ"}
    assert search.incumbent == (("level", "none"),)
    assert (("level", "basic"),) not in search.finalists()
    assert search.candidates() == [search.incumbent]


def test_all_races_share_the_error_rate() -> None:
    search, spent = Search({"level": ["basic"]}), 0.0
    for _ in range(200):
        spent += search.alpha
        search.races.append([])
    assert 0.99 * ALPHA < spent < ALPHA


def told(search: Search, figures: Mapping[str, tuple[float, float]]) -> None:
    """A race of the incumbent and others that differ from it in one value, by this: the ratio of their latency, and its upper end."""
    found = [Tried(settings=[list(it) for it in search.incumbent], ratios={}, left=[], memory=None, failed=None)]
    for made in search.candidates()[1:]:
        ((_, value),) = made
        if value in figures:
            ratio, high = figures[value]
            ratios = {goal: Ratio(ratio=ratio, low=ratio / 2, high=high, rounds=20) for goal in (LATENCY, CPU_TIME)}
            found.append(Tried(settings=[list(it) for it in made], ratios=ratios, left=[], memory=None, failed=None))
    search.tell(found)


def test_where_time_is_short_every_setting_has_been_tried_before_noise_leads_on() -> None:
    search = Search(VALUES)
    assert [it[0][1] for it in search.candidates()[1:]] == ["t1", "off", "p2", "basic", "no", "t2", "none"]
    told(search, {"t1": (0.95, 1.1), "off": (1.0, 1.1)})  # maybe faster, and others are left
    assert search.incumbent == FIRST
    assert [it[0][1] for it in search.candidates()[1:]] == ["p2", "basic", "no", "t2", "none"]
    told(search, {"p2": (1.0, 1.1), "basic": (0.5, 0.6)})  # faster for certain
    assert search.incumbent == (("level", "basic"),)
    last = Search({"threads": ["t1"], "level": ["basic"]})
    told(last, {"t1": (0.95, 1.1), "basic": (1.0, 1.1)})
    assert last.incumbent == (("threads", "t1"),)


def test_what_may_take_less_cpu_time_than_what_seems_to_take_least_is_measured_too() -> None:
    settings = {"a": ["1"], "b": ["1"], "c": ["1"], "d": ["1"], "spin": ["no"], "threads": ["t1"]}
    for ends, is_measured in [((0.39, 0.97), True), ((0.8, 0.97), False)]:
        search = Search(settings)
        latency = Ratio(ratio=1.5, low=1.4, high=1.6, rounds=20)
        quick = Ratio(ratio=0.99, low=0.9, high=1.1, rounds=20)

        def ran(name: str, value: str, low: float, high: float, of_latency: Ratio) -> Tried:
            cpu = Ratio(ratio=(low + high) / 2, low=low, high=high, rounds=20)
            return Tried(
                settings=[[name, value]], ratios={LATENCY: of_latency, CPU_TIME: cpu}, left=[], memory=None, failed=None
            )

        search.tell([
            Tried(settings=[], ratios={}, left=[], memory=None, failed=None),
            *(ran(name, "1", 0.99, 1.01, quick) for name in "abcd"),
            ran("spin", "no", 0.5, 0.6, latency),
            ran("threads", "t1", *ends, latency),
        ])  # fmt: skip
        assert ((("threads", "t1"),) in search.finalists()) is is_measured
