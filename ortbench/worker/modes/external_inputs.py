"""Inputs in memory of another library (numpy, torch, cupy), handed over by DLPack and bound without a copy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.eps import NVIDIA_EPS
from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported, ort_text
from ortbench.worker.session import memory
from ortbench.worker.session.memory import device_memory, is_only_host_accessible
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.streams import cuda_index
from ortbench.worker.session.tensors import Array, TensorSpec

if TYPE_CHECKING:
    from ortbench.model.schema import Place


class Numpy:
    """Ordinary host memory. As of every library whose tensors can be bound: its name, where its tensors are in its own words, and what
    makes one, writes to it and tells its address."""

    name, place = "numpy", "host memory"

    def __init__(self, provider: Provider) -> None:
        _refuse_to_be_copied(self.name, provider)
        if not provider.computes_on_host:
            raise Unsupported(f"numpy's arrays are in host memory, and {provider.name} computes on a device")

    def tensor(self, array: Array) -> Any:
        """A contiguous tensor with a copy of an array, which must be of a dtype that the library has."""
        return np.array(array, order="C")

    def write(self, tensor: Any, array: Array) -> None:
        """Overwrite a tensor in place; it is there when this returns."""
        np.copyto(tensor, array.view(tensor.dtype))

    def pointer(self, tensor: Any) -> int:
        return int(tensor.ctypes.data)


class Torch:
    """PyTorch: host memory for an EP that computes there, else CUDA's."""

    name = "torch"

    def __init__(self, provider: Provider) -> None:
        _refuse_to_be_copied(self.name, provider)
        self._torch = importlib.import_module("torch")
        self.place = "cpu" if provider.computes_on_host else f"cuda:{_cuda_index(self.name, provider)}"

    def tensor(self, array: Array) -> Any:
        return self._torch.from_numpy(np.array(array, order="C")).to(self.place)

    def write(self, tensor: Any, array: Array) -> None:
        tensor.copy_(self._torch.from_numpy(np.array(array, order="C")))
        if self.place != "cpu":
            self._torch.cuda.synchronize(self.place)

    def pointer(self, tensor: Any) -> int:
        return int(tensor.data_ptr())


class Cupy:
    name = "cupy"

    def __init__(self, provider: Provider) -> None:
        self._cupy = importlib.import_module("cupy")
        self._index = _cuda_index(self.name, provider)
        self.place = f"cuda:{self._index}"

    def tensor(self, array: Array) -> Any:
        with self._cupy.cuda.Device(self._index):
            return self._cupy.asarray(array, order="C")

    def write(self, tensor: Any, array: Array) -> None:
        with self._cupy.cuda.Device(self._index):
            tensor.set(np.asarray(array, order="C"))
            self._cupy.cuda.Device(self._index).synchronize()

    def pointer(self, tensor: Any) -> int:
        return int(tensor.data.ptr)


Library = Numpy | Torch | Cupy
_LIBRARIES: dict[str, Callable[[Provider], Library]] = {"numpy": Numpy, "torch": Torch, "cupy": Cupy}


def check(name: str) -> None:
    """Load a library, so that a missing one is said before anything is measured."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise BadInput(f"--input-memory {name}: it cannot be imported here: {ort_text(error)}") from None


def _refuse_to_be_copied(name: str, provider: Provider) -> None:
    """Raise `Unsupported` where ordinary host memory would be copied once, when it is bound, and never read again."""
    memory = device_memory(provider)
    if memory is not None and is_only_host_accessible(provider):
        raise Unsupported(
            f"{provider.name} wants its inputs in {memory.label}: ONNX Runtime copies what is in {name}'s host memory there "
            "when it is bound, and what is written to it later is never read"
        )


def _cuda_index(name: str, provider: Provider) -> int:
    if provider.computes_on_host or provider.name not in NVIDIA_EPS:
        raise Unsupported(f"{name} has no memory of the device that {provider.name} computes on")
    return cuda_index(provider)


class ExternalInputs:
    """The inputs of one mode that lie in a library's memory. Raises `Unsupported`: the library has none that the EP computes in."""

    def __init__(self, name: str, provider: Provider) -> None:
        self._library = _LIBRARIES[name](provider)
        self._on_device = not provider.computes_on_host
        self._held: dict[str, tuple[Any, Any]] = {}  # the tensor and the value over it, by input

    def wrap(self, spec: TensorSpec, array: Array) -> Any:
        """An OrtValue over a new tensor with a copy of an array."""
        if not spec.is_native:
            raise Unsupported(f"{spec.name!r} is {spec.type}, which numpy cannot hand over by DLPack")
        is_bool = array.dtype == np.bool_
        tensor = self._library.tensor(array.view(np.uint8) if is_bool else array)
        try:  # ORT 1.31 does not know DLPack's own bool, only bytes that are said to be bools
            value = ort.OrtValue(ort_native.OrtValue.from_dlpack(tensor.__dlpack__(), is_bool))
        except Exception as error:
            raise BenchmarkFailed(f"{spec.name!r} could not be handed over by DLPack: {ort_text(error)}") from None
        self._held[spec.name] = tensor, value
        if self._on_device:
            memory.count_value(memory.DEVICE, value, array.nbytes)
        return value

    def write(self, arrays: dict[str, Array]) -> None:
        for name, (tensor, _) in self._held.items():
            array = np.asarray(arrays[name], order="C")
            self._library.write(tensor, array.view(np.uint8) if array.dtype == np.bool_ else array)

    def same_addresses(self) -> bool:
        return all(value.data_ptr() == self._library.pointer(tensor) for tensor, value in self._held.values())

    def describe(self) -> Place:
        return {"library": self._library.name, "place": self._library.place}
