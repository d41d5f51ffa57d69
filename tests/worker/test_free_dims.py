"""Fixed dimensions that are freed: which models can be, what is changed in them, and that a copy is its model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from ortbench.analysis.freed import kinds_of, problem
from ortbench.core.errors import BadInput
from ortbench.model.schema import Freed, Tensor
from ortbench.plan.target import Inputs, Target
from ortbench.worker.freeing.model import free
from ortbench.worker.freeing.requests import prove_freed
from ortbench.worker.state import State
from tests.conftest import MODELS, mostly_wide

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))

ATTENTION = """g (float[1,6,8] x) => (float[1,6,8] y)
<int64[4] heads = {1,6,2,4}, int64[3] merged = {2,6,4}, int64[4] apart = {1,2,6,4}, int64[3] whole = {1,6,8}> {
    a = Reshape(x, heads)
    b = Transpose<perm=[0,2,1,3]>(a)
    q = Reshape(b, merged)
    k = Transpose<perm=[0,2,1]>(q)
    s = MatMul(q, k)
    p = Softmax<axis=-1>(s)
    c = MatMul(p, q)
    d = Reshape(c, apart)
    e = Transpose<perm=[0,2,1,3]>(d)
    y = Reshape(e, whole)
}"""
SEQUENCE_FIRST = """g (float[1,6,8] x) => (float[1,6,8] y)
<int64[2] rows = {6,8}, int64[3] back = {6,1,8}> {
    a = Transpose<perm=[1,0,2]>(x)
    b = Reshape(a, rows)
    c = Relu(b)
    d = Reshape(c, back)
    y = Transpose<perm=[1,0,2]>(d)
}"""
RECURRENT = """g (float[3,2,4] x) => (float[3,1,2,5] y, float[1,2,5] last) {
    y, last = LSTM<hidden_size=5>(x, w, r, "", "", h, c)
}"""
LSTM = {
    "w": np.full((1, 20, 4), 0.1, np.float32),
    "r": np.full((1, 20, 5), 0.2, np.float32),
    "h": np.zeros((1, 2, 5), np.float32),
    "c": np.zeros((1, 2, 5), np.float32),
}
# What is freed, the model, and the nodes that are changed for it.
FREED: dict[str, tuple[str, str, list[str]]] = {
    "nothing pins it": ("x:0", "g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }", []),
    "flattened": (
        "x:0", "g (float[1,3,2,2] x) => (float[1,12] y) <int64[2] s = {1,-1}> { y = Reshape(x, s) }", ["Reshape 'y'"]
    ),
    "of several": (
        "x:0", "g (float[4,3,2] x) => (float[4,6] y) <int64[2] s = {4,6}> { y = Reshape(x, s) }", ["Reshape 'y'"]
    ),
    "a constant that two share": (
        "x:0",
        "g (float[2,6] x, float[2,6] z) => (float[2,3,2] y, float[2,3,2] v) <int64[3] s = {2,3,2}> { y = Reshape(x, s) v = Reshape(z, s) }",
        ["Reshape 'y'"],
    ),
    "free already": ("x:0", "g (float[1,6,8] x) => (float[6,8] y) <int64[2] s = {-1,8}> { y = Reshape(x, s) }", []),
    "heads": ("x:0", ATTENTION, ["Reshape 'a'", "Reshape 'q'", "Reshape 'd'", "Reshape 'y'"]),
    "the sequence first": ("x:0", SEQUENCE_FIRST, ["Reshape 'b'", "Reshape 'd'"]),
    "another axis": (
        "x:1", "g (float[2,5,4] x) => (float[2,5,2,2] y) <int64[4] s = {2,5,2,2}> { y = Reshape(x, s) }", ["Reshape 'y'"]
    ),
    "a state of zeros": ("x:1", RECURRENT, ["LSTM 'y'"]),
    "a class token": (
        "x:0", "g (float[1,4,3] x) => (float[1,5,3] y) <float[1,1,3] t = {1,2,3}> { y = Concat<axis=1>(t, x) }", ["Concat 'y'"]
    ),
    "expanded": (
        "x:0", "g (float[2,1,3] x) => (float[2,4,3] y) <int64[3] s = {2,4,3}> { y = Expand(x, s) }", ["Expand 'y'"]
    ),
    "resized": (
        "x:0",
        "g (float[1,1,2,2] x) => (float[1,1,4,4] y) <int64[4] s = {1,1,4,4}> { y = Resize<mode=\"nearest\">(x, \"\", \"\", s) }",
        ["Resize 'y'"],
    ),
    "beside another symbolic one": (
        "x:0", "g (float[1,n,8] x) => (float[1,n,2,4] y) <int64[4] s = {1,-1,2,4}> { y = Reshape(x, s) }", ["Reshape 'y'"]
    ),
    "computed shapes": (
        "x:0",
        "g (float[1,6] x) => (float[1,2,3] y) <int64[1] z = {0}, int64[2] t = {2,3}> { s = Shape(x) b = Gather(s, z) f = Concat<axis=0>(b, t) y = Reshape(x, f) }",
        [],
    ),
}  # fmt: skip


def model(text: str, path: Path, **weights: Any) -> str:
    """A model from onnx's text, with weights that it has no values for."""
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(made, path)
    return str(path)


