"""Metrics of gates: what they are of, and which a run of each kind has not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.facts.checks import FAILED, PASSED, Check
from ortbench.features.chain.model import ChainWork
from ortbench.features.gate.gates import BASELINE, CANDIDATE, regression_tests
from ortbench.features.gate.gates.baseline import LiveGate, check_stored
from ortbench.features.gate.plan import Limits
from ortbench.features.loop.model import LoopWork
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import Work
from tests.expect import refusal
from tests.results import MS, STAYING, chain, level, loop_result, measured, result_of, stage, steady


def limits(*metrics: str, most: float = 0.05, **more: Any) -> Limits:
    return Limits(most, tuple(map(parse_metric, metrics)), **more)


def verdicts(checks: Iterable[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


MODES = ("cpu-tensors", "device-resident")
CHAIN, LOOP, SINGLE = ChainWork(stages=("text", "image")), LoopWork(16), Work()


def test_what_metrics_of_a_live_gate_are_of() -> None:
    for metric, work, names in [
        ("latency", CHAIN, ["cpu-tensors chain median", "device-resident chain median"]),
        ("cpu-tensors.chain.mean", CHAIN, ["cpu-tensors chain mean"]),
        ("stage.image", CHAIN, ["cpu-tensors stage.image median", "device-resident stage.image median"]),
        ("latency", LOOP, ["cpu-tensors loop median", "device-resident loop median"]),
        ("loop.median", LOOP, ["cpu-tensors loop median", "device-resident loop median"]),
        ("loop.mean", LOOP, ["cpu-tensors loop mean", "device-resident loop mean"]),
        ("device-resident.step.median", LOOP, ["device-resident step median"]),
        ("cpu-tensors.cpu_time", LOOP, ["cpu-tensors cpu_time mean"]),
        ("step.p95", LoopWork(11), ["cpu-tensors step p95", "device-resident step p95"]),
        ("step.p90", LoopWork(6), ["cpu-tensors step p90", "device-resident step p90"]),
        ("step.p99", LoopWork(51), ["cpu-tensors step p99", "device-resident step p99"]),
    ]:
        assert [it.name for it in regression_tests(limits(metric), MODES, work)] == names
    for whole, work in [("chain", CHAIN), ("loop", LOOP)]:
        assert len(regression_tests(limits("latency", whole), ["cpu-tensors"], work)) == 1


def test_metrics_that_a_live_gate_has_not() -> None:
    no_stages = "single inferences have no stages, which chains have"
    no_steps = "single inferences have no steps; say what is fed back with --feedback OUT=IN"
    no_percentiles = "which have median, mean, min; use a stored --baseline for percentiles"
    for metric, work, message in [
        (
            "stage.nope",
            CHAIN,
            "a chain has chain, stage.text, stage.image, cpu_time, page_faults, involuntary_switches only",
        ),
        ("step", CHAIN, "a chain has chain, stage.text, stage.image, cpu_time, page_faults, involuntary_switches only"),
        ("stage.text", LOOP, "a loop has step, loop, cpu_time, page_faults, involuntary_switches only"),
        ("device-resident.inference", LOOP, "a loop has step, loop, cpu_time, page_faults, involuntary_switches only"),
        ("h2d", LOOP, "a loop has step, loop, cpu_time, page_faults, involuntary_switches only"),
        ("enqueue", LOOP, "a loop has step, loop, cpu_time, page_faults, involuntary_switches only"),
        ("shared.loop", LOOP, "no mode that is measured has it; measured: cpu-tensors, device-resident"),
        ("chain", SINGLE, no_stages),
        ("stage.text", SINGLE, no_stages),
        ("step", SINGLE, no_steps),
        ("loop", SINGLE, no_steps),
        ("loop.p95", LOOP, no_percentiles),
        ("step.max", LOOP, no_percentiles),
        ("step.p95", SINGLE, no_percentiles),
        ("step.p95", LoopWork(10), "and p95 of steps from --steps 11 on; use more, or a stored --baseline"),
        ("step.p90", LoopWork(5), "and p90 of steps from --steps 6 on; use more, or a stored --baseline"),
        ("step.p99", LoopWork(50), "and p99 of steps from --steps 51 on; use more, or a stored --baseline"),
        *(
            (metric, SINGLE, "is of a point of an axis: compare stored results of 'ortbench load' or 'ortbench sweep'")
            for metric in ("latency.p99@rate=30", "latency@batch=8", "item_throughput@best", "host_memory@batch=8")
        ),
    ]:
        said = f"--metric {parse_metric(metric).text}: "
        refused = refusal(BadInput, regression_tests, limits(metric), MODES, work)
        assert (refused.startswith(said), message in refused) == (True, True), refused


# By what it is of: the metric, the blocks of either side by phase, and what a live gate says of them; see `test_comparison`.
LIVE: list[tuple[Work, str, dict[str, tuple[int, int]], dict[str, str]]] = [
    (CHAIN, "stage.text", {"latency": (10_120, 10_100), "stage.text": (120, 100)}, {"stage.text median": FAILED}),
    (CHAIN, "chain", {"latency": (10_120, 10_100), "stage.text": (120, 100)}, {"chain median": PASSED}),
    (LOOP, "loop", {"latency": (8000, 5000), "step": (1000, 1000)}, {"loop median": FAILED}),
    (LOOP, "latency", {"latency": (8000, 5000), "step": (1000, 1000)}, {"loop median": FAILED}),
    (LOOP, "step", {"latency": (8000, 5000), "step": (1000, 1000)}, {"step median": PASSED}),
    (SINGLE, "cpu_time", {"latency": (5000, 5000), "cpu_time": (1200, 1000)}, {"cpu_time mean": FAILED}),
    (SINGLE, "h2d", {"h2d": (1000, 1000)}, {"h2d median": PASSED}),  # which no other mode can hold up
    (SINGLE, "h2d", {"h2d": (1200, 1000)}, {"h2d median": FAILED}),
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


def test_metrics_that_no_stored_run_has() -> None:
    one = result_of(measured("cpu-tensors", latency=steady([MS] * 24)))
    for text, said in [
        *(
            (f"{it}.median", f"{it}.median: not measured in both results; there are latency, throughput")
            for it in ("loop", "step", "chain")
        ),
        ("latency@batch=8", "latency.median@batch=8: no such point was measured in both; there are none"),
        ("latency.p99@rate=30", "latency.p99@rate=30: no such point was measured in both; there are none"),
        ("item_throughput@best", "item_throughput@best: not measured in both results; there are latency, throughput"),
        ("queue_delay", "queue_delay.median: not measured in both results; there are latency, throughput"),
        ("host_memory", "host_memory: not measured in both results (--measure-memory); there are latency, throughput"),
    ]:
        assert refusal(BadInput, check_stored, one, one, limits(text)) == f"--metric {said}"
    loop = loop_result(level("device-resident"))
    for metric in ("inference", "device-resident.inference", "h2d"):
        refused = refusal(BadInput, check_stored, loop, loop, limits(metric))
        assert refused.startswith(f"--metric {metric}.median: not measured in both results")
    other = chain(STAYING, stages=(stage("prompt"), stage("image", 4)))
    refused = refusal(BadInput, check_stored, chain(STAYING), other, limits("stage.text"))
    assert refused == "--metric stage.text.median: there is no such stage in both; there are image"
