"""In how many processes it is measured, and what a side makes of synchronizations that others, or the end of one, found to return early."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.model.modes import READBACK, RUN
from ortbench.plan.plan import Loop, Plan
from tests.conftest import MODELS

MODE = "device-resident"


class Side(Configuration):
    """A side whose worker proves these syncs, one after the other, and says of what returned early in the end."""

    def __init__(self, *proved: str, early: tuple[str, ...] = ()) -> None:
        super().__init__(Plan(str(MODELS / "tiny.onnx"), modes=(MODE,)))
        self.proved, self.early, self.least = [*proved], early, list[str]()

    def ask(self, do: str, **arguments: Any) -> Any:
        if do == "finish":
            return {"differs": None, "once": None, "early": [*self.early]}
        self.least.append(arguments["least_sync"])
        sync = {"kind": max(self.proved.pop(0), self.least[-1], key=[RUN, READBACK].index), "cost_ns": 0, "how": ""}
        nothing = dict.fromkeys(("zero_copy", "external", "graph", "places", "pipeline", "inferences_per_sample"))
        sync |= {"h2d": None, "d2h": None}
        return {**nothing, "bytes_in": 0, "bytes_out": 0, "sync": sync, "stages": [], "estimates_ns": {}}

    def measured(self) -> Side:
        self.prepare(MODE)
        case = self.cases[MODE]
        case.samples["latency"], case.blocks["latency"] = [5, 5], [[0, 2, 0]]
        return self

    def go_on(self) -> None:
        self.check()
        self.begin_process(2, 7)

    def release(self) -> None: ...

    def _start_again(self) -> None: ...

    def _receive_opened(self, stage: str) -> Any: ...


@pytest.mark.parametrize(("second", "kept"), [(RUN, [5, 5]), (READBACK, [])])
def test_samples_that_ended_by_what_returned_early_later_are_left_out(second: str, kept: list[int]) -> None:
    side = Side(RUN, second).measured()
    side.go_on()
    case = side.cases[MODE]
    of = [7] if second == READBACK else [0, 7]
    assert (case.samples.get("latency", []), case.sync and case.sync["kind"], case.processes) == (kept, second, of)
    assert [it["code"] for it in side.result.warnings] == ["synchronization-differs"] * (second == READBACK)


def test_a_process_does_not_take_what_returned_early_in_the_one_before() -> None:
    side = Side(READBACK, RUN).measured()
    side.go_on()
    assert side.least == [RUN, READBACK]
    assert side.cases[MODE].samples["latency"] == [5, 5]
    assert not side.result.warnings


def test_what_returns_early_in_the_end_is_replaced_in_the_next_process_and_fails_the_last_one() -> None:
    side = Side(RUN, RUN, early=("inference (run)",)).measured()
    side.go_on()
    assert (side.least, side.cases[MODE].status, side.cases[MODE].samples) == ([RUN, READBACK], "ok", {})
    side.finish(MODE)
    assert side.cases[MODE].reason == (
        "after the timed runs: the device was not done when the synchronization of inference (run) returned"
    )
    copies = Side(RUN, early=("h2d (run)",)).measured()
    copies.check()
    assert copies.cases[MODE].status == "failed"


@pytest.mark.parametrize(
    ("asked", "budget_s", "most", "count"),
    [(None, 15.0, 9, 5), (None, 6.0, 9, 3), (None, 3.0, 9, 1), (None, 15.0, 3, 3), (None, 15.0, 2, 1), (2, 0.0, 0, 2)],
)
def test_it_is_measured_in_three_to_five_processes_or_in_one(
    asked: int | None, budget_s: float, most: int, count: int
) -> None:
    """As many as start, in a second each, in a third of the time."""
    one = SimpleNamespace(plan=Plan("m.onnx", modes=("cpu-tensors",), loop=Loop(processes=asked)), timeline=None)
    driver: Any = SimpleNamespace(configurations=[one], start_s=1.0)
    assert Driver.count_processes(driver, budget_s, most) == count
