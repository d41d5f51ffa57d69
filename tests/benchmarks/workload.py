"""The model that the gates are judged with: a chain of equal MatMuls, so that work can be added by the percent."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 240
LAYERS = 40  # 42 are 5 % more work, 44 are 10 % more


def chain(path: Path, extra_percent: float = 0) -> Path:
    """Write a model of `LAYERS` MatMuls and `extra_percent` more of them; about 5 ms a run on two cores.

    The weights of all layers are one orthogonal matrix, so values keep their size however long the chain is.
    """
    layers = LAYERS * (1 + extra_percent / 100)
    if layers != round(layers):
        raise ValueError(f"{extra_percent} % of {LAYERS} layers is not a whole number of them")
    matrix = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0].astype(np.float32)
    names = ["x", *(f"h{number}" for number in range(1, round(layers))), "y"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)]
    shape = [SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(matrix, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
