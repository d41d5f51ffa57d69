"""The figures of a loop, from scripted times of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from scipy.stats import mannwhitneyu

from ortbench.analysis.derive import derive
from ortbench.core.stats import summarise
from ortbench.features.loop.analysis import Shift, is_first_apart, put_figures, shift, slope_ns
from ortbench.model.modes import CPU, LATENCY, RESIDENT, STEP, WHOLE_LOOP
from ortbench.model.result import Case, Result
from tests.expect import there
from tests.results import loop_of, loop_result, measured, result_of


def case_of(mode: str, loops: Sequence[Sequence[int]], begins: int = 7) -> Case:
    """A mode of so many rounds of one loop each, whose steps took these times; `begins` is what the first state took."""
    case = measured(mode, latency={number: [sum(times) + begins] for number, times in enumerate(loops)})
    case.samples[STEP] = [time for times in loops for time in times]
    case.blocks[STEP] = [[number, len(times), 0] for number, times in enumerate(loops)]
    return case


def derived(*cases: Case) -> Result:
    made = loop_result(*cases, loop=loop_of(4))
    derive(made)
    return made


def test_medians_by_step() -> None:
    loops = [[10, 20, 30, 40], [12, 22, 32, 42], [11, 21, 31, 500]]
    case, resident = case_of(CPU, loops), case_of(RESIDENT, [[1, 2, 3, 4]])
    resident.metrics.pop("inference")
    derived(case, resident)
    step = there(case.stats(STEP))
    assert case.steps_ns == [11, 21, 31, 42]
    assert step == summarise(case.samples[STEP], [4, 4, 4])
    assert (step.n, step.min, step.max, there(case.stats(WHOLE_LOOP)).median) == (12, 10, 500, 115)
    assert case.stats(WHOLE_LOOP) is case.stats(LATENCY)
    assert case.value("step_throughput") == round(3 * 4 * 1e9 / sum(case.samples[LATENCY]), 3)
    found = loop_result(loop=loop_of(first={"sequence": 5})), loop_result(), result_of()
    assert [is_first_apart(it) for it in found] == [True, False, False]  # whose first step has a shape of its own
    assert (case.stats("inference"), resident.stats("inference"), case.value("copies")) == (None, None, None)
    case = Case("shared", "unsupported", "no")
    put_figures(case, derived().part)
    assert (case.metrics, case.steps_ns) == ({}, None)


def test_a_straight_line_has_its_slope() -> None:
    for steps, first, slope in (
        ([5000 + 3 * number for number in range(10)], False, 3),
        ([90_000, 100, 110, 120, 130], True, 10),
        ([], False, None),
        ([1, 2], False, None),
    ):
        assert slope_ns(steps, first) == slope


@pytest.mark.parametrize(("n", "m"), [(4, 4), (10, 12), (16, 16)])
def test_the_interval_of_a_shift_holds_the_ratios_that_the_test_does_not_refuse(n: int, m: int) -> None:
    draw = Random(2)
    before, after = ([draw.lognormvariate(0, 0.1) for _ in range(size)] for size in (n, m))
    found = shift(before, after)
    low, high = there(found.ci95)
    assert low < found.ratio < high
    for ratio, is_inside in ((low * 1.0001, True), (high / 1.0001, True), (low * 0.95, False), (high * 1.05, False)):
        p = mannwhitneyu([it * ratio for it in before], after).pvalue
        assert (p > 0.04) == is_inside
    assert shift([1.0] * 3, [2.0] * 3) == Shift(2.0, None)
