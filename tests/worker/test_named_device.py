"""Devices that ORT knows by name alone (DirectML, and EPs without an EP device), against a stand-in for such a device.

No such EP runs here, so what is held is the contract with ONNX Runtime's API: what is called, with what, in which order,
and that a device that works on after its calls have returned is waited for. The stand-in refuses what the real API has not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from ortbench.model.modes import DEVICE, READBACK, RESIDENT
from ortbench.plan.target import Target
from ortbench.worker import memory, session
from ortbench.worker.first_run import Data
from ortbench.worker.modes import ResidentMode, make_mode
from ortbench.worker.proofs import check_outputs
from ortbench.worker.providers import Provider
from ortbench.worker.session import Model
from ortbench.worker.tensors import Array, TensorSpec
from tests.conftest import MODELS

DML = "DmlExecutionProvider"
MICROSOFT = 0x1414
SHAPE = (2, 3)
X, Y = (TensorSpec(name, "tensor(float)", SHAPE) for name in ("x", "y"))


class Device:
    """What happened, and until when the device is busy.

    Args:
        work_s: how long a run takes, after its call has returned.
    """

    def __init__(self, work_s: float = 0.0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.work_s, self.busy_until = work_s, 0.0

    def wait(self) -> None:
        while time.perf_counter() < self.busy_until:
            pass


class Value:
    """An OrtValue on the device."""

    def __init__(self, device: Device, shape: list[int], dtype: Any) -> None:
        self.device, self.content = device, np.zeros(shape, dtype)

    def update_inplace(self, data: Array) -> None:
        assert data.shape == self.content.shape
        self.device.wait()
        self.device.calls.append(("update_inplace", self))
        self.content = data.copy()

    def numpy(self) -> Array:
        self.device.wait()
        self.device.calls.append(("numpy", self))
        return self.content.copy()

    def shape(self) -> list[int]:
        return list(self.content.shape)


class Binding:
    """An IOBinding."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.bound: dict[str, Any] = {}
        self._iobinding = self

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self.bound[name] = value

    bind_ortvalue_output = bind_ortvalue_input

    def bind_output(self, name: str, device: Any) -> None:
        assert isinstance(device, ort.capi._pybind_state.OrtDevice)
        self.device.calls.append(("bind_output", name, device.vendor_id(), device.device_id()))
        self.bound[name] = None

    def synchronize_outputs(self) -> None:
        self.device.calls.append(("synchronize_outputs",))

    synchronize_inputs = synchronize_outputs

    def get_outputs(self) -> list[Any]:
        return [self.bound["y"]]


class Session:
    """An InferenceSession of a Relu."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def get_input_memory_infos(self) -> list[Any]:
        return [type("Info", (), {"name": "DML"})()]

    get_output_memory_infos = get_input_memory_infos

    def get_outputs(self) -> list[Any]:
        return [type("Output", (), {"name": "y"})()]

    def io_binding(self) -> Binding:
        return Binding(self.device)

    def run_with_iobinding(self, binding: Binding, options: Any) -> None:
        self.device.calls.append(("run", options))
        self.device.busy_until = max(time.perf_counter(), self.device.busy_until) + self.device.work_s
        if binding.bound["y"] is None:
            binding.bound["y"] = Value(self.device, list(SHAPE), np.float32)
        binding.bound["y"].content = np.maximum(binding.bound["x"].content, 0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """The stand-in, in the place of ORT's values."""
    made = Device()

    def allocate(shape: list[int], element: Any, name: str, index: int) -> Value:
        value = Value(made, shape, element)
        made.calls.append(("allocate", tuple(shape), name, index))
        return value

    class OrtValue:
        ortvalue_from_shape_and_type = staticmethod(allocate)

        def __new__(cls, native: Any) -> Any:
            return native

    monkeypatch.setattr(ort, "OrtValue", OrtValue)
    return made


