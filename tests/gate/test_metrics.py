"""Metrics of gates: what they are of, and which a run of each kind has not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.chain.model import ChainWork
from ortbench.features.gate.gates import BASELINE, CANDIDATE, regression_tests
from ortbench.features.gate.gates.baseline import LiveGate, check_stored
from ortbench.features.gate.plan import Limits
from ortbench.features.loop.model import LoopWork
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import Work
from ortbench.model.result import Result
from tests.analysis.test_sweep import sweep_result
from tests.expect import refusal
from tests.results import MS, STAYING, chain, level, loop_result, measured, result_of, serving, stage, steady


def limits(*metrics: str, most: float = 0.05, **more: Any) -> Limits:
    return Limits(most, tuple(map(parse_metric, metrics)), **more)


def verdicts(checks: Iterable[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


MODES = ("cpu-tensors", "device-resident")
CHAIN, LOOP, SINGLE = ChainWork(stages=("text", "image")), LoopWork(16), Work()


@pytest.mark.parametrize(
    ("metrics", "work", "names"),
    [
        ("latency", CHAIN, ["cpu-tensors chain median", "device-resident chain median"]),
        ("cpu-tensors.chain.mean", CHAIN, ["cpu-tensors chain mean"]),
        ("stage.image", CHAIN, ["cpu-tensors stage.image median", "device-resident stage.image median"]),
        ("latency loop", LOOP, ["cpu-tensors loop median", "device-resident loop median"]),  # one figure by two names
        ("loop.mean", LOOP, ["cpu-tensors loop mean", "device-resident loop mean"]),
        ("device-resident.step.median", LOOP, ["device-resident step median"]),
        ("cpu-tensors.cpu_time", LOOP, ["cpu-tensors cpu_time mean"]),
        ("cpu-tensors.step.p95", LoopWork(11), ["cpu-tensors step p95"]),
        ("cpu-tensors.step.p90", LoopWork(6), ["cpu-tensors step p90"]),
        ("cpu-tensors.step.p99", LoopWork(51), ["cpu-tensors step p99"]),
        ("cpu_time", SINGLE, ["cpu-tensors cpu_time mean", "device-resident cpu_time mean"]),
        ("enqueue", SINGLE, ["device-resident enqueue median"]),  # which cpu-tensors has not
    ],
)
def test_what_metrics_of_a_live_gate_are_of(metrics: str, work: Work, names: list[str]) -> None:
    assert [it.name for it in regression_tests(limits(*metrics.split()), MODES, work)] == names


# By what it is of: the metric, the blocks of either side by phase, and what a live gate says of them; see `test_comparison`.
LIVE: list[tuple[Work, str, dict[str, tuple[int, int]], dict[str, str]]] = [
    (CHAIN, "stage.text", {"latency": (10_120, 10_100), "stage.text": (120, 100)}, {"stage.text median": FAILED}),
    (CHAIN, "chain", {"latency": (10_120, 10_100), "stage.text": (120, 100)}, {"chain median": PASSED}),
    (LOOP, "loop", {"latency": (8000, 5000), "step": (1000, 1000)}, {"loop median": FAILED}),
    (LOOP, "step", {"latency": (8000, 5000), "step": (1000, 1000)}, {"step median": PASSED}),
    (SINGLE, "cpu_time", {"latency": (5000, 5000), "cpu_time": (1200, 1000)}, {"cpu_time mean": FAILED}),
    (SINGLE, "h2d", {"h2d": (1000, 1000)}, {"h2d median": PASSED}),  # which no other mode can hold up
    (SINGLE, "enqueue", {"latency": (5000, 5000), "enqueue": (1200, 1000)}, {"enqueue median": FAILED}),
]


@pytest.mark.parametrize(("work", "metric", "phases", "said"), LIVE)
def test_a_live_gate_takes_the_blocks_of_its_metric(
    work: Work, metric: str, phases: dict[str, tuple[int, int]], said: dict[str, str]
) -> None:
    mode = "device-tensors" if work == SINGLE else "cpu-tensors"
    live = LiveGate(limits(f"{mode}.{metric}", most=0.1), list({"cpu-tensors", mode}), has_baseline=True, work=work)
    for number in range(9):
        assert live.needs_more(mode)
        for side in (CANDIDATE, BASELINE):
            if work == SINGLE:
                live.add(side, "cpu-tensors", "latency", number, [9] * 3)
            for phase, medians in phases.items():
                live.add(side, mode, phase, number, [medians[side]] * 3)
    assert not any(map(live.needs_more, ["cpu-tensors", mode]))
    blocks = {it: steady([9]) for it in ("latency", *phases)}
    found = live.checks([result_of(measured(mode, **blocks))] * 2)
    assert verdicts(found) == {f"{mode} {name}": verdict for name, verdict in said.items()}
    assert {it.rounds for it in found} == {9}


def test_where_the_run_is_the_wait_there_is_no_enqueue_to_judge() -> None:
    results = [result_of(*(measured(mode, latency=steady([9])) for mode in MODES)) for _ in range(2)]
    why = "enqueue is not apart: its run waits until the device is done"
    alone = LiveGate(limits("device-resident.enqueue"), MODES, has_baseline=True)
    assert refusal(BenchmarkFailed, alone.checks, results) == f"nothing could be compared: device-resident: {why}"
    live = LiveGate(limits("device-resident.enqueue", "cpu-tensors.latency", most=0.1), MODES, has_baseline=True)
    for number, side, mode in product(range(50), (CANDIDATE, BASELINE), MODES):
        live.add(side, mode, "latency", number, [1000] * 3)
    assert not any(map(live.needs_more, MODES))
    assert verdicts(live.checks(results)) == {
        "cpu-tensors latency median": PASSED, "device-resident enqueue median": UNCLEAR,
    }  # fmt: skip


# Stored

ONE, BOTH = (result_of(*(measured(mode, latency=steady([MS] * 24)) for mode in modes)) for modes in (MODES[:1], MODES))
STEPS, NO_STAGE = loop_result(level("device-resident")), chain(STAYING, stages=(stage("prompt"), stage("image", 4)))
LOAD, SWEEP = serving(), sweep_result()
HAS = "not measured in both results; there are latency, throughput"
NO_CLIENTS = "no such point was measured in both; there are concurrency=1, concurrency=2, concurrency=4, concurrency=8"
OF_LOAD = "not measured in both results; there are latency, throughput, cpu_cores, gil_wait, fairness, scaling"


@pytest.mark.parametrize(
    ("candidate", "baseline", "metric", "said"),
    [
        (ONE, ONE, "loop.median", f"loop.median: {HAS}"),
        (ONE, ONE, "latency@batch=8", "latency.median@batch=8: no such point was measured in both; there are none"),
        (ONE, ONE, "item_throughput@best", f"item_throughput@best: {HAS}"),
        (ONE, ONE, "host_memory", "host_memory: not measured in both results (--measure-memory); there are latency, throughput"),
        (result_of(), result_of(), "latency", "latency.median: not measured in both results; there are "),
        (STEPS, STEPS, "inference", "inference.median: not measured in both results"),
        (chain(STAYING), NO_STAGE, "stage.text", "stage.text.median: there is no such stage in both; there are image"),
        *((one, other, "device-resident", "device-resident.latency.median: device-resident was not measured in both results; there are cpu-tensors")
          for one, other in ((ONE, BOTH), (BOTH, ONE))),
        (LOAD, LOAD, "throughput@concurrency=3", f"throughput@concurrency=3: {NO_CLIENTS}"),
        (LOAD, LOAD, "queue_delay.median", f"queue_delay.median: {OF_LOAD}"),
        (LOAD, LOAD, "latency.max@concurrency=4", "latency.max@concurrency=4: latency of load points has median, p95, p99, mean"),
        (SWEEP, SWEEP, "latency.p99@rate=30", "latency.p99@rate=30: no such point was measured in both; there are batch=1, batch=2, batch=4"),
    ],
)  # fmt: skip
def test_metrics_that_no_stored_run_has(candidate: Result, baseline: Result, metric: str, said: str) -> None:
    assert refusal(BadInput, check_stored, candidate, baseline, limits(metric)).startswith(f"--metric {said}")
