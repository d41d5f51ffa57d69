"""Gates of loops: the whole loop and its steps against a baseline, live and stored."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ortbench.errors import BadInput, NotComparable
from ortbench.gate.checks import check_alone, check_stored
from ortbench.gate.contests import BASELINE, CANDIDATE, regression_contests
from ortbench.gate.limits import FAILED, PASSED, Limits, parse_metric
from ortbench.gate.live import LiveGate
from ortbench.jobs.gate import gate_stored
from ortbench.result import Result
from ortbench.work import Work
from tests.made_loops import level, loop_case, loop_of, loop_result
from tests.results import measured, result_of, steady

MODES = ("cpu", "device-resident")
STEPS = 16


def limits(*metrics: str, most: float = 0.05) -> Limits:
    return Limits(most, tuple(map(parse_metric, metrics or ("total",))))


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        ("total", ["cpu loop median", "device-resident loop median"]),
        ("loop.median", ["cpu loop median", "device-resident loop median"]),
        ("loop.mean", ["cpu loop mean", "device-resident loop mean"]),
        ("device-resident.step.median", ["device-resident step median"]),
        ("step.p95", ["cpu step p95", "device-resident step p95"]),
    ],
)
def test_metrics_of_a_loop(metric: str, names: list[str]) -> None:
    assert [it.name for it in regression_contests(limits(metric), MODES, Work(STEPS))] == names


def test_the_two_names_of_a_whole_loop_are_one_contest() -> None:
    assert len(regression_contests(limits("total", "loop"), ["cpu"], Work(STEPS))) == 1


@pytest.mark.parametrize(
    ("metric", "modes", "steps", "message"),
    [
        ("device-resident.inference", MODES, STEPS, "a loop has step, loop and cpu_time only"),
        ("upload", MODES, STEPS, "a loop has step, loop and cpu_time only"),
        ("shared.loop", MODES, STEPS, "no mode that is measured has it; measured: cpu, device-resident"),
        ("step", MODES, None, "single inferences have no steps; say what is fed back with --feedback OUT=IN"),
        ("loop", ("device",), None, "single inferences have no steps; say what is fed back with --feedback OUT=IN"),
        ("loop.p95", MODES, STEPS, "which have median, mean, min; use a stored --baseline for percentiles"),
        ("step.max", MODES, STEPS, "which have median, mean, min; use a stored --baseline for percentiles"),
        ("step.p95", MODES, None, "which have median, mean, min; use a stored --baseline for percentiles"),
        ("step.p95", MODES, 10, "and p95 of steps from --steps 11 on; use more, or a stored --baseline"),
        ("step.p90", MODES, 5, "and p90 of steps from --steps 6 on; use more, or a stored --baseline"),
        ("step.p99", MODES, 50, "and p99 of steps from --steps 51 on; use more, or a stored --baseline"),
    ],
)
def test_metrics_that_there_are_not(metric: str, modes: tuple[str, ...], steps: int | None, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        regression_contests(limits(metric), modes, Work(steps))
    assert str(caught.value).startswith(f"--metric {metric}")
    assert message in str(caught.value)


@pytest.mark.parametrize(("metric", "steps"), [("step.p95", 11), ("step.p90", 6), ("step.p99", 51)])
def test_enough_steps_for_a_percentile(metric: str, steps: int) -> None:
    assert len(regression_contests(limits(metric), MODES, Work(steps))) == 2


def hear(live: LiveGate, candidate: tuple[int, int], baseline: tuple[int, int], rounds: Iterable[int]) -> None:
    """Blocks of two loops of four steps: the time of a loop, and of each of its steps."""
    for number in rounds:
        for side, (loop_ns, step_ns) in ((CANDIDATE, candidate), (BASELINE, baseline)):
            live.add(side, "cpu", "total", number, [loop_ns] * 2)
            live.add(side, "cpu", "step", number, [step_ns] * 8)


@pytest.mark.parametrize(
    ("metric", "verdict"), [("loop", FAILED), ("total", FAILED), ("step", PASSED), ("cpu.step.mean", PASSED)]
)
def test_a_live_gate_tells_loops_from_steps(metric: str, verdict: str) -> None:
    """Of loops that take longer between their steps, the steps do not."""
    live = LiveGate(limits(metric), ["cpu"], has_baseline=True, work=Work(4))
    hear(live, (8_000, 1_000), (5_000, 1_000), range(8))
    assert live.decided() == []
    hear(live, (8_000, 1_000), (5_000, 1_000), [8])
    assert live.decided() == ["cpu"]
    results = [loop_result(level("cpu")), loop_result(level("cpu"))]
    (check,) = live.checks(results)
    assert (check.verdict, check.rounds) == (verdict, 9)


@pytest.mark.parametrize("result", [loop_result(level("cpu"), level("device-resident"))])
def test_a_loop_has_no_copy_share(result: Result) -> None:
    message = "^--max-copy-share is of single inferences; of a loop say --min-speedup device-resident=X$"
    with pytest.raises(BadInput, match=message):
        LiveGate(Limits(max_copy_share=0.1), MODES, has_baseline=False, work=Work(4))
    with pytest.raises(BadInput, match=message):
        check_alone(result, Limits(max_copy_share=0.1))


def test_limits_of_a_loop_alone() -> None:
    result = loop_result(level("cpu", 2.0), level("device-resident"), level("shared", 4.0))
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
    return loop_result(loop_case("shared", [[1_000_000] * 3 + [round(1_000_000 * factor)]] * 24))


@pytest.mark.parametrize(
    ("metric", "name", "verdict"),
    [
        ("total", "shared loop median", FAILED),
        ("shared.loop.median", "shared loop median", FAILED),
        ("step.median", "shared step median", PASSED),
        ("shared.step.p95", "shared step p95", FAILED),
        ("step.max", "shared step max", FAILED),
    ],
)
def test_a_stored_baseline(metric: str, name: str, verdict: str) -> None:
    (check,) = check_stored(slower_last(2.0), slower_last(1.0), limits(metric, most=0.1))
    assert (check.name, check.verdict) == (name, verdict)


@pytest.mark.parametrize("metric", ["inference", "device-resident.inference", "upload"])
def test_a_loop_has_no_phases_of_an_inference(metric: str) -> None:
    stored = loop_result(level("device-resident"))
    with pytest.raises(BadInput, match=f"--metric {metric}.median: not measured in both results"):
        check_stored(stored, stored, limits(metric))


@pytest.mark.parametrize("metric", ["loop", "step"])
def test_single_inferences_have_no_steps(metric: str) -> None:
    stored = result_of(measured("device-resident", total=steady([1000] * 24)))
    with pytest.raises(BadInput, match=f"--metric {metric}.median: not measured in both results"):
        check_stored(stored, stored, limits(metric))


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        (result_of(measured("cpu", total=steady([4_001_000] * 24))), "kind: single inferences and a loop of 4 steps"),
        (loop_result(level("cpu", count=8)), "steps: 8 and 4"),
        (
            loop_result(level("cpu"), loop=loop_of(4, feedback=[["cell_out", "cell"]])),
            "feedback: cell_out=cell and hidden_out=hidden",
        ),
        (loop_result(level("cpu"), loop=loop_of(4, first={"sequence": 5})), "first step: sequence 5 and default"),
    ],
)
def test_another_loop_is_not_comparable_unless_forced(baseline: Result, reason: str) -> None:
    with pytest.raises(NotComparable) as caught:
        gate_stored(loop_result(level("cpu")), baseline, limits(), force=False)
    said = f"baseline and candidate are not comparable: {reason} (--force compares them all the same)"
    assert (str(caught.value), caught.value.exit_code) == (said, 5)
    verdict = gate_stored(loop_result(level("cpu")), baseline, limits(), force=True)
    assert verdict.remarks[0] == f"not comparable, forced: baseline and candidate: {reason}"
    assert len(verdict.checks) == 1
