"""OpenVINO's plugin EP, where it has a device: the first EP with HOST_ACCESSIBLE memory alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, cases, measure, modes, ortbench

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("openvino_ep")]

SHARED = "OpenVINO_shared_CPU (HOST_ACCESSIBLE)"
IN_FULL = """load_config={"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}"""
EVERY_MODE = modes("default", "cpu-tensors-pinned", "device-tensors-pinned", "device-resident-async")


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_every_mode_of_every_model(path: Path, tmp_path: Path) -> None:
    result = measure(path, "--ep", "openvino", *EVERY_MODE, *ONCE, out=tmp_path)
    assert result["target"]["memory"] == {"kind": "ep-device", "default": None, "host_accessible": SHARED}
    found = cases(result)
    assert {mode: case["status"] for mode, case in found.items()} == dict.fromkeys(found, "ok")
    assert {case["checks"]["outputs"]["verdict"] for case in found.values()} == {"passed"}
    assert found["cpu-tensors"]["metrics"].get("bytes_h2d") is None
    assert found["device-tensors"]["metrics"]["bytes_h2d"]["value"] > 0
    zero_copy = found["host-accessible"]["checks"]["zero_copy"]
    assert zero_copy["addresses"]
    nothing_to_see = path.stem == "transformer_ids"  # its inputs in another order give the same outputs
    assert ("the outputs followed inputs that were written in place" in zero_copy["how"]) != nothing_to_see


def test_the_ep_that_its_package_does_not_name(tmp_path: Path) -> None:
    ep = "OpenVINOExecutionProvider.AUTO"
    result = measure(MODELS / "tiny.onnx", "--ep", ep, "--mode", "cpu-tensors", *ONCE, out=tmp_path)
    assert result["target"]["ep"] == ep


@pytest.mark.skipif("avx512_bf16" not in Path("/proc/cpuinfo").read_text(), reason="this CPU has no bfloat16")
def test_reduced_precision_is_named_with_what_accepts_it_and_what_changes_it(tmp_path: Path) -> None:
    line = ["run", MODELS / "image_classifier.onnx", "--ep", "openvino", "--ep", "cpu", "--mode", "cpu-tensors", *ONCE]
    ran = ortbench(*line, "--out", tmp_path / "a")
    assert ran.code == 1
    assert "of the output's largest value, --rtol 0.01" in ran.error_line
    assert "a likely cause is that an EP computes in reduced precision" in ran.error_line
    assert f"--ep-option '{IN_FULL}' changes that" in ran.error_line
    accepted = ran.error_line.partition("--rtol ")[2].partition(";")[0]
    assert ortbench(*line, "--rtol", accepted, "--out", tmp_path / "b").code == 0
