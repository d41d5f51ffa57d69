"""Gates: what passes, what fails and what cannot be told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.gate.gates import (
    BASELINE,
    BLOCK_STATISTICS,
    CANDIDATE,
    RatioTest,
    SequentialTests,
    Stream,
    add_cases,
    own_ratio_tests,
    regression_tests,
)
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import CODES, Verdict, check_alone, overall
from ortbench.features.gate.plan import Limits
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import UNSUPPORTED, Case, Result
from tests.expect import refusal
from tests.gate.test_metrics import verdicts
from tests.results import broken, change, measured, result_of, steady

ENOUGH = 9  # rounds in which a single ratio_test is decided when all signs agree
QUIET = [1000] * 8
NOISY = [1000, 1300] * 4


def run_of(*more: Case, **medians: list[int]) -> Result:
    """A result of modes whose blocks have these medians, such as device_resident=[1000, 1100], and more cases."""
    cases = [measured(mode.replace("_", "-"), latency=steady(each)) for mode, each in medians.items()]
    return result_of(*cases, *more)


def test_what_both_sides_fail_of_is_said_once() -> None:
    one, other = (
        run_of(broken("cpu-tensors", reason=why), broken("device-tensors", reason="no memory"))
        for why in ("late", "early")
    )
    assert Verdict([one, other], []).failed_cases == [
        "candidate: cpu-tensors failed: late",
        "candidate and baseline: device-tensors failed: no memory",
        "baseline: cpu-tensors failed: early",
    ]


# Limits


def test_what_limits_need() -> None:
    for limits, given, modes, phases in [
        (Limits(), False, set(), {"latency"}),
        (Limits(metrics=(parse_metric("device-tensors.h2d"),)), False, set(), {"latency"}),
        (Limits(max_regression=0.0), True, set(), {"latency"}),
        (
            Limits(0.05, (parse_metric("device-tensors.h2d"), parse_metric("latency"))),
            True,
            {"device-tensors"},
            {"latency", "h2d"},
        ),
        (Limits(min_speedup={"device-tensors": 2.0}), True, {"cpu-tensors", "device-tensors"}, {"latency"}),
        (Limits(max_copy_share=0.0), True, {"cpu-tensors", "device-resident"}, {"latency"}),
        (Limits(max_cpu_nodes=0), True, set(), {"latency"}),
        (Limits(require_modes=("host-accessible",)), True, {"host-accessible"}, {"latency"}),
    ]:
        assert limits.any is given
        assert limits.needed_modes() == modes
        assert limits.phases() == phases


# Verdicts


def test_the_worst_check_counts() -> None:
    for checked, verdict, code in [
        ([], PASSED, 0),
        ([PASSED, PASSED], PASSED, 0),
        ([PASSED, UNCLEAR], UNCLEAR, 4),
        ([UNCLEAR, FAILED, PASSED], FAILED, 3),
    ]:
        assert overall([Check("name", each, "text") for each in checked]) == verdict
        assert CODES[verdict] == code


def ratio_test(limit: float, at_most: bool = True, mode: str = "cpu-tensors") -> RatioTest:
    sides = Stream(CANDIDATE, mode, "latency", "median"), Stream(BASELINE, mode, "latency", "median")
    return RatioTest(f"{mode} ratio_test", *sides, limit, at_most, f"{mode}, candidate to baseline")


def test_nothing_is_decided_while_the_medians_say_otherwise() -> None:
    """Each pair has one of 0.9 to 1, but half of all rounds are twice as slow: the medians of all lie on both sides of that."""
    tests = SequentialTests([it := ratio_test(1.05)])
    for number in range(24):
        level = 2000 if number % 2 else 1000
        tests.add(BASELINE, "cpu-tensors", "latency", number, [level, level, level + number])
        tests.add(CANDIDATE, "cpu-tensors", "latency", number, [0.9 * level, 0.9 * level, 2 * level])
    check = tests.check(it)
    assert check.high is not None
    assert check.high < 1.05
    assert (check.verdict, check.doubt) == (
        UNCLEAR,
        "cannot tell: the ratio of the medians, 1.191, lies on the other side of the limit; a longer --duration or a quieter machine tells more",
    )
    assert check.text.endswith(f"must be at most 1.05; {check.doubt}")
    for number in range(24, 60):  # the machine is quiet: both say the same
        tests.add(BASELINE, "cpu-tensors", "latency", number, [1000, 1000, 1000])
        tests.add(CANDIDATE, "cpu-tensors", "latency", number, [900, 900, 900])
    assert (tests.check(it).verdict, tests.check(it).doubt) == (PASSED, None)


# The sequential


def open_modes(sequential: SequentialTests) -> set[str]:
    return {mode for mode in ("cpu-tensors", "device-tensors", "device-resident") if sequential.needs_more(mode)}


def checks(sequential: SequentialTests) -> list[Check]:
    return [sequential.check(ratio_test) for ratio_test in sequential.ratio_tests]


def hear(
    sequential: SequentialTests, candidate: int, baseline: int, rounds: Iterable[int], mode: str = "cpu-tensors"
) -> None:
    for number in rounds:
        sequential.add(CANDIDATE, mode, "latency", number, [candidate] * 3)
        sequential.add(BASELINE, mode, "latency", number, [baseline] * 3)


def test_ratio_tests_share_the_error_rate() -> None:
    """All signs agree after n rounds: the wager stands at (2^(n + 1) - 1) / (n + 1), which must reach ratio_tests / 0.01."""
    for ratio_tests, rounds in [(1, ENOUGH), (2, 11), (10, 13)]:
        for number, verdict in ((rounds - 1, UNCLEAR), (rounds, FAILED)):
            sequential = SequentialTests(
                [ratio_test(1.1), *[ratio_test(1.1, mode="device-tensors")] * (ratio_tests - 1)]
            )
            hear(sequential, 1300, 1000, range(number))
            assert checks(sequential)[0].verdict == verdict


def test_blocks_without_partner_or_test_are_ignored() -> None:
    sequential = SequentialTests([ratio_test(1.1)])
    hear(sequential, 1200, 1000, range(ENOUGH))
    alone = checks(sequential)
    for number in range(100, 200):
        sequential.add(CANDIDATE, "cpu-tensors", "latency", number, [1] * 3)
        sequential.add(BASELINE, "cpu-tensors", "latency", number + 100, [1] * 3)
    assert checks(sequential) == alone
    assert alone[0].rounds == ENOUGH
    sequential = SequentialTests([ratio_test(1.1)])
    hear(sequential, 1200, 1000, range(ENOUGH), mode="device-tensors")
    sequential.add(CANDIDATE, "cpu-tensors", "h2d", 0, [1] * 3)
    assert checks(sequential) == checks(SequentialTests([ratio_test(1.1)]))
    assert open_modes(sequential) == {"cpu-tensors"}


def test_a_block_counts_with_its_statistic() -> None:
    for stat, ratio in [("median", 2.0), ("mean", 4.0), ("min", 1.0)]:
        sequential = SequentialTests(regression_tests(Limits(0.1, (parse_metric(f"latency.{stat}"),)), ["cpu-tensors"]))
        sequential.add(CANDIDATE, "cpu-tensors", "latency", 0, [100, 200, 900])
        sequential.add(BASELINE, "cpu-tensors", "latency", 0, [100, 100, 100])
        assert checks(sequential)[0].ratio == pytest.approx(ratio)


def test_what_is_exactly_at_its_limit_cannot_be_told() -> None:
    for at_most, limit, over, under in [
        (True, 1 + 0.05, 1050, 1000),
        (True, 1 + 0.1, 1100, 1000),
        (True, 1 + 0.2, 1200, 1000),
        (True, 1 + 0.0, 1000, 1000),
        (False, 0.8, 800, 1000),
        (False, 0.9, 900, 1000),
        (False, 2.0, 2000, 1000),
        (False, 3.0, 3000, 1000),
        (False, 5.0, 5000, 1000),
        (False, 10.0, 10_000, 1000),
    ]:
        sequential = SequentialTests([ratio_test(limit, at_most)])
        hear(sequential, over, under, range(50))
        [check] = checks(sequential)
        assert (check.verdict, check.rounds) == (UNCLEAR, 50)


def test_a_mode_is_decided_when_all_its_ratio_tests_are() -> None:
    limits = Limits(0.1, (parse_metric("latency"), parse_metric("device-tensors.latency.min")))
    sequential = SequentialTests(regression_tests(limits, ["cpu-tensors", "device-tensors"]))
    assert open_modes(sequential) == {"cpu-tensors", "device-tensors"}
    hear(sequential, 1000, 1000, range(20), mode="cpu-tensors")
    assert open_modes(sequential) == {"device-tensors"}
    for number in range(20):  # medians differ for certain, the least lie on both sides of the limit
        sequential.add(CANDIDATE, "device-tensors", "latency", number, [1090 if number % 2 else 1110, 1500, 1500])
        sequential.add(BASELINE, "device-tensors", "latency", number, [1000] * 3)
    assert verdicts(checks(sequential)) == {
        "cpu-tensors latency median": PASSED,
        "device-tensors latency median": FAILED,
        "device-tensors latency min": UNCLEAR,
    }
    assert open_modes(sequential) == {"device-tensors"}
    for number in range(20, 200):
        sequential.add(CANDIDATE, "device-tensors", "latency", number, [1200] * 3)
        sequential.add(BASELINE, "device-tensors", "latency", number, [1000] * 3)
    assert open_modes(sequential) == set()


def test_a_mode_that_another_one_is_held_against_stays_open() -> None:
    sequential = SequentialTests(own_ratio_tests(Limits(min_speedup={"device-tensors": 2.0, "device-resident": 2.0})))
    for number in range(20):
        for mode, ns in (
            ("cpu-tensors", 3000),
            ("device-tensors", 1000),
            ("device-resident", 1400 + 200 * (number % 2)),
        ):
            sequential.add(CANDIDATE, mode, "latency", number, [ns] * 3)
    assert verdicts(checks(sequential)) == {"device-tensors speedup": PASSED, "device-resident speedup": UNCLEAR}
    assert open_modes(sequential) == {"cpu-tensors", "device-resident"}


def test_what_is_decided_stays_decided() -> None:
    sequential = SequentialTests([ratio_test(1.1)])
    hear(sequential, 1000, 1000, range(ENOUGH))
    decided = checks(sequential)
    hear(sequential, 5000, 1000, range(ENOUGH, 100))
    assert decided[0].verdict == PASSED
    assert checks(sequential) == decided


# Regressions against a baseline in the same run


def test_regression_tests() -> None:
    limits = Limits(0.05, (parse_metric("latency"), parse_metric("device-tensors.h2d.mean")))
    ratio_tests = regression_tests(limits, ["cpu-tensors", "device-tensors"])
    assert [each.name for each in ratio_tests] == [
        "cpu-tensors latency median",
        "device-tensors latency median",
        "device-tensors h2d mean",
    ]
    assert {(each.limit, each.at_most) for each in ratio_tests} == {(1.05, True)}
    last = ratio_tests[-1]
    assert (last.over, last.under) == tuple(
        Stream(side, "device-tensors", "h2d", "mean") for side in (CANDIDATE, BASELINE)
    )
    assert regression_tests(Limits(), ["cpu-tensors"]) == []
    for stat in ["max", "p90", "p95", "p99"]:
        assert stat not in BLOCK_STATISTICS
        with pytest.raises(BadInput, match=rf"--metric latency\.{stat}: .*stored --baseline"):
            regression_tests(Limits(0.05, (parse_metric(f"latency.{stat}"),)), ["cpu-tensors"])


def test_a_mode_that_failed_hands_on_no_blocks() -> None:
    sequential = SequentialTests([ratio_test(1.1)])
    add_cases(sequential, CANDIDATE, [broken("cpu-tensors", latency=steady([1000] * ENOUGH))])
    add_cases(sequential, BASELINE, run_of(cpu_tensors=[1000] * ENOUGH).cases)
    assert checks(sequential)[0].rounds is None


# What a result shows on its own


def test_required_modes() -> None:
    cases = broken("device-tensors", reason="out of memory"), broken("device-resident", UNSUPPORTED, None)
    limits = Limits(require_modes=("cpu-tensors", "device-tensors", "device-resident", "host-accessible"))
    assert check_alone(run_of(*cases, cpu_tensors=[1000]), limits) == [
        Check("mode cpu-tensors", PASSED, "mode cpu-tensors works", mode="cpu-tensors"),
        Check("mode device-tensors", FAILED, "device-tensors failed: out of memory", mode="device-tensors"),
        Check(
            "mode device-resident", FAILED, "device-resident is unsupported: no reason is known", mode="device-resident"
        ),
        Check("mode host-accessible", FAILED, "mode host-accessible was not measured", mode="host-accessible"),
    ]
    assert check_alone(run_of(cpu_tensors=[1000]), Limits()) == []


def test_cpu_nodes() -> None:
    for operators, most, verdict, text in [
        ({}, 0, PASSED, "no node falls back to the CPU, must be at most 0"),
        ({"Gather": 2, "Shape": 1}, 3, PASSED, "3 nodes on the CPU (Gather, Shape), must be at most 3"),
        ({"Gather": 2, "Shape": 1}, 2, FAILED, "3 nodes on the CPU (Gather, Shape), must be at most 2"),
    ]:
        result = result_of(placement__cpu_operators=operators)
        assert check_alone(result, Limits(max_cpu_nodes=most)) == [Check("cpu nodes", verdict, text)]
    on_cpu = check_alone(result_of(target__ep="CPUExecutionProvider"), Limits(max_cpu_nodes=0))
    assert on_cpu == [Check("cpu nodes", PASSED, "no node falls back on CPUExecutionProvider, so this cannot fail")]
    # As `ortbench.worker.session.describe_placement` has it where ONNX Runtime does not say.
    result = result_of(placement__nodes=None, placement__memcpy_nodes=None, placement__cpu_operators={})
    assert verdicts(check_alone(result, Limits(max_cpu_nodes=0))) == {"cpu nodes": UNCLEAR}


def test_min_speedup() -> None:
    for least, rounds, verdict in [
        (2.0, ENOUGH, PASSED),
        (4.0, ENOUGH, FAILED),
        (2.0, ENOUGH - 1, UNCLEAR),
        (4.0, 1, UNCLEAR),
    ]:
        result = run_of(cpu_tensors=[3000] * rounds, device_tensors=[1000] * rounds)
        [check] = check_alone(result, Limits(min_speedup={"device-tensors": least}))
        assert (check.name, check.verdict, check.limit, check.rounds) == (
            "device-tensors speedup",
            verdict,
            least,
            rounds,
        )
        assert check.ratio == pytest.approx(3)
    for mode, other, reason in [("cpu-tensors", "device-tensors", "it broke"), ("device-tensors", "cpu-tensors", "no")]:
        result = run_of(broken(mode, UNSUPPORTED, reason, latency=steady([1] * ENOUGH)), **{other: [3000] * ENOUGH})
        text = f"speedup of device-tensors over cpu-tensors: {mode} is unsupported: {reason}"
        expected = [Check("device-tensors speedup", FAILED, text, limit=2.0, metric="speedup", mode="device-tensors")]
        assert check_alone(result, Limits(min_speedup={"device-tensors": 2.0})) == expected
    for limits in [Limits(min_speedup={"device-resident": 2.0}), Limits(max_copy_share=0.5)]:
        refused = refusal(BadInput, check_alone, run_of(cpu_tensors=[1], device_tensors=[1]), limits)
        assert refused.endswith(
            "needs mode device-resident, which was not measured; measured: cpu-tensors, device-tensors"
        )


def test_copy_share() -> None:
    base = [1000] * ENOUGH
    copying = run_of(cpu_tensors=base, device_resident=[750] * ENOUGH)
    for most, verdict in [(0.3, PASSED), (0.2, FAILED), (0.0, FAILED), (1.0, PASSED)]:
        [check] = check_alone(copying, Limits(max_copy_share=most))
        assert (check.name, check.verdict) == ("copy share", verdict)
        share = "≈25% of latency (sequential test: 98% CI 25% to 25%, 9 rounds)"
        assert check.text == f"copies of cpu-tensors: {share}, must be at most {units.share(most)}"
    limit = Limits(max_copy_share=0.3)
    [check] = check_alone(run_of(cpu_tensors=[1000], device_resident=[1100]), limit)
    assert check.text.startswith(
        "copies of cpu-tensors: ≈0% of latency, must be at most 30%; a verdict takes 9 rounds: "
    )
    assert check.verdict == UNCLEAR
    # There is no round that both modes have.
    [check] = check_alone(
        run_of(measured("device-resident", latency=steady([750] * ENOUGH, first=100)), cpu_tensors=base), limit
    )
    assert (check.name, check.verdict, check.ratio) == ("copy share", UNCLEAR, None)
    assert "not measured" in check.text
    assert verdicts(check_alone(run_of(broken("device-resident"), cpu_tensors=base), limit)) == {"copy share": FAILED}
    limits = Limits(
        min_speedup={"device-resident": 1.1}, max_copy_share=0.3, max_cpu_nodes=0, require_modes=("cpu-tensors",)
    )
    expected = {
        "mode cpu-tensors": PASSED,
        "cpu nodes": PASSED,
        "device-resident speedup": UNCLEAR,
        "copy share": UNCLEAR,
    }
    assert verdicts(check_alone(copying, limits)) == expected
    on_host = change(copying, target__memory={"kind": "host"}, target__ep="CPUExecutionProvider")
    text = "CPUExecutionProvider computes in host memory: nothing is copied"
    assert check_alone(on_host, Limits(max_copy_share=0.0)) == [
        Check("copy share", PASSED, text, metric="copy_share", mode="cpu-tensors")
    ]


# A stored baseline


def stored(candidate: list[int], baseline: list[int]) -> Check:
    [check] = check_stored(run_of(cpu_tensors=candidate), run_of(cpu_tensors=baseline), Limits(0.05))
    return check


def tailed(slowest: int) -> dict[int, list[int]]:
    """Eight blocks with one slow sample of ten in each."""
    return {number: [1000] * 9 + [slowest] for number in range(8)}


def test_a_stored_percentile_is_that_of_short_parts() -> None:
    # The run's 95th percentile is 2000, that of each of its short parts lies between 1000 and 2000.
    candidate = result_of(measured("cpu-tensors", latency=tailed(2000)))
    baseline = result_of(measured("cpu-tensors", latency=tailed(1000)))
    [check] = check_stored(candidate, baseline, Limits(0.7, (parse_metric("p95"),)))
    assert check.ratio == 2
    assert check.verdict != PASSED
    assert check_stored(result_of(), result_of(), Limits(min_speedup={"device-tensors": 2.0})) == []


def test_every_mode_and_phase_that_both_have_is_compared() -> None:
    candidate = run_of(cpu_tensors=QUIET, device_tensors=NOISY, device_resident=QUIET)
    baseline = run_of(broken("device-resident"), device_tensors=QUIET, cpu_tensors=QUIET, host_accessible=QUIET)
    found = check_stored(candidate, baseline, Limits(0.05))
    assert [(check.name, check.verdict) for check in found] == [
        ("cpu-tensors latency median", PASSED),
        ("device-tensors latency median", UNCLEAR),
    ]
    device = measured("device-tensors", latency=steady(QUIET), h2d=steady(QUIET))
    result = run_of(device, cpu_tensors=QUIET, device_resident=QUIET)
    for metric, modes in {"h2d": ["device-tensors"], "inference": ["device-resident"]}.items():
        found = check_stored(result, result, Limits(0.05, (parse_metric(metric),)))
        assert [check.name for check in found] == [f"{mode} {metric} median" for mode in modes]


def test_a_mode_that_is_lost_fails() -> None:
    both = run_of(cpu_tensors=QUIET, device_tensors=QUIET)
    for metric in ["latency", "cpu-tensors.latency"]:
        lost, kept = check_stored(
            run_of(broken("device-tensors"), cpu_tensors=QUIET), both, Limits(0.05, (parse_metric(metric),))
        )
        assert lost == Check(
            "mode device-tensors",
            FAILED,
            "device-tensors failed: it broke; the baseline has it",
            mode="device-tensors",
        )
        assert (kept.name, kept.verdict) == ("cpu-tensors latency median", PASSED)
    # One that the baseline did not have, and one that was not asked for, are not lost.
    candidate = run_of(broken("device-tensors"), broken("device-resident"), cpu_tensors=QUIET)
    baseline = run_of(broken("device-tensors"), cpu_tensors=QUIET)
    for sides in [(candidate, baseline), (run_of(cpu_tensors=QUIET), both)]:
        assert verdicts(check_stored(*sides, Limits(0.05))) == {"cpu-tensors latency median": PASSED}


def test_what_cannot_be_compared() -> None:
    one, other, both = (
        run_of(cpu_tensors=QUIET),
        run_of(device_tensors=QUIET),
        run_of(cpu_tensors=QUIET, device_tensors=QUIET),
    )
    absent = [
        "--metric device-tensors.latency.median: device-tensors was not measured in both results; there are cpu-tensors"
    ]
    for candidate, baseline, metric, whole in [
        (one, both, "device-tensors.latency", "device-tensors.latency.median"),
        (both, one, "device-tensors.latency", "device-tensors.latency.median"),
        (both, run_of(broken("device-tensors"), cpu_tensors=QUIET), "device-tensors", "device-tensors.latency.median"),
        (both, both, "device-tensors.h2d", "device-tensors.h2d.median"),
        (both, both, "h2d", "h2d.median"),
        (one, other, "latency", "latency.median"),
        (run_of(), run_of(), "latency", "latency.median"),
    ]:
        refused = refusal(BadInput, check_stored, candidate, baseline, Limits(0.05, (parse_metric(metric),)))
        assert refused.startswith((f"--metric {whole}: not measured in both results; there are ", *absent))


def test_a_phase_that_is_never_timed_keeps_no_mode_open() -> None:
    """A copy of no bytes has no blocks: the gate must not wait for it until its budget is spent."""
    download = parse_metric("device-tensors.d2h.median")
    sequential = SequentialTests(regression_tests(Limits(max_regression=0.05, metrics=(download,)), ["device-tensors"]))
    assert open_modes(sequential) == {"device-tensors"}
    for side in (CANDIDATE, BASELINE):
        sequential.add(side, "device-tensors", "latency", 0, [10, 11, 12])
    assert open_modes(sequential) == set()
    sequential.add(CANDIDATE, "device-tensors", "d2h", 1, [10, 11, 12])
    assert open_modes(sequential) == {"device-tensors"}
