"""The figures of a loop, from scripted times of its steps."""

from __future__ import annotations

from random import Random

import pytest
from scipy.stats import mannwhitneyu

from ortbench.analysis.derive import derive
from ortbench.core.stats import summarise
from ortbench.features.loop.analysis import Shift, is_first_apart, put_figures, shift, slope_ns
from ortbench.features.loop.model import Loop
from ortbench.model.modes import CPU, LATENCY, RESIDENT, STEP, WHOLE_LOOP
from ortbench.model.result import Case, Result
from tests.results import measured, result_of

US = 1_000
STEPS = 4


def case_of(mode: str, loops: list[list[int]], begins: int = 7) -> Case:
    """A mode of so many rounds of one loop each, whose steps took these times; `begins` is what the first state took."""
    case = measured(mode, latency={number: [sum(times) + begins] for number, times in enumerate(loops)})
    case.samples[STEP] = [time for times in loops for time in times]
    case.blocks[STEP] = [[number, len(times), 0] for number, times in enumerate(loops)]
    return case


def result(*cases: Case, first: dict[str, int | str] | None = None) -> Result:
    made = result_of(*cases)
    made.kind = "loop"
    made.own["loop"] = Loop(
        steps=STEPS,
        feedback=[["y", "x"]],
        first=first,
        grows=[],
        state_shapes=[[[1], [1]]],
        fill={},
        keep=[],
        resident=[],
    )
    return made


# Each step's median, over all loops


def test_medians_by_step() -> None:
    case = case_of(CPU, [[10, 20, 30, 40], [12, 22, 32, 42], [11, 21, 31, 500]])
    derive(result(case))
    assert case.steps_ns == [11, 21, 31, 42]
    step, whole = case.stats(STEP), case.stats(WHOLE_LOOP)
    assert step == summarise(case.samples[STEP], [4, 4, 4])
    assert step is not None
    assert (step.n, step.min, step.max) == (12, 10, 500)
    assert whole is case.stats(LATENCY)
    assert whole is not None
    assert whole.median == 115
    assert case.stats("inference") is None
    assert "copies" not in case.metrics
    case = case_of(RESIDENT, [[1, 2, 3, 4]])
    case.metrics.pop("inference")
    derive(result(case))
    assert case.stats("inference") is None
    case = Case("shared", "unsupported", "no")
    put_figures(case, result().part)
    assert (case.stats(STEP), case.stats(WHOLE_LOOP), case.steps_ns) == (None, None, None)
    assert case.value("step_throughput") is None


def test_whole_loops_are_compared_and_give_steps_a_second() -> None:
    case = case_of(CPU, [[100 * US] * STEPS], begins=100 * US)
    derive(result(case))
    assert case.value("step_throughput") == 4 / 500e-6 == 8000
    cpu, resident = case_of(CPU, [[30, 30, 30, 30]] * 9, begins=0), case_of(RESIDENT, [[10, 10, 10, 10]] * 9, begins=0)
    derive(result(cpu, resident))
    assert resident.speedup is not None
    assert resident.speedup.value == 3.0


# Growth


def test_a_straight_line_has_its_slope() -> None:
    for each in [3, -2, 1000]:
        assert slope_ns([5000 + each * number for number in range(10)], first=False) == each
    assert slope_ns([90_000, 100, 110, 120, 130], first=True) == 10
    assert slope_ns([90_000, 100, 110, 120, 130], first=False) != 10
    for steps, first in [([], False), ([1], False), ([1, 2], False), ([9, 1, 2], True), ([7] * 20, False)]:
        assert slope_ns(steps, first) is None
    draw = Random(0)
    found = slope_ns([100_000 + 1_000 * step + round(draw.gauss(0, 1_000)) for step in range(16)], first=False)
    assert found == pytest.approx(1_000, rel=0.2)


def test_noise_is_no_slope_in_nineteen_of_twenty() -> None:
    told = 0
    for seed in range(400):
        draw = Random(seed)
        told += slope_ns([round(draw.gauss(100_000, 1_000)) for _ in range(16)], first=False) is not None
    assert 0.02 < told / 400 < 0.08


def test_a_first_step_of_a_shape_of_its_own_is_apart() -> None:
    assert is_first_apart(result(first={"sequence": 5}))
    assert not is_first_apart(result())
    assert not is_first_apart(result_of())


# Jumps


@pytest.mark.parametrize(("n", "m"), [(4, 4), (10, 12), (16, 16)])
def test_the_interval_of_a_shift_holds_the_ratios_that_the_test_does_not_refuse(n: int, m: int) -> None:
    draw = Random(2)
    before, after = ([draw.lognormvariate(0, 0.1) for _ in range(size)] for size in (n, m))
    found = shift(before, after)
    assert found.ci95 is not None
    low, high = found.ci95
    assert low < found.ratio < high
    for ratio, is_inside in ((low * 1.0001, True), (high / 1.0001, True), (low * 0.95, False), (high * 1.05, False)):
        p = mannwhitneyu([it * ratio for it in before], after).pvalue
        assert (p > 0.04) == is_inside


def test_what_is_a_jump() -> None:
    for size, is_jump in [
        (Shift(1.1, (1.05, 1.15)), True),
        (Shift(0.9, (0.85, 0.95)), True),
        (Shift(1.1, (0.99, 1.2)), False),
        (Shift(1.1, None), False),
        (Shift(1.045, (1.03, 1.06)), False),
        (Shift(0.96, (0.95, 0.97)), False),
    ]:
        assert size.is_jump is is_jump
    assert shift([1.0] * 3, [2.0] * 3) == Shift(2.0, None)
