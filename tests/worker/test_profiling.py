"""ONNX Runtime's own profile, read and put on ortbench's clock."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.plan.target import Inputs, Target
from ortbench.worker.looks import nodes
from ortbench.worker.looks.nodes import NodeEvent, Profile
from ortbench.worker.session import first_run, providers, session
from tests.conftest import MODELS

TARGET = Target(ep="cpu")
PATH = str(MODELS / "image_classifier.onnx")


def run_event(ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": dur, "pid": 1, "tid": 7, "args": {}}


def node_event(name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    return {"cat": "Node", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 7, "args": args}


RECORDED = [
    {"cat": "Session", "name": "session_initialization", "ts": 1, "dur": 5, "tid": 7, "args": {}},
    node_event("a_kernel_time", 11, 3, op_name="Relu", provider="P"),
    run_event(10, 5),
    node_event("a_sync_before", 20, 1, op_name="Relu"),
    node_event("a_kernel_time", 21, 4, op_name="Relu", provider="P", node_index="0"),
    run_event(20, 6),
    node_event("inner_kernel_time", 32, 1, op_name="Add", provider="P"),
    node_event("outer_kernel_time", 31, 6, op_name="If", provider="Q"),
    run_event(30, 9),
    {"cat": "Kernel", "name": "gpu", "ts": 33, "dur": 1, "tid": 9, "args": {}},
]


def test_a_profile_is_its_last_runs_and_their_kernels() -> None:
    profile = nodes.read(RECORDED, 1_000_000, 2)
    assert profile.runs == [(1_020_000, 6_000), (1_030_000, 9_000)]
    assert profile.events == [
        nodes.NodeEvent("a", "Relu", "P", 1_021_000, 4_000, 0, 7, {"node_index": "0"}),
        nodes.NodeEvent("outer", "If", "Q", 1_031_000, 6_000, 1, 7, {}),
        nodes.NodeEvent("inner", "Add", "P", 1_032_000, 1_000, 1, 7, {}),
    ]


def test_a_profile_that_lost_runs_is_refused() -> None:
    with pytest.raises(BenchmarkFailed, match="has 3 of 4 runs"):
        nodes.read(RECORDED, 0, 4)


Timed = list[tuple[int, int]]


@pytest.fixture(scope="module")
def recorded() -> tuple[Profile, Timed]:
    """Five runs as recorded, and as timed from outside."""
    provider = providers.find(TARGET)
    model = session.open_model(PATH, TARGET, provider)
    arrays = first_run.make_data(PATH, model, Inputs()).arrays
    with nodes.recording(PATH, TARGET, provider) as recorder:
        timed: Timed = []
        run_once = first_run.run_once

        def timed_run(*arguments: Any) -> Any:
            start = time.perf_counter_ns()
            outputs = run_once(*arguments)
            timed.append((start, time.perf_counter_ns()))
            return outputs

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(first_run, "run_once", timed_run)
            profile = recorder.take(arrays, 5)
    assert len(timed) == 2 + 5
    return profile, timed[2:]


@pytest.mark.timing
def test_the_profile_is_on_the_clock_of_the_samples(recorded: tuple[Profile, Timed]) -> None:
    """The runs of a profile lie in the runs as timed from outside: a clock that is off by a run would show."""
    profile, timed = recorded
    within = 100_000  # ONNX Runtime cuts its times to microseconds; two clocks are read one after the other
    for (start, duration), (before, after) in zip(profile.runs, timed, strict=True):
        assert before - within <= start <= start + duration <= after + within


def test_every_node_of_every_run_lies_in_its_run(recorded: tuple[Profile, Timed]) -> None:
    profile, _ = recorded
    assert {event.run for event in profile.events} == set(range(5))
    for event in profile.events:
        start, duration = profile.runs[event.run]
        assert start <= event.start_ns <= event.start_ns + event.duration_ns <= start + duration + 2_000
        assert event.ep == "CPUExecutionProvider"
    names = [event.name for event in profile.events if event.run == 0]
    assert [event.name for event in profile.events] == names * 5
    assert "Softmax_15" in names


def test_the_profiles_file_is_removed() -> None:
    provider = providers.find(TARGET)
    with nodes.recording(PATH, TARGET, provider) as recorder:
        pass
    with pytest.raises(BenchmarkFailed, match="profiling failed"):
        recorder.take({}, 1)


def in_a_run(name: str, ts: int, dur: int, op: str, size: int = 0) -> dict[str, Any]:
    shape = [{"float": [2, size]}]
    return node_event(
        f"{name}_kernel_time", ts, dur, op_name=op, provider="P", node_index="3", output_size=str(size),
        input_type_shape=shape, output_type_shape=[*shape, {"int64": []}],
    )  # fmt: skip


def test_a_nodes_time_is_without_that_of_the_nodes_inside_it() -> None:
    recorded = [
        in_a_run("before", 10, 0, "Relu"),  # took less than a microsecond, and is not inside what follows
        in_a_run("body", 12, 3, "Add", 8),
        in_a_run("body", 16, 4, "Add", 8),
        in_a_run("loop", 10, 12, "Loop"),
        in_a_run("body", 22, 1, "Add", 8),  # one of the same name outside
        run_event(10, 14),
        in_a_run("loop", 30, 5, "Loop"),
        run_event(30, 6),
    ]
    before, loop, body, other = nodes.node_times(nodes.read(recorded, 0, 2))
    assert (before.ns, before.inside) == ((0, 0), None)
    assert (loop.ns, loop.inside, loop.number) == ((5_000, 5_000), None, 3)
    assert (body.name, body.ns, body.inside, body.bytes) == ("body", (7_000, 0), 1, 16)
    assert (other.name, other.ns, other.inside) == ("body", (1_000, 0), None)
    assert (body.reads, body.gives) == (("float[2,8]",), ("float[2,8]", "int64[]"))


def test_the_last_runs_of_a_profile() -> None:
    def node(run: int) -> NodeEvent:
        return NodeEvent(f"n{run}", "Relu", "EP", 100 * run, 10, run, 1, {})

    whole = Profile([(100 * run, 50) for run in range(5)], [node(run) for run in range(5)])
    found = whole.last(2)
    assert found.runs == [(300, 50), (400, 50)]
    assert [(event.name, event.run) for event in found.events] == [("n3", 0), ("n4", 1)]
    assert whole.last(9) == whole