def run(path: str, arrays: Mapping[str, Any]) -> list[Any]:
    return list(ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, dict(arrays)))


def inputs(path: str, size: int, name: str = "batch") -> dict[str, Any]:
    chance = np.random.default_rng(0)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    shapes = {
        it.name: [size if dim == name else 6 if isinstance(dim, str) else dim for dim in it.shape]
        for it in session.get_inputs()
    }
    return {it: chance.random(shape, dtype=np.float32) for it, shape in shapes.items()}


def ends(path: str) -> tuple[list[list[Any]], list[list[Any]]]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [it.shape for it in session.get_inputs()], [it.shape for it in session.get_outputs()]


@pytest.mark.parametrize("case", FREED)
def test_a_copy_is_its_model_at_its_size_and_follows_another(case: str, tmp_path: Path) -> None:
    dim, text, changed = FREED[case]
    path, axis = model(text, tmp_path / "m.onnx", **(LSTM if text is RECURRENT else {})), int(dim[-1])
    (tmp_path / "copy").mkdir()
    copy, found = free(path, {dim: "batch"}, str(tmp_path / "copy"))
    size = found["dims"][0]["size"]
    assert found == {"dims": [{"input": "x", "axis": axis, "size": size, "name": "batch"}], "nodes": changed}
    once = inputs(copy, size)
    for got, wanted in zip(run(copy, once), run(path, once), strict=True):
        np.testing.assert_array_equal(got, wanted)
    # Items of a batch know nothing of each other: the halves of one twice as large are two runs of the model.
    twice = inputs(copy, 2 * size)
    halves = [
        run(path, {name: np.split(it, 2, axis)[half] if name == "x" else it for name, it in twice.items()})
        for half in (0, 1)
    ]
    follows = [shape.index("batch") if "batch" in shape else 0 for shape in ends(copy)[1]]
    for got, *apart, at in zip(run(copy, twice), *halves, follows, strict=True):
        if "two share" in case and got.shape == apart[0].shape:
            continue  # of the input that is not freed
        np.testing.assert_allclose(got, np.concatenate(apart, at), rtol=1e-6)


def test_outputs_state_what_is_free_and_what_they_stated(tmp_path: Path) -> None:
    text = (
        "g (float[1,n,8] x) => (float[1,n,8] y, float[8] z) "
        "{ y = Relu(x) a = Constant<value_ints=[0,1]>() z = ReduceSum<keepdims=0>(x, a) }"
    )
    (tmp_path / "copy").mkdir()
    copy, _ = free(model(text, tmp_path / "m.onnx"), {"x:0": "batch"}, str(tmp_path / "copy"))
    assert ends(copy) == ([["batch", "n", 8]], [["batch", "n", 8], [8]])


