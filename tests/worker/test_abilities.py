"""What an older ONNX Runtime cannot do: asked of the module, and said in one line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.worker import libraries, memory, providers
from ortbench.worker.modes import unsupported_reason
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import TensorSpec

_DEFAULT, _SHARED = ort.OrtDeviceMemoryType.DEFAULT, ort.OrtDeviceMemoryType.HOST_ACCESSIBLE
REASON = " that Python reaches before ONNX Runtime 1.28"


def info(name: str, kind: Any) -> Any:
    return SimpleNamespace(name=name, device_mem_type=kind, device_vendor_id=0x1234, device_id=3)


def ep_device(kind: str = "GPU", default: bool = True, shared: bool = True) -> Any:
    """An OrtEpDevice with these memories, which makes no streams."""
    infos = {_DEFAULT: info("Own", _DEFAULT) if default else None, _SHARED: info("Both", _SHARED) if shared else None}

    def create_sync_stream() -> None:
        raise RuntimeError("no streams")

    return SimpleNamespace(
        ep_name="SomeExecutionProvider",
        ep_metadata={},
        device=SimpleNamespace(type=SimpleNamespace(name=kind)),
        memory_info=infos.get,
        create_sync_stream=create_sync_stream,
    )


def provider(**memories: Any) -> Provider:
    return Provider("SomeExecutionProvider", ep_device(**memories))


@pytest.fixture(autouse=True)
def _no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no device cannot be tried: its memory works."""
    monkeypatch.setattr(providers, "_results", {})
    monkeypatch.setattr(providers, "_run_trial", lambda info, kind: providers.TrialResult())


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX Runtime before 1.28."""
    monkeypatch.setattr(libraries, "SHARED_VALUES", libraries.SHARED_VALUES._replace(is_there=False))


def test_one_that_lacks_what_ortbench_needs_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "__version__", "1.23.2")
    monkeypatch.setattr(libraries, "_NEEDED", (libraries.ASSIGNMENT._replace(is_there=False),))
    with pytest.raises(BenchmarkFailed, match=r"^ONNX Runtime 1\.23\.2 is too old: ortbench needs 1\.24 or newer$"):
        libraries.refuse_old()


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("kind", ["GPU", "NPU"])
def test_device_tensors_are_made_by_the_vendor_of_their_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def make(*arguments: Any, **named: Any) -> Any:
        made.append((arguments, named))
        return SimpleNamespace(data_ptr=lambda: 1)

    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_shape_and_type", make)
    own = memory.device_memory(provider(kind=kind))
    assert own is not None
    own.allocate(TensorSpec("x", "tensor(float)", (2,)), (2,))
    assert made == [(([2], np.float32), {"device_type": kind.lower(), "device_id": 3, "vendor_id": 0x1234})]


@pytest.mark.usefixtures("older")
def test_a_device_with_no_other_memory_has_none() -> None:
    only = provider(kind="CPU", default=False)
    assert memory.device_memory(only) is None
    assert not only.computes_on_host
    assert {unsupported_reason(mode, only) for mode in ("device-tensors", "device-resident", "pipelined")} == {
        f"no device memory{REASON}"
    }
    session = SimpleNamespace(
        get_input_memory_infos=lambda: [info("Both", _SHARED)],
        get_output_memory_infos=lambda: [],
        get_providers=lambda: [],
    )
    assert [place.own for place in memory.find_locations(session, only).inputs] == [None]
