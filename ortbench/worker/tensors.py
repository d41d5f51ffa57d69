"""Tensors, and sequences and optionals of them, as ORT and numpy see them: dtypes, shapes, OrtValues over host memory; and what a
model's file says of them: how far integers may go that end as indices, and which nodes are random.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.core.expressions import named_dims
from ortbench.core.safe_text import first_of

if TYPE_CHECKING:
    from ortbench.model.schema import Tensor


CHUNK = 1 << 22  # elements compared at a time, so that a large output needs no large temporary
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


def roll(array: Array, steps: int = 1) -> Array:
    """The same values in another order, so that all keep to what a model can take."""
    return np.roll(array.reshape(-1), steps).reshape(array.shape)


def index_sizes(model_path: str, inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """How many entries each integer input indexes into that reaches a Gather-like operator through others that pass integers on. Empty
    for models in ORT's own format, which the onnx package does not read."""
    try:
        integers = {spec.name for spec in inputs if spec.is_tensor and spec.dtype.kind in "iu"}
    except Unsupported:
        return {}
    return model_index_sizes(model_path, integers) if integers else {}


def model_index_sizes(model_path: str, integers: set[str] | None = None) -> dict[str, int]:
    """The same of a file: of the inputs with these names, or of all that are integers."""
    model = read_model(model_path)
    if model is None:
        return {}
    if integers is None:
        from onnx import helper

        kinds = {it.name: it.type.tensor_type.elem_type for it in model.graph.input if it.type.HasField("tensor_type")}
        integers = {name for name, kind in kinds.items() if kind and helper.tensor_dtype_to_np_dtype(kind).kind in "iu"}
    return _index_sizes(model, integers)


def read_model(path: str) -> Any:
    """An onnx ModelProto without weights in files of their own; None where it cannot be read: without the package onnx, in ORT's own
    format, and of what is no model, which the session says if nobody has opened it yet."""
    if Path(path).suffix == ".ort":
        return None
    try:
        import onnx

        return onnx.load(path, load_external_data=False)
    except Exception:  # protobuf and onnx raise many kinds
        return None


def inner_graphs(node: Any) -> list[tuple[str, Any]]:
    """The branches or the body of a node, with the names that it has for them."""
    return [(it.name, graph) for it in node.attribute for graph in (*([it.g] if it.HasField("g") else ()), *it.graphs)]


_PASS_ON = {
    "Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip


def _index_sizes(model: Any, integers: set[str]) -> dict[str, int]:
    graph = model.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    shapes[node.output[0]] = tuple(attribute.t.dims)
    shapes = {**_inferred_shapes(model), **shapes}
    origins = {name: {name} for name in integers}
    found: dict[str, int] = {}
    for node in graph.node:
        sources = origins.get(node.input[0], set()) if node.input and node.op_type in _PASS_ON else set()
        if node.op_type == "Concat":
            sources = set().union(*(origins.get(name, set()) for name in node.input))
        for output in node.output[:1]:
            if sources:
                origins[output] = sources
        if node.op_type in ("Gather", "GatherElements") and len(node.input) > 1:
            data = shapes.get(node.input[0])
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            size = data[axis] if data and -len(data) <= axis < len(data) else None
            if isinstance(size, int) and size > 0:
                for name in origins.get(node.input[1], set()):
                    found[name] = min(found.get(name, size), size)
    return found


def _inferred_shapes(model: Any) -> dict[str, tuple[int | None, ...]]:
    """Shapes of values inside the graph, for tables that are computed rather than stored."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # inference is a help; the stored tables are known without it
        return {}
    return {
        info.name: tuple(
            dim.dim_value if dim.HasField("dim_value") else None for dim in info.type.tensor_type.shape.dim
        )
        for info in [*graph.value_info, *graph.input]
        if info.type.HasField("tensor_type")
    }


_ONNX = ("", "ai.onnx")
# Whose outputs are as large as their inputs' values say.
_COUNTING = {"Compress", "NonMaxSuppression", "NonZero", "Unique"}


def value_sized_outputs(path: str) -> set[str]:
    """The values of a model's graph that come of operators whose outputs are as large as the values of their inputs say."""
    model, found = read_model(path), set[str]()
    for node in () if model is None else model.graph.node:
        if node.op_type in _COUNTING or found.intersection(node.input):
            found.update(node.output)
    return found


_DRAWING = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Operators that draw, by domain; those that draw only in training mode are below.
_RANDOM = {"": _DRAWING, "ai.onnx": _DRAWING, "com.microsoft": {"Sampling"}}
# Of operators with a training mode the number of the input that says so; nothing there, or false, is inference.
_TRAINING_INPUT = {
    **dict.fromkeys(((domain, "Dropout") for domain in _ONNX), 2),
    ("com.microsoft", "BitmaskDropout"): 2,
    ("com.microsoft", "BiasDropout"): 4,
    ("com.microsoft", "BitmaskBiasDropout"): 4,
}
_MOST = 5  # that are named


def random_nodes_note(path: str) -> str:
    """The end of an error about outputs that differ: which nodes of the model are random; empty if none is known to be."""
    model = read_model(path)
    found = [] if model is None else list(random_nodes(model))
    if not found:
        return ""
    return (
        f"; the model has random nodes, which draw anew in each inference: {first_of(found, _MOST)} (a seed makes "
        "sessions begin alike, not their runs)"
    )


def random_nodes(model: Any) -> Iterator[str]:
    """The random nodes of an onnx ModelProto, in words: those of subgraphs and of functions that it has included."""
    yield from _random_in_nodes(model.graph.node, _constants(model.graph), "")
    for function in model.functions:
        yield from _random_in_nodes(function.node, {}, f"in function {function.name}")


def _constants(graph: Any) -> dict[str, bool | None]:
    inputs: dict[str, bool | None] = dict.fromkeys(value.name for value in graph.input)
    return inputs | {tensor.name: _is_true(tensor) for tensor in graph.initializer}


def _random_in_nodes(nodes: Any, known: Mapping[str, bool | None], where: str) -> Iterator[str]:
    seen = dict(known)
    for node in nodes:
        if node.op_type == "Constant":
            seen[node.output[0]] = next((_is_true(it.t) for it in node.attribute if it.name == "value"), None)
        if node.op_type in _RANDOM.get(node.domain, ()) or _is_training(node, seen):
            yield " ".join(filter(None, (node.op_type, repr(node.name or node.output[0]), where)))
        for _, graph in inner_graphs(node):
            # It sees the constants around it.
            yield from _random_in_nodes(graph.node, {**seen, **_constants(graph)}, "")


def _is_training(node: Any, known: Mapping[str, bool | None]) -> bool:
    """Whether a node is, or may be, in training mode: what is no constant is not known before the run."""
    at = _TRAINING_INPUT.get((node.domain, node.op_type))
    name = node.input[at] if at is not None and at < len(node.input) else ""
    return bool(name) and known.get(name) is not False


def _is_true(tensor: Any) -> bool | None:
    from onnx import numpy_helper

    try:
        return bool(numpy_helper.to_array(tensor).any())
    except Exception:  # weights in a file of their own; no flag is one
        return None
