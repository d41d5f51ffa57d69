"""Levels of a load from scripted runs: rates, fairness, waits, late requests, and what was cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ortbench.analysis import load_levels
from ortbench.analysis.level_blocks import blocks_of
from ortbench.analysis.load_levels import LATE_NS, Burst, Taken, counted, level
from ortbench.analysis.load_requests import Requests
from tests.queues import MS, served, steady


def burst(runs: Sequence[Sequence[tuple[int, int]]], until: int, **more: object) -> Burst:
    starts, ends = ([np.array([run[place] for run in each], np.int64) for each in runs] for place in (0, 1))
    return Burst(**{"starts": starts, "ends": ends, "until_ns": until, "cpu_ns": 0, "wall_ns": 1, **more})  # type: ignore[arg-type]


def one_engine(callers: int, service: int, until: int) -> list[list[tuple[int, int]]]:
    """Callers that take turns on one engine from 0 on, until all have a run that ended after `until`."""
    runs: list[list[tuple[int, int]]] = [[] for _ in range(callers)]
    ready, end = [0] * callers, 0
    while not all(each and each[-1][1] >= until and len(each) >= 3 for each in runs):
        who = min(range(callers), key=lambda it: ready[it])
        end = max(end, ready[who]) + service
        runs[who].append((ready[who], end))
        ready[who] = end
    return runs


def test_one_engine_gives_as_many_runs_whatever_the_number_of_callers_and_where_blocks_end() -> None:
    for callers in [1, 2, 3, 8]:
        for until in (50 * MS, 53 * MS + 1, 57 * MS):
            found = counted(burst(one_engine(callers, 2 * MS, until), until))
            assert found.runs_per_s == pytest.approx(500)
            assert {int(it) for times in found.latencies for it in times} == {callers * 2 * MS}
    # All runs end at the same moments: there a count by the time between the first end and the last would be one short.
    for callers in [2, 4]:
        runs = [[(number * MS, (number + 1) * MS) for number in range(12)]] * callers
        assert counted(burst(runs, 10 * MS)).runs_per_s == pytest.approx(1000 * callers)
    early = [(0, 1 * MS), (1 * MS, 2 * MS), (2 * MS, 3 * MS), (3 * MS, 4 * MS), (4 * MS, 5 * MS)]
    late = [(0, 3 * MS), (3 * MS, 4 * MS), (4 * MS, 6 * MS)]
    found = counted(burst([early, late], 4 * MS))
    assert [list(times) for times in found.latencies] == [[MS], [MS]]
    assert found.runs_per_s == pytest.approx(2000)
    assert found.each == [2, 2]


def test_a_level_that_failed_or_was_never_measured_says_so() -> None:
    starved = burst([[(0, 1), (1, 2)], []], 1)
    assert counted(starved).runs_per_s is None
    found = level(Taken("cpu", "shared", ("concurrency", 2), bursts=[starved]))
    assert (found["status"], found["runs_per_s"], found["n"]) == ("failed", None, 0)
    assert found["reason"] == "some callers got no run beside the others: they are served unfairly"
    taken = Taken(
        "cpu", "own", ("concurrency", 1), bursts=[burst(one_engine(1, MS, 5 * MS), 5 * MS)], failed="a caller died"
    )
    found = level(taken)
    assert (found["status"], found["reason"]) == ("failed", "a caller died")
    assert found["runs_per_s"] == pytest.approx(1000)
    found = level(Taken("cpu", "shared", ("rate", 3.5)))
    assert (found["status"], found["reason"]) == ("not measured", "the load was ended before its turn came")
    assert (found["rate"], found["n"], found["wait_ns"], found["late"]) == (3.5, 0, None, None)


def test_a_closed_level() -> None:
    bursts = [
        burst(one_engine(2, 2 * MS, 40 * MS), 40 * MS, cpu_ns=30 * MS, wall_ns=20 * MS, lock=(3, 10), round=number)
        for number in range(4)
    ]
    taken = Taken("cpu", "shared", ("concurrency", 2), bursts=bursts, outputs_match=True, clock_mhz=[900, 300, 600])
    found = level(taken)
    assert found["runs_per_s"] == pytest.approx(500)
    assert found["ci95"] == pytest.approx([500, 500])
    assert found["latency_ns"] == {"mean": 4 * MS, "p50": 4 * MS, "p95": 4 * MS, "p99": 4 * MS, "max": 4 * MS}
    assert (found["cpu_cores"], found["lock_wait"]) == (1.5, 0.3)
    assert found["fairness"] == pytest.approx(1, abs=0.01)  # 10 runs of one and 9 of the other in a block
    assert (found["status"], found["reason"], found["outputs_match"]) == ("ok", None, True)
    assert (found["concurrency"], found["clock_mhz"]) == (2, {"sm": 600})
    assert "rate" not in found


def test_an_open_level_counts_from_when_requests_were_due() -> None:
    due = [0, 1 * MS, 2 * MS, 20 * MS]
    found = level(
        Taken("cpu", "shared", ("rate", 200.0), stretches=[served(due, steady(5 * MS))], slo={"max": 14 * MS})
    )
    assert found["latency_ns"] is not None
    assert found["latency_ns"]["max"] == 13 * MS
    assert found["wait_ns"] == {"mean": 3 * MS, "ci95": None, "p99": round(np.quantile([0, 4 * MS, 8 * MS, 0], 0.99))}
    assert found["service_ns"] == {"mean": 5 * MS, "p50": 5 * MS}
    assert (found["n"], found["late"], found["slo_held"]) == (4, 0.0, True)
    assert found["utilisation"] == pytest.approx(20 / 25)
    assert found["runs_per_s"] == pytest.approx(4 / 0.025)


def test_late_is_what_a_free_caller_began_late_and_what_was_cut_off_counts() -> None:
    due = np.array([0, MS, 50 * MS], np.int64)
    start = np.array([0, 10 * MS, 50 * MS + LATE_NS + 1], np.int64)
    requests = Requests(due, np.array([0, 10 * MS, 20 * MS]), start, start + 10 * MS, None, 1, 0, 1)
    found = level(Taken("cpu", "shared", ("rate", 1.0), stretches=[requests]))
    assert found["late"] == pytest.approx(1 / 3)
    assert found["late_ns"] is not None
    assert found["late_ns"]["max"] == LATE_NS + 1
    due = np.array([0, MS, 2 * MS], np.int64)
    first = np.array([0], np.int64)
    requests = Requests(due, first, first, first + 4 * MS, 5 * MS, 1, 0, 1)
    found = level(Taken("cpu", "shared", ("rate", 1000.0), stretches=[requests], slo={"max": 10 * MS}))
    assert list(requests.latencies) == [4 * MS, 4 * MS, 3 * MS]
    assert list(requests.waits) == [0, 4 * MS, 3 * MS]
    assert (found["n"], found["slo_held"]) == (3, False)


def test_an_slo_holds_where_every_statistic_does() -> None:
    measured = load_levels.latency(np.array([MS, 2 * MS, 3 * MS], np.int64))
    assert load_levels.holds(measured, {"max": 3 * MS, "mean": 2 * MS})
    assert not load_levels.holds(measured, {"max": 3 * MS, "p50": 2 * MS - 1})
    found = load_levels.back_to_back([MS, 3 * MS], [1000, 200, 300])
    assert (found["n"], found["latency_ns"]["mean"], found["clock_mhz"]) == (2, 2 * MS, {"sm": 300})
    assert load_levels.back_to_back([MS], [])["clock_mhz"] is None


def test_requests_of_a_stretch() -> None:
    requests = served([0, MS, 2 * MS, 30 * MS, 31 * MS], steady(5 * MS))
    assert requests.anew.tolist() == [True, False, False, True, False]
    cut = replace(requests, start=requests.start[:2], end=requests.end[:2], free=requests.free[:2], cutoff_ns=12 * MS)
    assert cut.anew.tolist() == [True, False, False, False, False]
    requests = served([5 * MS, 10 * MS, 20 * MS], steady(2 * MS))
    left = requests.without_first(1)
    assert left.due.tolist() == [10 * MS, 20 * MS]
    assert left.latencies.tolist() == [2 * MS, 2 * MS]
    assert left.lasted_ns == 17 * MS
    assert requests.without_first(3) is requests


def test_stretches_of_a_level_are_one_level_with_a_block_each() -> None:
    parts = [replace(served([0, 10 * MS], steady(took * MS)), round=number) for number, took in ((0, 5), (3, 8))]
    taken = Taken("cpu", "shared", ("rate", 100.0), stretches=parts, slo={"max": 6 * MS})
    found = level(taken)
    assert found["latency_ns"] is not None
    assert (found["n"], found["latency_ns"]["max"], found["slo_held"]) == (4, 8 * MS, False)
    assert found["runs_per_s"] == pytest.approx(4 / 0.033)
    assert [(block["round"], block["n"], block["latency_ns"]["p50"]) for block in blocks_of(taken)] == [
        (0, 2, 5 * MS), (3, 2, 8 * MS),
    ]  # fmt: skip
    assert level(replace(taken, kept=True))["slo_held"] is True
