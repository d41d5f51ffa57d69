"""ONNX Runtime's own profile, read and put on ortbench's clock."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, nodes, providers, session
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


def test_a_profile_is_the_kernels_of_its_runs() -> None:
    first, second, third = nodes.read_runs(RECORDED)
    assert [(run.start_us, run.took_us) for run in (first, second, third)] == [(10, 5), (20, 6), (30, 9)]
    ((kernel, *rest),) = second.nodes
    assert (kernel.name, kernel.op, kernel.ep, kernel.number, rest) == ("a", "Relu", "P", 0, [21, 4, 7, 0])
    assert second.args == [{"op_name": "Relu", "provider": "P", "node_index": "0"}]
    assert [third.nodes[at].kernel.name for at in nodes.sort_nodes(third.nodes)] == ["outer", "inner"]
    assert len(list(nodes.read_runs(RECORDED[:-2]))) == 2  # a run that the profile lost is not in it


def test_a_profiles_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Node names can be long, and have line ends and braces in them."""
    names = [f"{{{'}'.join('x' * size)}\n\u00e9" for size in (1, 100_000, 3_000_000, 2)]
    told = [{"cat": "Node", "name": name, "args": {"a": [{"b": [1]}]}} for name in names]
    path = tmp_path / "profile.json"
    path.write_text(
        f"[\n{(',' + chr(10)).join(json.dumps(it, ensure_ascii=False) for it in told)}\n]\n", encoding="utf-8"
    )
    assert list(nodes.read_events(str(path))) == told
    path.write_text("[]")
    assert list(nodes.read_events(str(path))) == []
    path.write_text('[{"a": 1},\n{"b": ')
    with pytest.raises(ValueError, match="ends inside an event"):
        list(nodes.read_events(str(path)))


@pytest.mark.timing
def test_the_profile_is_on_the_clock_of_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a profile lie in the runs as timed from outside: a clock that is off by a run would show."""
    provider = providers.find(TARGET)
    arrays = first_run.make_data(PATH, session.open_model(PATH, TARGET, provider), Inputs()).arrays
    timed: list[tuple[int, int]] = []
    run_once = first_run.run_once

    def timed_run(*arguments: Any) -> Any:
        start = time.perf_counter_ns()
        outputs = run_once(*arguments)
        timed.append((start, time.perf_counter_ns()))
        return outputs

    monkeypatch.setattr(first_run, "run_once", timed_run)
    with nodes.open_recorder(PATH, TARGET, provider) as recorder:
        recorder.run(arrays, 5)
        runs = list(recorder.end())
    within = 100_000  # ONNX Runtime cuts its times to microseconds; two clocks are read one after the other
    for run, (before, after) in zip(runs, timed, strict=True):
        start, duration = recorder.start_ns + run.start_us * 1000, run.took_us * 1000
        assert before - within <= start <= start + duration <= after + within


def test_the_profiles_file_is_removed() -> None:
    provider = providers.find(TARGET)
    with nodes.open_recorder(PATH, TARGET, provider) as recorder:
        pass
    with pytest.raises(BenchmarkFailed, match="profiling failed"):
        recorder.run({}, 1)


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
    sums = nodes.NodeSums()
    for run in nodes.read_runs(recorded):
        sums.add(run)
    assert sums.run_ns == [14_000, 6_000]
    before, loop, body, other = sums.timed_nodes()
    assert (before.ns, before.inside) == ((0, 0), None)
    assert (loop.ns, loop.inside, loop.number) == ((5_000, 5_000), None, 3)
    assert (body.name, body.ns, body.inside, body.bytes) == ("body", (7_000, 0), 1, 16)
    assert (other.name, other.ns, other.inside) == ("body", (1_000, 0), None)
    assert (body.reads, body.gives) == (("float[2,8]",), ("float[2,8]", "int64[]"))
