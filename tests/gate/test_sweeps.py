"""Gates of sweeps: metrics of shapes, stored baselines, the best shapes, SLOs, what every shape must keep to."""

from __future__ import annotations

from functools import cache

import pytest

from ortbench.core.errors import BadInput, NotComparable
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.job import gate_stored
from ortbench.features.gate.plan import Limits
from ortbench.model.result import Result
from tests.analysis.test_sweep import USUAL, sweep_result, without
from tests.expect import refusal
from tests.gate.test_metrics import limits, verdicts
from tests.results import MS, serving

usual = cache(sweep_result)


def slower(factor: float, *batches: int) -> Result:
    """A sweep at another time, some of whose shapes take longer."""
    times = {
        mode: {batch: round(us * (factor if batch in batches else 1)) for batch, us in of.items()}
        for mode, of in USUAL.items()
    }
    made = sweep_result(times)
    made.setup = {**made.setup, "run_id": "another"}
    return made


# Stored


def test_every_shape_is_held_against_the_baseline() -> None:
    found = check_stored(slower(1.2, 4), usual(), limits())
    assert verdicts(found) == {
        f"{mode} latency median batch={batch}": FAILED if batch == 4 else PASSED
        for batch in (1, 2, 4)
        for mode in USUAL
    }
    (check,) = [it for it in found if it.name == "cpu-tensors latency median batch=4"]
    assert "1.92 ms against 1.60 ms, ratio 1.200 (1.165 to 1.236 with the noise of both runs), must be at" in check.text
    for metrics, names in [
        (["cpu-tensors.median@batch=4"], ["cpu-tensors latency median batch=4"]),
        (["p99@batch=1"], ["cpu-tensors latency p99 batch=1", "device-resident latency p99 batch=1"]),
        (
            ["cpu-tensors.item_throughput@batch=2", "cpu-tensors.item_throughput"],
            [f"cpu-tensors item_throughput batch={n}" for n in (2, 1, 4)],
        ),
        (["item_throughput@best"], ["best: cpu-tensors item_throughput", "best: device-resident item_throughput"]),
    ]:
        assert [it.name for it in check_stored(usual(), usual(), limits(*metrics))] == names


def test_a_shape_that_was_lost_fails_and_one_that_nobody_asked_for_does_not() -> None:
    kept = {f"cpu-tensors latency median batch={it}": PASSED for it in (1, 2)}
    found = check_stored(sweep_result(failed={4: "no memory"}), usual(), limits("cpu-tensors.latency"))
    assert verdicts(found) == {"batch=4": FAILED, **kept}
    assert found[0].text == "batch=4 failed: no memory; the baseline has it"
    assert verdicts(check_stored(without(usual(), 4), usual(), limits("cpu-tensors.latency"))) == kept
    both = sweep_result(failed={4: "no memory"})
    assert set(verdicts(check_stored(both, both, limits())).values()) == {PASSED}


def test_sweeps_without_a_common_point_and_other_kinds_are_not_compared() -> None:
    with pytest.raises(NotComparable, match="kind: "):
        gate_stored(usual(), serving(), limits(), force=False)
    one, other = without(without(usual(), 1), 4), without(without(usual(), 1), 2)
    assert "the results have no point in common" in refusal(BadInput, check_stored, one, other, limits())


# By itself


def test_each_shape_must_keep_what_a_run_of_it_must() -> None:
    asked = Limits(min_speedup={"device-resident": 1.5}, require_modes=("cpu-tensors",))
    assert verdicts(check_alone(usual(), asked)) == {
        "mode cpu-tensors": PASSED, "device-resident speedup batch=1": PASSED, "device-resident speedup batch=2": PASSED,
        "device-resident speedup batch=4": FAILED,
    }  # fmt: skip
    assert [it.name for it in check_alone(usual(), Limits(max_cpu_nodes=0))] == ["cpu nodes"]


def test_an_slo_is_that_some_shape_keeps_it() -> None:
    for slo, rounds, verdict, said in [
        ({"p99": 2 * MS}, 100, PASSED, "p99 ≤ 2.00 ms is met; best with batch=4, 2.50k items/s"),
        ({"p50": MS}, 40, PASSED, "p50 ≤ 1.00 ms is met; best with batch=1, 1.00k items/s"),
        ({"max": MS // 2}, 40, FAILED, "no shape meets max ≤ 500 µs"),
        ({"p99": 2 * MS}, 8, UNCLEAR, "whether a shape meets p99 ≤ 2.00 ms cannot be told"),
    ]:
        check, *_ = check_alone(sweep_result(rounds=rounds), Limits(slo=slo))
        assert (check.verdict, said in check.text) == (verdict, True), check.text
