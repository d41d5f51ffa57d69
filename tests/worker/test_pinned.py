"""Pinned host memory: where the copies of `cpu-tensors-pinned` and `device-tensors-pinned` come from and go to, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.model.modes import USUAL_MODES
from tests.conftest import modes
from tests.refdevice import Config, Honesty, Trace
from tests.refdevice.refdevice import MEMORIES
from tests.truth import COPIES, is_kind, recorded, relu_model, run_on_device

SIZE = 1 << 16
PINNED = modes("default", "cpu-tensors-pinned", "device-tensors-pinned")
HOST, DEFAULT, SHARED = (MEMORIES.index(name) for name in ("host", "default", "host_accessible"))


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async"])
def test_copies_start_and_end_in_pinned_memory(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    config = Config(honesty=honesty, compute_us=100, trace=tmp_path / "trace")
    model = relu_model(tmp_path / "relu.onnx", SIZE)
    few = ("--iterations", 8, "--warmup", 2)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *few, *PINNED)
    assert code == 0, errors
    trace = Trace.read(tmp_path / "trace")
    assert [case.mode for case in result.cases] == [*USUAL_MODES, "cpu-tensors-pinned", "device-tensors-pinned"]
    places = {
        "cpu-tensors": (HOST, HOST),
        "device-tensors": (HOST, HOST),
        "cpu-tensors-pinned": (SHARED, HOST),
        "device-tensors-pinned": (SHARED, SHARED),
    }
    for mode, (source, target) in places.items():
        case = next(case for case in result.cases if case.mode == mode)
        assert (case.bytes_h2d, case.bytes_d2h, case.checks["outputs"]["verdict"]) == (SIZE, SIZE, "passed")
        for events in recorded(result, case, "latency", trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] == SIZE)]
            found = [(int(event["source"]), int(event["destination"])) for event in moved]
            assert found == [(source, DEFAULT), (DEFAULT, target)], mode
    shared = next(case for case in result.cases if case.mode == "host-accessible")
    for events in recorded(result, shared, "latency", trace):
        assert not (is_kind(events, *COPIES) & (events["bytes"] == SIZE)).any()
