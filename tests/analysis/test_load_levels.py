"""Levels of a load from scripted runs: rates, fairness, waits, late requests, and what was cut off."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ortbench.analysis.load_points import LEAST
from ortbench.core.stats import summarise
from ortbench.features.load.analysis import LoadPoint, meets, meets_by_figures, times_longer
from ortbench.features.load.analysis.blocks import LATE_NS, Block, ClosedLoopBlock, OpenLoopBlock
from ortbench.features.load.analysis.samples import LoadSamples, case_of, figures_of_blocks
from tests.expect import there
from tests.queues import MS, served, steady


def burst(runs: Sequence[Sequence[tuple[int, int]]], until: int, **more: object) -> ClosedLoopBlock:
    starts, ends = ([np.array([run[place] for run in each], np.int64) for each in runs] for place in (0, 1))
    return ClosedLoopBlock(**{"starts": starts, "ends": ends, "until_ns": until, "cpu_ns": 0, "wall_ns": 1, **more})  # type: ignore[arg-type]


def one_engine(clients: int, service: int, until: int) -> list[list[tuple[int, int]]]:
    """Clients that take turns on one engine from 0 on, until all have a run that ended after `until`."""
    runs: list[list[tuple[int, int]]] = [[] for _ in range(clients)]
    ready, end = [0] * clients, 0
    while not all(each and each[-1][1] >= until and len(each) >= 3 for each in runs):
        who = min(range(clients), key=lambda it: ready[it])
        end = max(end, ready[who]) + service
        runs[who].append((ready[who], end))
        ready[who] = end
    return runs


def test_one_engine_gives_as_many_runs_whatever_the_number_of_clients_and_where_blocks_end() -> None:
    for clients in [1, 2, 3, 8]:
        assert burst(one_engine(clients, 2 * MS, 1), 1).throughput == pytest.approx(500)  # shorter than an inference
        for until in (50 * MS, 53 * MS + 1, 57 * MS):
            found = burst(one_engine(clients, 2 * MS, until), until)
            assert found.throughput == pytest.approx(500)
            assert {int(it) for it in found.latencies} == {clients * 2 * MS}
    # All runs end at the same moments: there a count by the time between the first end and the last would be one short.
    for clients in [2, 4]:
        runs = [[(number * MS, (number + 1) * MS) for number in range(12)]] * clients
        assert burst(runs, 10 * MS).throughput == pytest.approx(1000 * clients)
    early = [(0, 1 * MS), (1 * MS, 2 * MS), (2 * MS, 3 * MS), (3 * MS, 4 * MS), (4 * MS, 5 * MS)]
    late = [(0, 3 * MS), (3 * MS, 4 * MS), (4 * MS, 6 * MS)]
    found = burst([early, late], 4 * MS)
    assert [list(times) for times in found.of_clients] == [[MS], [MS]]
    assert found.throughput == pytest.approx(2000)
    assert found.window.each == [2, 2]


def test_latencies_are_in_the_order_in_which_inferences_ended() -> None:
    slow = [(0, 1 * MS), (1 * MS, 4 * MS), (4 * MS, 9 * MS)]
    quick = [(0, 1 * MS), (1 * MS, 2 * MS), (2 * MS, 5 * MS), (5 * MS, 9 * MS)]
    assert list(burst([slow, quick], 8 * MS).latencies) == [1 * MS, 3 * MS, 3 * MS, 5 * MS, 4 * MS]


def test_a_level_that_failed_or_was_never_measured_says_so() -> None:
    starved = burst([[(0, 1), (1, 2)], []], 1)
    assert starved.throughput is None
    found = case_of(LoadSamples("cpu-tensors", LoadPoint("concurrency", 2), blocks=[starved]))
    assert (found.status, found.metrics, found.load_blocks) == ("failed", {}, [])
    assert found.reason == "some clients completed no inference while others did: the EP does not serve them equally"
    taken = LoadSamples(
        "cpu-tensors",
        LoadPoint("concurrency", 1),
        blocks=[burst(one_engine(1, MS, 5 * MS), 5 * MS)],
        failed="a client died",
    )
    found = case_of(taken)
    assert (found.status, found.reason) == ("failed", "a client died")
    assert found.value("throughput") == pytest.approx(1000)
    found = case_of(LoadSamples("cpu-tensors", LoadPoint("rate", 3.5)))
    assert (found.status, found.reason) == ("not_measured", "the load was ended before its turn came")
    assert (found.point, found.metrics, found.checks) == ({"rate": 3.5}, {}, {})


def test_a_closed_level() -> None:
    bursts: list[Block] = [
        burst(one_engine(2, 2 * MS, 40 * MS), 40 * MS, cpu_ns=30 * MS, wall_ns=20 * MS, lock=(3, 10), round=number)
        for number in range(4)
    ]
    taken = LoadSamples(
        "cpu-tensors", LoadPoint("concurrency", 2), blocks=bursts, outputs_match=True, clock_mhz=[900, 300, 600]
    )
    found = case_of(taken)
    assert found.value("throughput") == pytest.approx(500)
    assert found.metrics["throughput"].ci95 == pytest.approx((500, 500))
    assert there(found.stats("latency")) == summarise([4 * MS] * 72)
    assert (found.value("cpu_cores"), found.value("gil_wait")) == (1.5, 0.3)
    costs = {(it["cpu_time"], it["cpu_cores"]) for it in there(found.load_blocks)}
    assert costs == {(round(30 * MS / bursts[0].inferences), 1.5)}
    assert found.value("fairness") == pytest.approx(1, abs=0.01)  # 10 runs of one and 9 of the other in a block
    assert (found.status, found.reason, found.checks) == ("ok", None, {"outputs": {"verdict": "passed"}})
    assert (found.point, found.value("sm_clock")) == ({"concurrency": 2}, 600)


def test_an_open_level_counts_from_when_requests_were_due() -> None:
    due = [0, 1 * MS, 2 * MS, 20 * MS]
    found = case_of(
        LoadSamples("cpu-tensors", LoadPoint("rate", 200.0), blocks=[served(due, steady(5 * MS))], slo={"max": 14 * MS})
    )
    assert there(found.stats("latency")).max == 13 * MS
    assert there(found.stats("queue_delay")) == summarise([0, 4 * MS, 8 * MS, 0])
    assert found.queue_delay_ci95 is None
    assert there(found.stats("service_time")) == summarise([5 * MS] * 4)
    assert (found.value("late_share"), found.checks["slo"]) == (0.0, {"verdict": "passed"})
    assert found.value("utilisation") == pytest.approx(20 / 25)
    assert found.value("throughput") == pytest.approx(4 / 0.025)


@pytest.mark.parametrize(
    ("count", "slo", "verdict"),
    [
        (298, {"p99": 9 * MS}, "unclear"), (299, {"p99": 9 * MS}, "passed"), (1, {"p99": MS}, "failed"),
        (58, {"p95": 9 * MS}, "unclear"), (59, {"p95": 9 * MS}, "passed"), (59, {"p95": 9 * MS, "p99": 9 * MS}, "unclear"),
        (19, {"p50": 9 * MS}, "unclear"), (20, {"p50": 9 * MS}, "passed"), (31, {"mean": 9 * MS}, "unclear"), (32, {"mean": 9 * MS}, "passed"),
        (32, {"mean": MS}, "failed"), (1, {"max": 9 * MS}, "passed"), (1, {"max": MS}, "failed"),
    ],
)  # fmt: skip
def test_an_slo_is_met_or_violated_where_the_requests_suffice_to_tell(
    count: int, slo: dict[str, int], verdict: str
) -> None:
    requests = served([number * 10 * MS for number in range(count)], steady(5 * MS))
    taken = LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=[requests], slo=slo)
    assert case_of(taken).checks["slo"] == {"verdict": verdict}
    (stat,) = list(slo)[-1:]
    if verdict == "unclear":  # which the least that the findings name says too
        assert (count < LEAST[stat], count + 1 >= LEAST[stat] or len(slo) > 1) == (True, True)


def slow(count: int, which: Collection[int]) -> LoadSamples:
    """Requests of 1 ms every 10 ms, some of which take 9 ms; p99 is to be 5 ms at most."""
    requests = served(
        [at * 10 * MS for at in range(count)], lambda _: [9 * MS if at in which else MS for at in range(count)]
    )
    return LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=[requests], slo={"p99": 5 * MS})


def test_requests_that_are_slow_together_are_one_event() -> None:
    """Four of a hundred are too many for a p99, unless they have one cause."""
    for which, verdict in [((10, 35, 60, 85), "failed"), ((50, 51, 52, 53), "unclear"), (range(20, 80), "failed")]:
        assert case_of(slow(100, which)).checks["slo"] == {"verdict": verdict}
    found = there(case_of(slow(2000, (100, 700, 1300))).latency_bounds)["p99"]
    assert (found["high"], found["requests"] > 1500) == (MS, True)
    clumped = [
        at for at in range(2000) if at // 20 % 5 == 0 and at % 2
    ]  # one of ten, and all of them in a fifth of the time
    assert there(case_of(slow(2000, clumped)).latency_bounds)["p95"]["requests"] < 1000


def test_what_was_never_served_may_have_taken_any_time() -> None:
    requests = served([number * 10 * MS for number in range(400)], steady(5 * MS))
    for left, high in [(0, 5 * MS), (1, None)]:
        kept = {name: getattr(requests, name)[: 400 - left] for name in ("start", "end", "free")}
        cut = replace(requests, **kept, cutoff_ns=4 * 10**9)
        found = there(case_of(LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=[cut])).latency_bounds)
        assert {found[stat]["high"] for stat in ("mean", "p99", "max")} == {high}
        assert found["p95"]["high"] == 5 * MS


def test_a_rate_at_which_no_request_was_served_does_not_meet_an_slo_by_its_figures() -> None:
    requests = served([0, 10 * MS], steady(5 * MS))
    none = {name: getattr(requests, name)[:0] for name in ("start", "end", "free")}
    case = case_of(
        LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=[replace(requests, **none, cutoff_ns=MS)])
    )
    slo = {"p99": 20 * MS}
    assert (meets(case, slo), meets_by_figures(case, slo), times_longer(case, slo)) == (None, False, math.inf)


def test_late_is_what_a_free_client_began_late_and_what_was_cut_off_counts() -> None:
    due = np.array([0, MS, 50 * MS], np.int64)
    start = np.array([0, 10 * MS, 50 * MS + LATE_NS + 1], np.int64)
    requests = OpenLoopBlock(due, np.array([0, 10 * MS, 20 * MS]), start, start + 10 * MS, None, 1, cpu_ns=0, wall_ns=1)
    found = case_of(LoadSamples("cpu-tensors", LoadPoint("rate", 1.0), blocks=[requests]))
    assert found.value("late_share") == pytest.approx(1 / 3)
    assert there(found.stats("generator_lag")).max == LATE_NS + 1
    assert there(found.stats("queue_delay")) == summarise([0, 9 * MS, 0])  # without that lag
    due = np.array([0, MS, 2 * MS], np.int64)
    first = np.array([0], np.int64)
    requests = OpenLoopBlock(due, first, first, first + 4 * MS, 5 * MS, 1, cpu_ns=0, wall_ns=1)
    found = case_of(LoadSamples("cpu-tensors", LoadPoint("rate", 1000.0), blocks=[requests], slo={"max": 10 * MS}))
    assert list(requests.latencies) == [4 * MS, 4 * MS, 3 * MS]
    assert list(requests.waits) == [0, 4 * MS, 3 * MS]
    assert (there(found.stats("latency")).n, found.checks["slo"]) == (3, {"verdict": "unclear"})


def test_parts_of_one_stretch_are_its_blocks_and_those_that_were_never_served_are_in_no_service_time() -> None:
    requests = served([number * 10 * MS for number in range(65)], steady(5 * MS))
    found = case_of(LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=[requests]))
    assert [(block["round"], block["n"], block["latency"]["max"]) for block in there(found.load_blocks)] == [
        (0, 22, 5 * MS), (1, 21, 5 * MS), (2, 22, 5 * MS)
    ]  # fmt: skip
    cut = replace(requests, start=requests.start[:30], end=requests.end[:30], free=requests.free[:30], cutoff_ns=10**9)
    found = case_of(LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=[cut]))
    counts = {name: there(found.stats(name)).n for name in ("latency", "queue_delay", "service_time", "generator_lag")}
    assert counts == {"latency": 65, "queue_delay": 65, "service_time": 30, "generator_lag": 30}


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
    parts: list[Block] = [
        replace(served([0, 10 * MS], steady(took * MS)), round=number) for number, took in ((0, 5), (3, 8))
    ]
    taken = LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks=parts, slo={"max": 6 * MS})
    found = case_of(taken)
    latency = there(found.stats("latency"))
    assert (latency.n, latency.max, found.checks["slo"]) == (4, 8 * MS, {"verdict": "failed"})
    assert found.value("throughput") == pytest.approx(4 / 0.033)
    assert [(block["round"], block["n"], block["latency"]["median"]) for block in figures_of_blocks(taken)] == [
        (0, 2, 5 * MS), (3, 2, 8 * MS),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("took_ms", "processes", "verdict"),
    [
        ((4.0, 4.5, 4.9), (0, 1, 2), "unclear"),  # another one may take longer than 5 ms
        ((4.4, 4.5, 4.6), (0, 1, 2), "passed"),
        ((4.4, 4.5, 4.6), (0, 2), "unclear"),  # of two processes nobody knows
        ((5.4, 5.5, 5.6), (0, 1, 2), "failed"),
        ((5.1, 5.5, 6.1), (0, 1, 2), "unclear"),
    ],
)
def test_an_slo_is_met_across_processes(took_ms: Sequence[float], processes: Sequence[int], verdict: str) -> None:
    due = [number * 10 * MS for number in range(400)]
    blocks: list[Block] = [
        replace(served(due, steady(round(ms * MS))), round=number) for number, ms in enumerate(took_ms)
    ]
    taken = LoadSamples("cpu-tensors", LoadPoint("rate", 100.0), blocks, slo={"p50": 5 * MS}, processes=processes)
    assert case_of(taken).checks["slo"] == {"verdict": verdict}
    taken.processes = ()
    assert case_of(taken).checks["slo"] == {"verdict": "passed" if max(took_ms) < 5 else "failed"}
