"""Memories that this machine has: the host's, and a device that ORT knows by name alone."""

from __future__ import annotations

import numpy as np
import pytest

from ortbench.worker.memory import HostMemory, Memory, NamedDeviceMemory, device_memory
from ortbench.worker.providers import Provider
from ortbench.worker.tensors import TensorSpec


# "cpu" is the one device name that works everywhere; "dml" and "cuda" take the same calls.
@pytest.mark.parametrize("memory", [HostMemory(), NamedDeviceMemory("cpu", 0)], ids=lambda memory: memory.kind)
@pytest.mark.parametrize("element", ["float", "float16", "int64", "bool"])
def test_what_is_uploaded_comes_back(memory: Memory, element: str) -> None:
    specs = [TensorSpec("a", f"tensor({element})", (2, 3)), TensorSpec("b", f"tensor({element})", ())]
    sources = [np.arange(6).reshape(2, 3).astype(specs[0].dtype), np.array(1, specs[1].dtype)]
    values = [memory.allocate(spec, array.shape) for spec, array in zip(specs, sources, strict=True)]
    targets = [np.zeros_like(array) for array in sources]
    upload, download = memory.upload(specs, sources, values), memory.download(specs, values, targets)
    upload()
    download()
    assert [array.tolist() for array in targets] == [array.tolist() for array in sources]
    sources[0][...] = 1  # copies follow the arrays they were made for, every time
    assert targets[0].tolist() != sources[0].tolist()
    upload()
    download()
    assert targets[0].tolist() == sources[0].tolist()


@pytest.mark.parametrize(
    ("ep", "kind", "label"),
    [
        ("CPUExecutionProvider", "host", "host memory"),
        ("DmlExecutionProvider", "named-device", "dml:1"),
        ("CUDAExecutionProvider", "named-device", "cuda:1"),
    ],
)
def test_an_ep_without_an_ep_device_goes_by_its_device_name(ep: str, kind: str, label: str) -> None:
    memory = device_memory(Provider(ep, device_index=1))
    assert memory is not None
    assert (memory.kind, memory.label) == (kind, label)


def test_an_ep_on_a_device_that_onnx_runtime_cannot_name_has_no_memory() -> None:
    assert device_memory(Provider("CoreMLExecutionProvider")) is None
