"""EPs whose devices have HOST_ACCESSIBLE memory alone, as OpenVINO's has on Intel's CPUs: the reference device of that kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.model.result import Case, Result
from tests.conftest import modes, ortbench
from tests.refdevice import Config, Trace
from tests.results import fact, keys, values
from tests.truth import COPIES, is_kind, recorded, relu_model, run_on_device
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

SIZE = 1 << 20
SHARED = "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
MEMORY = {"kind": "ep-device", "default": None, "host_accessible": SHARED}
FEW = ("--iterations", 12, "--warmup", 1)


def on_cpu(**knobs: Any) -> Config:
    """A CPU: ONNX Runtime hands arrays on as they are."""
    return Config(**{"cpu": True, "default_memory": False, "compute_us": 300, **knobs})


def run(library: Path, config: Config, folder: Path, *arguments: object) -> tuple[Result, dict[str, Case]]:
    """The result of a Relu over `SIZE` bytes, and its cases by mode."""
    model = relu_model(folder / "relu.onnx", SIZE)
    code, result, _, errors = run_on_device(library, model, config, folder, *arguments)
    assert code == 0, errors
    return result, {case.mode: case for case in result.cases}


def test_the_device_modes_copy_into_the_memory_that_the_session_wants(library: Path, tmp_path: Path) -> None:
    every = modes("default", "cpu-tensors-pinned", "device-tensors-pinned", "device-resident-async")
    result, found = run(library, on_cpu(trace=tmp_path / "trace"), tmp_path, *FEW, *every)
    trace = Trace.read(tmp_path / "trace")
    assert (result.target["memory"], result.target["device"]["type"]) == (MEMORY, "CPU")
    assert {case.status for case in found.values()} == {"ok"}
    assert {case.checks["outputs"]["verdict"] for case in found.values()} == {"passed"}
    for mode in ("cpu-tensors", "device-tensors", "device-resident", "host-accessible", "cpu-tensors-pinned"):
        for events in recorded(result, found[mode], "latency", trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] == SIZE)]
            assert len(moved) == (2 if mode == "device-tensors" else 0), mode
    assert {mode: (case.bytes_h2d, case.bytes_d2h) for mode, case in found.items()} == {
        **dict.fromkeys(("cpu-tensors", "cpu-tensors-pinned"), (None, None)),  # not known before the times are
        **dict.fromkeys(("device-tensors", "device-tensors-pinned"), (SIZE, SIZE)),
        **dict.fromkeys(("device-resident", "host-accessible", "device-resident-async"), (0, 0)),
    }


def test_copies_inside_the_ep_are_not_called_zero_copy(library: Path, tmp_path: Path) -> None:
    """Every mode copies as much inside the EP: no times differ, and nothing is claimed."""
    slow = {"upload_latency_us": 10_000, "download_latency_us": 10_000}
    result, found = run(library, on_cpu(ha_copies=True, **slow), tmp_path, *FEW)
    assert found["host-accessible"].checks["zero_copy"]["verdict"] == "unclear"
    assert fact(result, "arrays").verdict == "passed"


def test_copies_that_onnx_runtime_makes_show_in_the_times(library: Path, tmp_path: Path) -> None:
    """On a GPU of this kind ONNX Runtime copies the inputs of a run with arrays."""
    result, found = run(library, on_cpu(cpu=False, upload_latency_us=20_000), tmp_path, "--duration", 1, "--warmup", 1)
    assert found["host-accessible"].checks["zero_copy"]["verdict"] == "passed"
    assert found["cpu-tensors"].bytes_h2d is None
    copies = fact(result, "copies")
    assert (copies.verdict, copies.mode) == ("measured", "cpu-tensors")
    took = 20_000_000 + SIZE // 4 + CALL_NS
    assert values(copies)["copies"] == found["cpu-tensors"].value("copies") == took
    assert [code for code, *_ in keys(result) if code == "arrays"] == []


def test_devices_shows_the_memory_and_what_can_be_done_with_it(library: Path) -> None:
    ran = ortbench("devices", "--ep-library", library, "--json", "-", **on_cpu().environ())
    assert ran.code == 0, ran.err
    (ep,) = [ep for ep in json.loads(ran.out)["eps"] if ep["name"] == "RefDeviceExecutionProvider"]
    (device,) = ep["devices"]
    assert device["memory"] == MEMORY
    assert {mode for mode, why in device["modes"].items() if why} == {"pipelined"}
