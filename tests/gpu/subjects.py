"""The models of the run, with inputs and the outputs they must give. Big ones are made where they are needed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from models.parts import Seeded, picture
from models.single import copy_bound, image_classifier
from tests.decoders import genai_config, genai_folder
from tests.gpu.steps import BATCHED, COPY, LLAMA

_HALF, _INT64 = onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64
_Form = tuple[Any, Any]  # of an input or output: type and shape
# Layers, width, heads of queries and of keys, width between products, words, positions.
_LLAMA = 22, 2048, 32, 4, 5632, 32000, 2048
_BLOCK = 1_000_003  # values of a large weight that are random, a prime, so that no two rows are alike
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def write(folder: Path, quick: bool, decoder: bool = True) -> None:
    """Write every model as NAME.onnx, and of the first its input and expected output as ONNX test sets have them.

    Args:
        folder: to write into, there already.
        quick: smaller ones of the same kinds, for a device whose arithmetic is slow.
        decoder: the one that generates too, which is gigabytes.
    """
    if decoder and quick:
        genai_folder(folder / LLAMA, "llama", shared=True)
    elif decoder:
        _llama(folder / LLAMA)
    _copies(folder, *((270, 480) if quick else (2160, 3840)))
    model = image_classifier().model if quick else _with_weights(onnx.load(_LIGHT / "light_resnet50.onnx"))
    if quick:
        _resize(model.graph.input[0], 32, 32)
    onnx.save(_batched(model), folder / f"{BATCHED}.onnx")


def _copies(folder: Path, height: int, width: int) -> None:
    """models/copy_bound.onnx for another size of image: as many bytes out as in, and little to compute."""
    model = copy_bound().model
    for value in (*model.graph.input, *model.graph.output):
        _resize(value, height, width)
    image = picture(height, width)
    scale = np.array([1.5, 1.25, 0.75], np.float32).reshape(3, 1, 1)
    bias = np.array([-0.25, -0.125, 0.0625], np.float32).reshape(3, 1, 1)
    adjusted = np.clip(image * scale + bias, np.float32(0), np.float32(1))
    onnx.save(model, folder / f"{COPY}.onnx")
    (folder / COPY).mkdir()
    for file, name, array in (("input_0", "image", image), ("output_0", "adjusted", adjusted)):
        (folder / COPY / f"{file}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def _resize(value: onnx.ValueInfoProto, height: int, width: int) -> None:
    *_, rows, columns = value.type.tensor_type.shape.dim
    rows.dim_value, columns.dim_value = height, width


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a model of the onnx package weights: its own are constants that make every class equally likely whatever the picture, so that no
    wrong output would show."""
    graph = model.graph
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {
        node.output[0]: given.pop(node.input[0]).tolist() for node in graph.node if node.op_type == "ConstantOfShape"
    }
    shapes = {**{name: list(array.shape) for name, array in given.items()}, **made}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    seeded, weights = Seeded(0), dict(given)
    for node in nodes:
        if node.op_type == "BatchNormalization":  # scale, bias, mean, variance
            for name, value in zip(node.input[1:], (1, 0, 0, 1), strict=True):
                weights[name] = np.full(shapes[name], value, np.float32)
        elif node.op_type in ("Conv", "Gemm"):
            weight, *biases = node.input[1:]
            weights[weight] = seeded.weight(*shapes[weight], fan_in=math.prod(shapes[weight][1:]))
            weights.update({name: np.zeros(shapes[name], np.float32) for name in biases})
    used = {name for node in nodes for name in node.input}
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items() if name in used]
    inputs = [value for value in graph.input if value.name in used and value.name not in weights]
    parts: list[tuple[Any, list[Any]]] = [(graph.node, nodes), (graph.input, inputs), (graph.initializer, tensors)]
    for part, content in parts:
        del part[:]
        part.extend(content)
    return model


