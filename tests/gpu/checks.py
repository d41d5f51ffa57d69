"""What results must show, each as a check with its figures and its limit. From files and numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ortbench.units import duration

PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT RUN"

RUNS = 100  # of the published device tensor sample
CUPTI_APART, DERIVED_APART, FENCE_APART, LOOP_COST = 0.05, 0.10, 0.03, 1.05
SAMPLE_RATIO = (RUNS / 2, RUNS * 2)  # copies in every run against copies once

Result = Mapping[str, Any]  # as in result.json


@dataclass(frozen=True)
class Check:
    """One thing that was to be shown.

    Attributes:
        name: what.
        verdict: `PASS`, `FAIL` or `NOT_RUN`.
        figures: what was found and the limit, or why it was not run.
    """

    name: str
    verdict: str
    figures: str

    @property
    def line(self) -> str:
        """For the terminal."""
        return f"{self.verdict:7}  {self.name}: {self.figures}"


def outputs(model: str, result: Result) -> Check:
    """Every mode that the EP has gives the outputs that it must."""
    name = f"{model}: outputs equal in all modes"
    by_status: dict[str, list[str]] = {"ok": [], "failed": [], "unsupported": [], "unfinished": []}
    for case in result["cases"]:
        status, reason = case["status"], case["reason"]
        if status == "failed" and result["stopped"] == "interrupted" and case["outputs_match"] is not False:
            status, reason = "unfinished", "its time was over"  # and nothing of it is wrong as far as is known
        by_status[status].append(case["mode"] if status == "ok" else f"{case['mode']}: {reason}")
    others = [*by_status["unsupported"], *by_status["unfinished"]]
    if by_status["failed"]:
        return Check(name, FAIL, "; ".join(by_status["failed"]))
    if not by_status["ok"]:
        return Check(name, NOT_RUN, "; ".join(others))
    against = "expected outputs" if result["setup"]["expected_outputs"] else "a plain run's outputs"
    return Check(name, PASS, "; ".join([f"{', '.join(by_status['ok'])} equal to {against}", *others]))


def zero_copy(result: Result) -> Check:
    """`host-accessible` is proved to be zero-copy, or says why it is not."""
    name = "host-accessible: zero-copy proved, or the reason"
    case = _case(result, "host-accessible")
    if case is None or case["zero_copy"] is None:
        return Check(name, NOT_RUN, _why_not(result, "host-accessible"))
    proved, how = case["zero_copy"]["proved"], case["zero_copy"]["how"]
    return Check(name, PASS if how else FAIL, f"{'proved' if proved else 'not proved'}: {how or 'no reason is given'}")


def cupti_phases(result: Result) -> Check:
    """The upload and download of `device` agree with CUPTI's copies of the same mode, in time and bytes."""
    name = "CUPTI's copies agree with upload and download"
    case = _case(result, "device")
    measured = case and case.get("measured")
    if not case or not measured:
        return Check(name, NOT_RUN, _why_not_measured(result, "device"))
    verdict, parts = PASS, []
    for phase, key in (("upload", "bytes_in"), ("download", "bytes_out")):
        ours, theirs = case["phases"][phase]["median_ns"], measured[phase]["ns"]
        if abs(ours - theirs) > theirs * CUPTI_APART or measured[phase]["bytes"] != case[key]:
            verdict = FAIL
        parts.append(
            f"{phase} {duration(ours)} by ortbench, {duration(theirs)} by CUPTI ({_apart(ours, theirs)}), "
            f"{case[key]} and {measured[phase]['bytes']} bytes"
        )
    return Check(name, verdict, f"{'; '.join(parts)}; limit {CUPTI_APART:.0%} and equal bytes")


