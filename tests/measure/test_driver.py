"""What the driver asks of a kind, in which order, whatever ends a measurement: kinds here need no worker."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.rounds import Rounds
from ortbench.measure.schedule import Block, Series
from ortbench.model.protocol import Samples
from ortbench.model.schema import Machine
from ortbench.plan.plan import Loop, Plan
from tests.conftest import MODELS
from tests.results import result_of

MODES = ("cpu-tensors", "device-tensors")


class Steady(Configuration):
    """A kind whose inferences take 1 ms each; its block of that number fails or is interrupted."""

    def __init__(self, name: str, asked: list[str], fails: int = 0, interrupted: int = 0) -> None:
        loop = Loop(iterations=60, precision=None, processes=1)
        super().__init__(Plan(str(MODELS / "tiny.onnx"), modes=MODES, loop=loop), name=name)
        self._asked, self._fails, self._interrupted = asked, fails, interrupted

    @property
    def worker(self) -> Any:
        return SimpleNamespace(pid=1)

    @property
    def pids(self) -> list[int]:
        return []

    def _note(self, what: str) -> None:
        self._asked.append(f"{what} {self.name}")

    def start(self) -> None:
        self._note("start")

    def open(self, machine: Machine, run_id: str) -> None:
        self._note("open")
        self.result = replace(result_of(), cases=list(self.cases.values()))
        self.result.environment["load_average"] = machine["load_average"]

    def accepts(self) -> str:
        return self.name  # no outputs are compared

    def prepare(self, mode: str) -> None:
        self._note(f"prepare {mode}")
        self._prepared[mode] = {"estimates_ns": {"latency": 1e6}}  # type: ignore[typeddict-item]

    def block(self, block: Block[Series]) -> Samples | None:
        self._note("block")
        mode, count = block.series.mode, self._asked.count(f"block {self.name}")
        if count == self._interrupted:
            raise KeyboardInterrupt
        if count == self._fails:
            self.fail(mode, "it broke")
            return None
        self.cases[mode].samples.setdefault("latency", []).extend([1_000_000] * block.n)
        self.cases[mode].blocks.setdefault("latency", []).append([block.round, block.n, block.round])
        return {"samples": [1_000_000] * block.n, "start_ns": block.round, "spent_ns": block.n * 1_000_000}

    def finish(self, mode: str, goes_on: bool = False) -> None:
        self._note(f"finish {mode}")

    def close(self) -> None:
        self._note("close")


@pytest.mark.process
def test_a_kind_is_opened_prepared_timed_and_finished_in_turns() -> None:
    asked: list[str] = []
    results = Driver([Steady(name, asked) for name in "ab"], Rounds).run()
    blocks = [it for it in asked if it.startswith("block")]
    order = list(dict.fromkeys(asked))
    assert order == [
        *(f"{what} {name}" for name in "ab" for what in ("start", "open")),
        *(f"prepare {mode} {name}" for name in "ab" for mode in MODES),
        *dict.fromkeys(blocks),
        *(f"finish {mode} {name}" for name in "ab" for mode in MODES),
        "close a", "close b",
    ]  # fmt: skip
    rounds = [blocks[at : at + 4] for at in range(0, len(blocks), 4)]
    assert all(Counter(it) == {"block a": 2, "block b": 2} for it in rounds)
    assert {len(case.samples["latency"]) for result in results for case in result.cases} == {60}
    assert [it.stopped for it in results] == [{"reason": "iterations", "value": 60, "per": "mode"}] * 2


@pytest.mark.process
def test_a_mode_that_fails_costs_no_other_and_keeps_what_was_measured() -> None:
    asked: list[str] = []
    (result,) = Driver([Steady("a", asked, fails=6)], Rounds).run()
    failed, ok = sorted(result.cases, key=lambda case: case.status)
    assert (failed.status, failed.reason, ok.status, len(ok.samples["latency"])) == ("failed", "it broke", "ok", 60)
    assert 0 < len(failed.samples["latency"]) < 60
    assert sum(it.startswith("finish") for it in asked) == 1


@pytest.mark.process
def test_an_interruption_keeps_what_was_measured_and_closes_all() -> None:
    asked: list[str] = []
    driver = Driver([Steady("a", asked, interrupted=3), Steady("b", asked)], Rounds)
    results = driver.run()
    assert driver.interrupted
    assert asked[-2:] == ["close a", "close b"]
    assert not any(it.startswith("finish") for it in asked)
    assert [it.stopped for it in results] == [{"reason": "interrupted"}] * 2
    assert any(case.samples for case in results[1].cases)


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
