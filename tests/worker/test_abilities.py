"""What an older ONNX Runtime cannot do: asked of the module, and said in one line. Real ones: tests/jobs/test_versions.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnxruntime as ort
import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.worker import libraries, memory, providers
from ortbench.worker.modes import unsupported_reason
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import TensorSpec


def test_one_that_lacks_what_ortbench_needs_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "__version__", "1.23.2")
    monkeypatch.setattr(libraries, "_NEEDED", (libraries.ASSIGNMENT._replace(is_there=False),))
    with pytest.raises(BenchmarkFailed, match=r"^ONNX Runtime 1\.23\.2 is too old: ortbench needs 1\.24 or newer$"):
        libraries.refuse_old()


@pytest.mark.parametrize("default", [True, False])
def test_memory_before_1_28_is_made_by_its_vendor_and_is_none_of_the_hosts(
    default: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "SHARED_VALUES", libraries.SHARED_VALUES._replace(is_there=False))
    monkeypatch.setattr(providers, "_results", {})
    monkeypatch.setattr(providers, "_run_trial", lambda info, kind: providers.TrialResult())
    kinds = {getattr(ort.OrtDeviceMemoryType, name): name for name in ("DEFAULT", "HOST_ACCESSIBLE")}
    infos = {
        kind: SimpleNamespace(name=name, device_mem_type=kind, device_vendor_id=0x1234, device_id=3)
        for kind, name in kinds.items()
        if default or name != "DEFAULT"
    }
    device = SimpleNamespace(type=SimpleNamespace(name="NPU"))
    provider = Provider(
        "SomeEP", SimpleNamespace(ep_name="SomeEP", ep_metadata={}, device=device, memory_info=infos.get)
    )
    own = memory.device_memory(provider)
    if own is None:
        reasons = {unsupported_reason(mode, provider) for mode in ("device-tensors", "device-resident", "pipelined")}
        assert (default, reasons) == (False, {"no device memory that Python reaches before ONNX Runtime 1.28"})
        return
    made: list[Any] = []

    def make(*arguments: Any, **named: Any) -> Any:
        made.append((arguments[0], named))
        return SimpleNamespace(data_ptr=lambda: 1)

    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_shape_and_type", make)
    own.allocate(TensorSpec("x", "tensor(float)", (2,)), (2,))
    assert made == [([2], {"device_type": "npu", "device_id": 3, "vendor_id": 0x1234})]
