"""What is said of the time that is left, on a scripted clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortbench.features.gate.plan import limits_of
from ortbench.features.load.gates import live_gate
from ortbench.features.load.measure.schedule import forecast_of
from ortbench.features.load.plan import AUTO, LoadPlan, load_of
from ortbench.measure.progress import Forecast
from ortbench.plan.plan import Loop
from tests.conftest import MODELS
from tests.typed import typed


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


AGREED, LONG, LOAD = Loop(until_agreed=True), Loop(duration_s=10.0), 5.0  # s that a load says a mode takes
Event = tuple[Any, ...]  # a method and what it is given, or the time


@pytest.mark.parametrize(
    ("loop", "modes", "events", "least", "most"),
    [
        (Loop(duration_s=5.0), 4, [], 20, 25),  # the first word holds the whole way
        (Loop(duration_s=1.0), 4, [("begin", "open"), ("know_first", 0, 2.0)], 80, 120),  # a slow model takes longer than its duration
        (Loop(iterations=100), 2, [("know_first", 0, 0.1), ("begin", "measure")], 20, 35),
        (AGREED, 4, [("begin", "open"), ("know_first", 0, 0.01)], 10, 15),  # no longer than five processes do
        (AGREED, 4, [("begin", "open"), (4.0,), ("begin", "prepare")], 22, 26),  # which start as slowly as the first
        # The measurement tells itself how long it takes; within a long block the time that is left goes down.
        (LONG, 1, [("begin", "measure"), (4.0,), ("know_share", 0.25)], 12.09, 12.11),
        (LONG, 1, [("begin", "measure"), (4.0,), ("know_share", 0.25), (7.0,)], 9.09, 9.11),
        (LONG, 1, [("begin", "measure"), (4.0,), ("know_share", 0.25), (30.0,)], 0.09, 0.11),
        (LOAD, 4, [], 20, 25),
        (LOAD, 4, [("begin", "open"), ("know_modes", 1)], 5, 7),  # of modes that the opened model leaves
    ],
)  # fmt: skip
def test_how_long_it_takes(loop: Loop | float, modes: int, events: list[Event], least: float, most: float) -> None:
    clock = Clock()
    if isinstance(loop, Loop):
        forecast = Forecast(loop, configurations=1, modes=modes, clock=clock)
    else:
        forecast = Forecast(Loop(), 1, modes, clock, measuring_s=lambda _, count: loop * count)
    for first, *rest in events:
        if isinstance(first, float):
            clock.now = first
        else:
            getattr(forecast, first)(*rest)
    assert least < forecast.left_s() < most


def test_a_warm_inference_tells_more_than_the_first_one() -> None:
    forecast = Forecast(Loop(duration_s=5.0), configurations=2, modes=8, clock=Clock())
    forecast.know_first(0, 0.01)
    forecast.know_first(1, 27.0)
    forecast.know_warm(0, 0.01)
    assert (forecast.left_s() > 20 * 60, forecast.is_warm) == (True, False)
    for warm_s in (0.1, 0.05):  # the second is another mode's
        forecast.know_warm(1, warm_s)
        assert (8 * 5 < forecast.left_s() < 60, forecast.is_warm) == (True, True)
    forecast.know_warm(1, 2.0)
    assert forecast.left_s() > 8 * 10


@pytest.mark.parametrize(
    ("metric", "load", "least_s"),
    [
        ("latency.p99", {"rate": (5.0,)}, 9 * (51 + 3) / 5),  # 9 rounds of 51 requests and 3 that do not count
        ("latency", {"rate": (1000.0,)}, 2),  # as long as a load point is meant to be
        ("latency.p99", {"concurrency": (1,)}, 9 * 51 * 0.1),  # 51 inferences of 100 ms a round
        ("throughput", {"concurrency": (4,)}, 9 * 5 * 4 * 0.1),
    ],
)
def test_a_gate_of_a_load_counts_the_rounds_that_a_verdict_takes(
    metric: str, load: dict[str, Any], least_s: float
) -> None:
    plan = replace(load_of(str(MODELS / "tiny.onnx"), {"mode": ("cpu-tensors",)}), part=LoadPlan(**load))
    judge = live_gate(limits_of(typed({"metric": [metric]}, "gate"), True, ()), [plan])
    forecast = forecast_of([plan, plan], judge)
    for side in (0, 1):
        forecast.know_warm(side, 0.1)
    forecast.begin("measure")
    assert 2 * least_s < forecast.left_s() < 2 * 1.1 * least_s + 10  # of both


CLIENTS: dict[str, Any] = {"concurrency": (1, 2, 4)}
BESIDE_S = 12 + 0.05 * 48 + 0.1 * 16


@pytest.mark.parametrize(
    ("inference_s", "processes", "load", "least", "most"),
    [
        (0.001, None, CLIENTS, BESIDE_S, 20),
        (0.001, 1, CLIENTS, BESIDE_S, 20),  # starts lie within the time of clients
        (0.001, None, CLIENTS | {"sessions": "process"}, 16 + 2 * 0.05 * 48 + 3 * (1 + 2 * 0.5), 40),
        (0.5, None, CLIENTS, 2 * 9 * (1 + 2 + 4) * 0.5, 120),  # 3 inferences of each client, in 3 blocks
        (0.001, None, {"rate": AUTO, "slo": {"p99": 1}}, 72 + 6 * 0.1, 77),  # 18 tries of 2 s
    ],
)
def test_a_load_counts_what_lies_beside_its_load_points(
    inference_s: float, processes: int | None, load: dict[str, Any], least: float, most: float
) -> None:
    assert least <= measuring_s(inference_s, processes, **load) < most


def test_starts_of_processes_come_on_top_of_rates() -> None:
    one, three, nine = (measuring_s(0.001, processes, rate=(50.0, 100.0)) for processes in (1, None, 9))
    assert three == pytest.approx(one + 8 / 3, abs=0.3)
    assert nine > one + 8


def measuring_s(inference_s: float, processes: int | None, **load: Any) -> float:
    """What the forecast of a load in two modes says, before and after it begins to measure."""
    options = {"mode": ("cpu-tensors", "device-tensors")}
    plan = load_of(str(MODELS / "tiny.onnx"), options | ({"processes": processes} if processes else {}))
    forecast = forecast_of([replace(plan, part=LoadPlan(**load))])
    forecast.know_warm(0, inference_s)
    before = forecast.left_s()
    forecast.begin("measure")
    return min(before, forecast.left_s())
