"""Tensors, and sequences and optionals of them, as ORT and numpy see them: dtypes, shapes, OrtValues over host memory."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.core.expressions import named_dims

if TYPE_CHECKING:
    from ortbench.model.schema import Tensor

Array = NDArray[Any]
Value = Any  # an `Array`; a list of them, which is a sequence; None, which is an optional that holds nothing
Form = list[Any] | None  # of a value its shape, of a sequence the shapes of its tensors

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
    "uint4": ("uint4", 21),
    "int4": ("int4", 22),
}
TO_FREE = "onnx.tools.update_model_dims.update_inputs_outputs_dims makes a copy of the model with free dimensions"
NO_ONNX = f"the package onnx, which {sys.executable} has not"
_PACKED = {"uint4", "int4"}  # two values to a byte, the first one in its lower half
_TYPE = re.compile(r"(?:optional\()?(?:seq\()?tensor\((\w+)\)+")


class TensorSpec(NamedTuple):
    name: str
    # ORT's word for its type, for example ``tensor(float)``, ``seq(tensor(float))`` or ``optional(tensor(float))``
    type: str
    # sizes, names of symbolic dimensions, or None for dimensions without a name; of a sequence those of each tensor
    shape: tuple[int | str | None, ...]

    @property
    def dims(self) -> tuple[int | str, ...]:
        """Its sizes and names of dimensions; those without a name are called by their places."""
        return named_dims(self.name, self.shape)

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("tensor(")

    @property
    def is_sequence(self) -> bool:
        return self.type.startswith(("seq(", "optional(seq("))

    @property
    def is_optional(self) -> bool:
        return self.type.startswith("optional(")

    @property
    def is_packed(self) -> bool:
        return self.element in _PACKED

    @property
    def element(self) -> str:
        """The element type of its tensors, such as ``float``. Raises `Unsupported`: it is none of these."""
        found = _TYPE.fullmatch(self.type)
        if found is None:
            way_out = "; convert the model without ZipMap (skl2onnx: zipmap=False)" if "seq(map(" in self.type else ""
            raise Unsupported(
                f"{self.name!r} is {self.type}: only tensors, and sequences and optionals of them, can be run{way_out}"
            )
        return found[1]

    def check(self) -> None:
        """Raises `Unsupported`: not of a type or a dtype that ortbench can hold."""
        self.dtype  # noqa: B018
        if not self.is_tensor and not self.is_native:
            raise Unsupported(
                f"{self.name!r} is {self.type}: ONNX Runtime takes and gives such only with numpy's own dtypes"
            )

    def check_binding(self) -> None:
        """Raises `Unsupported`: not something that can be bound, and copied from and to the memory of an array."""
        shared = "two values share a byte, and no array of numpy can lie over such memory to be copied from and to"
        if not self.is_tensor or self.is_packed:
            why = shared if self.is_tensor else "only tensors can be bound and copied"
            raise Unsupported(f"{self.name!r} is {self.type}: {why}, so only mode cpu-tensors runs it")

    def check_fit(self, shape: Sequence[int], source: str) -> None:
        """Raises `BadInput`: a shape is not one that the model states; what it is of comes first in the message."""
        wanted = "x".join(str(dim) if dim is not None else "?" for dim in self.shape) or "a scalar"
        refusal = f"{source} {self.name}: {'x'.join(map(str, shape)) or 'a scalar'} does not fit {wanted}"
        # An empty shape is also how ORT reports an input of unknown rank: the session itself is the judge then.
        if self.shape and len(shape) != len(self.shape):
            raise BadInput(f"{refusal}: {len(self.shape)} dimension(s) are needed")
        for dim, size in zip(self.shape, shape, strict=False):
            if isinstance(dim, int) and dim != size:
                raise BadInput(f"{refusal}: the model fixes {dim}{f'; {TO_FREE}' if source == '--shape' else ''}")

    def has_shape(self, shape: Sequence[int]) -> bool:
        # An empty shape is also how ORT reports one of unknown rank.
        pairs = zip(self.shape, shape, strict=False)
        return not self.shape or (
            len(self.shape) == len(shape) and all(dim == size or not isinstance(dim, int) for dim, size in pairs)
        )

    @property
    def is_string(self) -> bool:
        return self.type == "tensor(string)"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype (of ml_dtypes for bfloat16 and float8; object for strings). Raises `Unsupported`: there is none here."""
        element = self.element
        if element == "string":
            return np.dtype(object)
        if element in _NUMPY_TYPES:
            return np.dtype(_NUMPY_TYPES[element])
        if element in _ML_TYPES:
            try:
                import ml_dtypes  # comes with onnx; needed by few models
            except ImportError:
                raise Unsupported(
                    f"{self.name!r} is {self.type}, a dtype of the package ml_dtypes, which {sys.executable} has not"
                ) from None

            ml_type: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_TYPES[element][0]))
            return ml_type
        raise Unsupported(f"{self.name!r} is {self.type}, which ortbench cannot hold")

    @property
    def onnx_number(self) -> int | None:
        """In onnx.TensorProto.DataType where numpy has not the dtype; None where it has."""
        return _ML_TYPES[self.element][1] if self.element in _ML_TYPES else None

    @property
    def element_type(self) -> Any:
        return self.onnx_number or self.dtype.type

    def nbytes(self, shape: Sequence[int]) -> int:
        count = math.prod(shape)
        return (count + 1) // 2 if self.is_packed else count * self.dtype.itemsize

    @property
    def is_native(self) -> bool:
        """Whether numpy itself has the dtype, so that ORT takes and gives arrays of it."""
        return self.element in _NUMPY_TYPES or self.element == "string"


