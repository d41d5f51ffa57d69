"""The models of the run, with inputs and the outputs they must give. Big ones are made where they are needed."""

from __future__ import annotations

import math
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from models.parts import Array, Arrays, Seeded, picture
from models.single import copy_bound, image_classifier, transformer_ids
from tests.gpu.steps import BATCHED, CHAIN, COPY, IMAGE, LOOPS, SLOWER, SMALL, TRANSFORMER

_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_MODELS = Path(__file__).resolve().parent.parent.parent / "models"


def write(folder: Path, quick: bool) -> None:
    """Write every model as NAME.onnx, with inputs and expected outputs in the folder NAME, as ONNX test sets have them.

    Those for loops lie beside what their steps take and give.

    Args:
        folder: to write into, there already.
        quick: smaller ones of the same kinds, for a device whose arithmetic is slow.
    """
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
    for file in (
        f"{CHAIN}.expected.npz",
        "text_encoder.onnx",
        "text_encoder.inputs.npz",
        "denoiser.onnx",
        "image_decoder.onnx",
    ):
        shutil.copy(_MODELS / file, folder / file)
    stages = (_MODELS / f"{CHAIN}.toml").read_text()
    (folder / f"{CHAIN}.toml").write_text(f'[defaults]\nep = "${{ACCEPT_EP}}"\n\n{stages}')


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
    bounds = [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("least", -3e38), ("most", 3e38))
    ]
    model.graph.initializer.extend(bounds)
    clips = [
        onnx.helper.make_node("Clip", [source, "least", "most"], [target], name=f"useless_clip_{number}")
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
    image, vit = BATCHED
    onnx.save(model, folder / f"{image}.onnx")
    onnx.save(_vit(*((32, 16, 32, 1, 2) if quick else (224, 16, 768, 12, 12))), folder / f"{vit}.onnx")


def _vit(size: int, patch: int, width: int, layers: int, heads: int) -> onnx.ModelProto:
    """A vision transformer: patches, blocks of attention and of two products, the mean of all patches, ten classes. After
    Dosovitskiy et al., An Image is Worth 16x16 Words (2021), with random weights and without its class token."""
    seeded = Seeded(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    patches, each = (size // patch) ** 2, width // heads

    def constant(name: str, array: Array) -> str:
        weights.append(numpy_helper.from_array(array, name))
        return name

    def node(op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}_{len(nodes)}"
        nodes.append(onnx.helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def product(x: str, name: str, rows: int, columns: int) -> str:
        weight = constant(f"{name}.weight", seeded.weight(rows, columns, fan_in=rows))
        return node("Add", node("MatMul", x, weight), constant(f"{name}.bias", np.zeros(columns, np.float32)))

    def normalized(x: str, name: str) -> str:
        scale, bias = np.ones(width, np.float32), np.zeros(width, np.float32)
        return node("LayerNormalization", x, constant(f"{name}.scale", scale), constant(f"{name}.bias", bias))

    flat = constant("flat", np.array([0, width, patches], np.int64))
    split = constant("split", np.array([0, patches, heads, each], np.int64))
    joined = constant("joined", np.array([0, patches, width], np.int64))
    root, half = (constant(name, np.array(value, np.float32)) for name, value in (("root", 2**0.5), ("half", 0.5)))
    scale, one = (constant(name, np.array(value, np.float32)) for name, value in (("scale", each**-0.5), ("one", 1.0)))
    kernel = constant("patches.weight", seeded.weight(width, 3, patch, patch, fan_in=3 * patch * patch))
    x = node("Reshape", node("Conv", "image", kernel, strides=[patch, patch]), flat)
    x = node("Transpose", x, perm=[0, 2, 1])
    for number in range(layers):
        block = f"block{number}"
        y = normalized(x, f"{block}.before")
        query, key, value = (node("Reshape", product(y, f"{block}.{name}", width, width), split) for name in "qkv")
        scores = node("MatMul", node("Transpose", query, perm=[0, 2, 1, 3]), node("Transpose", key, perm=[0, 2, 3, 1]))
        taken = node("Softmax", node("Mul", scores, scale), axis=-1)
        y = node("MatMul", taken, node("Transpose", value, perm=[0, 2, 1, 3]))
        y = node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), joined)
        x = node("Add", x, product(y, f"{block}.out", width, width))
        y = product(normalized(x, f"{block}.behind"), f"{block}.wide", width, 4 * width)
        gelu = node("Mul", node("Mul", y, half), node("Add", node("Erf", node("Div", y, root)), one))
        x = node("Add", x, product(gelu, f"{block}.narrow", 4 * width, width))
    x = node("ReduceMean", normalized(x, "last"), axes=[1], keepdims=0)
    scores = product(x, "classes", width, 10)
    nodes.append(onnx.helper.make_node("Softmax", [scores], ["probabilities"], name="Softmax_last", axis=-1))
    image = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, size, size])
    given = onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, ["batch", 10])
    graph = onnx.helper.make_graph(nodes, "vit", [image], [given], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


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