def _batched(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with a batch to choose."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]  # which have the batch of before
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:  # 0 takes the batch from what is reshaped
            tensor.CopyFrom(numpy_helper.from_array(np.array([0, *numpy_helper.to_array(tensor)[1:]]), tensor.name))
    return model


class _Half:
    """A graph in half precision as it grows: nodes one after the other, and weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self._block = Seeded(0).weight(_BLOCK, fan_in=1)

    def constant(self, name: str, array: Any, dtype: Any = np.float16) -> str:
        self.weights[name] = numpy_helper.from_array(np.asarray(array, dtype), name)
        return name

    def weight(self, name: str, rows: int, columns: int) -> str:
        """Random values that repeat, so that gigabytes of them are there in seconds."""
        scaled = (self._block * np.float32(rows**-0.5)).astype(np.float16)
        return self.constant(name, np.resize(np.roll(scaled, len(self.weights) * 1009), (rows, columns)))

    def node(self, op: str, *inputs: str, out: str = "", more: Sequence[str] = (), **attributes: Any) -> str:
        """A node, and its first output; `more` are others."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [out or f"{name}_out", *more], name=name, **attributes))
        return out or f"{name}_out"


def _llama(folder: Path) -> None:
    """A decoder as onnxruntime-genai exports it: Llama in half precision with GroupQueryAttention, of the size of TinyLlama
    (1.1 billion weights, 2.2 GB), with random weights."""
    layers, width, heads, key_heads, wide, words, positions = _LLAMA
    head = width // heads
    b = _Half()
    angles = np.outer(np.arange(positions), 10000.0 ** -(np.arange(head // 2) / (head // 2)))
    tables = b.constant("cosines", np.cos(angles)), b.constant("sines", np.sin(angles))
    # How long the cache is: seqlens on the device, the total on the host.
    one, along = b.constant("one", 1, np.int64), b.constant("along", [1], np.int64)
    behind = b.node("Sub", b.node("ReduceSum", "attention_mask", along, keepdims=0), one)
    seqlens = b.node("Cast", behind, to=onnx.TensorProto.INT32)
    total = b.node("Cast", b.node("Gather", b.node("Shape", "attention_mask"), one), to=onnx.TensorProto.INT32)
    x = b.node("Gather", b.weight("words", words, width), "input_ids")

    def normalized(x: str, name: str) -> str:
        return b.node("SimplifiedLayerNormalization", x, b.constant(f"{name}.scale", np.ones(width)), epsilon=1e-5)

    def product(x: str, name: str, rows: int, columns: int) -> str:
        return b.node("MatMul", x, b.weight(f"{name}.weight", rows, columns))

    cache: tuple[dict[str, _Form], dict[str, _Form]] = {}, {}
    for layer in range(layers):
        block, names = f"block{layer}", [f"{layer}.key", f"{layer}.value"]
        old, changed = ([f"{when}.{name}" for name in names] for when in ("past_key_values", "present"))
        for part, held, length in zip(cache, (old, changed), ("past_length", "total_length"), strict=True):
            part |= dict.fromkeys(held, (_HALF, ["batch", key_heads, length, head]))
        y = normalized(x, f"{block}.before")
        given = [product(y, f"{block}.q", width, width)]
        given += [product(y, f"{block}.{name}", width, key_heads * head) for name in "kv"]
        given += [*old, seqlens, total, *tables]
        attention: dict[str, Any] = {"num_heads": heads, "kv_num_heads": key_heads, "do_rotary": 1}
        taken = b.node("GroupQueryAttention", *given, more=changed, domain="com.microsoft", **attention)
        x = b.node("Add", x, product(taken, f"{block}.out", width, width))
        y = normalized(x, f"{block}.behind")
        gate, up = (product(y, f"{block}.{name}", width, wide) for name in ("gate", "up"))
        y = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), up)
        x = b.node("Add", x, product(y, f"{block}.down", wide, width))
    b.node("MatMul", normalized(x, "last"), b.weight("classes", width, words), out="logits")
    ids, mask = (_INT64, ["batch", "sequence"]), (_INT64, ["batch", "total_length"])
    inputs = {"input_ids": ids, "attention_mask": mask, **cache[0]}
    outputs = {"logits": (_HALF, ["batch", "sequence", words]), **cache[1]}
    first, last = (
        [onnx.helper.make_tensor_value_info(name, *it) for name, it in of.items()] for of in (inputs, outputs)
    )
    graph = onnx.helper.make_graph(b.nodes, LLAMA, first, last, list(b.weights.values()))
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    folder.mkdir()
    onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    config = genai_config("llama", words, positions, True, layers, width, heads, key_heads, head)
    (folder / "genai_config.json").write_text(json.dumps(config))
