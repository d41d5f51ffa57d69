"""Models that differ from a baseline by one edit, large enough to be clear on a busy machine, and what must be found of each.

A model is a list of layers in words, such as ``conv 32 3``. Nodes and tensors are numbered as exporters do it, so that an edit gives all
that follow it other names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_TYPES = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16}
_NUMPY = {"float": np.float32, "double": np.float64, "float16": np.float16}


class _Builder:
    def __init__(self, shape: Sequence[int], opset: int) -> None:
        self.shape, self.opset = list(shape), opset
        self.kind = "float"
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.counts: Counter[str] = Counter()
        self.random = np.random.default_rng(1)
        self.input, self.at = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), "x"

    def weight(self, values: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values).astype(_NUMPY[self.kind]), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> None:
        name = f"{op}_{self.counts[op]}"
        self.counts[op] += 1
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs or [self.at], [output], name=name, **attributes))
        self.at = output

    def layer(self, text: str) -> None:
        what, *given = text.split()
        sizes = [int(it) for it in given if it.isdigit()]
        match what:
            case "conv":
                out, size = sizes
                fan = self.shape[1] * size * size
                weight = self.weight(self.random.standard_normal((out, self.shape[1], size, size)) / fan**0.5)
                self.node("Conv", self.at, weight, pads=[size // 2] * 4)
                self.shape[1] = out
            case "matmul" | "gemm":
                (width,) = sizes
                weight = self.weight(self.random.standard_normal((self.shape[-1], width)) / self.shape[-1] ** 0.5)
                bias = [self.weight(np.zeros(width))] if what == "gemm" else []
                self.node("Gemm" if bias else "MatMul", self.at, weight, *bias)
                self.shape[-1] = width
            case "clip":
                self.node("Clip", self.at, self.weight(-1e3), self.weight(1e3))
            case "add" | "mul" | "pow":
                self.node(what.capitalize(), self.at, self.weight(float(given[0])))
            case "gelu":  # as exporters write it, which ONNX Runtime makes one node of
                start = self.at
                self.node("Div", self.at, self.weight(2**0.5))
                self.node("Erf")
                self.node("Add", self.at, self.weight(1.0))
                self.node("Mul", start, self.at)
                self.node("Mul", self.at, self.weight(0.5))
            case "own-gelu":  # the same in another order, of which it makes nothing
                start = self.at
                self.node("Mul", self.at, self.weight(0.5**0.5))
                self.node("Erf")
                self.node("Mul", self.at, self.weight(0.5))
                self.node("Add", self.at, self.weight(0.5))
                self.node("Mul", start, self.at)
            case "norm":
                ones, zeros = self.weight(np.ones(self.shape[-1])), self.weight(np.zeros(self.shape[-1]))
                self.node("LayerNormalization", self.at, ones, zeros, axis=-1)
            case "cast":
                self.node("Cast", to=_TYPES[given[0]])
                self.kind = given[0]
            case _:
                self.node(what)

    def model(self) -> onnx.ModelProto:
        output = helper.make_tensor_value_info(self.at, _TYPES[self.kind], self.shape)
        graph = helper.make_graph(self.nodes, "edited", [self.input], [output], self.weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", self.opset)])


class Net(NamedTuple):
    shape: Sequence[int]
    layers: Sequence[str]
    opset: int = 17

    def save(self, path: Path) -> Path:
        builder = _Builder(self.shape, self.opset)
        for it in self.layers:
            builder.layer(it)
        onnx.save(builder.model(), str(path))
        return path

    def insert(self, at: int, *layers: str) -> Net:
        return self._replace(layers=[*self.layers[:at], *layers, *self.layers[at:]])

    def put(self, at: int, *layers: str, count: int = 1) -> Net:
        return self._replace(layers=[*self.layers[:at], *layers, *self.layers[at + count :]])


CONVS = Net((1, 16, 64, 64), ["conv 16 3", "Relu"] * 4)
DENSE = Net((64, 256), ["matmul 256", "add 0.1", "Tanh"] * 4)
WIDE = Net((256, 2048), ["add 0.1", "gelu", "mul 0.9", "Tanh", "norm", "Softmax"])


class Edit(NamedTuple):
    name: str
    base: Net
    own: Net
    ops: frozenset[str]  # operators, of which the culprit has at least one, and has no other but `beside`
    beside: frozenset[str] = frozenset()


def _edit(name: str, base: Net, change: Callable[[Net], Net], ops: str, beside: str = "") -> Edit:
    return Edit(name, base, change(base), frozenset(ops.split()), frozenset(beside.split()))


_BLOCKED = "ReorderInput ReorderOutput"  # what ONNX Runtime puts around what has no blocked layout
_CASTS = "Cast"
EDITS = (
    # Nodes added
    _edit("twenty clips at the end", CONVS, lambda net: net.insert(8, *["clip"] * 20), "Clip"),
    _edit("twenty clips in the middle", CONVS, lambda net: net.insert(4, *["clip"] * 20), "Clip", _BLOCKED),
    _edit("a convolution twice as wide", CONVS, lambda net: net.insert(4, "conv 64 3", "Relu", "conv 16 3", "Relu"), "Conv", "Relu"),
    _edit("matrix products at the start", DENSE, lambda net: net.insert(0, "matmul 1024", "matmul 256"), "MatMul"),
    _edit("Softmax twice", WIDE, lambda net: net.insert(6, "Softmax", "Softmax"), "Softmax"),
    _edit("a Gelu added", WIDE, lambda net: net.insert(4, "gelu", "gelu"), "Gelu"),
    _edit("Pow added", WIDE, lambda net: net.insert(4, "pow 1.5"), "Pow"),
    # Nodes gone, with which a fusion goes
    _edit("a Relu that a convolution took gone", CONVS, lambda net: net.put(3, "Sin"), "Sin", f"Conv Relu {_BLOCKED}"),
    # Un-fused
    _edit("Gelus in another order", WIDE.put(1, *["gelu"] * 4), lambda net: net.put(1, *["own-gelu"] * 4, count=4), "Mul Erf Add", "Gelu"),
    _edit("activations that are not fused", CONVS, lambda net: net._replace(layers=["conv 16 3", "Softplus"] * 4), "Softplus", f"Conv Relu {_BLOCKED}"),
    # Types
    _edit("casts around a matrix product", DENSE, lambda net: net.put(3, "cast double", "matmul 256", "cast float"), "MatMul", _CASTS),
    _edit("a convolution in half precision", CONVS, lambda net: net.put(4, "cast float16", "conv 16 3", "cast float"), "Conv Cast", f"Relu {_BLOCKED}"),
    # An operator without a kernel for its type: ONNX Runtime puts casts around it
    _edit("operators without a kernel in half precision", WIDE, lambda net: net.put(3, "cast float16", "Sin", "Sin", "Sin", "cast float"), "Sin Cast", "Tanh"),
    # Weights grown
    _edit("channels grown", CONVS, lambda net: net.put(2, "conv 96 3", "Relu", "conv 16 3", count=3), "Conv", "Relu"),
    _edit("a kernel grown", CONVS, lambda net: net.put(4, "conv 16 9"), "Conv"),
    _edit("a wide hidden layer", Net((64, 256), ["gemm 256", "Relu"] * 4), lambda net: net.put(2, "gemm 2048", "Relu", "gemm 256", count=3), "Gemm FusedGemm", "Relu"),
    # Other operators in place
    _edit("Sin in place of Relu", DENSE.put(5, "Relu"), lambda net: net.put(5, *["Sin", "Softplus"] * 16), "Sin Softplus", "Relu"),
    _edit("Softmax in place of Tanh", WIDE, lambda net: net.put(3, "Softplus", "Softplus", "Softplus"), "Softplus", "Tanh"),
)  # fmt: skip
