"""Quantized models: what became of each node of the original, as is known of how each was made, and as ONNX Runtime's own profile has it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from ortbench.core.errors import BenchmarkFailed
from ortbench.features.why.analysis import rows
from ortbench.features.why.worker import revert
from ortbench.model.schema import Nodes
from ortbench.plan.target import Inputs, Target
from ortbench.worker import State, nodes

SHAPES = {"convolutions": (1, 3, 16, 16), "products": (4, 64)}


def weight(name: str, *shape: int) -> onnx.TensorProto:
    values = np.random.default_rng([*name.encode()]).standard_normal(shape)  # the same whatever ran before
    return numpy_helper.from_array(values.astype(np.float32) / 8, name)


def graph_of(kind: str) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes without names, as many exporters leave them, and their weights."""
    make = helper.make_node
    if kind == "convolutions":
        return [
            make("Conv", ["x", "w0", "b0"], ["conv0"], pads=[1] * 4), make("Relu", ["conv0"], ["relu0"]),
            make("Conv", ["relu0", "w1", "b1"], ["conv1"], pads=[1] * 4), make("Relu", ["conv1"], ["relu1"]),
            make("GlobalAveragePool", ["relu1"], ["mean"]), make("Flatten", ["mean"], ["flat"]),
            make("Gemm", ["flat", "w2", "b2"], ["logits"]), make("Softmax", ["logits"], ["y"]),
        ], [weight("w0", 16, 3, 3, 3), weight("b0", 16), weight("w1", 16, 16, 3, 3), weight("b1", 16), weight("w2", 16, 8), weight("b2", 8)]  # fmt: skip
    return [
        make("MatMul", ["x", "w0"], ["left"]), make("MatMul", ["x", "w1"], ["right"]), make("Tanh", ["left"], ["tanh"]),
        make("Mul", ["tanh", "right"], ["gated"]), make("MatMul", ["gated", "w2"], ["y"]),
    ], [weight(f"w{at}", 64, 64) for at in range(3)]  # fmt: skip


def save(path: Path, kind: str, graph: tuple[list[onnx.NodeProto], list[onnx.TensorProto]]) -> Path:
    made, weights = graph
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPES[kind])
    y = helper.make_tensor_value_info(made[-1].output[0], TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(
        helper.make_model(helper.make_graph(made, "g", [x], [y], weights), ir_version=8, opset_imports=opsets),
        str(path),
    )
    return path


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, kind: str) -> None:
        random = np.random.default_rng(2)
        self._left: Iterator[Any] = iter([{"x": random.standard_normal(SHAPES[kind]).astype(np.float32)}] * 2)

    def get_next(self) -> Any:
        return next(self._left, None)


def static(kind: str, **options: Any) -> Callable[[Path, Path], None]:
    given = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, **options}
    return lambda base, own: quantize_static(str(base), str(own), Samples(kind), **given)


def dynamic(base: Path, own: Path) -> None:
    quantize_dynamic(str(base), str(own))


def by_hand(base: Path, own: Path) -> None:
    """Two products in place of float ones, one with its inputs and its output quantized, one of four bits; no tensor but the input has
    the name that it had, and no node one that a tool gives."""
    make, (made, weights), random = helper.make_node, graph_of("products"), np.random.default_rng(1)
    made[1:2] = [
        make("QuantizeLinear", ["x", "s", "z"], ["in8"]), make("DequantizeLinear", ["in8", "s", "z"], ["in"]),
        make("DequantizeLinear", ["w_int8", "s", "z"], ["w"]), make("MatMul", ["in", "w"], ["out"]),
        make("QuantizeLinear", ["out", "s", "z"], ["out8"]), make("DequantizeLinear", ["out8", "s", "z"], ["right"]),
    ]  # fmt: skip
    bits: dict[str, Any] = {"K": 64, "N": 64, "bits": 4, "block_size": 32}
    made[-1:] = [make("MatMulNBits", ["gated", "w_int4", "s_int4"], ["y"], domain="com.microsoft", **bits)]
    weights += [
        numpy_helper.from_array(np.array(0.02, np.float32), "s"),
        numpy_helper.from_array(np.array(128, np.uint8), "z"),
        numpy_helper.from_array(random.integers(100, 150, (64, 64)).astype(np.uint8), "w_int8"),
        numpy_helper.from_array(random.integers(0, 255, (64, 2, 16)).astype(np.uint8), "w_int4"),
        numpy_helper.from_array(np.full(128, 0.02, np.float32), "s_int4"),
    ]
    kept = {"x", *(it.name for it in weights)}
    for node in made:
        node.output[:] = [f"new/{it}" for it in node.output]
        node.input[:] = [it if it in kept else f"new/{it}" for it in node.input]
    save(own, "products", (made, weights))


