"""ONNX Runtime's own profile, read and put on ortbench's clock."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from ortbench.errors import BenchmarkFailed
from ortbench.plan import Inputs, Target
from ortbench.runtime import profiling, providers, session
from tests.conftest import MODELS, ROOT

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
    node_event("a_fence_before", 20, 1, op_name="Relu"),
    node_event("a_kernel_time", 21, 4, op_name="Relu", provider="P", node_index="0"),
    run_event(20, 6),
    node_event("inner_kernel_time", 32, 1, op_name="Add", provider="P"),
    node_event("outer_kernel_time", 31, 6, op_name="If", provider="Q"),
    run_event(30, 9),
    {"cat": "Kernel", "name": "gpu", "ts": 33, "dur": 1, "tid": 9, "args": {}},
]


def test_a_profile_is_its_last_runs_and_their_kernels() -> None:
    profile = profiling.read(RECORDED, 1_000_000, 2)
    assert profile.runs == [(1_020_000, 6_000), (1_030_000, 9_000)]
    assert profile.events == [
        profiling.NodeEvent("a", "Relu", "P", 1_021_000, 4_000, 0, 7, {"node_index": "0"}),
        profiling.NodeEvent("outer", "If", "Q", 1_031_000, 6_000, 1, 7, {}),
        profiling.NodeEvent("inner", "Add", "P", 1_032_000, 1_000, 1, 7, {}),
    ]


def test_a_profile_that_lost_runs_is_refused() -> None:
    with pytest.raises(BenchmarkFailed, match="has 3 of 4 runs"):
        profiling.read(RECORDED, 0, 4)


def test_every_node_of_every_run_is_on_the_clock_of_the_samples() -> None:
    """The runs of a profile lie in the runs as timed from outside: a clock that is off by a run would show."""
    provider = providers.find(TARGET)
    model = session.open_model(PATH, TARGET, provider)
    arrays = session.make_data(PATH, model, Inputs()).arrays
    with profiling.recording(PATH, TARGET, provider) as recorder:
        timed: list[tuple[int, int]] = []
        run_once = session.run_once

        def timed_run(*arguments: Any) -> Any:
            start = time.perf_counter_ns()
            outputs = run_once(*arguments)
            timed.append((start, time.perf_counter_ns()))
            return outputs

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "run_once", timed_run)
            profile = recorder.take(arrays, 5)
    assert len(timed) == 2 + 5
    within = 100_000  # ONNX Runtime cuts its times to microseconds; two clocks are read one after the other
    for (start, duration), (before, after) in zip(profile.runs, timed[2:], strict=True):
        assert before - within <= start <= start + duration <= after + within
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
    with profiling.recording(PATH, TARGET, provider) as recorder:
        pass
    with pytest.raises(BenchmarkFailed, match="profiling failed"):
        recorder.take({}, 1)


_ON_A_DEVICE = """
import json, sys
from ortbench.plan import Inputs, Target
from ortbench.runtime import profiling, providers, session

path, target = sys.argv[1], Target(ep="webgpu")
provider = providers.find(target)
arrays = session.make_data(path, session.open_model(path, target, provider), Inputs()).arrays
profile = profiling.profile_runs(path, target, provider, arrays, 3)
print(json.dumps([[event.op, event.ep] for event in profile.events if event.run == 2]))
"""


def test_a_profile_of_a_device_has_its_memcpy_nodes(software_gpu: tuple[str, ...]) -> None:
    line = [*software_gpu, sys.executable, "-c", _ON_A_DEVICE, str(MODELS / "cpu_island.onnx")]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    gpu, cpu = "WebGpuExecutionProvider", "CPUExecutionProvider"
    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["Gemm", gpu], ["Relu", gpu], ["Reshape", gpu], ["MemcpyToHost", gpu], ["Det", cpu], ["MemcpyFromHost", gpu],
        ["Gemm", gpu], ["Softmax", gpu],
    ]  # fmt: skip
