"""The models of the run, with inputs and the outputs they must give. Big ones are made where they are needed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from models.parts import Array, Arrays, Seeded, picture
from models.single import copy_bound, image_classifier, transformer_ids
from tests.decoders import genai_config
from tests.gpu.steps import BATCHED, COPY, IMAGE, LOOPS, SLOWER, SMALL, TRANSFORMER

_FLOAT, _HALF, _INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64
_Form = tuple[Any, Any]  # of an input or output: type and shape
_BLOCK = 1_000_003  # values of a large weight that are random, a prime, so that no two rows are alike
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_MODELS = Path(__file__).resolve().parent.parent.parent / "models"


def write(folder: Path, quick: bool, decoders: bool = True) -> None:
    """Write every model as NAME.onnx, with inputs and expected outputs in the folder NAME, as ONNX test sets have them.

    Those for loops lie beside what their steps take and give.

    Args:
        folder: to write into, there already.
        quick: smaller ones of the same kinds, for a device whose arithmetic is slow.
        decoders: those that generate too, which are gigabytes.
    """
    if decoders:
        _decoders(folder, quick)
    _copies(folder, *((270, 480) if quick else (2160, 3840)))
    if quick:
        _classifier(folder)
    else:
        _resnet50(folder)
    _with_useless_nodes(folder)
    _batched(folder, quick)
    _transformer(folder, quick)
    for name in SMALL:
        inputs, expected = (np.load(_MODELS / f"{name}.{kind}.npz") for kind in ("inputs", "expected"))
        _save(folder, name, onnx.load(_MODELS / f"{name}.onnx"), inputs, expected)
    for name in LOOPS:
        for file in (f"{name}.onnx", f"{name}.loop.inputs.npz", f"{name}.loop.npz"):
            shutil.copy(_MODELS / file, folder / file)


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
    expected = _evaluate(model, inputs)
    _save(folder, IMAGE, model, inputs, {"probabilities": expected})


def _with_useless_nodes(folder: Path) -> None:
    """The image model with 20 nodes in it that leave what they get as it is."""
    model = onnx.load(folder / f"{IMAGE}.onnx")
    nodes = list(model.graph.node)
    at = next(number for number, node in enumerate(nodes) if node.op_type == "Conv")
    given = nodes[at].output[0]
    names = [f"{given}_clipped_{number}" for number in range(20)] + [given]
    nodes[at].output[0] = names[0]
    bounds: dict[str, Any] = {"min": -3e38, "max": 3e38}
    takes_attributes = model.opset_import[0].version < 11
    if not takes_attributes:
        model.graph.initializer.extend(
            numpy_helper.from_array(np.array(value, np.float32), name) for name, value in bounds.items()
        )
    clips = [
        onnx.helper.make_node("Clip", [source], [target], name=f"useless_clip_{number}", **bounds)
        if takes_attributes
        else onnx.helper.make_node("Clip", [source, *bounds], [target], name=f"useless_clip_{number}")
        for number, (source, target) in enumerate(pairwise(names), 1)
    ]
    del model.graph.node[:]
    model.graph.node.extend([*nodes[: at + 1], *clips, *nodes[at + 1 :]])
    onnx.save(model, folder / f"{SLOWER}.onnx")


def _batched(folder: Path, quick: bool) -> None:
    """The image model, and a vision transformer of the size of ViT-Base, each with a batch to choose."""
    model = onnx.load(folder / f"{IMAGE}.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]  # which have the batch of before
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:  # 0 takes the batch from what is reshaped
            tensor.CopyFrom(numpy_helper.from_array(np.array([0, *numpy_helper.to_array(tensor)[1:]]), tensor.name))
    image, vit = BATCHED
    onnx.save(model, folder / f"{image}.onnx")
    onnx.save(_vit(*((32, 16, 32, 1, 2) if quick else (224, 16, 768, 12, 12))), folder / f"{vit}.onnx")


class _Build:
    """A graph as it grows: nodes one after the other, and weights, of `dtype` unless another is said."""

    def __init__(self, dtype: Any = np.float32) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self._dtype, self._seeded = dtype, Seeded(0)
        self._block = self._seeded.weight(_BLOCK, fan_in=1)

    def constant(self, name: str, array: Any, dtype: Any = None) -> str:
        """A weight by its name, one of that name for all."""
        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(
                np.asarray(array, self._dtype if dtype is None else dtype), name
            )
        return name

    def weight(self, name: str, *shape: int, fan_in: int) -> str:
        """Random; beyond a million values they repeat, so that gigabytes of them are there in seconds."""
        if math.prod(shape) < _BLOCK:
            return self.constant(name, self._seeded.weight(*shape, fan_in=fan_in))
        scaled = (self._block * np.float32(fan_in**-0.5)).astype(self._dtype)
        return self.constant(name, np.resize(np.roll(scaled, len(self.weights) * 1009), shape))

    def node(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [out or f"{name}_out"], name=name, **attributes))
        return out or f"{name}_out"

    def product(self, x: str, name: str, rows: int, columns: int, bias: bool = True) -> str:
        found = self.node("MatMul", x, self.weight(f"{name}.weight", rows, columns, fan_in=rows))
        return self.node("Add", found, self.constant(f"{name}.bias", np.zeros(columns))) if bias else found

    def normalized(self, x: str, name: str, width: int) -> str:
        scale, bias = self.constant(f"{name}.scale", np.ones(width)), self.constant(f"{name}.bias", np.zeros(width))
        return self.node("LayerNormalization", x, scale, bias)

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(f"shape {shape}", shape, np.int64))

    def attended(self, query_key_value: Iterable[str], width: int, heads: int, mask: str | None = None) -> str:
        """Attention of heads [batch, heads, n, width / heads], side by side again: [batch, n, width]."""
        query, key, value = query_key_value
        scale = self.constant("scale", (width // heads) ** -0.5)
        scores = self.node("Mul", self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2])), scale)
        taken = self.node("Softmax", scores if mask is None else self.node("Add", scores, mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", taken, value), perm=[0, 2, 1, 3])
        return self.shaped(mixed, 0, -1, width)

    def gelu(self, x: str) -> str:
        root, half, one = (self.constant(f"value {it}", it) for it in (2**0.5, 0.5, 1.0))
        return self.node(
            "Mul", self.node("Mul", x, half), self.node("Add", self.node("Erf", self.node("Div", x, root)), one)
        )

    def mlp(self, x: str, name: str, width: int) -> str:
        """Four times as wide, and back."""
        return self.product(
            self.gelu(self.product(x, f"{name}.wide", width, 4 * width)), f"{name}.narrow", 4 * width, width
        )

    def split_heads(self, x: str, heads: int, width: int) -> str:
        return self.node("Transpose", self.shaped(x, 0, -1, heads, width // heads), perm=[0, 2, 1, 3])

    def model(self, title: str, inputs: Mapping[str, _Form], outputs: Mapping[str, _Form]) -> onnx.ModelProto:
        """Whole, with the types and shapes of what goes in and comes out."""
        ins, outs = (
            [onnx.helper.make_tensor_value_info(name, form, shape) for name, (form, shape) in values.items()]
            for values in (inputs, outputs)
        )
        graph = onnx.helper.make_graph(self.nodes, title, ins, outs, list(self.weights.values()))
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _vit(size: int, patch: int, width: int, layers: int, heads: int) -> onnx.ModelProto:
    """A vision transformer: patches, blocks of attention and of two products, the mean of all patches, ten classes. After
    Dosovitskiy et al., An Image is Worth 16x16 Words (2021), with random weights and without its class token."""
    b, patches = _Build(), (size // patch) ** 2
    kernel = b.weight("patches.weight", width, 3, patch, patch, fan_in=3 * patch * patch)
    x = b.shaped(b.node("Conv", "image", kernel, strides=[patch, patch]), 0, width, patches)
    x = b.node("Transpose", x, perm=[0, 2, 1])
    for number in range(layers):
        block = f"block{number}"
        y = b.normalized(x, f"{block}.before", width)
        heads_of = (b.split_heads(b.product(y, f"{block}.{name}", width, width), heads, width) for name in "qkv")
        x = b.node("Add", x, b.product(b.attended(heads_of, width, heads), f"{block}.out", width, width))
        x = b.node("Add", x, b.mlp(b.normalized(x, f"{block}.behind", width), block, width))
    x = b.node("ReduceMean", b.normalized(x, "last", width), axes=[1], keepdims=0)
    b.node("Softmax", b.product(x, "classes", width, 10), out="probabilities", axis=-1)
    image, given = (_FLOAT, ["batch", 3, size, size]), (_FLOAT, ["batch", 10])
    return b.model("vit", {"image": image}, {"probabilities": given})


@dataclass(frozen=True)
class _Sizes:
    """Of a decoder: layers, width, heads of queries and of keys, width between its products, words, positions."""

    layers: int
    width: int
    heads: int
    key_heads: int
    wide: int
    words: int
    positions: int

    @property
    def head(self) -> int:
        return self.width // self.heads


# GPT-2 (124 million weights, 498 MB) and TinyLlama (1.1 billion, 2.2 GB), and small ones of their kind.
_GPT = {False: _Sizes(12, 768, 12, 12, 3072, 50257, 1024), True: _Sizes(2, 64, 4, 4, 256, 128, 64)}
_LLAMA = {False: _Sizes(22, 2048, 32, 4, 5632, 32000, 2048), True: _Sizes(2, 64, 4, 2, 128, 128, 64)}


def _decoders(folder: Path, quick: bool) -> None:
    """Folders as onnxruntime-genai has them: a decoder whose cache grows, and one whose cache has a fixed length."""
    for name, made, sizes, shared in (("gpt", _gpt, _GPT[quick], False), ("llama", _llama, _LLAMA[quick], True)):
        (folder / name).mkdir()
        model = made(sizes)
        onnx.save_model(model, folder / name / "model.onnx", save_as_external_data=True, location="model.onnx.data")
        config = genai_config(
            name,
            sizes.words,
            sizes.positions,
            shared,
            sizes.layers,
            sizes.width,
            sizes.heads,
            sizes.key_heads,
            sizes.head,
        )
        (folder / name / "genai_config.json").write_text(json.dumps(config))


def _caches(sizes: _Sizes, form: int) -> tuple[dict[str, _Form], dict[str, _Form]]:
    """Past and present of all layers."""
    names = [f"{layer}.{kind}" for layer in range(sizes.layers) for kind in ("key", "value")]
    shapes = (["batch", sizes.key_heads, length, sizes.head] for length in ("past_length", "total_length"))
    past, present = ((form, shape) for shape in shapes)
    return {f"past_key_values.{it}": past for it in names}, {f"present.{it}": present for it in names}


def _gpt(sizes: _Sizes) -> onnx.ModelProto:
    """GPT-2 in single precision of ONNX's own operators, as Optimum exports it, with random weights."""
    b, width, heads = _Build(), sizes.width, sizes.heads
    words = b.weight("words", sizes.words, width, fan_in=4)
    places = b.weight("places", sizes.positions, width, fan_in=4)
    x = b.node("Add", b.node("Gather", words, "input_ids"), b.node("Gather", places, "position_ids"))
    # A key is hidden from the queries before it, and from all where the mask is 0.
    zero, one = b.constant("value 0.0", 0.0), b.constant("value 1.0", 1.0)
    kept = b.node("Cast", "attention_mask", to=onnx.TensorProto.FLOAT)
    counted = b.node("Sub", b.node("CumSum", kept, b.constant("one", 1, np.int64)), one)
    second, third = (b.constant(f"axis {it}", [it], np.int64) for it in (1, 2))
    asked = b.node("Unsqueeze", b.node("Cast", "position_ids", to=onnx.TensorProto.FLOAT), third)
    ahead = b.node("Clip", b.node("Sub", b.node("Unsqueeze", counted, second), asked), zero, one)
    hidden = b.node("Add", ahead, b.node("Unsqueeze", b.node("Sub", one, kept), second))
    mask = b.node("Unsqueeze", b.node("Mul", hidden, b.constant("penalty", -10000.0)), second)
    for layer in range(sizes.layers):
        block = f"block{layer}"
        y = b.normalized(x, f"{block}.before", width)
        query, *new = (b.split_heads(b.product(y, f"{block}.{name}", width, width), heads, width) for name in "qkv")
        state = [
            b.node("Concat", f"past_key_values.{layer}.{kind}", it, out=f"present.{layer}.{kind}", axis=2)
            for kind, it in zip(("key", "value"), new, strict=True)
        ]
        x = b.node("Add", x, b.product(b.attended([query, *state], width, heads, mask), f"{block}.out", width, width))
        x = b.node("Add", x, b.mlp(b.normalized(x, f"{block}.behind", width), block, width))
    b.node("MatMul", b.normalized(x, "last", width), b.node("Transpose", words, perm=[1, 0]), out="logits")
    past, present = _caches(sizes, _FLOAT)
    ids = (_INT64, ["batch", "sequence"])
    given = {"input_ids": ids, "attention_mask": (_INT64, ["batch", "total_length"]), "position_ids": ids, **past}
    return b.model("gpt", given, {"logits": (_FLOAT, ["batch", "sequence", sizes.words]), **present})


