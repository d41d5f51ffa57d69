"""Measures a small model beside itself and beside one with more work, again and again with fresh workers, for a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ortbench.features.doctor.measure import write_model
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.progress import SequentialTest, TimeLeft
from ortbench.measure.rounds import Rounds
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import Result
from ortbench.plan.plan import Loop, Observer, Plan
from ortbench.plan.target import Target

LAYERS, MORE = 20, 1  # of matrix products: one more is 5 % more work
NAMES = ("one", "other", "slower")
VISIT_S = 20.0  # about, with what it takes to open
FEWEST = 3  # visits: of fewer the spread between runs says next to nothing


class Taken(NamedTuple):
    """The results of a visit, one for each lane, and when it began, in seconds since 1970."""

    at_s: float
    results: Sequence[Result]


class _Until(SequentialTest):
    """A gate that never decides, so that blocks are those of a gate, until a time of the clock."""

    def __init__(self, until_ns: int) -> None:
        self._until_ns = until_ns

    def needs_more(self, mode: str, point: tuple[str, float] | None = None, rounds: int = 0) -> bool:
        return time.perf_counter_ns() < self._until_ns


def plans_of(folder: Path, python: str | None, budget_s: float) -> list[Plan]:
    """The model twice, and one that does more work, on the CPU EP."""
    loop = Loop(duration_s=budget_s / visits_in(budget_s) / len(NAMES), precision=None, processes=1, phases=(LATENCY,))
    found = []
    for name in NAMES:
        model = folder / f"{name}.onnx"
        write_model(model, LAYERS + MORE * (name == NAMES[-1]))
        found.append(Plan(str(model), Target(ep="cpu", python=python), modes=(CPU,), loop=loop))
    return found


def visits_in(budget_s: float) -> int:
    return max(FEWEST, round(budget_s / VISIT_S))


def take_visits(plans: Sequence[Plan], budget_s: float, observer: Observer | None = None) -> tuple[list[Taken], bool]:
    """Visits until the time is over, and whether that was interrupted; `BenchmarkFailed` where the model does not run."""
    count = visits_in(budget_s)
    begun_ns, found = time.perf_counter_ns(), list[Taken]()
    of_all = TimeLeft(observer or Observer(), time.monotonic() + budget_s)
    for number in range(1, count + 1):
        configurations = [Configuration(plan, name=name) for plan, name in zip(plans, NAMES, strict=True)]
        until = _Until(begun_ns + round(budget_s * 1e9 * number / count))
        driver, at_s = Driver(configurations, Rounds, of_all, test=until), time.time()
        try:
            found.append(Taken(at_s, driver.run()))
        except KeyboardInterrupt:  # before its models were open
            return found, True
        if driver.interrupted:
            return found, True
    return found, False
