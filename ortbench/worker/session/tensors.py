"""Tensors as ORT and numpy see them: dtypes, shapes, and OrtValues over host memory."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ortbench.errors import Unsupported

Array = NDArray[Any]

_NUMPY_TYPES = {
    "float": "float32", "double": "float64", "float16": "float16",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool",
}  # fmt: skip

# ONNX types that numpy has not: the name in ml_dtypes and the number in onnx.TensorProto.DataType.
_ML_TYPES = {
    "bfloat16": ("bfloat16", 16),
    "float8e4m3fn": ("float8_e4m3fn", 17),
    "float8e4m3fnuz": ("float8_e4m3fnuz", 18),
    "float8e5m2": ("float8_e5m2", 19),
    "float8e5m2fnuz": ("float8_e5m2fnuz", 20),
}


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model.

    Attributes:
        name: its name.
        type: ORT's word for its type, for example ``tensor(float)``.
        shape: sizes, names of symbolic dimensions, or None for dimensions without a name.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...]

    @property
    def element(self) -> str:
        """The element type of a tensor, ``float`` for one.

        Raises:
            Unsupported: not a tensor.
        """
        if not self.type.startswith("tensor("):
            raise Unsupported(f"{self.name!r} is {self.type}: only tensors can be bound and copied")
        return self.type[len("tensor(") : -1]

    def check(self) -> None:
        """Raises:
        Unsupported: not a tensor of a dtype that ortbench can hold.
        """
        self.dtype  # noqa: B018

    @property
    def is_string(self) -> bool:
        """Whether it is a tensor of strings, which only host memory can hold."""
        return self.type == "tensor(string)"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype (of ml_dtypes for bfloat16 and float8; object for strings).

        Raises:
            Unsupported: not a tensor, or a type without a dtype here.
        """
        element = self.element
        if element == "string":
            return np.dtype(object)
        if element in _NUMPY_TYPES:
            return np.dtype(_NUMPY_TYPES[element])
        if element in _ML_TYPES:
            import ml_dtypes  # comes with onnx; needed by few models

            ml_type: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_TYPES[element][0]))
            return ml_type
        raise Unsupported(f"{self.name!r} is {self.type}, which ortbench cannot hold")

    @property
    def element_type(self) -> Any:
        """What `OrtValue.ortvalue_from_shape_and_type` takes for this dtype."""
        element = self.element
        return _ML_TYPES[element][1] if element in _ML_TYPES else self.dtype.type

    @property
    def native(self) -> bool:
        """Whether numpy itself has the dtype, so that ORT takes and gives arrays of it."""
        return self.element in _NUMPY_TYPES or self.is_string


def specs(values: Any) -> tuple[TensorSpec, ...]:
    """`TensorSpec`s of `session.get_inputs()` or `get_outputs()`."""
    return tuple(TensorSpec(value.name, value.type, tuple(value.shape)) for value in values)


def host_value(spec: TensorSpec, array: Array) -> Any:
    """An OrtValue over an array's own memory, without a copy. It keeps the array alive.

    Args:
        array: C-contiguous, dtype `spec.dtype`, any shape.
    """
    if spec.native:
        return ort.OrtValue.ortvalue_from_numpy(array)
    bits = array.view(f"u{array.dtype.itemsize}")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, spec.element_type)


def host_view(spec: TensorSpec, value: Any) -> Array:
    """A writable array over an OrtValue in host (or HOST_ACCESSIBLE) memory, without a copy.

    For dtypes that numpy has not, the value must outlive the array.
    """
    if spec.native:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    size = math.prod(shape) * spec.dtype.itemsize
    buffer = (ctypes.c_uint8 * size).from_address(value.data_ptr())
    return np.frombuffer(buffer, dtype=np.uint8).view(spec.dtype).reshape(shape)


def nbytes(array: Array) -> int:
    """Bytes of a tensor's elements; for strings of their UTF-8 text."""
    if array.dtype == object:
        return sum(len(str(item).encode()) for item in array.flat)
    return array.nbytes