def _llama(sizes: _Sizes) -> onnx.ModelProto:
    """Llama in half precision with GroupQueryAttention, as onnxruntime-genai exports it, with random weights."""
    b, width = _Build(np.float16), sizes.width
    angles = np.outer(np.arange(sizes.positions), 10000.0 ** -(np.arange(sizes.head // 2) / (sizes.head // 2)))
    tables = b.constant("cosines", np.cos(angles)), b.constant("sines", np.sin(angles))
    # How long the cache is: seqlens on the device, the total on the host.
    one, along = b.constant("one", 1, np.int64), b.constant("along", [1], np.int64)
    behind = b.node("Sub", b.node("ReduceSum", "attention_mask", along, keepdims=0), one)
    seqlens = b.node("Cast", behind, to=onnx.TensorProto.INT32)
    total = b.node("Cast", b.node("Gather", b.node("Shape", "attention_mask"), one), to=onnx.TensorProto.INT32)
    x = b.node("Gather", b.weight("words", sizes.words, width, fan_in=4), "input_ids")

    def normalized(x: str, name: str) -> str:
        return b.node("SimplifiedLayerNormalization", x, b.constant(f"{name}.scale", np.ones(width)), epsilon=1e-5)

    for layer in range(sizes.layers):
        block = f"block{layer}"
        y = normalized(x, f"{block}.before")
        query = b.product(y, f"{block}.q", width, width, bias=False)
        new = [b.product(y, f"{block}.{name}", width, sizes.key_heads * sizes.head, bias=False) for name in "kv"]
        old, changed = (
            [f"{when}.{layer}.{kind}" for kind in ("key", "value")] for when in ("past_key_values", "present")
        )
        taken = f"{block}.attended"
        b.nodes.append(
            onnx.helper.make_node(
                "GroupQueryAttention", [query, *new, *old, seqlens, total, *tables], [taken, *changed], f"{block}.attention",
                domain="com.microsoft", num_heads=sizes.heads, kv_num_heads=sizes.key_heads, do_rotary=1,
            )
        )  # fmt: skip
        x = b.node("Add", x, b.product(taken, f"{block}.out", width, width, bias=False))
        y = normalized(x, f"{block}.behind")
        gate, up = (b.product(y, f"{block}.{name}", width, sizes.wide, bias=False) for name in ("gate", "up"))
        y = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), up)
        x = b.node("Add", x, b.product(y, f"{block}.down", sizes.wide, width, bias=False))
    b.node("MatMul", normalized(x, "last"), b.weight("classes", width, sizes.words, fan_in=width), out="logits")
    past, present = _caches(sizes, _HALF)
    given = {
        "input_ids": (_INT64, ["batch", "sequence"]),
        "attention_mask": (_INT64, ["batch", "total_length"]),
        **past,
    }
    return b.model("llama", given, {"logits": (_HALF, ["batch", "sequence", sizes.words]), **present})


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