def test_two_dimensions_and_two_inputs_are_freed_together(tmp_path: Path) -> None:
    text = "g (float[1,6,8] x, float[1,6,8] z) => (float[1,6,2,4] y) <int64[4] s = {1,6,2,4}> { a = Add(x, z) y = Reshape(a, s) }"
    path = model(text, tmp_path / "m.onnx")
    (tmp_path / "copy").mkdir()
    dims = {"x:0": "batch", "z:0": "batch", "x:1": "length", "z:1": "length"}
    copy, _ = free(path, dims, str(tmp_path / "copy"))
    assert ends(copy) == ([["batch", "length", 8]] * 2, [["batch", "length", 2, 4]])
    arrays = {name: np.ones((3, 5, 8), np.float32) for name in ("x", "z")}
    assert run(copy, arrays)[0].shape == (3, 5, 2, 4)


@pytest.mark.parametrize("path", mostly_wide(LIGHT[::-1], 6), ids=lambda path: path.stem)
def test_the_light_models_of_onnx_are_freed(path: Path, tmp_path: Path) -> None:
    name = next(
        it.name for it in onnx.load(path).graph.input if it.type.tensor_type.shape.dim[1:] and "data" in it.name
    )
    copy, _ = free(str(path), {f"{name}:0": "batch"}, str(tmp_path))
    (shape,), (out,) = ends(copy)
    assert shape[0] == out[0] == "batch"


