"""What onnx's shape inference says of a graph at several sizes of one dimension, and so which axes of its values follow it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from ortbench.core.errors import one_line

Shape = tuple[int, ...]
_SMALL = 64  # elements of a constant that may be a shape
_PRIMES = (23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)  # stand for dimensions that are symbolic already


class Follows(NamedTuple):
    """The axis of a value that is `outer` × the freed dimension × `inner` long."""

    axis: int
    outer: int
    inner: int


class Sizes(NamedTuple):
    """The size that the model fixes, and two others to try."""

    fixed: int
    one: int
    other: int


def sizes_to_try(fixed: int) -> Sizes:
    """Multiples that few constants of a model have: what is as long by chance at one of them is not at the other."""
    return Sizes(fixed, 7 * fixed, 11 * fixed)


def infer(model: Any, sizes: dict[str, int], strict: bool = False) -> dict[str, Shape | None]:
    """The shapes of all values at sizes of the symbolic dimensions; None where inference does not tell them all.

    Raises what onnx raises: where `strict`, a node does not take the shapes of its inputs.
    """
    at = onnx.ModelProto()
    at.CopyFrom(model)
    del at.graph.value_info[:]
    for node in at.graph.node:
        node.name = node.name or node.output[0]  # which an error then says
    for value in at.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for value in at.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    graph = onnx.shape_inference.infer_shapes(at, strict_mode=strict, data_prop=True).graph
    found = {it.name: _shape(it) for it in (*graph.input, *graph.value_info, *graph.output)}
    return found | {it.name: tuple(it.dims) for it in graph.initializer}


def _shape(value: Any) -> Shape | None:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    dims = kind.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


def stand_ins(model: Any, freed: dict[str, int]) -> dict[str, int]:
    """Sizes for the dimensions that are symbolic already, by which inference can multiply: none where the model does not
    take these."""
    names = {dim.dim_param for it in model.graph.input for dim in it.type.tensor_type.shape.dim if dim.dim_param}
    others = sorted(names - freed.keys())
    found = dict(zip(others, _PRIMES, strict=False))
    try:
        infer(model, found | freed, strict=True)
    except Exception:
        return {}
    return found


_REFUSED = re.compile(r"\(op_type:(?P<type>[^,)]+), node name: (?P<name>.+?)\): (?P<reason>.+?)(?= \(op_type:|$)")


def why(error: Exception) -> str:
    """What shape inference refused first, in a line; what it says of nodes behind that one follows from it."""
    text = " ".join(str(error).split())
    found = _REFUSED.search(text)
    if found is None:
        return one_line(text)
    reason = re.sub(r"^\[[A-Za-z]+\] ", "", found["reason"])
    return one_line(f"{found['type']} {found['name']!r}: {reason}")


def varies(one: Shape | None, other: Shape | None) -> bool:
    return one is not None and other is not None and one != other


def following(at: tuple[Shape | None, Shape | None, Shape | None], sizes: Sizes) -> tuple[int, int] | None:
    """The one axis of a value that is a multiple of the freed dimension, and which multiple; None where there is none, or none
    alone."""
    if any(shape is None for shape in at) or len({len(shape) for shape in at if shape is not None}) != 1:
        return None
    moved = [axis for axis, dims in enumerate(zip(*at, strict=True)) if len(set(dims)) > 1]  # type: ignore[arg-type]
    if len(moved) != 1:
        return None
    (axis,) = moved
    times = [shape[axis] / size for shape, size in zip(at, sizes, strict=True) if shape is not None]
    return (axis, round(times[0])) if len(set(times)) == 1 and times[0] == round(times[0]) else None


class Constants:
    def __init__(self, graph: Any) -> None:
        self._initializers = {it.name: it for it in graph.initializer}
        self._makers = {output: node for node in graph.node for output in node.output}

    def tensor(self, name: str) -> Any:
        """The tensor of a value that is one, also behind nodes that pass it on; else None."""
        if name in self._initializers:
            return self._initializers[name]
        node = self._makers.get(name)
        if node is not None and node.op_type == "Identity":
            return self.tensor(node.input[0])
        if node is not None and node.op_type == "Constant":
            return next((it.t for it in node.attribute if it.name == "value"), None)
        return None

    def integers(self, name: str) -> list[int] | None:
        """The numbers of a small constant vector; None where it is none."""
        found = self.tensor(name)
        if found is None:
            node = self._makers.get(name)
            attributes = () if node is None or node.op_type != "Constant" else node.attribute
            return next((list(it.ints) for it in attributes if it.name == "value_ints"), None)
        if found.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32) or len(found.dims) != 1:
            return None
        if found.dims[0] > _SMALL or found.data_location == onnx.TensorProto.EXTERNAL:
            return None
        return [int(number) for number in numpy_helper.to_array(found)]

    def is_zero(self, name: str) -> bool:
        """Whether a value is known to be zeros."""
        node, found = self._makers.get(name), self.tensor(name)
        if found is not None:
            external = found.data_location == onnx.TensorProto.EXTERNAL
            return not external and not np.any(numpy_helper.to_array(found))
        if node is None or not node.input:
            return False
        if node.op_type == "ConstantOfShape":
            value = next((it.t for it in node.attribute if it.name == "value"), None)
            return value is None or not np.any(numpy_helper.to_array(value))
        return node.op_type in ("Expand", "Unsqueeze", "Squeeze", "Reshape", "Cast", "Slice") and self.is_zero(
            node.input[0]
        )
