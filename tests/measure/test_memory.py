"""The pass over all modes, with scripted workers: what of them becomes the result, and what is lost with one."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ortbench.features.memory import measure as memory
from ortbench.measure.configuration import Configuration
from ortbench.measure.process import WorkerLost
from ortbench.plan.plan import Plan
from ortbench.plan.target import Target
from tests.expect import there
from tests.results import EP, measured, nvidia_result, steady

WEIGHED = {"bound": 3, "pinned": 5, "before": 10, "session": 20, "peak": 30, "restarted": True}
HOST = "the worker's resident set size (RSS) before the session, with it, and at its peak (host memory)"
ARENA = {"ep": EP, "held": 8, "in_use": 4}


def scripted_worker(answers: dict[str, Any]) -> Any:
    """A worker whose answers are known, or errors; of several answers each is given once."""

    def ask(do: str, **_: Any) -> Any:
        found = answers[do]
        if isinstance(found, Exception):
            raise found
        return found.pop(0) if isinstance(found, list) else found

    return nullcontext(SimpleNamespace(pid=9, ask=ask))


def weigh(monkeypatch: pytest.MonkeyPatch, workers: int = 1, **answers: Any) -> Any:
    """The memory of mode `cpu-tensors` on a machine without cards, and its figures."""
    passes = {"measure-memory": workers}
    side = Configuration(Plan("m.onnx", Target(ep="some"), modes=("cpu-tensors",), passes=passes))
    side.cases["cpu-tensors"] = case = measured("cpu-tensors", latency=steady([1]))
    side.result, side.kept = nvidia_result(case), {"measure-memory": []}
    monkeypatch.setattr(memory, "worker_for", lambda plan: scripted_worker(answers))
    monkeypatch.setattr(memory, "read_cards", list)
    monkeypatch.setattr(memory, "request_of", lambda plan: {})
    told: list[str] = []
    memory.measure_memory_apart(side, told.append)
    assert told == ["memory of cpu-tensors (some)"]
    assert case.median("latency") == 1
    return {**case.own["memory"], "sizes": {key: it for key, it in case.metrics.items() if "memory" in key}}


def sizes(found: Any) -> dict[str, float]:
    return {key: it.value for key, it in found["sizes"].items()}


NO_ARENAS: dict[str, Any] = {"arenas": [], "version": "1.28", "nodes": None}
ARENAS: dict[str, Any] = {"arenas": [ARENA], "version": "1.31", "nodes": None}


def test_several_workers_give_host_memory_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed = [{**WEIGHED, "bound": None, "peak": peak} for peak in (30, 33, 36)]
    found = weigh(monkeypatch, workers=3, memory=weighed, arenas=NO_ARENAS)
    low, high = there(found["sizes"]["host_memory"].ci95)
    assert (found["sizes"]["host_memory"].value, 25 < low < 30, 36 < high < 43) == (33, True, True)
    assert found["host"] == f"{HOST}; its peak is the median of 3 workers"


def test_what_is_not_known_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {**WEIGHED, "before": None, "session": None, "peak": None}
    found = weigh(monkeypatch, memory=unknown, arenas={"arenas": [], "version": "1.24.4", "nodes": []})
    assert found["device"] == "not known: NVML tells nothing of the device, and the EP's allocator neither"
    assert sizes(found) == {"device_memory_bound": 3, "pinned_memory": 5}
    assert found["host"] == "not known: the system does not tell"
    assert found["arenas_how"].startswith(
        "not known: the profile of ONNX Runtime 1.24.4 has nothing of it (it has since 1.28"
    )
    assert found["nodes"] == []
    found = weigh(monkeypatch, memory={**WEIGHED, "bound": None, "restarted": False}, arenas=ARENAS)
    assert (found["device"], found["host"]) == (None, f"{HOST}; its peak is that since the worker began")


def test_a_worker_that_dies_takes_only_its_own_figures_along(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = WorkerLost("the worker was ended by SIGKILL")
    found = weigh(monkeypatch, memory=lost)
    assert (found["failed"], found["device"], found["host"]) == ("the worker was ended by SIGKILL", None, None)
    found = weigh(monkeypatch, memory=WEIGHED, arenas=lost)
    assert (found["failed"], sizes(found)["host_memory"]) == (None, 30)
    assert (found["arenas"], found["arenas_how"]) == ([], "not known: the worker was ended by SIGKILL")
