"""A real device EP: the WebGPU plugin EP on a software Vulkan driver. Real device memory, an asynchronous queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, cases, measure, ortbench

pytestmark = pytest.mark.process

DEVICE_MODES = ["cpu-tensors", "device-tensors", "device-resident"]
CPU_ONCE = ("--mode", "cpu-tensors", *ONCE)


def test_a_model_gives_its_expected_outputs_in_every_mode(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    """All of models/ do so in the suite of tests/jobs/test_suite_run.py; this one has integers, and several inputs."""
    model = MODELS / "transformer_ids"
    result = measure(
        f"{model}.onnx", "--ep", "webgpu", "--input", f"{model}.inputs.npz", "--expect", f"{model}.expected.npz",
        "--iterations", 2, "--warmup", 1, out=tmp_path, prefix=software_gpu,
    )  # fmt: skip
    by_mode = cases(result)
    for mode in DEVICE_MODES:
        assert (by_mode[mode]["status"], by_mode[mode]["checks"]["outputs"]["verdict"]) == ("ok", "passed"), by_mode[
            mode
        ]
    assert by_mode["host-accessible"]["status"] == "unsupported"
    assert "HOST_ACCESSIBLE" in by_mode["host-accessible"]["reason"]
    target = result["target"]
    assert target["ep"] == "WebGpuExecutionProvider"
    assert target["memory"]["kind"] == "ep-device"
    assert target["device"]["vendor_id"] == 0x1002
    assert (
        by_mode["device-tensors"]["metrics"]["bytes_h2d"]["value"]
        + by_mode["device-tensors"]["metrics"]["bytes_d2h"]["value"]
        > 0
    )
    assert (
        by_mode["device-resident"]["metrics"]["bytes_h2d"]["value"]
        == by_mode["device-resident"]["metrics"]["bytes_d2h"]["value"]
        == 0
    )
    latency, resident = (by_mode[mode]["metrics"]["latency"]["median"] for mode in ("cpu-tensors", "device-resident"))
    if inference := by_mode["cpu-tensors"]["metrics"].get("inference"):  # which two inferences rarely tell
        assert inference == {"value": resident, "ci95": None, "derived": True}
        assert latency > resident


def test_the_sync_is_a_readback_since_nothing_else_waits(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ("--ep", "webgpu", "--mode", "device-resident", "--iterations", 2, "--warmup", 1)
    result = measure(MODELS / "compute_bound.onnx", *arguments, out=tmp_path, prefix=software_gpu)
    assert result["target"]["sync"]["kind"] == "readback"
    assert result["target"]["sync"]["cost_ns"] > 0


def test_nodes_left_on_the_cpu_are_a_warning_or_an_error(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    island = MODELS / "cpu_island.onnx"
    result = measure(island, "--ep", "webgpu", *CPU_ONCE, out=tmp_path / "a", prefix=software_gpu)
    assert result["placement"]["nodes"]["CPUExecutionProvider"] == 1
    assert result["placement"]["memcpy_nodes"] == 2
    (warning,) = result["warnings"]
    assert warning["code"] == "cpu-nodes"
    assert warning["message"] == "1 node stays on the CPU: Det; 2 Memcpy nodes copy between them in each inference"
    ran = ortbench("run", island, "--ep", "webgpu", "--no-cpu-fallback", "--out", tmp_path / "b", prefix=software_gpu)
    assert ran.code == 1
    assert "1 node stays on the CPU: Det" in ran.error_line


def test_an_ep_that_cannot_open_its_device_is_an_error_and_no_fallback(
    software_gpu: tuple[str, ...], tmp_path: Path
) -> None:
    # ORT sees a card, the EP finds no driver for it.
    prefix = (*software_gpu, "env", "VK_DRIVER_FILES=/nonexistent.json")
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "webgpu", "--out", tmp_path, prefix=prefix)
    assert ran.code == 1
    error, *_ = ran.err.splitlines()  # then the first warning that the driver printed
    assert "WebGpuExecutionProvider could not open" in error
    assert "No supported adapters" in error
