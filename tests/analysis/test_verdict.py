"""The one function that decides: every kind says faster, slower, more or the same of an interval exactly where it does."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from ortbench.analysis.comparison import CANNOT_TELL, FASTER, SLOWER, RatioEstimate, word
from ortbench.analysis.comparison import SAME as AS_FAST
from ortbench.analysis.intervals import ABOVE, BELOW, MARGIN, OPEN, SAME, Verdict, at_most, verdict_of
from ortbench.analysis.load_points import keeps_to
from ortbench.analysis.speedups import claim
from ortbench.core.stats import Value
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR
from ortbench.facts.findings import facts_of
from ortbench.features.gate.gates import verdict_on
from ortbench.features.loop.facts import RESIDENT
from ortbench.features.sweep.analysis import has_a_cost, new_switching
from ortbench.model.modes import CPU, DEVICE
from ortbench.model.result import Result
from tests import results
from tests.results import MS, closed, load_result, measured, steady
from tests.sources import PACKAGE

# Intervals with what they say at the margin of 2 %.
INTERVALS: list[tuple[tuple[float, float], Verdict]] = [
    ((1.3, 1.5), ABOVE), ((1.021, 1.5), ABOVE), ((1.019, 1.5), OPEN), ((1.001, 1.5), OPEN), ((0.99, 1.5), OPEN), ((0.5, 2.0), OPEN),
    ((0.99, 1.01), SAME), ((1.0, 1.0), SAME), ((0.985, 1.02), SAME), ((0.97, 1.0), OPEN), ((0.7, 0.97), BELOW), ((0.5, 0.99), OPEN),
]  # fmt: skip


@pytest.mark.parametrize(("ends", "verdict"), INTERVALS)
def test_what_an_interval_says(ends: tuple[float, float], verdict: Verdict) -> None:
    assert verdict_of(ends) == verdict
    assert verdict_of(None) == verdict_of((None, None)) == OPEN
    assert verdict_of((ends[0], None)) == (ABOVE if verdict == ABOVE else OPEN)
    assert at_most(ends, 1 + MARGIN) is {ABOVE: False, SAME: True, BELOW: True}.get(
        verdict, True if ends[1] <= 1.02 else None
    )
    # a speedup above 1 is faster; a ratio of times above 1 is slower
    assert claim(Value(1.0, ends)) == {ABOVE: "faster", BELOW: "slower", SAME: "same", OPEN: "open"}[verdict]
    low, high = ends
    said = word(RatioEstimate(1, 1, 1.0, low, high), MARGIN)
    assert said == {ABOVE: SLOWER, BELOW: FASTER, SAME: AS_FAST, OPEN: CANNOT_TELL}[verdict]


@pytest.mark.parametrize(("ends", "verdict"), INTERVALS)
def test_limits_are_kept_or_not_by_the_same_function(ends: tuple[float, float], verdict: Verdict) -> None:
    low, high = ends
    assert verdict_on(low, high, 1.02, at_most=True) == (
        FAILED if verdict == ABOVE else PASSED if high < 1.02 else UNCLEAR
    )
    assert keeps_to({"low": round(low * 1e6), "high": round(high * 1e6), "requests": 9}, 1_020_000) is at_most(
        ends, 1.02
    )
    found = new_switching(CPU, ["a", "b"], 1)
    found["ci95"] = [low, high]
    assert has_a_cost(found) is not (low <= 1.1)  # which counts from 10 % on


def run(ends: tuple[float, float]) -> Result:
    made = results.published()
    made.cases = made.cases[:2]
    made.cases[1].speedup = Value(math.sqrt(ends[0] * ends[1]), ends)
    return made


def resident(ends: tuple[float, float]) -> Result:
    made = results.published()
    made.cases = [made.cases[0], made.cases[2]]
    made.cases[1].speedup = Value(math.sqrt(ends[0] * ends[1]), ends)
    return made


def loop(ends: tuple[float, float]) -> Result:
    made = results.decoding()
    (case,) = (it for it in made.cases if it.mode == RESIDENT)
    case.speedup = Value(math.sqrt(ends[0] * ends[1]), ends)
    return made


def pipeline(ends: tuple[float, float]) -> Result:
    made = results.published()
    case = measured("pipelined", latency=steady([MS]))
    case.pipeline = cast(Any, {"depth": 2})
    case.set_metric("throughput", 1000.0)
    case.set_metric("pipeline_speedup", 1.0, ends)
    made.cases.append(case)
    return made


# Of each kind: a result whose interval this is, and the verdicts that claim a difference, that something is the same or not more.
KINDS: dict[str, tuple[Callable[[tuple[float, float]], Result], str, dict[Verdict, set[str]]]] = {
    "run": (run, "modes replacement", {ABOVE: {"faster", "tied"}, BELOW: {"none-faster"}, SAME: {"none-faster", "same"}, OPEN: {"open"}}),
    "residency": (resident, "modes residency", {ABOVE: {"faster"}, BELOW: {"none-faster"}, SAME: {"none-faster"}, OPEN: {"open"}}),
    "loop": (loop, "modes residency", {ABOVE: {"faster"}, BELOW: {"none-faster"}, SAME: {"none-faster"}, OPEN: {"open"}}),
    "pipeline": (pipeline, "pipeline", {ABOVE: {"faster"}, BELOW: {"slower"}, SAME: {"same"}, OPEN: {"open"}}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ends", "verdict"), INTERVALS)
def test_every_kind_says_what_the_function_says(kind: str, ends: tuple[float, float], verdict: Verdict) -> None:
    make, codes, verdicts = KINDS[kind]
    said = {it.verdict for it in facts_of(make(ends)) if it.code in codes.split()}
    if verdict == OPEN and ends[1] <= 1 + MARGIN and kind != "pipeline":
        assert said == {"none-faster"}  # it is open whether it is slower
    else:
        assert said
        assert said <= verdicts[verdict]


def test_a_peak_is_claimed_where_the_interval_says_so() -> None:
    for rate, verdict in ((200, "more"), (101, "open"), (50, "none-more")):
        made = load_result(closed(CPU, 1, 100, 10.0), closed(DEVICE, 1, rate, 5.0))
        assert [it.verdict for it in facts_of(made) if it.code == "peak"] == [verdict]


def test_no_rule_compares_the_ends_of_an_interval_by_itself() -> None:
    """In the rules, ``ci95[0] > …`` is left to the function."""
    analysis = (
        PACKAGE / "analysis" / name for name in ("resource_usage.py", "../features/tune/analysis.py", "speedups.py")
    )
    for path in (*(PACKAGE / "facts").glob("*.py"), *(PACKAGE / "gates").glob("*.py"), *analysis):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                sides = [ast.unparse(it) for it in (node.left, *node.comparators)]
                assert not any(".ci95[" in it for it in sides) or "_FAR" in sides, f"{path.name}: {ast.unparse(node)}"
