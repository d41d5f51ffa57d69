"""The models of the run, with inputs and the outputs they must give. Big ones are made where they are needed."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from models.parts import Array, Arrays, Seeded, picture
from models.single import copy_bound, image_classifier, transformer_ids
from tests.decoders import genai_config, genai_folder
from tests.gpu.steps import BATCHED, COPY, IMAGE, LLAMA, SLOWER, TRANSFORMER

_HALF, _INT64 = onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64
_Form = tuple[Any, Any]  # of an input or output: type and shape
_LLAMA = (
    22,
    2048,
    32,
    4,
    5632,
    32000,
    2048,
)  # layers, width, heads of queries and of keys, width between products, words, positions
_BLOCK = 1_000_003  # values of a large weight that are random, a prime, so that no two rows are alike
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def write(folder: Path, quick: bool, decoder: bool = True) -> None:
    """Write every model as NAME.onnx, with inputs and expected outputs in the folder NAME, as ONNX test sets have them.

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
    if quick:
        _classifier(folder)
    else:
        _resnet50(folder)
    _with_useless_nodes(folder)
    _batched(folder)
    _transformer(folder, quick)


def _copies(folder: Path, height: int, width: int) -> None:
    """models/copy_bound.onnx for another size of image: as many bytes out as in, and little to compute."""
    model = copy_bound().model
    for value in (*model.graph.input, *model.graph.output):
        _resize(value, height, width)
    image = picture(height, width)
    scale = np.array([1.5, 1.25, 0.75], np.float32).reshape(3, 1, 1)
    bias = np.array([-0.25, -0.125, 0.0625], np.float32).reshape(3, 1, 1)
    adjusted = np.clip(image * scale + bias, np.float32(0), np.float32(1))
    _save(folder, COPY, model, {"image": image}, {"adjusted": adjusted})


