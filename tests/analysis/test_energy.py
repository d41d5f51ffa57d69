"""Joules of a run from a counter that moves in steps: what is drawn is written down, so that every figure is known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ortbench.analysis.comparison import rows
from ortbench.core.stats import Value
from ortbench.features.energy.analysis import idle_parts, put_energy
from ortbench.model.result import Case
from tests.expect import there
from tests.results import case, result_of

S = 1_000_000_000
IDLE = [[0.5, 10.0]] * 4  # 20 W


def counter(watts: float, until_s: float, step_s: float, from_s: float = 0.0) -> list[tuple[int, float]]:
    """A counter that moves once in a step, of something that draws always the same."""
    count = round((until_s - from_s) / step_s)
    return [(round((from_s + n * step_s) * S), watts * (from_s + n * step_s)) for n in range(count + 1)]


def runs(each_s: float, count: int, begin: int = 0) -> list[tuple[int, int]]:
    return [(number, begin + round(number * each_s * S)) for number in range(1, count + 1)]


def drawn(how: Any, *found: Any) -> tuple[Case, Value]:
    """A case with what its inferences draw."""
    made = Case("cpu-tensors")
    put_energy(made, how, "GPU 0", *found)
    return made, cast(Value, made.metrics.get("energy", Value(0)))


def test_a_run_has_what_is_drawn_while_it_goes_on_less_the_idle_draw() -> None:
    """Runs of 10 ms at 120 W, of which 20 W are drawn idle too."""
    of, found = drawn("counter", counter(120, 2, 0.1), 0, runs(0.01, 200), IDLE)
    assert found.value == pytest.approx(1.0)
    assert found.ci95 == pytest.approx((1.0, 1.0))
    assert (of.value("power"), of.value("idle_power")) == (120, 20)
    assert of.value("inferences_per_joule") == pytest.approx(1.0)
    assert there(of.own["energy"])["parts"] == [
        [pytest.approx(n), pytest.approx(n / 100), pytest.approx(1.2 * n)] for n in (30, 20, 30, 20) * 2
    ]
    of, found = drawn("counter", counter(120, 4, 0.1), 0, runs(2.0, 2), IDLE)
    assert found.value == pytest.approx(200.0)
    assert found.ci95 is None
    assert len(there(of.own["energy"])["parts"]) == 2
    assert of.value("inferences_per_joule") == pytest.approx(0.005)
    of, found = drawn("power", counter(20, 2, 0.02), 0, runs(0.01, 200), IDLE)
    assert found.value == pytest.approx(0.0)
    assert of.value("inferences_per_joule") is None
    for readings, idle in [([], IDLE), ([(S, 1.0)], IDLE), (counter(120, 2, 0.1), [])]:
        of, _ = drawn("counter", readings, 0, runs(0.01, 200), idle)
        assert (of.own["energy"], of.metrics) == ({"unsupported": "the energy counter of GPU 0 moved too seldom"}, {})


def test_the_edges_of_a_stretch_cost_nothing() -> None:
    """Runs begin and end between two steps; what is drawn before and after them is none of theirs."""
    steps = [(at, joules) for at, joules in counter(20, 1, 0.1)]
    # Runs from 1.03 to 2.98 s; the counter's step at 1.1 s has some idle time, the one at 3.0 s too.
    during = [(round((1 + n / 10) * S), 20 + 120 * (n / 10 - 0.03) + 20 * 0.03) for n in range(1, 20)]
    after = [(3 * S, during[-1][1] + 120 * 0.08 + 20 * 0.02)]
    of, found = drawn("counter", [*steps, *during, *after], round(1.03 * S), runs(0.01, 195, round(1.03 * S)), IDLE)
    assert found.value == pytest.approx(1.0)
    assert there(of.own["energy"])["start_ns"] == round(1.1 * S)


def test_parts_that_differ_give_an_interval_and_so_does_the_idle_draw() -> None:
    uneven = [(at, joules + (at // S % 2) * 5.0) for at, joules in counter(120, 8, 0.1)]
    _, wide = drawn("counter", uneven, 0, runs(0.01, 800), IDLE)
    low, high = wide.ci95 or (0, 0)
    assert low < wide.value < high
    unsteady = [[0.5, 9.0], [0.5, 11.0], [0.5, 10.0], [0.5, 10.0]]
    _, by_idle = drawn("counter", counter(120, 2, 0.1), 0, runs(0.01, 200), unsteady)
    low, high = by_idle.ci95 or (0, 0)
    # t of 3 degrees of freedom × the standard error of the idle watts × 10 ms a run
    assert (low, high) == pytest.approx((1 - 3.182 * 0.8165 * 0.01, 1 + 3.182 * 0.8165 * 0.01), rel=1e-3)


def test_idle_parts_are_of_one_length_from_step_to_step() -> None:
    assert idle_parts(counter(20, 0.8, 0.1)) == [[0.1, 2.0]] * 8
    assert idle_parts(counter(20, 0.2, 0.1)) == [[0.1, 2.0]] * 2
    assert idle_parts(counter(20, 0, 0.1)) == []


def test_results_draw_more_less_or_the_same() -> None:
    def of(joules: float | None, half: float, how: Any) -> Case:
        made = case("device-tensors", latency=1)
        if joules is not None:
            made.set_metric("energy", joules, (joules - half, joules + half))
            made.own["energy"] = {"how": how, "of": "GPU 0"}
        return made

    for one, other, half, how, low, high in [
        (1.0, 2.0, 0.01, "counter", 1.937810, 2.064243),
        (1.0, 1.0, 1.5, "counter", None, None),  # not above 0 for certain
        (1.0, 2.0, 0.01, "power", None, None),  # read in another way
        (1.0, None, 0.0, "counter", None, None),
        (None, 1.0, 0.01, "counter", None, None),
    ]:
        sides = [result_of(of(one, 0.01, "counter")), result_of(of(other, half, how))]
        (row,) = (it for it in rows(sides) if it.key.metric.key == "energy")
        assert row.values == (one, other)
        found = row.since_first[1]
        assert (found is None) == (None in (one, other))
        if found is not None:
            assert (found.low, found.high) == (low and pytest.approx(low), high and pytest.approx(high))
            assert found.ratio == other
