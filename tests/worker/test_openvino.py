"""OpenVINO's plugin EP, where it has a device: the first EP with HOST_ACCESSIBLE memory alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, cases, measure, modes

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("openvino_ep")]

SHARED = "OpenVINO_shared_CPU (HOST_ACCESSIBLE)"
EVERY_MODE = modes("default", "cpu-tensors-pinned", "device-tensors-pinned", "device-resident-async")


@pytest.mark.parametrize("name", ["decoder", "multi_output", "transformer_ids"])
def test_every_mode_of_models_of_each_sort(name: str, tmp_path: Path) -> None:
    result = measure(MODELS / f"{name}.onnx", "--ep", "openvino", *EVERY_MODE, *ONCE, out=tmp_path)
    assert result["target"]["memory"] == {"kind": "ep-device", "default": None, "host_accessible": SHARED}
    found = cases(result)
    assert {mode: case["status"] for mode, case in found.items()} == dict.fromkeys(found, "ok")
    assert {case["checks"]["outputs"]["verdict"] for case in found.values()} == {"passed"}
    assert found["cpu-tensors"]["metrics"].get("bytes_h2d") is None
    assert found["device-tensors"]["metrics"]["bytes_h2d"]["value"] > 0
    zero_copy = found["host-accessible"]["checks"]["zero_copy"]
    assert zero_copy["addresses"]
    nothing_to_see = name == "transformer_ids"  # its inputs in another order give the same outputs
    assert ("the outputs followed inputs that were written in place" in zero_copy["how"]) != nothing_to_see