def _resnet50(folder: Path) -> None:
    """ResNet-50 with the topology of the onnx package, and what the CPU EP makes of a picture."""
    import onnxruntime as ort  # for this model alone

    model = _with_weights(onnx.load(_LIGHT / "light_resnet50.onnx"))
    inputs = {model.graph.input[0].name: picture(224, 224)}
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    _save(folder, IMAGE, model, inputs, {model.graph.output[0].name: expected})


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a model of the onnx package weights.

    Its own are constants that make every class equally likely whatever the picture, so that no wrong output would show.
    """
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


def _classifier(folder: Path) -> None:
    """models/image_classifier.onnx for small images in its place."""
    model = image_classifier().model
    _resize(model.graph.input[0], 32, 32)
    inputs = {"image": picture(32, 32)}
    _save(folder, IMAGE, model, inputs, {"probabilities": _evaluate(model, inputs)})


def _with_useless_nodes(folder: Path) -> None:
    """The image model with 20 nodes in it that leave what they get as it is."""
    model = onnx.load(folder / f"{IMAGE}.onnx")
    nodes = list(model.graph.node)
    at = next(number for number, node in enumerate(nodes) if node.op_type == "Conv")
    given = nodes[at].output[0]
    names = [f"{given}_clipped_{number}" for number in range(20)] + [given]
    nodes[at].output[0] = names[0]
    if model.opset_import[0].version < 11:
        bounds, attributes = list[str](), dict[str, Any](min=-3e38, max=3e38)
    else:
        bounds, attributes = ["least", "most"], {}
        limits = (
            numpy_helper.from_array(np.array(value, np.float32), name)
            for name, value in zip(bounds, (-3e38, 3e38), strict=True)
        )
        model.graph.initializer.extend(limits)
    clips = [
        onnx.helper.make_node("Clip", [source, *bounds], [target], name=f"useless_clip_{number}", **attributes)
        for number, (source, target) in enumerate(pairwise(names), 1)
    ]  # fmt: skip
    del model.graph.node[:]
    model.graph.node.extend([*nodes[: at + 1], *clips, *nodes[at + 1 :]])
    onnx.save(model, folder / f"{SLOWER}.onnx")


def _batched(folder: Path) -> None:
    """The image model with a batch to choose."""
    model = onnx.load(folder / f"{IMAGE}.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]  # which have the batch of before
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:  # 0 takes the batch from what is reshaped
            tensor.CopyFrom(numpy_helper.from_array(np.array([0, *numpy_helper.to_array(tensor)[1:]]), tensor.name))
    onnx.save(model, folder / f"{BATCHED}.onnx")


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

    def node(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [out or f"{name}_out"], name=name, **attributes))
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
        new = [product(y, f"{block}.{name}", width, key_heads * head) for name in "kv"]
        given, taken = (
            [product(y, f"{block}.q", width, width), *new, *old, seqlens, total, *tables],
            f"{block}.attended",
        )
        attributes: dict[str, Any] = {
            "num_heads": heads,
            "kv_num_heads": key_heads,
            "do_rotary": 1,
            "domain": "com.microsoft",
        }
        b.nodes.append(
            onnx.helper.make_node("GroupQueryAttention", given, [taken, *changed], f"{block}.attention", **attributes)
        )
        x = b.node("Add", x, product(taken, f"{block}.out", width, width))
        y = normalized(x, f"{block}.behind")
        gate, up = (product(y, f"{block}.{name}", width, wide) for name in ("gate", "up"))
        y = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), up)
        x = b.node("Add", x, product(y, f"{block}.down", wide, width))
    b.node("MatMul", normalized(x, "last"), b.weight("classes", width, words), out="logits")
    ids, mask = (_INT64, ["batch", "sequence"]), (_INT64, ["batch", "total_length"])
    inputs = {"input_ids": ids, "attention_mask": mask, **cache[0]}
    outputs = {"logits": (_HALF, ["batch", "sequence", words]), **cache[1]}
    given_values, left_values = (
        [onnx.helper.make_tensor_value_info(name, form, shape) for name, (form, shape) in values.items()]
        for values in (inputs, outputs)
    )
    graph = onnx.helper.make_graph(b.nodes, LLAMA, given_values, left_values, list(b.weights.values()))
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    folder.mkdir()
    onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    config = genai_config("llama", words, positions, True, layers, width, heads, key_heads, head)
    (folder / "genai_config.json").write_text(json.dumps(config))


def _transformer(folder: Path, quick: bool) -> None:
    """One block of self-attention with integer ids, for a batch of sentences."""
    case = transformer_ids()
    if quick:
        arrays = dict(case.inputs)
    else:
        state = np.random.RandomState(0)
        arrays = {
            "input_ids": state.randint(0, 500, (16, 128)),
            "token_type_ids": state.randint(0, 2, (16, 128)),
            "attention_mask": np.ones((16, 128), np.int64),
        }
    expected = _evaluate(case.model, arrays)
    _save(folder, TRANSFORMER, case.model, arrays, {case.model.graph.output[0].name: expected})


def _evaluate(model: onnx.ModelProto, inputs: Arrays) -> Array:
    """The one output by ONNX's reference evaluator."""
    (output,) = ReferenceEvaluator(model).run(None, dict(inputs))
    return np.asarray(output)


def _resize(value: onnx.ValueInfoProto, height: int, width: int) -> None:
    *_, rows, columns = value.type.tensor_type.shape.dim
    rows.dim_value, columns.dim_value = height, width


def _save(folder: Path, name: str, model: onnx.ModelProto, inputs: Arrays, outputs: Arrays) -> None:
    onnx.save(model, folder / f"{name}.onnx")
    test_set = folder / name
    test_set.mkdir()
    weights = {tensor.name for tensor in model.graph.initializer}
    taken = [value for value in model.graph.input if value.name not in weights]
    for kind, values, arrays in (("input", taken, inputs), ("output", model.graph.output, outputs)):
        for number, value in enumerate(values):
            tensor = numpy_helper.from_array(arrays[value.name], value.name)
            (test_set / f"{kind}_{number}.pb").write_bytes(tensor.SerializeToString())