@pytest.mark.parametrize(
    ("dims", "text", "reason"),
    [
        ({"z:0": "b"}, "g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }", "the model has no input 'z'; it has x"),
        ({"x:2": "b"}, "g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }", "x has 2 dimensions, counted from 0"),
        ({"x:0": "b"}, "g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }", "it is symbolic already (n)"),
        (
            {"x:0": "b", "z:0": "b"},
            "g (float[1,3] x, float[2,3] z) => (float[2,3] y) { y = Add(x, z) }",
            "b would be 2 here and 1 in x:0; give them two names",
        ),
        ({"x:1": "b"}, RECURRENT, "LSTM 'y' has an initial state of a fixed size ('h') that cannot be known for others"),
        (
            {"x:0": "b"}, "g (float[1,3] x) => (float[3] y) <int64[1] a = {0}> { y = Squeeze(x, a) }",
            "another size does not fit Squeeze 'y': Dimension of input 0 must be 1 instead of 7",
        ),
        (
            {"x:0": "b"}, "g (float[2,3] x) => (float[3,3] y) <float[3,2] w = {1,2,3,4,5,6}> { y = MatMul(w, x) }",
            "another size does not fit MatMul 'y': Incompatible dimensions for matrix multiplication",
        ),
        (
            {"x:0": "b"}, "g (float[2,3] x) => (float[3] y) <int64 i = {0}> { y = Gather(x, i) }",
            "no output depends on it: it ends at Gather 'y'",
        ),
        (
            {"x:0": "b"}, "g (float[2,3] x) => (float[4,3] y) <float[2,3] w = {1,2,3,4,5,6}> { a = Concat<axis=1>(x, w) y = Relu(a) }",
            "Concat 'a' joins 'w', which is 2 long there whatever the dimension is",
        ),
        (
            {"x:1": "b"}, "g (float[2,1,3] x) => (float[1,2,1,1,3] y) <int64[5] s = {1,2,1,1,3}> { y = Reshape(x, s) }",
            "Reshape 'y' has the constant shape [1, 2, 1, 1, 3], in which the dimension has more than one place, or none",
        ),
        (
            {"x:1": "b"}, "g (float[2,1,3] x) => (float[3,2] y) <int64[2] s = {3,2}> { y = Reshape(x, s) }",
            "Reshape 'y' has the constant shape [3, 2], in which the dimension has more than one place, or none",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_freed_is_said_with_the_node(
    dims: dict[str, str], text: str, reason: str, tmp_path: Path
) -> None:
    path = model(text, tmp_path / "m.onnx", **({**LSTM, "h": LSTM["h"] + 1} if text is RECURRENT else {}))
    label = list(dims)[-1]
    start = re.escape(f"--free-dim {label}: cannot be freed: {reason}")
    with pytest.raises(BadInput, match=f"^{start}"):
        free(path, dims, str(tmp_path))


@pytest.mark.parametrize(
    ("copy", "reason"),
    [
        ("{ y = Relu(x) }", None),
        (
            "{ y = Neg(x) }",
            r"--free-dim x:0=batch: the outputs of the copy are not those of the model: \d of 3 values of output y ",
        ),
        ("<int64[2] s = {1,3}> { y = Reshape(x, s) }", r"--free-dim: the copy does not run with batch=2: "),
    ],
)
def test_a_copy_is_held_against_its_model(copy: str, reason: str | None, tmp_path: Path) -> None:
    path = model("g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }", tmp_path / "m.onnx")
    other = model(f"g (float[batch,3] x) => (float[batch,3] y) {copy}", tmp_path / "copy.onnx")
    freed: Freed = {"dims": [{"input": "x", "axis": 0, "size": 1, "name": "batch"}], "nodes": []}
    asked = {"target": asdict(Target(ep="cpu")), "inputs": asdict(Inputs(dims={"batch": 8})), "freed": freed}
    with nullcontext() if reason is None else pytest.raises(BadInput, match=f"^{reason}"):
        prove_freed(State(), path, other, **asked)  # type: ignore[arg-type]


def tensor(name: str, model_shape: list[int | str | None], shape: list[int]) -> Tensor:
    return {"name": name, "type": "tensor(float)", "model_shape": model_shape, "shape": shape, "bytes": 0}


@pytest.mark.parametrize(
    ("shape", "wrong"),
    [
        ([3, 4], None),
        ([1, 4], "the copy does not do what it states: batch is 3, and output y is 1 long in axis 0"),
        ([3, 5], None),
    ],
)
def test_outputs_of_another_size_than_they_state_are_found(shape: list[int], wrong: str | None) -> None:
    freed: Freed = {"dims": [{"input": "x", "axis": 0, "size": 1, "name": "batch"}], "nodes": []}
    assert problem(freed, [tensor("x", ["batch", 4], [3, 4])], [tensor("y", ["batch", None], shape)]) == wrong


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [([], ""), ([4], "fixed"), (["n"], "symbolic"), ([1, 3], "all fixed"), (["n", None], "all symbolic"),
     (["n", 3, None, 4], "axes 0, 2 symbolic; axes 1, 3 fixed")],
)  # fmt: skip
def test_each_dimension_is_fixed_or_symbolic(shape: list[int | str | None], kinds: str) -> None:
    assert kinds_of(shape) == kinds


def test_a_file_in_orts_own_format_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^--free-dim x:0: cannot be freed: m\.ort is in ORT's own format"):
        free("m.ort", {"x:0": "batch"}, ".")


def test_weights_in_files_of_their_own_are_beside_the_copy(tmp_path: Path) -> None:
    text = "g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }"
    path = tmp_path / "m.onnx"
    weights = np.random.default_rng(1).random((64, 64), dtype=np.float32)
    made = onnx.load(model(text, path, w=weights))
    (tmp_path / "data").mkdir()
    onnx.save(made, path, save_as_external_data=True, location="data/w.bin", size_threshold=0)
    (tmp_path / "copy").mkdir()
    copy, _ = free(str(path), {"x:0": "batch"}, str(tmp_path / "copy"))
    assert Path(copy).stat().st_size < 1000
    arrays = inputs(copy, 3)
    np.testing.assert_allclose(run(copy, arrays)[0], arrays["x"] @ weights, rtol=1e-4)


# Of the models here: every one whose batch is fixed, all inputs together, but for two that multiply or write across it.
@pytest.mark.parametrize(
    "name", ["copy_bound", "image_classifier", "image_decoder", "recurrent_cell", "text_encoder", "fp16"]
)
def test_models_here_are_freed(name: str, tmp_path: Path) -> None:
    path = MODELS / f"{name}.onnx"
    dims = {f"{it.name}:0": "batch" for it in onnx.load(path).graph.input}
    copy, _ = free(str(path), dims, str(tmp_path))
    assert {shape[0] for side in ends(copy) for shape in side} == {"batch"}
