"""Runs that ORT does not wait for: they overlap where only ORT's own wait kept them apart, and are called throughput."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ortbench.measure.schedule import dropped_count
from ortbench.model.result import Result
from tests.conftest import MODELS, cases, measure, modes
from tests.refdevice import Config, Events, Trace
from tests.truth import relu_model, run_on_device

ASYNC = "device-resident-async"


def inferences(result: Result, mode: str, trace: Trace, per_call: int) -> list[Events]:
    """The inferences of each call of a mode's blocks, in order."""
    case = next(case for case in result.cases if case.mode == mode)
    events = trace.of("inference")
    found = []
    for _, n, start in case.blocks["latency"]:
        count = (n + dropped_count(n)) * per_call
        mine = events[events["queued_ns"] >= start][:count]
        found += [mine[at : at + per_call] for at in range(0, count, per_call)]
    return found


@pytest.mark.process
def test_only_the_option_lets_runs_overlap(library: Path, tmp_path: Path) -> None:
    config = Config(honesty="async-wait", compute_us=1000, trace=tmp_path / "trace")
    model = relu_model(tmp_path / "relu.onnx", 1 << 12)
    arguments = [*modes("device-resident", ASYNC), "--iterations", 4, "--warmup", 1]
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *arguments)
    assert code == 0, errors
    trace = Trace.read(tmp_path / "trace")
    waited, free = (next(case for case in result.cases if case.mode == mode) for mode in ("device-resident", ASYNC))
    assert waited.sync is not None
    assert waited.sync["kind"] == "run"
    assert free.sync is not None
    assert free.sync["kind"] == "synchronize_outputs"
    for one, following in pairwise(inferences(result, "device-resident", trace, 1)):
        assert following["queued_ns"][0] >= one["end_ns"][0]
    assert free.inferences_per_sample is not None
    for burst in inferences(result, ASYNC, trace, free.inferences_per_sample):
        assert (
            burst["queued_ns"][1:] < burst["end_ns"][:-1]
        ).all()  # asked for while the one before was still going on
        assert (burst["start_ns"][1:] == burst["end_ns"][:-1]).all()


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async"])
def test_it_works_whatever_a_run_waits_for(honesty: str, library: Path, tmp_path: Path) -> None:
    arguments = ["--ep-library", library, "--ep-option", f"honesty={honesty}", "--ep-option", "compute_us=100",
                 *modes("device-resident-async", "cpu-tensors")]  # fmt: skip
    found = cases(measure(MODELS / "tiny.onnx", *arguments, "--iterations", 2, "--warmup", 1, out=tmp_path))
    assert list(found) == [ASYNC, "cpu-tensors"]
    assert (found[ASYNC]["status"], found[ASYNC]["checks"]["outputs"]["verdict"]) == ("ok", "passed")
    assert 4 <= found[ASYNC]["inferences_per_sample"] <= 100
    assert "inferences_per_sample" not in found["cpu-tensors"]


@pytest.mark.process
def test_on_webgpu(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ["--ep", "webgpu", "--mode", ASYNC, "--cuda-graph", "--iterations", 2, "--warmup", 1]
    found = cases(measure(MODELS / "tiny.onnx", *arguments, out=tmp_path, prefix=software_gpu))
    assert (found[ASYNC]["status"], found[ASYNC]["checks"]["outputs"]["verdict"]) == ("ok", "passed")
    assert found[ASYNC]["checks"]["graph"]["id"] == 1


@pytest.mark.process
def test_a_wrong_output_in_a_burst_is_found(library: Path, tmp_path: Path) -> None:
    options = ("--ep-option", "wrong_run=2+", "--ep-option", "compute_us=100")
    arguments = ["--ep-library", library, *options, "--mode", ASYNC]
    found = cases(measure(MODELS / "tiny.onnx", *arguments, "--iterations", 2, "--warmup", 1, out=tmp_path, code=1))
    assert (found[ASYNC]["status"], found[ASYNC]["checks"]["outputs"]["verdict"]) == ("failed", "failed")


@pytest.mark.process
def test_an_ep_that_computes_in_host_memory_has_none(tmp_path: Path) -> None:
    arguments = ["--ep", "cpu", *modes("default", "device-resident-async"), "--iterations", 2, "--warmup", 1]
    found = cases(measure(MODELS / "tiny.onnx", *arguments, out=tmp_path))
    assert found[ASYNC]["reason"] == ("CPUExecutionProvider offers no stream that queues runs on this device")
