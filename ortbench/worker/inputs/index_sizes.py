"""How far integers may go that end as indices, read from the model's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench.core.errors import Unsupported
from ortbench.worker.session.tensors import TensorSpec


def index_sizes(model_path: str, inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """How many entries each integer input indexes into, for inputs that reach a Gather-like operator.

    Follows each input through operators that pass integers on unchanged in value. Empty for models in ORT's own
    format, which the onnx package does not read.

    Returns:
        Input name → the size of the smallest axis it indexes.
    """
    try:
        integers = {spec.name for spec in inputs if spec.is_tensor and spec.dtype.kind in "iu"}
    except Unsupported:
        return {}
    return of_model(model_path, integers) if integers else {}


def of_model(model_path: str, integers: set[str] | None = None) -> dict[str, int]:
    """The same of a file: of the inputs with these names, or of all that are integers."""
    try:
        import onnx

        model = onnx.load(model_path, load_external_data=False)
    except Exception:  # no such package, or a session has loaded it, so it is a model; only its indices stay unknown
        return {}
    return _index_sizes(model, _integers(model) if integers is None else integers)


def _integers(model: Any) -> set[str]:
    from onnx import helper

    kinds = {it.name: it.type.tensor_type.elem_type for it in model.graph.input if it.type.HasField("tensor_type")}
    return {name for name, kind in kinds.items() if kind and helper.tensor_dtype_to_np_dtype(kind).kind in "iu"}


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