def derived_copies(result: Result) -> Check:
    """`cpu` less `device-resident` agrees with the copies that CUPTI saw inside the runs of `cpu`."""
    name = "cpu less device-resident agrees with CUPTI's copies in cpu"
    case = _case(result, "cpu")
    measured = case and case.get("measured")
    if not case or not measured:
        return Check(name, NOT_RUN, _why_not_measured(result, "cpu"))
    if case["derived"] is None:
        return Check(name, NOT_RUN, _why_not(result, "device-resident"))
    ours, theirs = case["derived"]["copies_ns"], measured["upload"]["ns"] + measured["download"]["ns"]
    within = abs(ours - theirs) <= theirs * DERIVED_APART
    figures = (
        f"≈{duration(ours)} derived, {duration(theirs)} by CUPTI ({_apart(ours, theirs)}); limit {DERIVED_APART:.0%}"
    )
    return Check(name, PASS if within else FAIL, figures)


def published_sample(result: Result) -> Check:
    """Copies in every run against copies once, over the 100 runs of the published device tensor sample."""
    name = f"the published sample's shape: copies in each of {RUNS} runs against once"
    cpu, resident = _case(result, "cpu"), _case(result, "device-resident")
    if cpu is None or resident is None or cpu["derived"] is None or resident["once"] is None:
        on_host = result["target"]["memory"]["kind"] == "host"
        return Check(name, NOT_RUN, _ON_HOST if on_host else _why_not(result, "device-resident"))
    each = cpu["derived"]["copies_ns"] * RUNS
    once = resident["once"]["upload_ns"] + resident["once"]["download_ns"]
    low, high = SAMPLE_RATIO
    figures = (
        f"≈{duration(each)} of copies with CPU tensors, {duration(once)} when copied once, {each / max(once, 1):.0f} times; "
        f"limits {low:.0f} and {high:.0f}"
    )
    return Check(name, PASS if low <= each / max(once, 1) <= high else FAIL, figures)


def fence(found: Mapping[str, Any] | None) -> Check:
    """The runs that were timed one by one take together what as many take that are waited for only at their end."""
    name = "the fence holds: N runs with one readback take N times the median"
    if found is None:
        return Check(name, NOT_RUN, _ON_HOST)
    apart = abs(found["ratio"] - 1)
    figures = (
        f"{found['runs']} runs in {duration(found['total_ns'])}, median {duration(found['median_ns'])} "
        f"(fence: {found['kind']}), ratio {found['ratio']:.3f}; limit 1 ± {FENCE_APART:g}"
    )
    return Check(name, PASS if apart <= FENCE_APART else FAIL, figures)


def loop_cost(found: Mapping[str, Any]) -> Check:
    """The loop that takes the samples costs next to nothing."""
    ratio = found["ours_ns"] / found["bare_ns"]
    figures = (
        f"{duration(found['ours_ns'])} a sample, {duration(found['bare_ns'])} in a bare loop, ratio {ratio:.3f}; "
        f"limit {LOOP_COST:g}"
    )
    return Check("loop cost against a bare loop", PASS if ratio <= LOOP_COST else FAIL, figures)


def exit_code(checks: Sequence[Check]) -> int:
    """0 only if no check failed."""
    return 1 if any(check.verdict == FAIL for check in checks) else 0


_ON_HOST = "this EP computes in host memory: nothing is copied to a device"


def _apart(ours: float, theirs: float) -> str:
    return f"{abs(ours / max(theirs, 1) - 1):.1%} apart"


def _case(result: Result, mode: str) -> Mapping[str, Any] | None:
    """The case of a mode if it is ok and was measured."""
    for case in result["cases"]:
        if case["mode"] == mode and case["status"] == "ok" and case["phases"]["total"] is not None:
            found: Mapping[str, Any] = case
            return found
    return None


def _why_not(result: Result, mode: str) -> str:
    reasons = [case["reason"] for case in result["cases"] if case["mode"] == mode and case["reason"]]
    return reasons[0] if reasons else f"{mode} was not measured"


def _why_not_measured(result: Result, mode: str) -> str:
    if _case(result, mode) is None:
        return _why_not(result, mode)
    said = [warning["message"] for warning in result["warnings"] if warning["code"] == "copies-not-measured"]
    return said[0] if said else "CUPTI was not asked: it sees NVIDIA's EPs only"
