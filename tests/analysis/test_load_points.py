"""Load points from scripted inferences: rates, waits, SLOs, what was cut off, CPU time; their intervals, the knee, more clients."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from typing import Any

import numpy as np
import pytest

from ortbench.analysis.load_points import LEAST, interval, is_full, rate_of
from ortbench.core.stats import Value, summarise
from ortbench.facts.run import facts_of
from ortbench.features.load.analysis import (
    LoadPoint,
    bend_of,
    best_of,
    load_point_of,
    meets,
    meets_by_figures,
    put_scaling,
    share_of_peak,
    slo_limits,
    slo_rates,
    times_longer,
)
from ortbench.features.load.analysis.blocks import (
    LATE_NS,
    Block,
    ClosedLoopBlock,
    CpuPart,
    OpenLoopBlock,
    cpu_marks,
    cpu_parts,
)
from ortbench.features.load.analysis.samples import LoadSamples, case_of
from ortbench.model.result import Case
from tests.expect import there
from tests.queues import MS, served, steady
from tests.results import (
    WOBBLE,
    closed,
    known_to,
    latency,
    level_blocks,
    load_result,
    opened,
    paced,
    serving,
    slo_rate,
    values,
)

CPU, DEVICE = "cpu-tensors", "device-tensors"
Runs = list[list[tuple[int, int]]]  # when each client's inferences began and ended


def closed_block(runs: Runs, until: int, **more: Any) -> ClosedLoopBlock:
    starts, ends = ([np.array([run[at] for run in each], np.int64) for each in runs] for at in (0, 1))
    return ClosedLoopBlock(**{"starts": starts, "ends": ends, "until_ns": until, "cpu_ns": 0, "wall_ns": 1, **more})


def one_engine(clients: int, service: int, until: int) -> Runs:
    """Clients that take turns on one engine from 0 on, until all have a run that ended after `until`."""
    runs: Runs = [[] for _ in range(clients)]
    ready, end = [0] * clients, 0
    while not all(each and each[-1][1] >= until and len(each) >= 3 for each in runs):
        who = min(range(clients), key=lambda it: ready[it])
        end = max(end, ready[who]) + service
        runs[who].append((ready[who], end))
        ready[who] = end
    return runs


def samples(*blocks: Block, rate: float = 100.0, **more: Any) -> LoadSamples:
    point = LoadPoint("rate", rate)
    if any(isinstance(it, ClosedLoopBlock) for it in blocks):
        point = LoadPoint("concurrency", 2)
    return LoadSamples(CPU, point, [*blocks], **more)


def requests(count: int, took: int | Sequence[int] = 5 * MS) -> OpenLoopBlock:
    """One every 10 ms."""
    services = steady(took) if isinstance(took, int) else lambda _: took
    return served([number * 10 * MS for number in range(count)], services)


def cut_off(block: OpenLoopBlock, count: int, at_ns: int) -> OpenLoopBlock:
    """The same where only so many were begun before it was cut off."""
    kept = {name: getattr(block, name)[:count] for name in ("start", "end", "free")}
    return replace(block, **kept, cutoff_ns=at_ns)


# Closed loops


def test_one_engine_gives_as_many_inferences_whatever_the_number_of_clients_and_where_blocks_end() -> None:
    for clients in (1, 2, 3, 8):
        short = closed_block(one_engine(clients, 2 * MS, 1), 1)  # less than an inference
        assert short.throughput == pytest.approx(500)
        for until in (50 * MS, 53 * MS + 1):
            found = closed_block(one_engine(clients, 2 * MS, until), until)
            assert found.throughput == pytest.approx(500)
            assert {int(it) for it in found.latencies} == {clients * 2 * MS}
    # All end at the same moments: a count by the time between the first end and the last would be one short.
    runs = [[(number * MS, (number + 1) * MS) for number in range(12)]] * 4
    assert closed_block(runs, 10 * MS).throughput == pytest.approx(4000)
    early = [(number * MS, (number + 1) * MS) for number in range(5)]
    found = closed_block([early, [(0, 3 * MS), (3 * MS, 4 * MS), (4 * MS, 6 * MS)]], 4 * MS)
    assert [list(times) for times in found.of_clients] == [[MS], [MS]]
    assert found.throughput == pytest.approx(2000)
    assert found.window.each == [2, 2]


def test_a_closed_loop() -> None:
    times: dict[str, Any] = {"cpu_ns": 30 * MS, "wall_ns": 20 * MS, "lock": (3, 10)}
    blocks = [closed_block(one_engine(2, 2 * MS, 40 * MS), 40 * MS, round=number, **times) for number in range(4)]
    found = case_of(samples(*blocks, outputs_match=True, clock_mhz=[900, 300, 600]))
    assert found.value("throughput") == pytest.approx(500)
    assert found.metrics["throughput"].ci95 == pytest.approx((500, 500))
    assert found.stats("latency") == summarise([4 * MS] * 72)
    assert (found.value("cpu_cores"), found.value("gil_wait"), found.value("sm_clock")) == (1.5, 0.3, 600)
    costs = {(it["cpu_time"], it["cpu_cores"]) for it in there(found.load_blocks)}
    assert costs == {(round(30 * MS / blocks[0].inferences), 1.5)}
    assert found.value("fairness") == pytest.approx(1, abs=0.01)  # 10 runs of one and 9 of the other in a block
    assert (found.status, found.reason, found.checks) == ("ok", None, {"outputs": {"verdict": "passed"}})
    assert found.point == {"concurrency": 2}


def test_runs_of_blocks_that_last_differently_are_divided_by_all_their_time() -> None:
    lengths = ((MS, 10 * MS), (4 * MS, 40 * MS)) * 2  # 9 runs of 1 ms in 9 ms, and 9 of 4 ms in 36 ms
    blocks = [closed_block(one_engine(1, *it), it[1], round=number) for number, it in enumerate(lengths)]
    found = case_of(samples(*blocks))
    # Each block adds or takes 240 from the rate: 600 too much in a fifth of the mean time, 150 too little in eight fifths.
    assert found.value("throughput") == pytest.approx(400)
    assert found.metrics["throughput"].ci95 == pytest.approx((0, 400 + 3.182 * math.sqrt(4 * 240**2 / 3) / 2), rel=1e-3)


def test_a_load_point_that_failed_or_was_never_measured() -> None:
    starved = "some clients completed no inference while others did: the EP does not serve them equally"
    one = closed_block(one_engine(1, MS, 5 * MS), 5 * MS)
    for taken, wanted in (
        (samples(closed_block([[(0, 1), (1, 2)], []], 1)), ("failed", starved, None)),
        (samples(one, failed="a client died"), ("failed", "a client died", pytest.approx(1000))),
        (samples(), ("not_measured", "the load was ended before its turn came", None)),
    ):
        found = case_of(taken)
        assert (found.status, found.reason, found.value("throughput")) == wanted


# Open loops


def test_an_open_loop_counts_from_when_requests_were_due() -> None:
    block = served([0, 1 * MS, 2 * MS, 20 * MS], steady(5 * MS))
    found = case_of(samples(block, slo={"max": 14 * MS}))
    assert there(found.stats("latency")).max == 13 * MS
    assert found.stats("queue_delay") == summarise([0, 4 * MS, 8 * MS, 0])
    assert found.stats("service_time") == summarise([5 * MS] * 4)
    assert (found.queue_delay_ci95, found.value("late_share"), found.checks["slo"]["verdict"]) == (None, 0.0, "passed")
    assert (found.value("utilisation"), found.value("throughput")) == pytest.approx((20 / 25, 4 / 0.025))


def test_late_is_what_a_free_client_began_late() -> None:
    due = np.array([0, MS, 50 * MS], np.int64)
    start = np.array([0, 10 * MS, 50 * MS + LATE_NS + 1], np.int64)
    block = OpenLoopBlock(due, np.array([0, 10 * MS, 20 * MS]), start, start + 10 * MS, None, 1, cpu_ns=0, wall_ns=1)
    found = case_of(samples(block))
    assert found.value("late_share") == pytest.approx(1 / 3)
    assert there(found.stats("generator_lag")).max == LATE_NS + 1
    assert found.stats("queue_delay") == summarise([0, 9 * MS, 0])  # without that lag


def test_what_was_cut_off_counts_and_may_have_taken_any_time() -> None:
    block = cut_off(served([0, MS, 2 * MS], steady(4 * MS)), 1, 5 * MS)
    assert (list(block.latencies), list(block.waits)) == ([4 * MS, 4 * MS, 3 * MS], [0, 4 * MS, 3 * MS])
    assert case_of(samples(block, slo={"max": 10 * MS})).checks["slo"] == {"verdict": "unclear"}
    found = case_of(samples(cut_off(requests(65), 30, 10**9)))
    counts = {name: there(found.stats(name)).n for name in ("latency", "queue_delay", "service_time", "generator_lag")}
    assert counts == {"latency": 65, "queue_delay": 65, "service_time": 30, "generator_lag": 30}
    for left, high in ((0, 5 * MS), (1, None)):
        bounds = there(case_of(samples(cut_off(requests(400), 400 - left, 4 * 10**9))).latency_bounds)
        assert ({bounds[stat]["high"] for stat in ("mean", "p99", "max")}, bounds["p95"]["high"]) == ({high}, 5 * MS)
    none, slo = case_of(samples(cut_off(requests(2), 0, MS))), {"p99": 20 * MS}
    assert (meets(none, slo), meets_by_figures(none, slo), times_longer(none, slo)) == (None, False, math.inf)


def test_parts_of_one_block_and_several_blocks_are_blocks_of_the_load_point() -> None:
    def blocks_of(case: Case) -> list[tuple[int, int, int]]:
        return [(it["round"], it["n"], it["latency"]["max"]) for it in there(case.load_blocks)]

    assert blocks_of(case_of(samples(requests(65)))) == [(0, 22, 5 * MS), (1, 21, 5 * MS), (2, 22, 5 * MS)]
    parts = [replace(requests(2, took * MS), round=number) for number, took in ((0, 5), (3, 8))]
    found = case_of(samples(*parts, slo={"max": 6 * MS}))
    assert blocks_of(found) == [(0, 2, 5 * MS), (3, 2, 8 * MS)]
    assert (there(found.stats("latency")).n, found.checks["slo"]) == (4, {"verdict": "failed"})
    assert found.value("throughput") == pytest.approx(4 / 0.033)


# SLOs


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
    count: int, slo: Mapping[str, int], verdict: str
) -> None:
    assert case_of(samples(requests(count), slo=slo)).checks["slo"] == {"verdict": verdict}
    if verdict == "unclear" and len(slo) == 1:  # which the least that the findings name says too
        assert [LEAST[stat] for stat in slo] == [count + 1]


def slow(count: int, which: Collection[int]) -> Case:
    """Requests of 1 ms, some of which take 9 ms; p99 is to be 5 ms at most."""
    times = [9 * MS if at in which else MS for at in range(count)]
    return case_of(samples(requests(count, times), slo={"p99": 5 * MS}))


def test_requests_that_are_slow_together_are_one_event() -> None:
    """Four of a hundred are too many for a p99, unless they have one cause."""
    for which, verdict in (((10, 35, 60, 85), "failed"), ((50, 51, 52, 53), "unclear"), (range(20, 80), "failed")):
        assert slow(100, which).checks["slo"] == {"verdict": verdict}


@pytest.mark.parametrize(
    ("limit_ms", "slow", "verdict"), [(32, 0, "passed"), (20, 0, "unclear"), (32, 10, "unclear"), (32, 30, "failed")]
)
def test_times_that_drift_far_below_a_limit_do_not_count_against_it(limit_ms: int, slow: int, verdict: str) -> None:
    """Requests that wait for none, which a machine makes longer that is busy for spells; and some of 40 ms by a cause of their own.
    The longest take 7.7 ms."""
    random, count, spell = np.random.default_rng(2), 1215, 76
    busy = np.repeat(random.random(count // spell + 1) < 0.25, spell)[:count]
    times = np.round((0.5 + busy * random.exponential(1.0, count)) * MS).astype(np.int64)
    times[random.choice(count, slow, replace=False)] = 40 * MS
    found = case_of(samples(served(np.arange(count) * 100 * MS, lambda _: times), slo={"p99": limit_ms * MS}))
    assert found.checks["slo"] == {"verdict": verdict}
    assert there(found.latency_bounds)["p99"]["requests"] < LEAST["p99"] or verdict == "failed"


def test_an_slo_is_met_across_processes() -> None:
    for took_ms, processes, verdict in (
        ((4.0, 4.5, 4.9), (0, 1, 2), "unclear"),  # another one may take longer than 5 ms
        ((4.4, 4.5, 4.6), (0, 1, 2), "passed"),
        ((4.4, 4.5, 4.6), (0, 2), "unclear"),  # of two processes nobody knows
        ((5.4, 5.5, 5.6), (0, 1, 2), "failed"),
        ((5.1, 5.5, 6.1), (0, 1, 2), "unclear"),
        ((5.1, 5.5, 6.1), (), "failed"),
    ):
        blocks = [replace(requests(100, round(ms * MS)), round=number) for number, ms in enumerate(took_ms)]
        found = case_of(samples(*blocks, slo={"p50": 5 * MS}, processes=processes))
        assert found.checks["slo"] == {"verdict": verdict}


def test_an_slo_is_met_by_the_figures() -> None:
    assert [is_full(opened(CPU, 30, 5.0, utilisation=busy)) for busy in (0.979, 0.98, 1.0)] == [False, True, True]
    level = opened(CPU, 30, 5.0, 15.0)
    assert meets_by_figures(level, {"p99": 15 * MS, "mean": 5 * MS})
    assert not meets_by_figures(level, {"p99": 15 * MS, "max": 29 * MS})
    assert (slo_limits(paced()), slo_limits(serving())) == ({"p99": 20 * MS}, None)
    found: dict[str, Any] = {CPU: slo_rate(210.0, 216.0), DEVICE: None}
    assert slo_rates(load_result(level, slo={"p99": MS}, found=found)) == {CPU: found[CPU]}


# Load points beside each other


def test_the_knee_is_the_last_load_point_that_brings_five_percent_more() -> None:
    for throughput, knee, share in (
        ([100, 190, 388, 400], 4, 0.97),  # 8 bring 3 % more than 4
        ([100, 190, 380, 400], 8, 1.0),  # 5.3 % more
        ([100, 105], 2, 1.0),  # 5 % is enough
        ([100, 104.9], 1, 100 / 104.9),
        ([100, 200, 150, 195], 2, 1.0),  # what comes back after a dip is no gain
    ):
        levels = [closed(CPU, 2**number, per_s, 1.0) for number, per_s in enumerate(throughput)]
        bend = there(bend_of(levels))
        assert (load_point_of(bend).value, share_of_peak(levels, bend)) == pytest.approx((knee, share))
        assert best_of(levels) is max(levels, key=rate_of)
        assert bend_of([closed(CPU, 4, 100, 1.0)]) is None


def test_the_interval_of_a_latency_comes_of_its_blocks() -> None:
    level = closed(CPU, 1, 100, 10.0)
    reach = 2.3646 * stdev(math.log(off) for off in WOBBLE) / math.sqrt(len(WOBBLE))  # Student's t at 7 degrees
    assert interval(level, "p99") == pytest.approx((20e6 * math.exp(-reach), 20e6 * math.exp(reach)), rel=1e-4)
    assert interval(level, "throughput") == (99.0, 101.0)
    assert [interval(level, stat) for stat in ("min", "p90", "max")] == [None] * 3  # say nothing that comes again
    few = known_to(closed(CPU, 1, 100, 10.0, blocks=level_blocks(100, latency(10.0), 2)), None)
    assert (interval(few, "p99"), interval(few, "throughput")) == (None, None)


def speed_up(case: Case, *beside: Case) -> Value | None:
    """By how much more clients bring more, beside these."""
    case.set_metric("scaling", None)
    put_scaling(load_result(*beside, case))
    found = case.metrics.get("scaling")
    return found if isinstance(found, Value) else None


def test_speed_up_is_against_one_client() -> None:
    one, four = closed(CPU, 1, 100, 10.0), closed(CPU, 4, 380, 10.0)
    pairs = zip(there(four.load_blocks), there(one.load_blocks), strict=True)
    logs = [math.log(a["throughput"] / b["throughput"]) for a, b in pairs]
    reach = math.exp(2.3646 * stdev(logs) / math.sqrt(8))
    found = there(speed_up(four, one))
    assert (found.value, *there(found.ci95)) == pytest.approx((3.8, 3.8 / reach, 3.8 * reach), rel=1e-3)
    apart = there(speed_up(four, closed(CPU, 1, 100, 10.0, blocks=[])))
    assert apart.ci95 == pytest.approx((3.747, 3.854), abs=1e-3)
    assert (there(speed_up(one, four)).value, speed_up(four)) == (1.0, None)
    clock, of = (1.0, 1.0, 1.6, 1.5, 1.0), latency(10.0)  # which rises for both, and is no noise
    one = known_to(closed(CPU, 1, 100, 10.0, blocks=level_blocks(100, of, 5, clock)), (75, 125))
    two = known_to(closed(CPU, 2, 180, 10.0, blocks=level_blocks(180, of, 5, clock)), (135, 225))
    assert there(speed_up(two, one)).ci95 == pytest.approx((1.8, 1.8))


# CPU time


AT = LoadPoint("rate", 6.0)
SPINS = [24 * MS, 25 * MS, 23 * MS, 26 * MS, 24 * MS, 22 * MS, 25 * MS, 24 * MS]  # of an inference, by part
SLEEPS = [ns // 40 for ns in SPINS]


def cpu_block(each: Sequence[int], number: int = 0) -> OpenLoopBlock:
    """Five requests a part, 6 a second, of which each takes 0.4 ms."""
    made = served([round(at / AT.value * 1e9) for at in range(5 * len(each))], steady(MS * 2 // 5))
    parts = [CpuPart(5 * ns, round(5e9 / AT.value), 5) for ns in each]
    cpu_ns, wall_ns = sum(it.cpu_ns for it in parts), sum(it.wall_ns for it in parts)
    return replace(made, cpu_ns=cpu_ns, wall_ns=wall_ns, cpu_parts=parts, round=number)


def cpu_point(each: Sequence[int], processes: int = 0) -> Case:
    """A load point in one stretch, or with a part in each of several processes."""
    blocks = [cpu_block([ns], at) for at, ns in enumerate(each[:processes])] or [cpu_block(each)]
    return case_of(samples(*blocks, rate=AT.value, processes=range(processes)))


def test_cpu_time_has_an_interval_in_one_stretch_and_by_processes() -> None:
    for case, count in ((cpu_point(SPINS), 8), (cpu_point(SPINS, 5), 5), (cpu_point(SPINS, 2), 2)):
        mean = sum(SPINS[:count]) / count
        found, cores = there(case.stats("cpu_time")), case.metrics["cpu_cores"]
        assert (found.n, found.mean, found.max) == (count, mean, max(SPINS[:count]))
        assert case.value("cpu_cores") == pytest.approx(mean * AT.value / 1e9)
        low, high = getattr(cores, "ci95", None) or (0, 0)
        assert (0.9 * mean < low * 1e9 / AT.value < mean < high * 1e9 / AT.value < 1.1 * mean) == (count >= 3)


def test_parts_of_cpu_time_go_from_reading_to_reading_of_all_processes() -> None:
    marks = cpu_marks(33)
    assert (marks[0], marks[-1], len(marks), cpu_marks(2)) == (0, 33, 9, [])
    assert cpu_parts([], np.arange(2), [[], []]) == []
    readings = [[(0, 10), (100, 30), (200, 90)], [(5, 7), (90, 8), (210, 8)]]
    assert cpu_parts([0, 3, 6], np.array([0, 1, 2, 3]), readings) == [CpuPart(21, 90, 3), CpuPart(60, 110, 1)]


def spinning(case: Case, *words: str, **target: Any) -> Any:
    """The fact of threads that spin, on a machine where the process may use 4 cores."""
    result = load_result(case)
    result.target.update({"ep": "CPUExecutionProvider", **target})  # type: ignore[typeddict-item]
    result.command += words
    result.placement["nodes"] = {result.target["ep"]: 3}
    return next((it for it in facts_of(result) if it.code == "idle-spinning"), None)


def test_threads_that_spin_between_requests_are_a_fact_with_what_ends_it() -> None:
    found, option = spinning(cpu_point(SPINS)), ("--session-config", "session.intra_op.allow_spinning=0")
    assert found.next == f"ortbench load m.onnx --ep some {' '.join(option)}"
    assert [round(values(found)[it], 5) for it in ("cores", "utilisation", "most")] == [0.14475, 0.00246, 0.0108]
    assert spinning(cpu_point(SPINS, 5), *option).next == ""  # side by side with it
    for quiet in (cpu_point(SLEEPS), cpu_point(SPINS, 2), cpu_point([MS, 150 * MS] * 2)):  # little; not for certain
        assert spinning(quiet) is None
    for target in (
        {"ep": "Some"},
        {"intra_op_threads": 1},
        {"session_config": {"session.intra_op.allow_spinning": "0"}},
    ):
        assert spinning(cpu_point(SPINS), **target) is None
