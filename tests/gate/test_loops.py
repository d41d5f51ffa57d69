"""Gates of loops: the whole loop and its steps against a baseline, live and stored."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ortbench.core.errors import BadInput, NotComparable
from ortbench.facts.checks import FAILED, PASSED
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.gates.live import LiveGate
from ortbench.features.gate.gates.ratio_tests import BASELINE, CANDIDATE
from ortbench.features.gate.gates.stored import check_stored
from ortbench.features.gate.job import gate_stored
from ortbench.features.gate.plan import Limits
from ortbench.features.loop.model import LoopWork
from ortbench.model.result import Result
from tests.gate.test_metrics import limits
from tests.results import level, loop_case, loop_of, loop_result, measured, result_of, steady

MODES = ("cpu-tensors", "device-resident")
STEPS = 16


def hear(live: LiveGate, candidate: tuple[int, int], baseline: tuple[int, int], rounds: Iterable[int]) -> None:
    """Blocks of two loops of four steps: the time of a loop, and of each of its steps."""
    for number in rounds:
        for side, (loop_ns, step_ns) in ((CANDIDATE, candidate), (BASELINE, baseline)):
            live.add(side, "cpu-tensors", "latency", number, [loop_ns] * 2)
            live.add(side, "cpu-tensors", "step", number, [step_ns] * 8)


def test_a_live_gate_tells_loops_from_steps() -> None:
    """Of loops that take longer between their steps, the steps do not."""
    for metric, verdict in [("loop", FAILED), ("latency", FAILED), ("step", PASSED), ("cpu-tensors.step.mean", PASSED)]:
        live = LiveGate(limits(metric), ["cpu-tensors"], has_baseline=True, work=LoopWork(4))
        hear(live, (8_000, 1_000), (5_000, 1_000), range(8))
        assert live.wants("cpu-tensors")
        hear(live, (8_000, 1_000), (5_000, 1_000), [8])
        assert not live.wants("cpu-tensors")
        results = [loop_result(level("cpu-tensors")), loop_result(level("cpu-tensors"))]
        (check,) = live.checks(results)
        assert (check.verdict, check.rounds) == (verdict, 9)


def test_limits_of_a_loop_alone() -> None:
    for result in [loop_result(level("cpu-tensors"), level("device-resident"))]:
        message = "^--max-copy-share is of single inferences; of a loop say --min-speedup device-resident=X$"
        with pytest.raises(BadInput, match=message):
            LiveGate(Limits(max_copy_share=0.1), MODES, has_baseline=False, work=LoopWork(4))
        with pytest.raises(BadInput, match=message):
            check_alone(result, Limits(max_copy_share=0.1))
    result = loop_result(level("cpu-tensors", 2.0), level("device-resident"), level("shared", 4.0))
    asked = Limits(
        min_speedup={"device-resident": 1.5, "shared": 1.5},
        max_cpu_nodes=0,
        require_modes=("shared", "host-accessible"),
    )
    assert {check.name: check.verdict for check in check_alone(result, asked)} == {
        "mode shared": PASSED,
        "mode host-accessible": FAILED,
        "cpu nodes": PASSED,
        "device-resident speedup": PASSED,
        "shared speedup": FAILED,
    }


# Stored


def slower_last(factor: float) -> Result:
    """A loop of four steps of which the last takes longer."""
    return loop_result(loop_case("shared", [1_000_000] * 3 + [round(1_000_000 * factor)], rounds=24))


def test_a_stored_baseline() -> None:
    for metric, name, verdict in [
        ("latency", "shared loop median", FAILED),
        ("shared.loop.median", "shared loop median", FAILED),
        ("step.median", "shared step median", PASSED),
        ("shared.step.p95", "shared step p95", FAILED),
        ("step.max", "shared step max", FAILED),
    ]:
        (check,) = check_stored(slower_last(2.0), slower_last(1.0), limits(metric, most=0.1))
        assert (check.name, check.verdict) == (name, verdict)


def test_phases_that_a_stored_result_has_not() -> None:
    for metric in ["inference", "device-resident.inference", "h2d"]:
        stored = loop_result(level("device-resident"))
        with pytest.raises(BadInput, match=f"--metric {metric}.median: not measured in both results"):
            check_stored(stored, stored, limits(metric))
    for metric in ["loop", "step"]:
        stored = result_of(measured("device-resident", latency=steady([1000] * 24)))
        with pytest.raises(BadInput, match=f"--metric {metric}.median: not measured in both results"):
            check_stored(stored, stored, limits(metric))


def test_another_loop_is_not_comparable_unless_forced() -> None:
    for baseline, reason in [
        (
            result_of(measured("cpu-tensors", latency=steady([4_001_000] * 24))),
            "kind: single inferences and a loop of 4 steps",
        ),
        (loop_result(level("cpu-tensors", count=8)), "steps: 8 and 4"),
        (
            loop_result(level("cpu-tensors"), loop=loop_of(4, feedback=[["cell_out", "cell"]])),
            "feedback: cell_out=cell and hidden_out=hidden",
        ),
        (
            loop_result(level("cpu-tensors"), loop=loop_of(4, first={"sequence": 5})),
            "first step: sequence 5 and default",
        ),
    ]:
        with pytest.raises(NotComparable) as caught:
            gate_stored(loop_result(level("cpu-tensors")), baseline, limits(), force=False)
        said = f"baseline and candidate are not comparable: {reason} (--force compares them anyway)"
        assert (str(caught.value), caught.value.exit_code) == (said, 5)
        verdict = gate_stored(loop_result(level("cpu-tensors")), baseline, limits(), force=True)
        assert verdict.remarks[0] == f"not comparable, forced: baseline and candidate: {reason}"
        assert len(verdict.checks) == 1
