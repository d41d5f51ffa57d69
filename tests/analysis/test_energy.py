"""Joules of a run from a counter that moves in steps: what is drawn is written down, so that every figure is known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ortbench.core.stats import Value
from ortbench.features.energy.analysis import put_energy
from ortbench.model.result import Case
from tests.expect import there

S = 1_000_000_000
IDLE = [[0.5, 10.0]] * 4  # 20 W
Readings = list[tuple[int, float]]


def counter(watts: float, until_s: float, step_s: float = 0.1) -> Readings:
    """A counter that moves once in a step, of something that draws always the same."""
    return [(round(n * step_s * S), watts * n * step_s) for n in range(round(until_s / step_s) + 1)]


def drawn(
    readings: Readings,
    idle: list[list[float]] = IDLE,
    each_s: float = 0.01,
    count: int = 200,
    begin: int = 0,
    how: Any = "counter",
) -> tuple[Case, Value]:
    """A case of so many inferences with what they draw."""
    made = Case("cpu-tensors")
    runs = [(number, begin + round(number * each_s * S)) for number in range(1, count + 1)]
    put_energy(made, how, "GPU 0", readings, begin, runs, idle)
    return made, cast(Value, made.metrics.get("energy", Value(0)))


def test_a_run_has_what_is_drawn_while_it_goes_on_less_the_idle_draw() -> None:
    """Runs of 10 ms at 120 W, of which 20 W are drawn idle too."""
    of, found = drawn(counter(120, 2))
    assert (found.value, *there(found.ci95)) == pytest.approx((1.0, 1.0, 1.0))
    assert (of.value("power"), of.value("idle_power")) == (120, 20)
    assert of.value("inferences_per_joule") == pytest.approx(1.0)
    assert there(of.own["energy"])["parts"] == [
        [pytest.approx(n), pytest.approx(n / 100), pytest.approx(1.2 * n)] for n in (30, 20, 30, 20) * 2
    ]
    of, found = drawn(counter(120, 4), each_s=2.0, count=2)
    assert (found.value, of.value("inferences_per_joule")) == pytest.approx((200.0, 0.005))
    assert (found.ci95, len(there(of.own["energy"])["parts"])) == (None, 2)
    of, found = drawn(counter(20, 2, 0.02), how="power")
    assert found.value == pytest.approx(0.0)
    assert of.value("inferences_per_joule") is None
    for readings, idle in (([], IDLE), ([(S, 1.0)], IDLE), (counter(120, 2), [])):
        of, _ = drawn(readings, idle)
        assert (of.own["energy"], of.metrics) == ({"unsupported": "the energy counter of GPU 0 moved too seldom"}, {})


def test_the_edges_of_a_stretch_cost_nothing() -> None:
    """Runs from 1.03 to 2.98 s begin and end between two steps, which have some idle time too."""
    during = [(round((1 + n / 10) * S), 20 + 120 * (n / 10 - 0.03) + 20 * 0.03) for n in range(1, 20)]
    after = (3 * S, during[-1][1] + 120 * 0.08 + 20 * 0.02)
    of, found = drawn([*counter(20, 1), *during, after], count=195, begin=round(1.03 * S))
    assert found.value == pytest.approx(1.0)
    assert there(of.own["energy"])["start_ns"] == round(1.1 * S)


def test_parts_that_differ_give_an_interval_and_so_does_the_idle_draw() -> None:
    uneven = [(at, joules + (at // S % 2) * 5.0) for at, joules in counter(120, 8)]
    _, wide = drawn(uneven, count=800)
    low, high = there(wide.ci95)
    assert low < wide.value < high
    _, by_idle = drawn(counter(120, 2), [[0.5, 9.0], [0.5, 11.0], [0.5, 10.0], [0.5, 10.0]])
    # t of 3 degrees of freedom × the standard error of the idle watts × 10 ms a run
    assert by_idle.ci95 == pytest.approx((1 - 3.182 * 0.8165 * 0.01, 1 + 3.182 * 0.8165 * 0.01), rel=1e-3)