def make_specs(values: Any, path: str) -> tuple[TensorSpec, ...]:
    """`TensorSpec`s of `session.get_inputs()` or `get_outputs()` of the model that a file holds."""
    # An output can be listed twice.
    specs = tuple({value.name: TensorSpec(value.name, value.type, tuple(value.shape)) for value in values}.values())
    if not any(spec.is_sequence for spec in specs):
        return specs
    shapes = _shapes_in_sequences(path)
    return tuple(it._replace(shape=shapes.get(it.name, ())) if it.is_sequence else it for it in specs)


def _shapes_in_sequences(path: str) -> dict[str, tuple[int | str | None, ...]]:
    """The shape of the tensors of each sequence that a model takes or gives, which ORT does not tell; as far as known."""
    try:
        import onnx

        graph = onnx.load(path, load_external_data=False).graph
    except ImportError:
        raise BenchmarkFailed(f"what is in the sequences that {path} takes or gives is read with {NO_ONNX}") from None
    except Exception:  # ORT's own format: the session has loaded it, so it is a model
        return {}
    found = {}
    for value in (*graph.input, *graph.output):
        kind = value.type.optional_type.elem_type if value.type.HasField("optional_type") else value.type
        dims = kind.sequence_type.elem_type.tensor_type.shape.dim
        found[value.name] = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims)
    return found


def host_value(spec: TensorSpec, array: Array) -> Any:
    """An OrtValue over a C-contiguous array's own memory, which it keeps alive; over a copy where two values share a byte."""
    if spec.is_native:
        return ort.OrtValue.ortvalue_from_numpy(array)
    if spec.is_packed:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(_pack(array), spec.element_type)
    bits = array.view(f"u{array.dtype.itemsize}")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, spec.element_type)


def host_view(spec: TensorSpec, value: Any) -> Array:
    """A writable array over an OrtValue in host (or HOST_ACCESSIBLE) memory, without a copy; the value must outlive it."""
    if spec.is_native:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    size = math.prod(shape) * spec.dtype.itemsize
    buffer = (ctypes.c_uint8 * size).from_address(value.data_ptr())
    return np.frombuffer(buffer, dtype=np.uint8).view(spec.dtype).reshape(shape)


def host_array(spec: TensorSpec, value: Any) -> Array:
    """An OrtValue in host memory as an array of its own."""
    if not spec.is_packed:
        return host_view(spec, value).copy()
    shape = tuple(value.shape())
    count = math.prod(shape)
    buffer = (ctypes.c_uint8 * ((count + 1) // 2)).from_address(value.data_ptr())
    pairs = np.frombuffer(buffer, dtype=np.uint8)
    bits = np.stack([pairs & 0xF, pairs >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    if spec.element == "int4":
        bits = (bits ^ 8) - 8  # the highest of four bits is the sign
    return bits.astype(spec.dtype).reshape(shape)


def _pack(array: Array) -> NDArray[np.uint8]:
    """Values of four bits as ORT has them: two to a byte, at the beginning of memory that is large enough for a byte each."""
    bits = array.reshape(-1).astype(np.int8).view(np.uint8) & 0xF
    made = np.zeros(array.shape, np.uint8)
    made.reshape(-1)[: (array.size + 1) // 2] = bits[::2]
    made.reshape(-1)[: array.size // 2] |= bits[1::2] << 4
    return made


def nbytes(value: Value) -> int:
    """Bytes of a tensor's elements, or of all tensors of a sequence; for strings of their UTF-8 text."""
    if value is None:
        return 0
    if isinstance(value, list):
        return sum(map(nbytes, value))
    if value.dtype == object:
        return sum(len(str(item).encode()) for item in value.flat)
    return (value.size + 1) // 2 if value.dtype.name in _PACKED else int(value.nbytes)


def get_form(value: Value) -> Form:
    if value is None:
        return None
    return [list(array.shape) for array in value] if isinstance(value, list) else list(value.shape)


def describe_tensor(spec: TensorSpec, form: Form = None, size: int | None = None) -> Tensor:
    """An input or output for the result; form and bytes are None where they are not known, or it cannot be held."""
    tensor: Tensor = {
        "name": spec.name,
        "type": spec.type,
        "model_shape": list(spec.shape),
        "shape": None if spec.is_sequence else form,
        "bytes": size,
    }
    if spec.is_sequence and form is not None:
        tensor["tensors"] = form
    return tensor


def roll(array: Array, places: int = 1) -> Array:
    """The same values in another order, so that all keep to what a model can take."""
    return np.roll(array.reshape(-1), places).reshape(array.shape)
