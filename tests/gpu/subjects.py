"""The models of the run, with inputs and the outputs they must give. Big ones are made where they are needed."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from models.parts import Array, Arrays, Seeded, picture
from models.single import copy_bound, image_classifier, transformer_ids
from tests.gpu.steps import CHAIN, COPY, IMAGE, LOOPS, SMALL, TRANSFORMER

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
