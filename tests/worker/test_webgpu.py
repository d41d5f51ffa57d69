"""A real device EP: the WebGPU plugin EP on a software Vulkan driver. Real device memory, an asynchronous queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, cases, measure, modes, ortbench

pytestmark = pytest.mark.process

DEVICE_MODES = ["cpu-tensors", "device-tensors", "device-resident"]
ASYNC = "device-resident-async"
FEW = ("--ep", "webgpu", "--iterations", 2, "--warmup", 1)


def test_what_a_run_says_of_its_device_and_its_copies(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    """That all models give their expected outputs is held by tests/versions.py and tests/jobs/test_suite_run.py."""
    asked = modes("default", "pipelined")
    result = measure(MODELS / "transformer_ids.onnx", *FEW, *asked, out=tmp_path, prefix=software_gpu)
    found, target = cases(result), result["target"]
    assert "HOST_ACCESSIBLE" in found["host-accessible"]["reason"]
    assert found["pipelined"]["reason"].startswith("WebGpuExecutionProvider offers no streams on this device (")
    assert (target["ep"], target["memory"]["kind"]) == ("WebGpuExecutionProvider", "ep-device")
    assert (target["device"]["vendor_id"], target["sync"]["kind"]) == (0x1002, "readback")
    assert target["sync"]["cost_ns"] > 0
    moved = {mode: found[mode]["metrics"]["bytes_h2d"]["value"] for mode in DEVICE_MODES[1:]}
    assert moved["device-tensors"] > moved["device-resident"] == 0


def test_graphs_are_captured_and_asynchronous_runs_replay_them(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("--cuda-graph", *modes("default", ASYNC))
    result = measure(MODELS / "multi_output.onnx", *FEW, *asked, out=tmp_path, prefix=software_gpu)
    found = cases(result)
    assert result["target"]["cuda_graph"] is True
    assert found["cpu-tensors"]["checks"].get("graph") is None
    graphs = [found[mode]["checks"]["graph"] for mode in (*DEVICE_MODES[1:], ASYNC)]
    followed = "the outputs followed inputs that were written in place"
    assert [(graph["verdict"], graph["how"]) for graph in graphs] == [("passed", followed)] * 3
    assert len({graph["id"] for graph in graphs}) == 3
    assert {found[mode]["checks"]["outputs"]["verdict"] for mode in (*DEVICE_MODES, ASYNC)} == {"passed"}


def test_an_ep_that_cannot_open_its_device_is_an_error_and_no_fallback(
    software_gpu: tuple[str, ...], tmp_path: Path
) -> None:
    """ONNX Runtime sees a card, the EP finds no driver for it."""
    prefix = (*software_gpu, "env", "VK_DRIVER_FILES=/nonexistent.json")
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "webgpu", "--out", tmp_path, prefix=prefix)
    error, *_ = ran.err.splitlines()  # then the first warning that the driver printed
    assert (ran.code, "WebGpuExecutionProvider could not open" in error) == (1, True)
    assert "No supported adapters" in error


def test_nodes_left_on_the_cpu_are_a_warning_or_an_error(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    line = (MODELS / "cpu_island.onnx", "--ep", "webgpu", "--mode", "cpu-tensors", *ONCE)
    result = measure(*line, out=tmp_path / "a", prefix=software_gpu)
    assert (result["placement"]["nodes"]["CPUExecutionProvider"], result["placement"]["memcpy_nodes"]) == (1, 2)
    assert [warning["code"] for warning in result["warnings"]] == ["cpu-nodes"]
    ran = ortbench("run", *line, "--no-cpu-fallback", "--out", tmp_path / "b", prefix=software_gpu)
    assert (ran.code, "1 node stays on the CPU: Det" in ran.error_line) == (1, True)
