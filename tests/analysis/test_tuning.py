"""Successive elimination and the search for settings, on simulated blocks: how often they err, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pytest

from ortbench.features.tune.analysis import LOAD_FINALISTS, TOGETHER, Elimination, Halving, Search, tail_of
from ortbench.features.tune.facts import search_facts
from ortbench.features.tune.measure import REQUESTS
from ortbench.features.tune.model import FIRST, LOAD_GOALS, P99, Configuration, Ratio, Tried
from ortbench.features.tune.plan import INTERACTING, NEWER_ENTRIES, name_of, space_of
from ortbench.model.modes import CPU_TIME, LATENCY
from tests.expect import there


def raced(times: Mapping[str, float], rounds: int, noise: float) -> tuple[Elimination, dict[str, int]]:
    """A race of configurations with these true medians, with a machine that drifts and now and then is busy; and how many blocks
    each had."""
    dice = np.random.default_rng(1)
    found, taken = Elimination(list(times), [LATENCY], 0.05), dict.fromkeys(times, 0)
    for number in range(rounds):
        drift = 1 + 0.3 * np.sin(number / 7)
        for name in [it for it in times if found.needs_more(it)]:
            burst = 3.0 if dice.random() < 0.1 else 1.0
            found.add(name, LATENCY, number, times[name] * drift * burst * np.exp(noise * dice.standard_normal()))
            taken[name] += 1
        found.look()
    return found, taken


def test_what_is_clearly_worse_takes_few_blocks_and_a_decided_race_none() -> None:
    found, taken = raced({"best": 1.0, "slow": 1.5, "slower": 4.0}, 60, 0.05)
    assert (found.candidates(LATENCY), found.leader(LATENCY), found.needs_more("best")) == (["best"], "best", False)
    assert max(taken.values()) < found.rounds < 30
    found, taken = raced({"one": 1.0, "same": 1.0, "slow": 2.0}, 200, 0.001)
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
    assert not Elimination(["alone"], [LATENCY], 0.05).needs_more("alone")


Settings = dict[str, str]
VALUES = {"threads": ["t1", "t2"], "spinning": ["off"], "execution": ["p2"], "level": ["basic", "none"], "arena": ["x"]}


def is_idle(settings: Mapping[str, str], name: str) -> bool:
    return name == "spinning" and settings.get("threads") == "t1" and "execution" not in settings


def joined(name: str, value: str) -> list[dict[str, str]]:
    return [{"threads": "t1"}] if name == "execution" else []


def search_of_all() -> Search:
    return Search(VALUES, is_idle, joined, ("threads", "spinning", "execution"))


def tried(
    of: Configuration,
    latency: float,
    ends: tuple[float, float] | None = None,
    cpu: Ratio | None = None,
    why: str | None = None,
) -> Tried:
    low, high = ends or (latency * 0.999, latency * 1.001)
    ratio = Ratio(ratio=latency, low=low, high=high, rounds=20)
    ratios = {} if why or of == FIRST else {LATENCY: ratio, CPU_TIME: cpu or ratio}
    return Tried(settings=[list(it) for it in of], ratios=ratios, left=[LATENCY, CPU_TIME], memory=None, failed=why)


BASIC, NONE, T1 = (("level", "basic"),), (("level", "none"),), (("threads", "t1"),)


def one_value(it: Settings) -> float:
    return 0.8 if it.get("level") == "basic" else 1.0


def two_that_add_up(it: Settings) -> float:
    return one_value(it) * (0.9 if it.get("arena") else 1)


def two_that_help_together_alone(it: Settings) -> float:
    return 0.6 if (it.get("threads"), it.get("execution")) == ("t1", "p2") else 1 + 0.2 * len(it)


def one_beside_another(it: Settings) -> float:
    helps = it.get("threads") == "t2"
    return (0.9 if helps else 1) * (0.8 if helps and it.get("spinning") else 1)


@pytest.mark.parametrize("together", [2, TOGETHER])
@pytest.mark.parametrize(
    ("time_of", "best"),
    [
        (lambda it: 1.0, {}),
        (one_value, {"level": "basic"}),
        (two_that_add_up, {"level": "basic", "arena": "x"}),
        (two_that_help_together_alone, {"threads": "t1", "execution": "p2"}),
        (one_beside_another, {"threads": "t2", "spinning": "off"}),
    ],
)
def test_the_search_finds_the_best_of_the_grid(
    time_of: Callable[[Settings], float], best: Settings, together: int
) -> None:
    search = search_of_all()
    while len(found := search.candidates()[:together]) > 1:
        base = time_of(dict(found[0]))
        search.tell([tried(it, time_of(dict(it)) / base) for it in found])
    assert search.incumbent in search.finalists()
    assert dict(search.incumbent) == best
    assert min(map(time_of, map(dict, search.every()))) == pytest.approx(time_of(best))
    assert len(search.tried_configurations) < len(search.every())


def test_idle_settings_are_not_measured_twice_and_what_fails_is_never_the_best() -> None:
    every = search_of_all().every()
    assert len(every) == len(set(every)) == 3 * 2 * 2 * 3 * 2 - 6
    assert (("threads", "t1"), ("spinning", "off")) not in every
    search = Search({"level": ["basic", "none"]})
    search.tell([tried(FIRST, 1.0), tried(BASIC, 0.5, why="outputs differ"), tried(NONE, 0.9)])
    assert (search.failures, search.incumbent, search.candidates()) == ({BASIC: "outputs differ"}, NONE, [NONE])
    assert BASIC not in search.finalists()


def test_a_configuration_lies_against_the_first_where_its_race_and_that_of_its_base_put_it() -> None:
    search = Search({"threads": ["t1"], "level": ["basic", "none"]})
    both, unknown = (*T1, *BASIC), (*T1, *NONE)
    search.tell([tried(FIRST, 1), tried(T1, 0.5)])
    race = [tried(T1, 1), tried(both, 2), tried(unknown, 1)]
    race[2]["ratios"][LATENCY]["low"] = None
    search.tell(race)
    ratio, ends = search.against_first(both)[LATENCY]
    assert [ratio, *there(ends)] == pytest.approx([1.0, 0.998, 1.002], abs=1e-4)
    assert search.against_first(unknown)[LATENCY] == (0.5, None)


def test_what_may_take_less_cpu_time_than_what_seems_to_take_least_is_measured_too() -> None:
    def cpu(low: float, high: float) -> Ratio:
        return Ratio(ratio=(low + high) / 2, low=low, high=high, rounds=20)

    for ends, is_measured in [((0.39, 0.97), True), ((0.8, 0.97), False)]:
        search = Search({"a": ["1"], "b": ["1"], "c": ["1"], "d": ["1"], "spinning": ["off"], "threads": ["t1"]})
        quick = [tried(((name, "1"),), 0.99, (0.9, 1.1), cpu(0.99, 1.01)) for name in "abcd"]
        spinning, threads = tried((("spinning", "off"),), 1.5, None, cpu(0.5, 0.6)), tried(T1, 1.5, None, cpu(*ends))
        search.tell([tried(FIRST, 1), *quick, spinning, threads])
        assert (T1 in search.finalists()) is is_measured


def test_what_there_was_no_time_for_is_said_and_the_last_has_the_command() -> None:
    for untried, is_compared, has_memory, one_process, verdicts in (
        ([], True, True, "", []),
        (["a"], True, True, "", ["untried"]),
        (["a"], False, True, "--duration", ["no-conclusion", "one-process"]),
        ([], True, False, "", ["no-memory"]),
    ):
        facts = search_facts(
            untried, is_compared=is_compared, has_memory=has_memory, one_process=one_process, next_="more"
        )
        assert [it.verdict for it in facts] == verdicts
        assert [it.next for it in facts] == [*[""] * (len(facts) - 1), *["more"] * bool(facts)]


# Under load

ALL_ENTRIES = [*NEWER_ENTRIES]
Costs = Callable[[Settings], tuple[float, float]]  # the p99, and the CPU time of a request


def threads_and_workers(settings: Settings) -> tuple[float, float]:
    """Spinning takes time of a core for a short p99, a second worker keeps requests from waiting, and so does a process, cheaper."""
    threads = {"1 thread": 1, "2 threads": 2, "4 threads": 4}.get(settings.get("intra-op-threads", ""), 4)
    spins = {"no spinning": 0.0, "spin ends with run": 0.2, "spin 100 µs": 0.3, "spin 1000 µs": 0.6}
    spun = 0.0 if threads == 1 else spins.get(settings.get("spinning", ""), 1.0)
    workers = {"2 workers": 2, "4 workers": 4}.get(settings.get("workers", ""), 1)
    wait = {"processes": 1.0, "own sessions": 1.1}.get(settings.get("sessions", ""), 1.3 if workers > 1 else 1.0)
    return 8 / threads**0.5 * (1.4 - 0.4 * spun) * (1 + 2 / workers) * wait, 1 + 0.2 * threads + 20 * spun * threads


def own_sessions_of_one_thread(settings: Settings) -> tuple[float, float]:
    p99, cpu = threads_and_workers(settings)
    is_best = settings.get("intra-op-threads") == "1 thread" and settings.get("sessions") == "own sessions"
    return p99 * (0.3 if is_best else 1), cpu


def no_difference(settings: Settings) -> tuple[float, float]:
    return 5.0, 2.0


@pytest.mark.parametrize("costs", [threads_and_workers, own_sessions_of_one_thread, no_difference])
@pytest.mark.parametrize("slo", [None, 12.0])
@pytest.mark.parametrize("cores", [2, 4])
def test_a_search_under_load_finds_what_the_grid_has_in_a_fifth_of_its_time(
    costs: Costs, slo: float | None, cores: int
) -> None:
    space = space_of({"rate": (60.0,)}, cores, ALL_ENTRIES)
    search = Search(space.names, space.is_idle, space.joined_settings, INTERACTING, space.has_room, is_loaded=True)
    spent = 0.0
    while len(found := search.candidates()[:TOGETHER]) > 1:
        made = {name_of(it): costs(dict(it)) for it in found}
        race = Halving([*made])
        for requests in REQUESTS:
            left = [name for name in made if race.needs_more(name)]
            spent += requests * len(left)
            figures = {name: dict(zip(LOAD_GOALS, made[name], strict=True)) for name in left}
            race.look(figures, [name for name in left if slo is not None and made[name][0] > slo])
        search.tell([told(race, it, name_of(found[0])) for it in found])
    chosen = {it: costs(dict(it)) for it in search.finalists_under_load()}
    every = [costs(dict(it)) for it in search.every()]
    assert len(chosen) <= LOAD_FINALISTS
    assert min(p99 for p99, _ in chosen.values()) == pytest.approx(min(p99 for p99, _ in every), rel=0.03)
    within = [cpu for p99, cpu in every if slo is None or p99 <= slo]
    frugal = [cpu for p99, cpu in chosen.values() if slo is None or p99 <= slo]
    assert (min(frugal) if within else None) == (pytest.approx(min(within), rel=0.03) if within else None)
    assert spent + 300 * len(chosen) <= 300 * len(every) / 5


def told(race: Halving, of: Configuration, base: str) -> Tried:
    """What a race found of a configuration."""
    name = name_of(of)
    ratios = {goal: cast(Ratio, there(race.ratio(goal, name, base))._asdict()) for goal in LOAD_GOALS}
    left = [goal for goal in LOAD_GOALS if name in race.candidates(goal)]
    violates = name in race.violating
    return Tried(
        settings=[list(it) for it in of], ratios=ratios, left=left, memory=None, failed=None, violates=violates
    )


def test_half_of_what_is_left_stays_for_each_goal_and_what_violates_the_slo_is_not_the_least_cpu_time() -> None:
    race = Halving(["first", "quick", "frugal", "slow"])
    figures = {"first": (4, 4), "quick": (1, 8), "frugal": (9, 1), "slow": (8, 1.1)}
    made = {name: dict(zip(LOAD_GOALS, it, strict=True)) for name, it in figures.items()}
    race.look(made, ["frugal"])
    assert (race.candidates(P99), race.candidates(CPU_TIME)) == (["quick", "first"], ["slow"])
    assert [name for name in made if race.needs_more(name)] == ["first", "quick", "slow"]
    race.look({name: made[name] for name in ("first", "slow")})  # quick has failed
    assert (race.candidates(P99), race.violating) == (["first"], {"frugal"})
    assert [there(race.ratio(P99, it, "first"))[::3] for it in ("quick", "slow")] == [(0.25, 1), (2, 2)]


def test_the_tail_of_few_requests_is_that_of_the_slowest_tenth() -> None:
    assert tail_of(np.array([7])) == pytest.approx(7)
    assert tail_of(np.array([1] * 18 + [100, 400])) == pytest.approx(200)
