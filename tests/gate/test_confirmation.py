"""A gate that is held once more: which of its checks still fail, and what they say."""

from __future__ import annotations

from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.gate.gates.checks import Verdict, confirm_checks
from tests.results import result_of

FIRST = Check("cpu-tensors latency median", FAILED, "cpu-tensors: ratio 1.95", 1.95, 1.83, 5.16, 1.05, 9)


def again(verdict: str, ratio: float | None, low: float | None, high: float | None) -> Check:
    return Check("cpu-tensors latency median", verdict, "cpu: again", ratio, low, high, 1.05, 12)


def test_a_regression_takes_two_that_say_so() -> None:
    for other, verdict, text in [
        (again(FAILED, 1.9, 1.8, 2.5), FAILED, "cpu-tensors: ratio 1.95; again with fresh workers: ratio 1.900 (98% CI 1.800 to 2.500, 12 rounds); by both runs, of one process a side each, 1.800 to 5.160"),
        (
            again(PASSED, 1.01, 0.98, 1.03),
            UNCLEAR,
            "cpu-tensors: ratio 1.95; again with fresh workers: ratio 1.010 (98% CI 0.980 to 1.030, 12 rounds), so the regression is not confirmed",
        ),
        (
            again(UNCLEAR, 1.04, None, None),
            UNCLEAR,
            "cpu-tensors: ratio 1.95; again with fresh workers: ratio 1.040, so the regression is not confirmed",
        ),
        (again(UNCLEAR, None, None, None), UNCLEAR, "cpu-tensors: ratio 1.95; again with fresh workers: it was not measured, so the regression is not confirmed"),
    ]:  # fmt: skip
        [check] = confirm_checks([FIRST], {FIRST.name}, [other])
        assert (check.verdict, check.text) == (verdict, text)
        assert (check.ratio, check.low, check.high, check.rounds) == (1.95, 1.83, 5.16, 9)
    [check] = confirm_checks([FIRST], {FIRST.name}, [], "the worker was ended by SIGSEGV")
    assert check.verdict == UNCLEAR
    assert (
        check.text
        == "cpu-tensors: ratio 1.95; again with fresh workers: it failed: the worker was ended by SIGSEGV, so the regression is not confirmed"
    )
    unclear = Verdict([result_of(), result_of()], [check], not_confirmed="m.onnx was changed")
    assert unclear.sentence == "cannot tell, the regression could not be measured again: m.onnx was changed"
    others = [
        Check("mode device-tensors", FAILED, "device-tensors is failed"),
        Check("device-tensors latency median", PASSED, "fine", 1.0),
    ]
    assert confirm_checks([FIRST, *others], {FIRST.name}, [again(FAILED, 1.9, 1.8, 2.5)])[1:] == others
