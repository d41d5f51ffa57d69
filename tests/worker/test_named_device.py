"""Devices that ORT knows by name alone (DirectML, and EPs without an EP device): what is asked of ONNX Runtime's API.

No such EP runs here. With one that is used by name on a real runtime tests/worker/test_cuda.py measures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from ortbench.plan.target import Target
from ortbench.worker import memory, session
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import TensorSpec
from tests.conftest import MODELS

DML = Provider("DmlExecutionProvider", device_index=1)
MICROSOFT = 0x1414
X = TensorSpec("x", "tensor(float)", (2, 3))


def test_memory_is_allocated_by_the_devices_name_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_shape_and_type", lambda *given: made.append(given))
    assert memory.describe_memory(DML) == {"kind": "named-device", "default": "dml:1", "host_accessible": None}
    own = memory.device_memory(DML)
    assert own is not None
    own.allocate(X, (2, 3))
    assert made == [([2, 3], np.float32, "dml", 1)]


def test_outputs_without_a_shape_are_bound_by_the_devices_vendor() -> None:
    own = memory.device_memory(DML)
    assert own is not None
    device = own.ort_device()
    assert (device.vendor_id(), device.device_id()) == (MICROSOFT, 1)


def test_the_session_names_the_device_and_allows_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def open_session(path: str, options: object, **named: Any) -> None:
        asked.update(named, path=path)
        raise RuntimeError("no such device")

    monkeypatch.setattr(ort, "InferenceSession", open_session)
    path = str(MODELS / "tiny.onnx")
    with pytest.raises(Exception, match="no such device"):
        session.open_model(path, Target(ep="dml", options={"k": "v"}), DML)
    own = {"k": "v", "device_id": "1"}
    assert asked == {"path": path, "providers": [(DML.name, own), "CPUExecutionProvider"], "enable_fallback": 0}
