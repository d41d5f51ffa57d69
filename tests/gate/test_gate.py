"""Gates: what passes, what fails and what cannot be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ortbench.core import errors
from ortbench.core.errors import BadInput
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.gate.cli import bisect_code
from ortbench.features.gate.gates import (
    BASELINE,
    CANDIDATE,
    RatioTest,
    SequentialTests,
    Stream,
    add_cases,
    own_ratio_tests,
    regression_tests,
)
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import CODES, Verdict, check_alone, confirm_checks, overall
from ortbench.features.gate.plan import Limits
from ortbench.model.result import UNSUPPORTED, Case, Result
from tests.expect import refusal
from tests.gate.test_metrics import limits, verdicts
from tests.results import broken, change, level, loop_result, measured, result_of, steady

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
    verdict = Verdict([one, other], [Check("a", FAILED, "")])
    assert (verdict.code, verdict.word) == (1, "benchmark failed")  # whatever checks say
    assert verdict.failed_cases == [
        "candidate: cpu-tensors failed: late",
        "candidate and baseline: device-tensors failed: no memory",
        "baseline: cpu-tensors failed: early",
    ]


# Limits


@pytest.mark.parametrize(
    ("asked", "is_given", "modes", "phases"),
    [
        (Limits(), False, set(), {"latency"}),
        (Limits(metrics=limits("device-tensors.h2d").metrics), False, set(), {"latency"}),
        (Limits(max_regression=0.0), True, set(), {"latency"}),
        (limits("device-tensors.h2d", "latency"), True, {"device-tensors"}, {"latency", "h2d"}),
        (Limits(min_speedup={"device-tensors": 2.0}), True, {"cpu-tensors", "device-tensors"}, {"latency"}),
        (Limits(max_copy_share=0.0), True, {"cpu-tensors", "device-resident"}, {"latency"}),
        (Limits(max_cpu_nodes=0), True, set(), {"latency"}),
        (Limits(require_modes=("host-accessible",)), True, {"host-accessible"}, {"latency"}),
        (limits("cpu-tensors.cpu_time"), True, {"cpu-tensors"}, {"latency"}),  # which comes with the blocks of other phases
        (limits("device-resident.enqueue"), True, {"device-resident"}, {"latency", "inference"}),
    ],
)  # fmt: skip
def test_what_limits_need(asked: Limits, is_given: bool, modes: set[str], phases: set[str]) -> None:
    assert (asked.any, asked.needed_modes(), asked.phases()) == (is_given, modes, phases)


# Verdicts


def test_the_worst_check_counts() -> None:
    for checked, verdict, code in (
        ([], PASSED, 0), ([PASSED, PASSED], PASSED, 0), ([PASSED, UNCLEAR], UNCLEAR, 4), ([UNCLEAR, FAILED, PASSED], FAILED, 3),
    ):  # fmt: skip
        assert overall([Check("name", each, "text") for each in checked]) == verdict
        assert CODES[verdict] == code


FIRST = Check("cpu-tensors latency median", FAILED, "cpu-tensors: ratio 1.95", 1.95, 1.83, 5.16, 1.05, 9)


@pytest.mark.parametrize(
    ("again", "reason", "verdict", "said"),
    [
        ((FAILED, 1.9, 1.8, 2.5), None, FAILED, "ratio 1.900 (98% CI 1.800 to 2.500, 12 rounds); by both runs, of one process a side each, 1.800 to 5.160"),
        ((PASSED, 1.01, 0.98, 1.03), None, UNCLEAR, "ratio 1.010 (98% CI 0.980 to 1.030, 12 rounds), so the regression is not confirmed"),
        ((UNCLEAR, 1.04, None, None), None, UNCLEAR, "ratio 1.040, so the regression is not confirmed"),
        ((UNCLEAR, None, None, None), None, UNCLEAR, "it was not measured, so the regression is not confirmed"),
        (None, "the worker was ended by SIGSEGV", UNCLEAR, "it failed: the worker was ended by SIGSEGV, so the regression is not confirmed"),
    ],
)  # fmt: skip
def test_a_regression_takes_two_that_say_so(again: Any, reason: str | None, verdict: str, said: str) -> None:
    second = []
    if again is not None:
        word, ratio, low, high = again
        second = [Check(FIRST.name, word, "cpu: again", ratio, low, high, 1.05, 12)]
    [check] = confirm_checks([FIRST], {FIRST.name}, second, *([reason] if reason else []))
    assert (check.verdict, check.text) == (verdict, f"{FIRST.text}; again with fresh workers: {said}")
    assert (check.ratio, check.low, check.high, check.rounds) == (1.95, 1.83, 5.16, 9)


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
    assert (check.verdict, (check.high or 9) < 1.05) == (UNCLEAR, True)
    assert check.doubt is not None
    assert "the ratio of the medians, 1.191, lies on the other side" in check.doubt
    assert check.text.endswith(check.doubt)
    hear(tests, 900, 1000, range(24, 60))  # the machine is quiet: both say the same
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


@pytest.mark.parametrize(("ratio_tests", "rounds"), [(1, ENOUGH), (2, 11), (10, 13)])
def test_ratio_tests_share_the_error_rate(ratio_tests: int, rounds: int) -> None:
    """All signs agree after n rounds: the wager stands at (2^(n + 1) - 1) / (n + 1), which must reach ratio_tests / 0.01."""
    others = [ratio_test(1.1, mode="device-tensors")] * (ratio_tests - 1)
    for number, verdict in ((rounds - 1, UNCLEAR), (rounds, FAILED)):
        sequential = SequentialTests([ratio_test(1.1), *others])
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


@pytest.mark.parametrize(("stat", "ratio"), [("median", 2.0), ("mean", 4.0), ("min", 1.0)])
def test_a_block_counts_with_its_statistic(stat: str, ratio: float) -> None:
    sequential = SequentialTests(regression_tests(limits(f"latency.{stat}"), ["cpu-tensors"]))
    sequential.add(CANDIDATE, "cpu-tensors", "latency", 0, [100, 200, 900])
    sequential.add(BASELINE, "cpu-tensors", "latency", 0, [100, 100, 100])
    assert checks(sequential)[0].ratio == pytest.approx(ratio)


def test_what_is_exactly_at_its_limit_cannot_be_told() -> None:
    upper = [(True, 1 + it, round(1000 * (1 + it))) for it in (0.1, 0.2, 0.0)]
    for at_most, limit, over in (*upper, (False, 0.8, 800), (False, 3.0, 3000)):
        sequential = SequentialTests([ratio_test(limit, at_most)])
        hear(sequential, over, 1000, range(50))
        [check] = checks(sequential)
        assert (check.verdict, check.rounds) == (UNCLEAR, 50)


def test_a_mode_is_decided_when_all_its_ratio_tests_are() -> None:
    asked = limits("latency", "device-tensors.latency.min", most=0.1)
    sequential = SequentialTests(regression_tests(asked, ["cpu-tensors", "device-tensors"]))
    assert open_modes(sequential) == {"cpu-tensors", "device-tensors"}
    hear(sequential, 1000, 1000, range(20), mode="cpu-tensors")
    assert open_modes(sequential) == {"device-tensors"}
    for number in range(20):  # medians differ for certain, the least lie on both sides of the limit
        sequential.add(CANDIDATE, "device-tensors", "latency", number, [1090 if number % 2 else 1110, 1500, 1500])
        sequential.add(BASELINE, "device-tensors", "latency", number, [1000] * 3)
    found = {"latency median": FAILED, "latency min": UNCLEAR}
    of_device = {f"device-tensors {name}": verdict for name, verdict in found.items()}
    assert verdicts(checks(sequential)) == {"cpu-tensors latency median": PASSED, **of_device}
    assert open_modes(sequential) == {"device-tensors"}
    hear(sequential, 1200, 1000, range(20, 200), mode="device-tensors")
    assert open_modes(sequential) == set()


def test_a_mode_that_another_one_is_held_against_stays_open() -> None:
    sequential = SequentialTests(own_ratio_tests(Limits(min_speedup={"device-tensors": 2.0, "device-resident": 2.0})))
    for number in range(20):
        medians = {"cpu-tensors": 3000, "device-tensors": 1000, "device-resident": 1400 + 200 * (number % 2)}
        for mode, ns in medians.items():
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


def test_a_mode_that_failed_hands_on_no_blocks() -> None:
    sequential = SequentialTests([ratio_test(1.1)])
    add_cases(sequential, CANDIDATE, [broken("cpu-tensors", latency=steady([1000] * ENOUGH))])
    add_cases(sequential, BASELINE, run_of(cpu_tensors=[1000] * ENOUGH).cases)
    assert checks(sequential)[0].rounds is None


# What a result shows on its own


def test_required_modes() -> None:
    cases = broken("device-tensors", reason="out of memory"), broken("device-resident", UNSUPPORTED, None)
    asked = Limits(require_modes=("cpu-tensors", "device-tensors", "device-resident", "host-accessible"))
    assert check_alone(run_of(*cases, cpu_tensors=[1000]), asked) == [
        Check(f"mode {mode}", verdict, text, mode=mode)
        for mode, verdict, text in [
            ("cpu-tensors", PASSED, "mode cpu-tensors works"),
            ("device-tensors", FAILED, "device-tensors failed: out of memory"),
            ("device-resident", FAILED, "device-resident is unsupported: no reason is known"),
            ("host-accessible", FAILED, "mode host-accessible was not measured"),
        ]
    ]
    assert check_alone(run_of(cpu_tensors=[1000]), Limits()) == []


def test_cpu_nodes() -> None:
    none: dict[str, Any] = {"placement__cpu_operators": {}}
    two: dict[str, Any] = {"placement__cpu_operators": {"Gather": 2, "Shape": 1}}
    # As `ortbench.worker.session.describe_placement` has it where ONNX Runtime does not say.
    unknown = none | {"placement__nodes": None, "placement__memcpy_nodes": None}
    cpu: dict[str, Any] = {"target__ep": "CPUExecutionProvider"}
    for changes, most, verdict, said in (
        (none, 0, PASSED, "no node falls back to the CPU"),
        (two, 3, PASSED, "3 nodes on the CPU (Gather, Shape), must be at most 3"),
        (two, 2, FAILED, "3 nodes on the CPU (Gather, Shape), must be at most 2"),
        (cpu, 0, PASSED, "no node falls back on CPUExecutionProvider, so this cannot fail"),
        (unknown, 0, UNCLEAR, ""),
    ):
        [check] = check_alone(result_of(**changes), Limits(max_cpu_nodes=most))
        assert (check.name, check.verdict, check.text.startswith(said)) == ("cpu nodes", verdict, True), check.text


def test_min_speedup() -> None:
    for least, rounds, verdict in ((2.0, 9, PASSED), (4.0, 9, FAILED), (2.0, 8, UNCLEAR), (4.0, 1, UNCLEAR)):
        result = run_of(cpu_tensors=[3000] * rounds, device_tensors=[1000] * rounds)
        [check] = check_alone(result, Limits(min_speedup={"device-tensors": least}))
        assert (check.name, check.verdict, check.limit) == ("device-tensors speedup", verdict, least)
        assert check.rounds == rounds
        assert check.ratio == pytest.approx(3)


def test_limits_of_a_mode_that_is_not_there_fail_and_of_one_that_nobody_measured_are_refused() -> None:
    for mode, other in (("cpu_tensors", "device_tensors"), ("device_tensors", "cpu_tensors")):
        missing = broken(mode.replace("_", "-"), UNSUPPORTED, "no", latency=steady([1] * ENOUGH))
        result = run_of(missing, **{other: [3000] * ENOUGH})
        [check] = check_alone(result, Limits(min_speedup={"device-tensors": 2.0}))
        assert (check.verdict, check.limit) == (FAILED, 2.0)
        assert check.text.endswith(f"{mode.replace('_', '-')} is unsupported: no")
    for asked in (Limits(min_speedup={"device-resident": 2.0}), Limits(max_copy_share=0.5)):
        refused = refusal(BadInput, check_alone, run_of(cpu_tensors=[1], device_tensors=[1]), asked)
        assert refused.endswith("device-resident, which was not measured; measured: cpu-tensors, device-tensors")


BASE = [1000] * ENOUGH
COPYING, ON_HOST = (run_of(cpu_tensors=BASE, device_resident=[750] * ENOUGH) for _ in range(2))
change(ON_HOST, target__memory={"kind": "host"}, target__ep="CPUExecutionProvider")
APART = run_of(measured("device-resident", latency=steady([750] * ENOUGH, first=100)), cpu_tensors=BASE)


@pytest.mark.parametrize(
    ("result", "most", "verdict", "said"),
    [
        (COPYING, 0.3, PASSED, "≈25% of latency (sequential test: 98% CI 25% to 25%, 9 rounds), must be at most 30%"),
        (COPYING, 0.2, FAILED, "≈25% of latency"),
        (COPYING, 0.0, FAILED, "≈25% of latency"),
        (run_of(cpu_tensors=[1000], device_resident=[1100]), 0.3, UNCLEAR, "at most 30%; a verdict takes 9 rounds: "),
        (APART, 0.3, UNCLEAR, "not measured"),  # there is no round that both modes have
        (run_of(broken("device-resident"), cpu_tensors=BASE), 0.3, FAILED, "it broke"),
        (ON_HOST, 0.0, PASSED, "CPUExecutionProvider computes in host memory: nothing is copied"),
    ],
)
def test_copy_share(result: Result, most: float, verdict: str, said: str) -> None:
    [check] = check_alone(result, Limits(max_copy_share=most))
    assert (check.name, check.verdict, said in check.text) == ("copy share", verdict, True), check.text


def test_all_limits_share_the_error_rate() -> None:
    asked = Limits(
        min_speedup={"device-resident": 1.1}, max_copy_share=0.3, max_cpu_nodes=0, require_modes=("cpu-tensors",)
    )
    assert verdicts(check_alone(COPYING, asked)) == {
        "mode cpu-tensors": PASSED, "cpu nodes": PASSED, "device-resident speedup": UNCLEAR, "copy share": UNCLEAR,
    }  # fmt: skip


def test_limits_of_a_loop_alone() -> None:
    result = loop_result(level("cpu-tensors", 2.0), level("device-resident"), level("shared", 4.0))
    message = "--max-copy-share is of single inferences; of a loop say --min-speedup device-resident=X"
    assert refusal(BadInput, check_alone, result, Limits(max_copy_share=0.1)) == message
    speedups = {"device-resident": 1.5, "shared": 1.5}
    asked = Limits(min_speedup=speedups, max_cpu_nodes=0, require_modes=("shared", "host-accessible"))
    assert verdicts(check_alone(result, asked)) == {
        "mode shared": PASSED, "mode host-accessible": FAILED, "cpu nodes": PASSED, "device-resident speedup": PASSED,
        "shared speedup": FAILED,
    }  # fmt: skip


# A stored baseline


def tailed(slowest: int) -> Result:
    """Eight blocks with one slow sample of ten in each."""
    return result_of(measured("cpu-tensors", latency={number: [1000] * 9 + [slowest] for number in range(8)}))


def test_a_stored_percentile_is_that_of_short_parts() -> None:
    # The run's 95th percentile is 2000, that of each of its short parts lies between 1000 and 2000.
    [check] = check_stored(tailed(2000), tailed(1000), limits("p95", most=0.7))
    assert (check.ratio, check.verdict != PASSED) == (2, True)


def test_every_mode_and_phase_that_both_have_is_compared() -> None:
    device = measured("device-tensors", latency=steady(QUIET), h2d=steady(QUIET))
    result = run_of(device, cpu_tensors=QUIET, device_resident=QUIET)
    for metric, modes in {"h2d": ["device-tensors"], "inference": ["device-resident"]}.items():
        found = check_stored(result, result, limits(metric))
        assert [check.name for check in found] == [f"{mode} {metric} median" for mode in modes]


BOTH, ALONE = run_of(cpu_tensors=QUIET, device_tensors=QUIET), run_of(cpu_tensors=QUIET)
LOST = run_of(broken("device-tensors"), cpu_tensors=QUIET)
OF_CPU, OF_DEVICE = "cpu-tensors latency median", "device-tensors latency median"


@pytest.mark.parametrize(
    ("candidate", "baseline", "asked", "found"),
    [
        (run_of(cpu_tensors=QUIET, device_tensors=NOISY, device_resident=QUIET),
         run_of(broken("device-resident"), device_tensors=QUIET, cpu_tensors=QUIET, host_accessible=QUIET),
         Limits(0.05), {OF_CPU: PASSED, OF_DEVICE: UNCLEAR}),
        (BOTH, BOTH, limits(modes=("cpu-tensors",)), {OF_CPU: PASSED}),
        (LOST, BOTH, limits(modes=("cpu-tensors",)), {OF_CPU: PASSED}),
        (LOST, BOTH, limits("latency"), {"mode device-tensors": FAILED, OF_CPU: PASSED}),
        (LOST, BOTH, limits("cpu-tensors.latency"), {"mode device-tensors": FAILED, OF_CPU: PASSED}),
        # What the baseline had not, or nobody asked for, is not lost.
        (run_of(broken("device-tensors"), broken("device-resident"), cpu_tensors=QUIET), LOST, Limits(0.05), {OF_CPU: PASSED}),
        (ALONE, BOTH, Limits(0.05), {OF_CPU: PASSED}),
    ],
)  # fmt: skip
def test_modes_beside_a_stored_baseline(
    candidate: Result, baseline: Result, asked: Limits, found: dict[str, str]
) -> None:
    checks = check_stored(candidate, baseline, asked)
    assert verdicts(checks) == found
    lost = [it.text for it in checks if it.name == "mode device-tensors"]
    assert lost == ["device-tensors failed: it broke; the baseline has it"] * len(lost)


def test_a_phase_that_is_never_timed_keeps_no_mode_open() -> None:
    """A copy of no bytes has no blocks: the gate must not wait for it until its budget is spent."""
    sequential = SequentialTests(regression_tests(limits("device-tensors.d2h.median"), ["device-tensors"]))
    assert open_modes(sequential) == {"device-tensors"}
    for side in (CANDIDATE, BASELINE):
        sequential.add(side, "device-tensors", "latency", 0, [10, 11, 12])
    assert open_modes(sequential) == set()
    sequential.add(CANDIDATE, "device-tensors", "d2h", 1, [10, 11, 12])
    assert open_modes(sequential) == {"device-tensors"}


def test_git_bisect_gets_the_codes_that_it_knows() -> None:
    known = {errors.DONE: 0, errors.REGRESSION: 1, errors.INTERRUPTED: errors.INTERRUPTED}
    unknown = (errors.BENCHMARK_FAILED, errors.BAD_INPUT, errors.CANNOT_TELL, errors.NOT_COMPARABLE)
    for code in (*known, *unknown):
        assert bisect_code(("gate", "--for-bisect"), code) == known.get(code, 125)
        assert bisect_code(("gate",), code) == code
