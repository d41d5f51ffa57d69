"""What is read from a model's file: how far integers may go that end as indices, and which nodes are random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ortbench.core.errors import Unsupported
from ortbench.core.safe_text import first_of
from ortbench.worker.session.tensors import TensorSpec


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
