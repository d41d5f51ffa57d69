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
def test_on_webgpu(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ["--ep", "webgpu", "--mode", ASYNC, "--cuda-graph", "--iterations", 2, "--warmup", 1]
    found = cases(measure(MODELS / "tiny.onnx", *arguments, out=tmp_path, prefix=software_gpu))
    assert (found[ASYNC]["status"], found[ASYNC]["checks"]["outputs"]["verdict"]) == ("ok", "passed")
    assert found[ASYNC]["checks"]["graph"]["id"] == 1
