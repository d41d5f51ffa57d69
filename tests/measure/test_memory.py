"""The pass over all modes, with scripted workers: what of them becomes the result, and what is lost with one."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.core.stats import Value
from ortbench.features.memory import measure as memory
from ortbench.measure.configuration import Configuration
from ortbench.measure.gpus import Card
from ortbench.measure.process import WorkerLost
from ortbench.plan.plan import Plan
from ortbench.plan.target import Target
from tests.expect import there
from tests.results import EP, measured, nvidia_result, steady

HOST = {"before": 10, "session": 20, "peak": 30, "pinned": 5, "restarted": True}
ARENA = {"ep": EP, "held": 8, "in_use": 4}


class ScriptedWorker:
    """A worker whose answers are known, or errors."""

    pid = 9

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def __enter__(self) -> ScriptedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def ask(self, do: str, **arguments: Any) -> Any:
        found = self._answers[do]
        if isinstance(found, Exception):
            raise found
        return found


def weigh(monkeypatch: pytest.MonkeyPatch, cards: tuple[list[Card], list[Card]] = ([], []), **answers: Any) -> Any:
    """The memory of mode `cpu-tensors` on a machine with such cards."""
    side = Configuration(Plan("m.onnx", Target(ep="some"), modes=("cpu-tensors",), passes={"measure-memory": 1}))
    side.cases["cpu-tensors"] = measured("cpu-tensors", latency=steady([1]))
    side.result = nvidia_result(side.cases["cpu-tensors"])
    readings = iter(cards)
    monkeypatch.setattr(memory, "worker_for", lambda plan: ScriptedWorker(answers))
    monkeypatch.setattr(memory, "read_cards", lambda: next(readings))
    monkeypatch.setattr(memory, "request_of", lambda plan: {})
    told: list[str] = []
    side.kept["measure-memory"] = []
    memory.measure_memory_apart(side, told.append)
    assert told == ["memory of cpu-tensors (some)"]
    assert side.cases["cpu-tensors"].median("latency") == 1
    case = side.cases["cpu-tensors"]
    return {**case.own["memory"], "sizes": {key: case.value(key) for key in case.metrics if "memory" in key}}


def test_several_workers_give_host_memory_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([30, 33, 36])

    class Other(ScriptedWorker):
        def ask(self, do: str, **arguments: Any) -> Any:
            found = super().ask(do)
            return {**found, "host": {**found["host"], "peak": next(peaks)}} if do == "memory" else found

    side = Configuration(Plan("m.onnx", Target(ep="some"), modes=("cpu-tensors",), passes={"measure-memory": 3}))
    side.cases["cpu-tensors"] = case = measured("cpu-tensors", latency=steady([1]))
    side.result, side.kept = nvidia_result(case), {"measure-memory": []}
    answers = {"memory": {"bound": None, "host": HOST}, "arenas": {"arenas": [], "version": "1.28", "nodes": None}}
    monkeypatch.setattr(memory, "worker_for", lambda plan: Other(answers))
    monkeypatch.setattr(memory, "read_cards", list)
    monkeypatch.setattr(memory, "request_of", lambda plan: {})
    memory.measure_memory_apart(side, lambda _: None)
    found = case.metrics["host_memory"]
    assert isinstance(found, Value)
    assert found.value == 33
    low, high = there(found.ci95)
    assert 25 < low < 30
    assert 36 < high < 43
    assert (
        case.own["memory"]["host"]
        == "the worker's resident set size (RSS) before the session, with it, and at its peak (host memory); its peak is the median of 3 workers"
    )


def test_what_workers_say_becomes_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    found = weigh(
        monkeypatch,
        ([Card(100, {})], [Card(700, {9: 500})]),
        memory={"bound": 3, "host": HOST},
        arenas={"arenas": [ARENA], "version": "1.31", "nodes": None},
    )
    assert found == {
        "failed": None,
        "device": "NVML, of the worker's process",
        "host": "the worker's resident set size (RSS) before the session, with it, and at its peak (host memory)",
        "sizes": {
            "device_memory": 500, "device_memory_bound": 3, "device_memory_process": 500,
            "host_memory_before": 10, "host_memory_session": 20, "host_memory": 30, "pinned_memory": 5,
        },
        "arenas": [ARENA],
        "arenas_how": "ONNX Runtime's profile of the same inferences in another worker",
    }  # fmt: skip


def test_what_is_not_known_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    host = {**HOST, "before": None, "session": None, "peak": None}
    old = {"arenas": [], "version": "1.24.4", "nodes": []}
    found = weigh(monkeypatch, memory={"bound": 3, "host": host}, arenas=old)
    assert found["device"] == "not known: NVML tells nothing of the device, and the EP's allocator neither"
    assert found["sizes"] == {"device_memory_bound": 3, "pinned_memory": 5}
    assert found["host"] == "not known: the system does not tell"
    assert found["arenas_how"].startswith(
        "not known: the profile of ONNX Runtime 1.24.4 has nothing of it (it has since 1.28"
    )
    assert found["nodes"] == []


def test_a_peak_that_cannot_begin_anew_is_that_since_the_worker_began(monkeypatch: pytest.MonkeyPatch) -> None:
    found = weigh(
        monkeypatch,
        memory={"bound": None, "host": {**HOST, "restarted": False}},
        arenas={"arenas": [ARENA], "version": "1.31", "nodes": None},
    )
    assert found["device"] is None
    assert found["host"].endswith("; its peak is that since the worker began")


def test_a_worker_that_dies_takes_only_its_own_figures_along(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = WorkerLost("the worker was ended by SIGKILL")
    found = weigh(monkeypatch, memory=lost)
    assert (found["failed"], found["device"], found["host"]) == ("the worker was ended by SIGKILL", None, None)
    found = weigh(monkeypatch, memory={"bound": 3, "host": HOST}, arenas=lost)
    assert (found["failed"], found["sizes"]["host_memory"]) == (None, 30)
    assert (found["arenas"], found["arenas_how"]) == ([], "not known: the worker was ended by SIGKILL")
