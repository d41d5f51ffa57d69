"""EPs whose devices have HOST_ACCESSIBLE memory alone, as OpenVINO's has on Intel's CPUs: the reference device of that kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.model.result import Result
from tests.conftest import modes, ortbench
from tests.refdevice import Config, Trace
from tests.results import fact, keys, values
from tests.truth import COPIES, is_kind, recorded, relu_model, run_on_device
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

SIZE = 1 << 20
SHARED = "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
MEMORY = {"kind": "ep-device", "default": None, "host_accessible": SHARED}
SLOW = {"upload_latency_us": 10_000, "download_latency_us": 10_000}


FEW = ("--iterations", 12, "--warmup", 1)


def on_cpu(**knobs: Any) -> Config:
    """A CPU: ONNX Runtime hands arrays on as they are."""
    return Config(**{"cpu": True, "default_memory": False, "compute_us": 300, **knobs})


def variables(**knobs: Any) -> Any:
    """The same as environment variables."""
    return on_cpu(**knobs).environ()


def run(library: Path, config: Config, folder: Path, *arguments: object) -> tuple[Result, str]:
    """The result of a Relu over `SIZE` bytes, and what was printed."""
    model = relu_model(folder / "relu.onnx", SIZE)
    code, result, out, errors = run_on_device(library, model, config, folder, *arguments)
    assert code == 0, errors
    return result, " ".join(out.split())


def test_the_device_modes_copy_into_the_memory_that_the_session_wants(library: Path, tmp_path: Path) -> None:
    config = on_cpu(trace=tmp_path / "trace")
    every = modes("default", "cpu-tensors-pinned", "device-tensors-pinned", "device-resident-async")
    result, _ = run(library, config, tmp_path, "--iterations", 8, "--warmup", 2, *every)
    trace = Trace.read(tmp_path / "trace")
    assert result.target["memory"] == MEMORY
    assert result.target["device"]["type"] == "CPU"
    found = {case.mode: case for case in result.cases}
    assert {mode: case.status for mode, case in found.items()} == dict.fromkeys(found, "ok")
    assert {case.checks["outputs"]["verdict"] for case in found.values()} == {"passed"}
    copied: dict[str, list[int]] = {
        "cpu-tensors": [],
        "device-tensors": [SIZE] * 2,
        "device-resident": [],
        "host-accessible": [],
        "cpu-tensors-pinned": [],
    }
    for mode, wanted in copied.items():
        for events in recorded(result, found[mode], "latency", trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] == SIZE)]
            assert [int(count) for count in moved["bytes"]] == wanted, mode
    bytes_by_mode = {mode: (case.bytes_h2d, case.bytes_d2h) for mode, case in found.items()}
    assert bytes_by_mode == {
        "cpu-tensors": (None, None),  # not known before the times are
        "device-tensors": (SIZE, SIZE),
        "device-resident": (0, 0),
        "host-accessible": (0, 0),
        "cpu-tensors-pinned": (None, None),
        "device-tensors-pinned": (SIZE, SIZE),
        "device-resident-async": (0, 0),
    }


def test_copies_inside_the_ep_are_not_called_zero_copy(library: Path, tmp_path: Path) -> None:
    """Every mode copies as much inside the EP: no times differ, and nothing is claimed."""
    result, said = run(library, on_cpu(ha_copies=True, **SLOW), tmp_path, *FEW)
    shared = next(case for case in result.cases if case.mode == "host-accessible")
    assert shared.checks["zero_copy"]["verdict"] == "unclear"
    assert (
        "but a copy inside the EP cannot be excluded; in a short check before the measurement an inference took"
        in shared.checks["zero_copy"]["how"]
    )
    assert fact(result, "arrays").verdict == "passed"
    assert "ONNX Runtime passes arrays through; RefDeviceExecutionProvider may copy them itself." in said
    assert "in place: cpu-tensors copies nothing" not in said


def test_copies_that_onnx_runtime_makes_show_in_the_times(library: Path, tmp_path: Path) -> None:
    """On a GPU of this kind ONNX Runtime copies the inputs of a run with arrays."""
    result, said = run(library, on_cpu(cpu=False, upload_latency_us=20_000), tmp_path, "--duration", 1, "--warmup", 1)
    found = {case.mode: case for case in result.cases}
    assert found["host-accessible"].checks["zero_copy"]["verdict"] == "passed"
    assert found["cpu-tensors"].bytes_h2d is None
    assert found["cpu-tensors"].value("copies") is not None
    assert found["cpu-tensors"].value("copies") == 20_000_000 + SIZE // 4 + CALL_NS
    copies = fact(result, "copies")
    assert (copies.verdict, copies.mode) == ("measured", "cpu-tensors")
    assert values(copies)["copies"] == found["cpu-tensors"].value("copies")
    assert "Copies take ≈99% of the latency of cpu-tensors: ≈20.3 ms" in said
    assert [code for code, *_ in keys(result) if code == "arrays"] == []


def test_devices_shows_the_memory_and_what_can_be_done_with_it(library: Path, tmp_path: Path) -> None:
    ran = ortbench("devices", "--ep-library", library, "--json", "-", **variables())
    assert ran.code == 0, ran.err
    (ep,) = [ep for ep in json.loads(ran.out)["eps"] if ep["name"] == "RefDeviceExecutionProvider"]
    (device,) = ep["devices"]
    assert device["memory"] == MEMORY
    assert {mode for mode, why in device["modes"].items() if why} == {"pipelined"}
    printed = ortbench("devices", "--ep-library", library, "--verbose", **variables()).out
    assert f"memory no DEFAULT; {SHARED}" in " ".join(printed.split())
