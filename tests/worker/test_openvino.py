"""OpenVINO's plugin EP, where it has a device: the first EP with HOST_ACCESSIBLE memory alone."""

from __future__ import annotations

import json
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


def test_outputs_that_onnx_runtime_allocates_nodes_and_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    arguments = ["--dynamic-outputs", "--measure-nodes", "--trace", trace, *ONCE]
    result = measure(MODELS / "cpu_island.onnx", "--ep", "openvino", *arguments, out=tmp_path / "out")
    assert {case["status"] for case in result["cases"]} == {"ok"}
    assert {entry["ep"] for entry in result["nodes"]["eps"]} >= {"OpenVINOExecutionProvider", "CPUExecutionProvider"}
    assert json.loads(trace.read_text())["traceEvents"]


def test_the_ep_that_its_package_does_not_name(tmp_path: Path) -> None:
    result = measure(
        MODELS / "tiny.onnx", "--ep", "OpenVINOExecutionProvider.AUTO", "--mode", "cpu-tensors", *ONCE, out=tmp_path
    )
    assert result["target"]["ep"] == "OpenVINOExecutionProvider.AUTO"


def test_bandwidth_is_that_of_copies_to_its_memory(tmp_path: Path) -> None:
    arguments = ["--max-size", "64KiB", "--duration", 0.2, "--out", tmp_path, "--json", "-"]
    ran = ortbench("bandwidth", "--ep", "openvino", *arguments)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert {(case["point"]["memory"], case["status"]) for case in found["cases"]} == {("ordinary", "ok")}


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


def test_a_gate_against_the_cpu_in_full_precision(tmp_path: Path) -> None:
    arguments = ["--ep", "openvino", "--ep-option", IN_FULL, "--baseline-set", "ep=cpu", "--mode", "cpu-tensors"]
    ran = ortbench(
        "gate", "--model", MODELS / "image_classifier.onnx", *arguments, "--max-regression", "900%", "--duration", 1,
        "--out", tmp_path,
    )  # fmt: skip
    assert ran.code in (0, 3, 4), ran.out + ran.err  # a verdict, whichever
    assert "are not those of" not in ran.out + ran.err