FLOAT = {"relu0": "Conv", "relu1": "Conv", "mean": "GlobalAveragePool ReorderOutput", "flat": "Flatten", "logits": "Gemm", "y": "Softmax"}  # fmt: skip
QDQ = {
    "relu0": "QuantizeLinear Transpose QLinearConv", "relu1": "QLinearConv", "mean": "QLinearGlobalAveragePool", "flat": "Transpose Flatten",
    "logits": "QGemm", "y": "QLinearSoftmax DequantizeLinear",
}  # fmt: skip
DYNAMIC_CONV = "DynamicQuantizeLinear ConvInteger Cast Mul Mul Add Relu"
PRODUCTS = {"left": "MatMul", "right": "MatMul", "tanh": "Tanh", "gated": "Mul", "y": "MatMul"}
HALF = "QuantizeLinear QLinearMatMul DequantizeLinear"


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "quantize", "fates"),
    [
        ("convolutions", static("convolutions"), QDQ),
        ("convolutions", static("convolutions", quant_format=QuantFormat.QOperator), QDQ),
        # In part: what goes into the quantized part, and out of it, is of that.
        ("convolutions", static("convolutions", op_types_to_quantize=["Gemm"]), FLOAT | {"logits": "QuantizeLinear QGemm DequantizeLinear"}),
        ("convolutions", dynamic,
         FLOAT | {"relu0": DYNAMIC_CONV, "relu1": DYNAMIC_CONV, "mean": "GlobalAveragePool", "logits": "DynamicQuantizeMatMul"}),
        # One QuantizeLinear for two products is of neither.
        ("products", static("products"),
         {"left": "QLinearMatMul DequantizeLinear", "right": "QLinearMatMul", "tanh": "Tanh", "gated": "QuantizeLinear QLinearMul",
          "y": "QLinearMatMul DequantizeLinear", "": "QuantizeLinear"}),
        ("products", dynamic,
         PRODUCTS | {"left": "MatMulIntegerToFloat", "right": "MatMulIntegerToFloat", "y": "DynamicQuantizeMatMul", "": "DynamicQuantizeLinear"}),
        ("products", by_hand, PRODUCTS | {"right": HALF, "y": "MatMulNBits"}),
    ],
)  # fmt: skip
def test_what_became_of_each_node(
    kind: str, quantize: Callable[[Path, Path], None], fates: dict[str, str], tmp_path: Path
) -> None:
    base, own = save(tmp_path / "base.onnx", kind, graph_of(kind)), tmp_path / "own.onnx"
    quantize(base, own)
    profiles = [profiled(it) for it in (base, own)]
    found = rows(profiles[0], profiles[1])
    assert {
        "".join(it.base[0]["makes"][-1:] if it.base else ""): " ".join(b["op"] for b in it.own) for it in found
    } == fates
    assert Counter(b["op"] for it in found for b in it.own) == plain_profile(own, kind)


# ONNX Runtime's tool quantizes a pool only behind integers, and makes two nodes of a Gemm before it looks for names.
CONV = ["Conv_2", "Relu_3", "GlobalAveragePool_4"]
KEPT = [
    *(("convolutions", kept) for kept in (["Conv_0", "Relu_1"], CONV, ["Gemm_6", "Gemm_6_MatMul"])),
    *(("products", kept) for kept in (["MatMul_1"], ["MatMul_4"])),
]


@pytest.mark.process
@pytest.mark.parametrize(
    ("form", "kind", "kept"),
    [
        *((form, *case) for form in ("QDQ", "QOperator", "dynamic") for case in KEPT),
        ("QOperator", "products", ["Mul_3"]),
    ],
    ids=str,
)
def test_a_node_that_is_kept_in_float_leaves_what_quantizing_all_others_gives(
    form: str, kind: str, kept: list[str], tmp_path: Path
) -> None:
    base = save(tmp_path / "base.onnx", kind, graph_of(kind))
    model = onnx.load(base)
    for at, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{at}"
    onnx.save(model, base)
    whole, others = tmp_path / "whole.onnx", tmp_path / "others.onnx"
    for path, excluded in ((whole, []), (others, kept)):
        if form == "dynamic":
            quantize_dynamic(str(base), str(path), nodes_to_exclude=excluded)
        else:
            static(kind, nodes_to_exclude=excluded, quant_format=QuantFormat[form])(base, path)
    copy = Path(revert(State(), str(whole), str(base), [], kept, str(tmp_path), is_quantized=True)["path"])
    assert plain_profile(copy, kind) == plain_profile(others, kind)
    data = {"x": np.random.default_rng(3).standard_normal(SHAPES[kind]).astype(np.float32)}
    sessions = [onnxruntime.InferenceSession(it, providers=["CPUExecutionProvider"]) for it in (base, others, copy)]
    original, excluded_output, output = (session.run(None, data)[0] for session in sessions)
    np.testing.assert_allclose(output, excluded_output, atol=0.01)
    np.testing.assert_allclose(output, original, atol=0.15 * np.ptp(original))


def test_a_node_that_nothing_stands_for_by_name_is_not_kept_in_float(tmp_path: Path) -> None:
    base, own = save(tmp_path / "base.onnx", "products", graph_of("products")), tmp_path / "own.onnx"
    by_hand(base, own)
    with pytest.raises(BenchmarkFailed, match="nothing of the candidate gives right"):
        revert(State(), str(own), str(base), [], ["MatMul_1"], str(tmp_path), is_quantized=True)


def profiled(path: Path) -> Nodes:
    return nodes.profile_nodes(str(path), Target(ep="cpu", intra_op_threads=1), Inputs(), 2)[0]


def plain_profile(path: Path, kind: str) -> Counter[str]:
    """The operators of the nodes of an inference, as ONNX Runtime itself records them."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(path)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.zeros(SHAPES[kind], np.float32)})
    events = json.loads(Path(session.end_profiling()).read_text())
    return Counter(it["args"]["op_name"] for it in events if it["name"].endswith("_kernel_time"))
