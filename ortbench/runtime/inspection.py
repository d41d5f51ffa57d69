"""What a model takes, gives and consists of, and where an EP would place it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from ortbench.errors import BadInput, OrtbenchError, Unsupported, one_line
from ortbench.plan import Inputs, Target
from ortbench.runtime import providers, session
from ortbench.runtime.inputs import resolve_shapes
from ortbench.runtime.tensors import TensorSpec


def inspect_model(path: str, target: Target | None, request: Inputs) -> dict[str, Any]:
    """Describe a model.

    Args:
        path: of the model.
        target: an EP to place it on, or None to stay with the CPU EP, which every model can be opened on.
        request: shapes and dims for symbolic dimensions, from which bytes follow.

    Returns:
        ``inputs`` and ``outputs`` (name, type, model_shape, shape, bytes; null where they depend on the data),
        ``bytes_in``, ``bytes_out`` per inference, ``guessed_dims``, ``operators`` (name → count), ``opsets``,
        ``parameters_bytes`` and, with a target, ``placement`` as in a result.

    Raises:
        BadInput: not a model, or shapes that do not fit.
        BenchmarkFailed: the EP does not load.
    """
    provider = providers.find(target or Target(ep="cpu"))
    model = session.open_model(path, target or Target(ep="cpu", opt_level="disable"), provider)
    shapes, guessed = resolve_shapes(model.inputs, request.shapes, request.dims)
    inputs = [_tensor(spec, shapes[spec.name]) for spec in model.inputs]
    outputs = _outputs(path, model, request)
    found: dict[str, Any] = {
        "path": path,
        "inputs": inputs,
        "outputs": outputs,
        "bytes_in": _sum(inputs),
        "bytes_out": _sum(outputs),
        "guessed_dims": guessed,
        **_graph(path),
    }
    if target is not None:
        where = session.placement(model)
        if where["memcpy_nodes"] is None and where["nodes"] is not None:
            data = session.make_data(path, model, request)
            where["memcpy_nodes"] = session.memcpy_nodes(path, target, provider, data.arrays)
        found["ep"], found["device"], found["placement"] = provider.name, session.describe_device(model), where
    return found


def _tensor(spec: TensorSpec, shape: tuple[int, ...] | None) -> dict[str, Any]:
    try:
        size = None if shape is None or spec.is_string else math.prod(shape) * spec.dtype.itemsize
    except Unsupported:
        size, shape = None, None
    return {
        "name": spec.name,
        "type": spec.type,
        "model_shape": list(spec.shape),
        "shape": None if shape is None else list(shape),
        "bytes": size,
    }


def _outputs(path: str, model: session.Model, request: Inputs) -> list[dict[str, Any]]:
    """Outputs with the shapes the model states, or else with those of one run."""
    # ORT gives scalars and tensors of unknown rank the same empty shape, so that only a run tells them apart.
    if all(spec.shape and all(isinstance(dim, int) for dim in spec.shape) for spec in model.outputs):
        return [_tensor(spec, tuple(dim for dim in spec.shape if isinstance(dim, int))) for spec in model.outputs]
    try:
        reference = session.make_data(path, model, request).reference
    except OrtbenchError:  # made-up inputs need not be valid: then the shapes stay unknown
        return [_tensor(spec, None) for spec in model.outputs]
    return [_tensor(spec, array.shape) for spec, array in zip(model.outputs, reference, strict=True)]


def _sum(tensors: list[dict[str, Any]]) -> int | None:
    sizes = [tensor["bytes"] for tensor in tensors]
    return None if None in sizes else sum(sizes)


def _graph(path: str) -> dict[str, Any]:
    """Operators, opsets and weights, as the file has them; None for ORT's own format, which onnx does not read."""
    if Path(path).suffix == ".ort":
        return {"operators": None, "opsets": None, "parameters_bytes": None}
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise BadInput(f"{path} is not an ONNX model: {one_line(error)}") from None
    operators: Counter[str] = Counter()
    weights = 0
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        weights += sum(_weight_bytes(onnx, tensor) for tensor in graph.initializer)
        for node in graph.node:
            prefix = f"{node.domain}:" if node.domain not in ("", "ai.onnx") else ""
            operators[prefix + node.op_type] += 1
            for attribute in node.attribute:  # branches and loop bodies hold nodes too
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    return {"operators": dict(operators.most_common()), "opsets": opsets, "parameters_bytes": weights}


def _weight_bytes(onnx: Any, tensor: Any) -> int:
    try:
        item = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, ValueError):
        return 0
    return item * int(math.prod(tensor.dims))
