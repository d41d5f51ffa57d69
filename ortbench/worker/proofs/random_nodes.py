"""The random nodes of a model, which make its outputs differ from run to run, so that none can be held against another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_ONNX = ("", "ai.onnx")
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


def sentence(path: str) -> str:
    """The end of an error about outputs that differ: which nodes of the model are random; empty if none is known to be."""
    if Path(path).suffix == ".ort":
        return ""
    try:
        import onnx

        model = onnx.load(path, load_external_data=False)
    except (
        Exception
    ):  # no such package, or the session has loaded it, so it is a model; only its random nodes stay unknown
        return ""
    found = list(random_nodes(model))
    if not found:
        return ""
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return (
        f"; the model has random nodes, which draw anew in every run: {', '.join(found[:_MOST])}{more} (a seed makes "
        "sessions begin alike, not their runs)"
    )


def random_nodes(model: Any) -> Iterator[str]:
    """The random nodes of an onnx ModelProto, in words: those of subgraphs and of functions that it has included."""
    yield from _of_graph(model.graph, {})
    for function in model.functions:
        yield from _of_nodes(function.node, {}, f"in function {function.name}")


def _of_graph(graph: Any, outer: Mapping[str, bool | None]) -> Iterator[str]:
    """Those of a graph, which sees the constants around it."""
    known = {**outer, **dict.fromkeys((value.name for value in graph.input), None)}
    known |= {tensor.name: _is_true(tensor) for tensor in graph.initializer}
    yield from _of_nodes(graph.node, known, "")


def _of_nodes(nodes: Any, known: Mapping[str, bool | None], where: str) -> Iterator[str]:
    """Those of some nodes and of the graphs inside them.

    Args:
        nodes: in an order in which they can run.
        known: which constants are true, by name; None for what is no constant.
        where: they are, in words.
    """
    seen = dict(known)
    for node in nodes:
        if node.op_type == "Constant":
            seen[node.output[0]] = next((_is_true(it.t) for it in node.attribute if it.name == "value"), None)
        if node.op_type in _RANDOM.get(node.domain, ()) or _is_training(node, seen):
            yield " ".join(filter(None, (node.op_type, repr(node.name or node.output[0]), where)))
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from _of_graph(graph, seen)


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
