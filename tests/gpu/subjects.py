"""The three models of the run, with inputs and the outputs they must give. Big ones are made where they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

from models.make import Array, Arrays, copy_bound, image_classifier, picture, transformer_ids

COPY, IMAGE, TRANSFORMER = "copy_4k", "resnet50", "transformer"
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@dataclass(frozen=True)
class Subject:
    """A model in a folder, with the arguments of `ortbench run` that go with it; paths are relative to the folder."""

    name: str
    arguments: tuple[str, ...]


def write(folder: Path, quick: bool) -> list[Subject]:
    """Write the models.

    Args:
        folder: to write into, there already.
        quick: smaller ones of the same kinds, for a device whose arithmetic is slow.
    """
    image = _classifier(folder) if quick else _resnet50(folder)
    return [_copies(folder, *((270, 480) if quick else (2160, 3840))), image, _transformer(folder, quick)]


def _copies(folder: Path, height: int, width: int) -> Subject:
    """models/copy_bound.onnx for another size of image: as many bytes out as in, and little to compute."""
    model = copy_bound().model
    for value in (*model.graph.input, *model.graph.output):
        _resize(value, height, width)
    image = picture(height, width)
    scale = np.array([1.5, 1.25, 0.75], np.float32).reshape(3, 1, 1)
    bias = np.array([-0.25, -0.125, 0.0625], np.float32).reshape(3, 1, 1)
    adjusted = np.clip(image * scale + bias, np.float32(0), np.float32(1))
    return _save(folder, COPY, model, {"image": image}, {"adjusted": adjusted})


def _resnet50(folder: Path) -> Subject:
    """ResNet-50 as the onnx package ships it: the real topology, generated weights, expected outputs."""
    path = _LIGHT / "light_resnet50.onnx"
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    (value,) = [value for value in model.graph.input if value.name not in weights]
    image = Runner.generate_dummy_data(value, seed=0, name="light_resnet50", random=False)
    test_set = folder / IMAGE
    test_set.mkdir()
    (test_set / "input_0.pb").write_bytes(numpy_helper.from_array(image).SerializeToString())
    (test_set / "output_0.pb").write_bytes((_LIGHT / "light_resnet50_output_0.pb").read_bytes())
    onnx.save(model, folder / f"{IMAGE}.onnx")
    return Subject(IMAGE, (f"{IMAGE}.onnx", "--input", IMAGE))


def _classifier(folder: Path) -> Subject:
    """models/image_classifier.onnx for small images in its place."""
    model = image_classifier().model
    _resize(model.graph.input[0], 32, 32)
    inputs = {"image": picture(32, 32)}
    expected = _evaluate(model, inputs)
    return _save(folder, IMAGE, model, inputs, {"probabilities": expected})


def _transformer(folder: Path, quick: bool) -> Subject:
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
    return _save(folder, TRANSFORMER, case.model, arrays, {case.model.graph.output[0].name: expected})


def _evaluate(model: onnx.ModelProto, inputs: Arrays) -> Array:
    """The one output by ONNX's reference evaluator."""
    (output,) = ReferenceEvaluator(model).run(None, dict(inputs))
    return np.asarray(output)


def _resize(value: onnx.ValueInfoProto, height: int, width: int) -> None:
    *_, rows, columns = value.type.tensor_type.shape.dim
    rows.dim_value, columns.dim_value = height, width


def _save(folder: Path, name: str, model: onnx.ModelProto, inputs: Arrays, outputs: Arrays) -> Subject:
    onnx.save(model, folder / f"{name}.onnx")
    for kind, arrays in (("inputs", inputs), ("expected", outputs)):
        np.savez(folder / f"{name}.{kind}.npz", allow_pickle=False, **arrays)
    return Subject(name, (f"{name}.onnx", "--input", f"{name}.inputs.npz", "--expect", f"{name}.expected.npz"))