def opened(device: Device, **target: Any) -> tuple[Model, Data]:
    """The Relu on the stand-in's second device."""
    x = np.arange(-2, 4, dtype=np.float32).reshape(SHAPE)
    stand_in = Session(device)
    provider = Provider(DML, device_index=1)
    model = Model(stand_in, provider, Target(ep="dml", **target), (X,), (Y,), 0)
    return model, Data({"x": x}, [np.maximum(x, 0)], {}, {}, 0, None)


def done_by(device: Device, call: Callable[[], object]) -> list[Any]:
    """What a call did."""
    device.calls.clear()
    call()
    return [entry[0] for entry in device.calls]


def test_memory_is_allocated_by_the_devices_name_and_number(device: Device) -> None:
    model, data = opened(device)
    assert memory.describe_memory(model.provider) == {
        "kind": "named-device",
        "default": "dml:1",
        "host_accessible": None,
    }
    make_mode(RESIDENT, model, data)
    assert [call[1:] for call in device.calls if call[0] == "allocate"] == [
        (SHAPE, "dml", 1), (SHAPE, "dml", 1), ((1,), "dml", 1),
    ]  # fmt: skip


def test_one_inference_of_mode_device(device: Device) -> None:
    model, data = opened(device)
    made = make_mode(DEVICE, model, data)
    check_outputs(made, None, None)
    assert (made.bytes_in, made.bytes_out) == (24, 24)
    phases = made.phases()
    assert set(phases) == {"h2d", "inference", "d2h", "latency"}
    call, a, b = phases["latency"]
    assert done_by(device, lambda: call(a, b)) == ["update_inplace", "run", "numpy"]
    assert [entry[1] for entry in device.calls if entry[0] == "run"] == [None]
    assert np.array_equal(made.outputs()[0], data.reference[0])


def test_what_is_resident_is_copied_once(device: Device) -> None:
    model, data = opened(device)
    made = make_mode(RESIDENT, model, data)
    assert isinstance(made, ResidentMode)
    call, a, b = made.phases()["latency"]
    assert done_by(device, lambda: call(a, b))[0] == "run"
    assert "update_inplace" not in [entry[0] for entry in device.calls]
    upload, download = made.one_time_copies()
    assert done_by(device, upload)[0] == "update_inplace"
    assert done_by(device, download) == ["numpy"]


def test_a_device_that_works_on_is_waited_for(device: Device) -> None:
    device.work_s = 0.02  # neither the run nor synchronize_outputs waits; a readback does
    model, data = opened(device)
    made = make_mode(RESIDENT, model, data)
    assert made.sync.kind == READBACK
    call, a, b = made.phases()["latency"]
    assert done_by(device, lambda: call(a, b)) == ["run", "numpy", "synchronize_outputs"]  # a copy back may pass runs
    assert time.perf_counter() >= device.busy_until


def test_outputs_without_a_shape_are_bound_by_the_devices_vendor(device: Device) -> None:
    model, data = opened(device, dynamic_outputs=True)
    made = make_mode(DEVICE, model, data)
    check_outputs(made, None, None)
    call, a, b = made.phases()["latency"]
    assert done_by(device, lambda: call(a, b)) == ["update_inplace", "bind_output", "run", "numpy"]
    assert device.calls[1] == ("bind_output", "y", MICROSOFT, 1)


def test_the_session_names_the_device_and_allows_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Opened:
        _sess = None

        def __init__(self, path: str, options: Any, providers: Any, enable_fallback: int) -> None:
            asked.update(path=path, providers=providers, enable_fallback=enable_fallback)

        def get_providers(self) -> list[str]:
            return [DML, "CPUExecutionProvider"]

        def get_inputs(self) -> list[Any]:
            return []

        get_outputs = get_inputs

    monkeypatch.setattr(ort, "InferenceSession", Opened)
    path = str(MODELS / "tiny.onnx")
    session.open_model(path, Target(ep="dml", options={"k": "v"}), Provider(DML, device_index=1))
    own = {"k": "v", "device_id": "1"}
    assert asked == {"path": path, "providers": [(DML, own), "CPUExecutionProvider"], "enable_fallback": 0}
