"""Makes the copy: the dimension gets its name, what pins it inside the graph is changed, and shapes are inferred anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from ortbench.core.errors import BadInput, BenchmarkFailed, one_line
from ortbench.worker.freeing.pins import (
    Pins,
    Refused,
    called,
    following,
    infer,
    refusal,
    sizes_to_try,
    stand_ins,
    why,
)
from ortbench.worker.inputs.model_file import inner_graphs

if TYPE_CHECKING:
    from ortbench.model.schema import Freed

_LARGE = 4096  # bytes of a weight that shape inference does without


def free(path: str, dims: Mapping[str, str], folder: str) -> tuple[str, Freed]:
    """Write a copy of a model in which dimensions, such as ``image:0``, are symbolic; its path, and what was done; `BadInput`: it
    is no such model, or a dimension cannot be freed, with the node that keeps it."""
    model = _read(path, next(iter(dims)))
    freed: Freed = {"dims": [], "nodes": []}
    sizes: dict[str, tuple[int, str]] = {}
    for label, name in dims.items():
        dim = _dimension(model, label)
        known, first = sizes.setdefault(name, (dim.dim_value, label))
        if known != dim.dim_value:
            reason = f"{name} would be {dim.dim_value} here and {known} in {first}; give them two names"
            raise refusal(label, reason)
        tensor, _, axis = label.rpartition(":")
        freed["dims"].append({"input": tensor, "axis": int(axis), "size": dim.dim_value, "name": name})
        dim.dim_param = name
    with _without_weights(model):
        for name, (size, label) in sizes.items():
            freed["nodes"] += _free_one(model, name, size, {it: n for it, (n, _) in sizes.items() if it != name}, label)
        _name_outputs(model, {name: size for name, (size, _) in sizes.items()})
    return write(model, Path(path), Path(folder)), freed


def _read(path: str, label: str) -> Any:
    if Path(path).suffix == ".ort":
        raise refusal(
            label, f"{path} is in ORT's own format, which keeps its shapes; name the .onnx file it was made of"
        )
    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:
        raise BadInput(f"{path} is not an ONNX model: {one_line(error)}") from None


def _dimension(model: Any, label: str) -> Any:
    """The dimension that a label means; `BadInput` where there is none, or it is symbolic already."""
    tensor, _, axis = label.rpartition(":")
    weights = {it.name for it in model.graph.initializer}
    inputs = {it.name: it.type for it in model.graph.input if it.name not in weights}
    if tensor not in inputs:
        raise refusal(label, f"the model has no input {tensor!r}; it has {', '.join(inputs)}")
    dims = inputs[tensor].tensor_type.shape.dim if inputs[tensor].HasField("tensor_type") else []
    if int(axis) >= len(dims):
        raise refusal(label, f"{tensor} has {len(dims)} dimensions, counted from 0")
    dim = dims[int(axis)]
    if not dim.dim_value:
        raise refusal(label, f"it is symbolic already ({dim.dim_param or 'without a name'})")
    return dim


def _free_one(model: Any, name: str, size: int, freed: dict[str, int], label: str) -> list[str]:
    """Free a dimension of a model without its large weights; gives the nodes that were changed."""
    sizes = sizes_to_try(size)
    others = stand_ins(model, {**freed, name: size}) | freed
    symbolic = {dim.dim_param for it in model.graph.input for dim in it.type.tensor_type.shape.dim if dim.dim_param}
    pins = Pins(model, sizes, name, others, exact=symbolic <= {name, *freed})
    try:
        pins.free()
        at = pins.look(strict=True)
    except Refused as error:
        raise refusal(label, error) from None
    except Exception as error:
        raise refusal(label, f"another size does not fit {why(error)}") from None
    outputs = [it.name for it in model.graph.output]
    if not any(at.moves(it) or at.fixed.get(it) is None for it in outputs):
        raise refusal(label, f"no output depends on it: {_last(model, at)}")
    return pins.changed


def _last(model: Any, at: Any) -> str:
    """The first node that takes a dimension that moves and gives none."""
    for node in model.graph.node:
        if any(at.moves(it) for it in node.input) and not any(at.moves(it) for it in node.output):
            return f"it ends at {called(node)}"
    return "no node passes it on"


def _name_outputs(model: Any, sizes: dict[str, int]) -> None:
    """State the outputs' shapes as inference tells them now: freed dimensions by their names, others as they were called."""
    del model.graph.value_info[:]
    before = [[it.dim_param for it in value.type.tensor_type.shape.dim] for value in model.graph.output]
    moved = [(name, _following(model, name, sizes)) for name in sizes]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value, known, called_before in zip(model.graph.output, inferred.graph.output, before, strict=True):
        value.CopyFrom(known)
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            names = [name for name, axes in moved if axes.get(value.name) == axis]
            if names:
                dim.dim_param = names[0]
            elif not dim.HasField("dim_value") and dim.dim_param not in sizes:
                dim.dim_param = called_before[axis] if axis < len(called_before) else ""


def _following(model: Any, name: str, sizes: dict[str, int]) -> dict[str, int]:
    """By output the axis that is as long as a freed dimension, whatever that is."""
    tried, others = sizes_to_try(sizes[name]), stand_ins(model, sizes) | sizes
    at = [infer(model, {**others, name: size}) for size in tried]
    found = {}
    for value in model.graph.output:
        shapes = at[0].get(value.name), at[1].get(value.name), at[2].get(value.name)
        follows = following(shapes, tried)
        if follows is not None and follows[1] == 1:
            found[value.name] = follows[0]
    return found


# Weights


@contextmanager
def _without_weights(model: Any) -> Iterator[None]:
    """Large weights are out of the graph meanwhile: shape inference needs no more than their shapes."""
    graph, known = model.graph, {it.name for it in model.graph.input}
    inputs, weights = len(known), []
    for place in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[place]
        if tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.ByteSize() <= _LARGE:
            continue
        weights.append(onnx.TensorProto())
        weights[-1].CopyFrom(tensor)
        if tensor.name not in known:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        del graph.initializer[place]
    yield
    del graph.input[inputs:]
    graph.initializer.extend(reversed(weights))


# The file


def write(model: Any, path: Path, folder: Path, what: str = "--free-dim") -> str:
    """Write the copy, with what its weights are in beside it; its path. `what` says in an error what it is for."""
    copy = folder / path.name
    try:
        for location in sorted({*_locations(model)}):
            if not Path(location).is_absolute() and ".." not in Path(location).parts:  # which ONNX Runtime refuses
                _link(path.parent / location, folder / location)
        onnx.save(model, str(copy))
    except OSError as error:
        raise BenchmarkFailed(f"{what}: no copy of {path} can be made: {one_line(error)}") from None
    return str(copy)


def _locations(model: Any) -> Iterator[str]:
    """The files that tensors of a model lie in."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        graphs += [inner for node in graph.node for _, inner in inner_graphs(node)]
        attributes = [it for node in graph.node for it in node.attribute]
        tensors = [*graph.initializer, *(it.t for it in attributes if it.HasField("t"))]
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                yield next(it.value for it in tensor.external_data if it.key == "location")


def _link(file: Path, place: Path) -> None:
    """ONNX Runtime follows no symbolic link out of a model's folder, so the file has a second name, or else is copied."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)
