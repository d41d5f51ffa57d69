"""EPs that ONNX Runtime chooses by a policy: which it was is read from the session, and the rest follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.plan.target import POLICIES
from tests import openvino
from tests.conftest import MODELS, cases, measure
from tests.refdevice import EP_NAME, Config
from tests.refdevice.refdevice import VENDOR_ID

QUICK = ["--iterations", 2, "--warmup", 1]
FAST_DEVICE = ("env", *(f"{name}={value}" for name, value in Config(compute_us=100).environ().items()))


@pytest.mark.process
def test_the_reference_device_is_chosen(library: Path, tmp_path: Path) -> None:
    policy, arguments = "prefer-gpu", ["--ep", "prefer-gpu", "--ep-library", library, *QUICK]
    result = measure(MODELS / "tiny.onnx", *arguments, out=tmp_path, prefix=FAST_DEVICE)
    target = result["target"]
    assert (target["ep"], target["ep_requested"], target["policy"]) == (EP_NAME, policy, POLICIES[policy])
    assert (target["device"]["type"], target["device"]["vendor_id"]) == ("GPU", VENDOR_ID)
    assert target["memory"]["default"] == "RefDevice (DEFAULT)"
    assert target["ep_version"] == "1.0.0"
    assert {case["status"] for case in cases(result).values()} == {"ok"}
    assert cases(result)["device-tensors"]["metrics"]["bytes_h2d"]["value"] == 64


@pytest.mark.process
def test_the_cpu_is_chosen_though_there_is_a_gpu(library: Path, tmp_path: Path) -> None:
    arguments = ["--ep", "prefer-cpu", "--ep-library", library, "--mode", "cpu-tensors", *QUICK]
    target = measure(MODELS / "tiny.onnx", *arguments, out=tmp_path)["target"]
    cpu = openvino.EP if openvino.problem() is None else CPU_EP  # that of OpenVINO where it has a device
    assert (target["ep"], target["device"]["type"]) == (cpu, "CPU")


@pytest.mark.process
def test_plugin_packages_are_registered_first(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    line = ("--ep", "prefer-gpu", "--mode", "cpu-tensors", *QUICK)
    target = measure(MODELS / "tiny.onnx", *line, out=tmp_path, prefix=software_gpu)["target"]
    assert (target["ep"], target["device"]["vendor_id"]) == ("WebGpuExecutionProvider", 0x1002)
