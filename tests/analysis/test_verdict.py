"""The one function that decides: every kind says faster, slower, more or the same of an interval exactly where it does."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ortbench.analysis.comparison import CANNOT_TELL, FASTER, SLOWER, RatioEstimate, word
from ortbench.analysis.comparison import SAME as AS_FAST
from ortbench.analysis.intervals import ABOVE, BELOW, MARGIN, OPEN, SAME, Verdict, at_most, verdict_of
from ortbench.analysis.load_points import keeps_to
from ortbench.analysis.speedups import claim
from ortbench.core.stats import Value
from ortbench.facts.run import facts_of
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates import verdict_on
from ortbench.features.sweep.analysis import has_a_cost
from ortbench.model.modes import CPU, DEVICE, RESIDENT
from ortbench.model.result import Result
from tests.results import MS, measured, published, steady

# Intervals with what they say at the margin of 2 %, and whether what lies there is at most 2 % more.
INTERVALS: list[tuple[tuple[float, float], Verdict, bool | None]] = [
    ((1.3, 1.5), ABOVE, False), ((1.021, 1.5), ABOVE, False), ((1.019, 1.5), OPEN, None), ((0.99, 1.5), OPEN, None), ((0.5, 2.0), OPEN, None),
    ((0.99, 1.01), SAME, True), ((1.0, 1.0), SAME, True), ((0.985, 1.02), SAME, True), ((0.97, 1.0), OPEN, True), ((0.7, 0.97), BELOW, True),
    ((0.5, 0.99), OPEN, True),
]  # fmt: skip


@pytest.mark.parametrize(("ends", "verdict", "fits"), INTERVALS)
def test_what_an_interval_says(ends: tuple[float, float], verdict: Verdict, fits: bool | None) -> None:
    low, high = ends
    assert verdict_of(ends) == verdict
    assert verdict_of(None) == verdict_of((None, None)) == OPEN
    assert verdict_of((low, None)) == (ABOVE if verdict == ABOVE else OPEN)
    assert at_most(ends, 1 + MARGIN) is fits
    # A speedup above 1 is faster; a ratio of times above 1 is slower.
    assert claim(Value(1.0, ends)) == {ABOVE: "faster", BELOW: "slower", SAME: "same", OPEN: "open"}[verdict]
    told = word(RatioEstimate(1, 1, 1.0, low, high), MARGIN)
    assert told == {ABOVE: SLOWER, BELOW: FASTER, SAME: AS_FAST, OPEN: CANNOT_TELL}[verdict]
    limit = FAILED if verdict == ABOVE else PASSED if high < 1.02 else UNCLEAR
    assert verdict_on(low, high, 1.02, at_most=True) == limit
    assert keeps_to({"low": round(low * 1e6), "high": round(high * 1e6), "requests": 9}, 1_020_000) is fits
    switching: Any = {"ci95": [low, high]}
    assert has_a_cost(switching) is (low > 1.1)  # which counts from 10 % on


def modes(ends: tuple[float, float], mode: str) -> Result:
    made = published()
    made.cases = [it for it in made.cases if it.mode in (CPU, mode)]
    made.cases[1].speedup = Value(math.sqrt(ends[0] * ends[1]), ends)
    return made


def pipeline(ends: tuple[float, float], mode: str) -> Result:
    made, case = published(), measured(mode, latency=steady([MS]))
    depth: Any = {"depth": 2}
    case.pipeline = depth
    case.set_metric("throughput", 1000.0)
    case.set_metric("pipeline_speedup", 1.0, ends)
    made.cases.append(case)
    return made


@pytest.mark.parametrize(
    ("make", "mode", "codes", "above", "below", "same"),
    [
        (modes, DEVICE, {"modes", "replacement"}, {"faster", "tied"}, {"none-faster"}, {"none-faster", "same"}),
        (modes, RESIDENT, {"modes", "residency"}, {"faster"}, {"none-faster"}, {"none-faster"}),
        (pipeline, "pipelined", {"pipeline"}, {"faster"}, {"slower"}, {"same"}),
    ],
)
@pytest.mark.parametrize(("ends", "verdict", "fits"), INTERVALS)
def test_every_kind_says_what_the_function_says(
    make: Any, mode: str, codes: set[str], above: set[str], below: set[str], same: set[str],
    ends: tuple[float, float], verdict: Verdict, fits: bool | None,
) -> None:  # fmt: skip
    found = {it.verdict for it in facts_of(make(ends, mode)) if it.code in codes}
    wanted = {ABOVE: above, BELOW: below, SAME: same, OPEN: {"open"}}[verdict]
    if verdict == OPEN and fits and make is not pipeline:
        wanted = {"none-faster"}  # it is open whether it is slower
    assert found
    assert found <= wanted
