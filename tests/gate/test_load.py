"""Gates of loads: metrics of levels, stored baselines, SLOs, modes against cpu-tensors, and two sides that were measured in turns."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import check_alone, confirm_checks
from ortbench.features.gate.plan import Limits, limits_of
from ortbench.features.load.analysis import (
    CONCURRENCY,
    RATE,
    LoadPoint,
    load_cases,
    load_point_of,
)
from ortbench.features.load.gates import LiveLoadGate, check_live
from ortbench.features.load.plan import LoadPlan
from ortbench.model.result import Result
from ortbench.model.schema import LoadBlock
from ortbench.plan.plan import Plan
from tests.expect import refusal
from tests.gate.test_metrics import limits, verdicts
from tests.results import (
    MS,
    closed,
    latency,
    level_blocks,
    load_result,
    lose,
    measured,
    opened,
    paced,
    result_of,
    serving,
    slo_rate,
    steady,
)
from tests.typed import typed

# Stored


def test_which_levels_a_metric_is_of() -> None:
    for metrics, names in [
        (["latency.p99@rate=30"], ["device-tensors latency p99 rate=30"]),
        (
            ["latency.p99@rate=10", "latency.p99"],
            [
                "device-tensors latency p99 rate=10",
                "device-tensors latency p99 rate=30",
                "device-tensors latency p99 rate=90",
            ],
        ),
        (["device-tensors.throughput@rate=30"], ["device-tensors throughput rate=30"]),
    ]:
        assert [check.name for check in check_stored(paced(), paced(), limits(*metrics))] == names
    found = check_stored(serving(), serving(), limits("throughput@concurrency=4", modes=("device-tensors",)))
    assert [check.name for check in found] == ["device-tensors throughput concurrency=4"]


def test_levels_that_there_are_not() -> None:
    points = "concurrency=1, concurrency=2, concurrency=4, concurrency=8"
    known = "latency of load points has median, p95, p99, mean"
    for metric, why in [
        ("throughput@concurrency=3", f"no such point was measured in both; there are {points}"),
        ("throughput@rate=30", f"no such point was measured in both; there are {points}"),
        (
            "host-accessible.throughput",
            "host-accessible was not measured in both results; there are cpu-tensors, device-tensors",
        ),
        (
            "queue_delay.median",
            "not measured in both results; there are latency, throughput, cpu_cores, gil_wait, fairness, scaling",
        ),
        *((f"latency.{it}@concurrency=4", known) for it in ("min", "max", "p90")),
    ]:
        assert refusal(BadInput, check_stored, serving(), serving(), limits(metric)) == f"--metric {metric}: {why}"
    stored = result_of(measured("cpu-tensors", latency=steady([1000] * 24)))
    with pytest.raises(BadInput, match=r"^--slo is a limit of a load or a sweep"):
        check_alone(stored, Limits(slo={"p99": MS}))


def test_a_queue_that_grows_has_no_latency() -> None:
    for candidate, baseline, verdict, who in [
        (1.0, 0.5, FAILED, "the candidate"),
        (0.5, 1.0, PASSED, "the baseline"),
        (1.0, 1.0, UNCLEAR, "both sides"),
    ]:
        one, other = (load_result(opened("cpu-tensors", 90, 5.0, utilisation=busy)) for busy in (candidate, baseline))
        (check,) = check_stored(one, other, limits())
        assert check.verdict == verdict
        assert check.text.startswith(
            f"cpu-tensors latency p99 rate=90: with {who} requests come as fast as they are served or faster"
        )


# By itself


def test_an_slo_is_kept_for_certain_broken_for_certain_or_neither() -> None:
    few = opened("cpu-tensors", 40, 5.0, 15.0)
    few.latency_bounds = {"p99": {"low": None, "high": None, "requests": 80}}
    result = load_result(
        opened("cpu-tensors", 10, 5.0, 15.0), opened("cpu-tensors", 20, 5.0, 20.0), opened("cpu-tensors", 30, 5.0, 25.0),
        few, opened("cpu-tensors", 50, 5.0, 9.0, utilisation=1.0), closed("cpu-tensors", 4, 100, 99.0),
    )  # fmt: skip
    found = check_alone(result, Limits(slo={"p99": 20 * MS}))
    assert verdicts(found) == {
        "SLO of cpu-tensors p99 rate=10": PASSED,
        "SLO of cpu-tensors p99 rate=20": UNCLEAR,
        "SLO of cpu-tensors p99 rate=30": FAILED,
        "SLO of cpu-tensors p99 rate=40": UNCLEAR,
        "SLO of cpu-tensors p99 rate=50": FAILED,
    }
    assert (
        found[0].text
        == "p99 of cpu-tensors at 10 requests/s: 15.0 ms (at most 15.3 ms with 95% confidence), must be at most 20 ms"
    )
    by_clients = load_result(closed("cpu-tensors", 1, 100, 5.0), closed("cpu-tensors", 4, 100, 99.0))
    found = check_alone(by_clients, Limits(slo={"max": 50 * MS}))
    assert [it.verdict for it in found] == [PASSED, FAILED]
    assert found[0].text == "max of cpu-tensors with 1 client: 20.0 ms, must be at most 50 ms"
    assert limits_of(typed({"slo": "p99=20ms,mean=5ms"}, "gate"), False, ()).slo == {"p99": 20 * MS, "mean": 5 * MS}
    assert limits_of(typed({"slo": "p99=20ms"}, "gate"), False, ()).any


def test_of_a_search_one_rate_must_keep_the_slo() -> None:
    found: dict[str, Any] = {"cpu-tensors": slo_rate(210.0, 216.0), "device-tensors": None}
    result = load_result(
        opened("cpu-tensors", 300, 5.0, 90.0), opened("device-tensors", 5, 5.0, 90.0), slo={"p99": 20 * MS}, found=found
    )
    checks = check_alone(result, Limits(slo={"p99": 20 * MS}))
    assert verdicts(checks) == {"SLO of cpu-tensors": PASSED, "SLO of device-tensors": FAILED}
    result.cases[-1].latency_bounds = {"p99": {"low": None, "high": None, "requests": 80}}  # of device-tensors
    assert check_alone(result, Limits(slo={"p99": 20 * MS}))[1].verdict == UNCLEAR
    assert checks[0].text.startswith("cpu-tensors meets p99 ≤ 20 ms up to 210 requests/s")


def test_a_speedup_holds_at_every_number_of_clients() -> None:
    found = check_alone(serving(), Limits(min_speedup={"device-tensors": 1.5}))
    assert [(check.name, check.verdict) for check in found] == [
        ("device-tensors speedup concurrency=1", PASSED), ("device-tensors speedup concurrency=2", PASSED),
        ("device-tensors speedup concurrency=4", FAILED), ("device-tensors speedup concurrency=8", FAILED),
    ]  # fmt: skip
    assert (
        found[0].text
        == "throughput of device-tensors concurrency=1 to that of cpu-tensors: ratio 2.000 (1.972 to 2.028), must be at least 1.5"
    )
    with pytest.raises(
        BadInput, match=r"^--min-speedup shared: needs shared and cpu-tensors with the same numbers of clients"
    ):
        check_alone(serving(), Limits(min_speedup={"shared": 1.5}))
    with pytest.raises(BadInput, match=r"^--max-copy-share is of single inferences; of a load"):
        check_alone(serving(), Limits(max_copy_share=0.1))
    assert verdicts(check_alone(serving(), Limits(require_modes=("device-tensors", "host-accessible")))) == {
        "mode device-tensors": PASSED, "mode host-accessible": FAILED
    }  # fmt: skip


# In turns


def sides(factor: float, rounds: int) -> tuple[Result, Result]:
    """Two sides of a run: noise that both have in common, and so many rounds."""
    noise = (1.3, 0.8, 1.1, 0.7)
    made = []
    for times in (factor, 1.0):
        levels = [
            closed(
                "cpu-tensors",
                4,
                100 / times,
                10.0 * times,
                blocks=level_blocks(100 / times, latency(10.0 * times), rounds, noise),
            ),
            opened("cpu-tensors", 30, 5.0 * times, blocks=level_blocks(30, latency(5.0 * times), rounds, noise)),
        ]
        made.append(load_result(*levels, run_id="one"))
    return made[0], made[1]


def tell(live: LiveLoadGate, side: int, place: LoadPoint, block: LoadBlock, mode: str = "cpu-tensors") -> None:
    for name, figure in (("throughput", block["throughput"]), *block["latency"].items()):
        live.add(side, mode, name, block["round"], [figure], place)


def heard(candidate: Result, baseline: Result, asked: Limits) -> tuple[LiveLoadGate, list[Check]]:
    """A live gate that was told all blocks of both sides, round by round, and its checks."""
    live = LiveLoadGate(asked, [(it.mode, load_point_of(it)) for it in load_cases(candidate)])
    for side, result in enumerate((candidate, baseline)):
        for level in load_cases(result):
            for block in level.load_blocks or []:
                tell(live, side, load_point_of(level), block, level.mode)
    return live, live.checks([candidate, baseline])


def test_blocks_of_the_same_rounds_tell_what_noise_would_hide() -> None:
    for factor, verdict in [(1.0, PASSED), (1.04, PASSED), (1.06, FAILED)]:
        live, found = heard(*sides(factor, 12), limits())
        assert verdicts(found) == {
            "cpu-tensors throughput concurrency=4": verdict,
            "cpu-tensors latency p99 rate=30": verdict,
        }
        assert found[0].rounds == 12
        assert found[0].ratio == pytest.approx(factor, rel=1e-6)
        assert "as time per inference, candidate to baseline: median ratio of paired blocks" in found[0].text
        assert live.regressions(found) == ({check.name for check in found} if verdict == FAILED else set())
        candidate, baseline = sides(1.06, 12)
        candidate.setup = {**candidate.setup, "run_id": "another"}
        (stored, _) = check_stored(candidate, baseline, limits())
        assert stored.verdict == UNCLEAR


def test_too_few_rounds_say_how_many_it_takes_and_metrics_share_the_error_rate() -> None:
    _, (check,) = heard(*sides(2.0, 5), limits("throughput@concurrency=4"))
    assert check.verdict == UNCLEAR
    assert check.text.endswith(
        "(sequential test: too few rounds for an interval, 5 rounds), must be at most 1.05; a verdict takes 9 rounds"
    )
    alone_, both = (
        heard(*sides(2.0, 9), limits(*metrics))[1]
        for metrics in (
            ["latency.p99@rate=30"],
            ["throughput", "latency.p99@rate=30", "latency.p99@concurrency=4", "latency.median@rate=30"],
        )
    )
    assert [check.verdict for check in alone_] == [FAILED]
    assert len(both) == 4
    assert {check.verdict for check in both} == {UNCLEAR}


CLIENTS, PACED = LoadPoint(CONCURRENCY, 4), LoadPoint(RATE, 30)


def test_a_level_is_measured_until_its_contest_is_decided() -> None:
    live = LiveLoadGate(limits("latency.p99@rate=30"), [("cpu-tensors", CLIENTS), ("cpu-tensors", PACED)])
    candidate, baseline = sides(2.0, 12)
    pairs = [(load_cases(result)[1].load_blocks or []) for result in (candidate, baseline)]
    asked = []
    for number, (new, old) in enumerate(zip(*pairs, strict=True)):
        asked.append(live.needs_more("cpu-tensors", PACED, number))
        tell(live, 0, PACED, new)
        tell(live, 1, PACED, old)
    assert asked == [True] * live.needed_rounds + [False] * (12 - live.needed_rounds)
    # Nothing is said of the other level: it is measured for the record.
    assert [
        live.needs_more("cpu-tensors", CLIENTS, rounds) for rounds in (0, live.needed_rounds - 1, live.needed_rounds)
    ] == [
        True,
        True,
        False,
    ]
    live = LiveLoadGate(
        limits(slo={"p99": MS}, min_speedup={"device-tensors": 1.0}), [("cpu-tensors", CLIENTS), ("cpu-tensors", PACED)]
    )
    assert live.needs_more("cpu-tensors", PACED, 1000)
    assert live.needs_more("cpu-tensors", CLIENTS, 1000)


def test_a_queue_that_grows_on_the_candidate_alone_is_a_regression_that_is_to_be_confirmed() -> None:
    candidate, baseline = sides(1.0, 12)
    load_cases(candidate)[1].set_metric("utilisation", 1.0)
    live, found = heard(candidate, baseline, limits())
    assert verdicts(found) == {
        "cpu-tensors throughput concurrency=4": PASSED,
        "cpu-tensors latency p99 rate=30": FAILED,
    }
    assert live.regressions(found) == {"cpu-tensors latency p99 rate=30"}
    (_, kept) = confirm_checks(found, live.regressions(found), found)
    assert kept.verdict == FAILED
    assert kept.text.endswith("; again with fresh workers: the same")
    (_, lost) = confirm_checks(found, live.regressions(found), heard(*sides(1.0, 12), limits())[1])
    assert lost.verdict == UNCLEAR
    assert lost.text.endswith("(98% CI 1.000 to 1.000, 12 rounds), so the regression is not confirmed")


def test_a_level_that_a_side_has_not_is_no_contest_and_nothing_to_compare_is_said() -> None:
    candidate, baseline = sides(1.0, 12)
    lose(candidate, 0)
    _, found = heard(candidate, baseline, limits())
    assert [check.name for check in found] == ["concurrency=4", "cpu-tensors latency p99 rate=30"]
    live = LiveLoadGate(limits(), [("cpu-tensors", PACED)])
    candidate.cases = candidate.at_point()
    candidate.cases[0].reason = "there is no such memory"
    with pytest.raises(BenchmarkFailed, match="nothing could be compared: cpu-tensors: there is no such memory"):
        live.checks([candidate, baseline])


def test_what_a_live_gate_of_a_load_has_not_is_refused_before_it_begins() -> None:
    none = "no such load point is to be measured; there are rate=30"
    for asked, load, said in [
        (limits("latency.p99@rate=40"), LoadPlan(rate=(30.0,)), f"--metric latency.p99@rate=40: {none}"),
        (limits("device-tensors.latency"), LoadPlan(rate=(30.0,)), f"--metric device-tensors.latency.median: {none}"),
        (limits("throughput"), LoadPlan(rate=(30.0,)), f"--metric throughput: {none}"),
        (limits("step.p95"), LoadPlan(), "--metric step.p95: blocks of load points have latency, throughput, cpu_time and cpu_cores; compare stored results"),
        (limits("latency.min"), LoadPlan(), "--metric latency.min: latency of load points has median, p95, p99, mean"),
        (limits(max_copy_share=0.1), LoadPlan(), "--max-copy-share is of single inferences"),
        (limits(min_speedup={"device-tensors": 2.0}), LoadPlan(rate=(30.0,)), "--min-speedup compares throughput by clients: give a --concurrency too"),
    ]:  # fmt: skip
        assert refusal(BadInput, check_live, asked, [Plan("m.onnx", modes=("cpu-tensors",), part=load)] * 2).startswith(
            said
        )
