"""Inputs: shapes filled in, random arrays in their ranges, files, and how far indices may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ortbench.core.errors import BadInput
from ortbench.plan.target import Inputs
from ortbench.worker.input_arrays import (
    default_range,
    load_arrays,
    load_expected,
    make_arrays,
    random_array,
    resolve_shapes,
)
from ortbench.worker.tensors import Array, TensorSpec, index_sizes
from tests.conftest import MODELS
from tests.expect import refusal, there

DTYPES = {
    "float": np.dtype("float32"),
    "double": np.dtype("float64"),
    "float16": np.dtype("float16"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": np.dtype(bool),
    "string": np.dtype(object),
}
FLOATS = ["float", "double", "float16", "bfloat16", "float8e4m3fn", "float8e5m2"]
INTEGERS = [name for name in DTYPES if "int" in name]


def spec(name: str, *shape: int | str | None, element: str = "float") -> TensorSpec:
    return TensorSpec(name, f"tensor({element})", shape)


IDS = [spec("ids", "batch", "length", element="int64"), spec("mask", "batch", "length", element="int64")]
CACHE = [spec("ids", "batch", "sequence"), spec("past", "batch", "past"), spec("mask", "batch", "total")]
NAMED = [
    spec("past", "past_length"),
    spec("mask", "past_length + 1"),
    spec("half", "past_length / 2"),
]  # as exporters do
PLACES = [spec("x.1", None, None), spec("state", 2, None, 4), spec("mask", "total")]
PADDLE = [spec("x", "p2o.Dim.0"), spec("y", "unk:1"), spec("z", "p2o.Dim.0 + 1")]
NO_SIZE = [spec("x", "n", "n / 2", "n - 1", "other + 1")]  # a name that comes to no size is a name like others
BY_PLACE = {"x.1[0]": 4, "state[1]": "x.1[0]", "total": "x.1[1]+state[1]"}
STEP = {"step": 4, "past": 0}  # of a loop, whose states may have no length


@pytest.mark.parametrize(
    ("specs", "shapes", "dims", "found", "guessed"),
    [
        ([spec("x", 1, 3), spec("s")], {}, {}, [(1, 3), ()], []),
        (IDS, {"mask": (2, 16)}, {}, [(2, 16), (2, 16)], []),
        (IDS, {}, {"length": 8}, [(1, 8), (1, 8)], ["batch"]),  # told once
        ([spec("x", None, 3, None), spec("y", "x[0]")], {}, {"x[0]": 4}, [(4, 3, 1), (4,)], ["x[2]"]),  # without a name
        ([spec("x")], {"x": (2, 2)}, {}, [(2, 2)], []),  # of unknown rank
        # Axes that have a name, by their places
        ([spec("x", None, 3, "?", "?")], {}, {"x[2]": 48, "?": 7}, [(1, 3, 48, 7)], ["x[0]"]),
        ([spec("x", 3, "?"), spec("y", "?")], {}, {"x[1]": 4}, [(3, 4), (4,)], []),  # as --shape says it
        (IDS, {}, {"mask[1]": "2*length", "length": 4}, [(1, 4), (1, 8)], ["batch"]),
        # Axes of one name with several sizes, which then say nothing of other inputs
        (IDS, {"ids": (2, 4)}, {"length": 5}, [(2, 4), (2, 5)], []),
        ([spec("x", "unk", "unk"), spec("y", "unk")], {"x": (2, 3)}, {}, [(2, 3), (1,)], ["unk"]),
        # Sums
        (CACHE, {}, {"batch": 2, "past": 6, "sequence": 3, "total": "past+sequence"}, [(2, 3), (2, 6), (2, 9)], []),
        (CACHE, {}, {"total": "2*sequence", "sequence": "past//2", "past": 8}, [(1, 4), (1, 8), (1, 8)], ["batch"]),
        (NAMED, {}, {"past_length": 6}, [(6,), (7,), (3,)], []),
        (NAMED, {}, {"past_length": 6, "past_length + 1": 9}, [(6,), (9,), (3,)], []),
        (PLACES, {}, BY_PLACE, [(4, 1), (2, 4, 4), (5,)], ["x.1[1]"]),
        (PADDLE, {}, {"p2o.Dim.0": 4, "unk:1": "2*p2o.Dim.0"}, [(4,), (8,), (5,)], []),
        (NO_SIZE, {}, {}, [(1, 1, 1, 1)], ["n", "n - 1", "n / 2", "other + 1"]),
        (NO_SIZE, {}, {"n": 5}, [(5, 1, 4, 1)], ["n / 2", "other + 1"]),
    ],
)  # fmt: skip
def test_shapes(
    specs: list[TensorSpec], shapes: Any, dims: Any, found: list[tuple[int, ...]], guessed: list[str]
) -> None:
    shapes_of, unknown = resolve_shapes(specs, shapes, dims)
    assert ([shapes_of[it.name] for it in specs], sorted(unknown)) == (found, guessed)


def test_sums_of_what_is_known_in_a_loop() -> None:
    assert [*resolve_shapes(CACHE, {}, {"total": "past+step"}, STEP)[0].values()] == [(1, 1), (1, 0), (1, 4)]
    assert [*resolve_shapes(NAMED, {}, {}, {"step": 0, "past_length": 0})[0].values()] == [(0,), (1,), (0,)]


FREE = "onnx.tools.update_model_dims.update_inputs_outputs_dims makes a copy of the model with free dimensions"


# What a user meets first is in tests/cli/refusals.txt.
@pytest.mark.parametrize(
    ("specs", "shapes", "dims", "message"),
    [
        (CACHE, {}, {"total": "past", "past": "total"}, "--dim total=past: is a sum of itself"),
        (PLACES[:2], {}, {"state[1]": "state[1]+1"}, "--dim state[1]=state[1]+1: is a sum of itself"),
        (CACHE, {}, {"total": "past*1e999"}, "--dim total=past*1e999: inf is no size"),
        (IDS, {}, {"ids[2]": 1}, "--dim ids[2]: the model has no such symbolic dimension; it has batch, length"),
        ([spec("x", 1, None)], {}, {"batch": 2}, f"--dim batch: the model has no such symbolic dimension; it has x[1]; {FREE}"),
        ([spec("x", None, 3)], {"x": (2, 4)}, {}, f"--shape x: 2x4 does not fit ?x3: the model fixes 3; {FREE}"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(specs: list[TensorSpec], shapes: Any, dims: Any, message: str) -> None:
    assert refusal(BadInput, resolve_shapes, specs, shapes, dims) == message


@pytest.mark.parametrize(
    ("element", "size", "bounds"),
    [
        *((element, None, (0, 1)) for element in (*FLOATS, "int64", "uint64", "bool", "string")),
        *(("uint8", None, (0, 255)), ("int8", None, (-128, 127))),
        *(("int64", 500, (0, 499)), ("int32", 1, (0, 0)), ("int8", 500, (0, 127))),  # indices stay in their table
    ],
)
def test_default_ranges(element: str, size: int | None, bounds: tuple[int, int]) -> None:
    assert default_range(spec("x", element=element), size) == bounds


def random(element: str, shape: tuple[int, ...], low: float, high: float) -> Array:
    return random_array(spec("x", element=element), shape, (low, high), np.random.default_rng(0))


@pytest.mark.parametrize("element", DTYPES)
def test_random_arrays_have_the_form_and_the_bounds_that_were_asked_for(element: str) -> None:
    for shape in ((), (3,), (2, 0, 4), (1, 2, 3)):
        array = random(element, shape, 0, 1)
        assert isinstance(array, np.ndarray)
        assert (array.dtype, array.shape, array.flags.c_contiguous) == (DTYPES[element], shape, True)
    if element in INTEGERS:
        assert set(random(element, (500,), 3, 6).tolist()) == {3, 4, 5, 6}
        assert set(random(element, (5,), 7, 7).tolist()) == {7}
    for low, high in ((0, 1), (-2, 6), (0.5, 0.5), (-8, -4)) if element in FLOATS else ():
        array = random(element, (20_000,), low, high).astype(np.float64)
        assert low <= array.min() <= low + 0.02 * (high - low)
        assert high - 0.07 * (high - low) <= array.max() <= high
        assert array.mean() == pytest.approx((low + high) / 2, abs=0.02 * (high - low) + 1e-9)


@pytest.mark.parametrize(
    ("element", "low", "high", "text"),
    [
        ("float16", 0, 1e6, "0,1e+06 does not fit float16"),
        ("double", -1.7e308, 1.7e308, "-1.7e+308,1.7e+308 does not fit float64"),
        ("bool", 0, 2, "0,2 does not fit bool"),
        ("uint8", 0, 256, "0,256 does not fit uint8"),
        ("int64", 0, 2.0**63, "0,9.22337e+18 does not fit int64"),
    ],
)
def test_ranges_that_do_not_fit_the_dtype(element: str, low: float, high: float, text: str) -> None:
    assert refusal(BadInput, random, element, (2,), low, high) == f"--range x:{text}"


def test_arrays_follow_the_request_and_its_seed() -> None:
    request = Inputs(dims={"batch": 2}, ranges={"mask": (1.0, 1.0)}, seed=3)
    arrays, guessed, ranges = make_arrays(IDS, request, {"ids": 40})
    assert (arrays["ids"].shape, arrays["mask"].tolist()) == ((2, 1), [[1], [1]])
    assert (guessed, ranges) == (["length"], {"ids": (0, 39), "mask": (1.0, 1.0)})
    inputs = [spec("a", 50), spec("b", 50)]
    first, second, other = (make_arrays(inputs, Inputs(seed=seed), {})[0] for seed in (5, 5, 6))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)
    assert not np.array_equal(first["a"], first["b"])
    assert {*random("string", (2, 50), 0, 1).flat} == {f"s{digit}" for digit in range(10)}


X = spec("x", "batch", 3)
Y = spec("y", element="int64")
ONE = np.zeros((1, 3), np.float32)


def test_npz(tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.savez(tmp_path / "in.npz", y=np.array(7), x=x)
    arrays = load_arrays(tmp_path / "in.npz", [X, Y], "input")
    assert [(name, it.dtype, it.tolist(), it.flags.c_contiguous) for name, it in arrays.items()] == [
        ("x", np.dtype("float32"), x.tolist(), True), ("y", np.dtype("int64"), 7, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("specs", "arrays", "message"),
    [
        ([X, Y], {"x": ONE}, " misses y; the model's inputs are x, y"),
        ([X, Y], {"a": ONE, "b": ONE}, " misses x, y and has a, b that the model has not; the model's inputs are x, y"),
        ([X, Y], {"x": ONE, "y": ONE, "z": ONE}, " has z that the model has not; the model's inputs are x, y"),
        ([X], {"x": np.array([["a", "b", "c"]])}, ": x is <U1, the model wants float32"),
        ([X], {"x": np.zeros(3, np.float32)}, " x: 3 does not fit batchx3: 2 dimension(s) are needed"),
    ],
)
def test_npz_that_does_not_fit(specs: list[TensorSpec], arrays: dict[str, Array], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **arrays)  # type: ignore[arg-type]
    path = tmp_path / "in.npz"
    assert refusal(BadInput, load_arrays, path, specs, "input") == f"{path}{message}"


class Trap:
    """Unpickling one is found out."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (setattr, (Trap, "sprung", True))


def test_files_that_are_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", ONE)
    assert "holds one array" in refusal(BadInput, load_arrays, tmp_path / "one.npy", [X], "input")
    np.savez(tmp_path / "pickled.npz", x=np.array([Trap()], dtype=object))
    np.savez_compressed(tmp_path / "whole.npz", x=np.random.default_rng(0).random((100, 3)).astype(np.float32))
    content = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "damaged.npz").write_bytes(content[:100] + bytes(40) + content[140:])
    (tmp_path / "cut.npz").write_bytes(content[:300])
    for name, element in (("pickled", "string"), ("damaged", "float"), ("cut", "float")):
        given = [spec("x", "n", 3, element=element)]
        assert "is not an .npz file" in refusal(BadInput, load_arrays, tmp_path / f"{name}.npz", given, "input")
    assert not Trap.sprung


def write_folder(folder: Path, kind: str, *arrays: Array) -> None:
    for index, array in enumerate(arrays):
        (folder / f"{kind}_{index}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


@pytest.mark.parametrize("element", DTYPES)
def test_files_of_every_dtype(tmp_path: Path, element: str) -> None:
    """Also those that numpy has not; texts are not Python's objects in an .npz, which are never unpickled."""
    array = random(element, (2, 3), 0, 1)
    write_folder(tmp_path, "input", array)
    np.savez(tmp_path / "in.npz", x=array.astype(str) if element == "string" else array)
    places = [tmp_path, tmp_path / "in.npz"]
    for path in places[:1] if element == "float8e5m2" else places:  # whose .npz NumPy itself cannot read
        loaded = load_arrays(path, [spec("x", 2, 3, element=element)], "input")["x"]
        assert (loaded.dtype, loaded.tolist()) == (array.dtype, array.tolist())


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    write_folder(tmp_path, "input", np.ones((2, 3)))
    for specs, kind, message in (
        ([X, Y], "input", f"{tmp_path} has no input_1.pb; the model has 2 input(s)"),
        ([X], "output", f"{tmp_path} has no output_0.pb; the model has 1 output(s)"),
        ([X], "input", f"{tmp_path}: x is float64, the model wants float32"),
        ([], "input", f"{tmp_path} has one file too many, input_0.pb; the model has 0 input(s)"),
    ):
        assert refusal(BadInput, load_arrays, tmp_path, specs, kind) == message
    (tmp_path / "input_0.pb").write_bytes(b"\xff\xff\xff not a tensor")
    said = f"{tmp_path / 'input_0.pb'} is not a tensor in ONNX format: "
    assert refusal(BadInput, load_arrays, tmp_path, [X], "input").startswith(said)


def test_expected_outputs(tmp_path: Path) -> None:
    folder, other = tmp_path / "set", tmp_path / "other.npz"
    folder.mkdir()
    assert load_expected(Inputs(), [X]) is None
    assert load_expected(Inputs(path=str(folder)), [X]) is None
    write_folder(folder, "output", ONE + 1)
    np.savez(other, x=ONE + 2)
    for expect, value in ((None, 1), (str(other), 2)):
        found = there(load_expected(Inputs(path=str(folder), expect=expect), [X]))
        assert found["x"].tolist() == [[value] * 3]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y = Gather (table, i)", {"i": 500}),
        ("a = Gather (table, i) b = Gather (table, j) y = Add (a, b)", {"i": 500, "j": 500}),
        ("a = Gather (table, i) b = Gather (small, i) y = Add (a, b)", {"i": 20}),
        ("a = Identity (i) b = Unsqueeze (a, one) c = Squeeze (b, one) y = Gather (table, c)", {"i": 500}),
        ("a = Reshape (i, one) b = Flatten (a) c = Transpose (b) y = Gather (table, c)", {"i": 500}),
        ("a = Slice (i, one, one) b = Expand (a, one) c = Tile (b, one) y = Gather (table, c)", {"i": 500}),
        ("a = Concat <axis = 0> (i, j) y = Gather (table, a)", {"i": 500, "j": 500}),
        ("t = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> () y = Gather (t, i)", {"i": 3}),
        ("y = Gather (x, i)", {"i": 7}),  # a table that is an input itself
        ("t = Relu (table) y = Gather (t, i)", {"i": 500}),  # a table that is computed
        ("y = Gather <axis = 1> (x, i)", {}),  # an axis nobody knows
        ("y = Gather <axis = -2> (table, i)", {"i": 500}),
        ("y = Gather <axis = 2> (table, i)", {}),
        ("y = Gather (empty, i)", {}),
        ("a = Add (i, one) y = Gather (table, a)", {}),  # another value: the input is not the index
        ("y = Gather (i, one)", {}),  # indexed, not an index
    ],
)
def test_index_sizes(tmp_path: Path, body: str, found: dict[str, int]) -> None:
    """Of a graph with int64 inputs i, j and a float input x, and tables as initializers."""
    graph = onnx.parser.parse_graph(f"g (int64[n] i, int64[n] j, float[7,n] x) => (float[m] y) {{ {body} }}")
    table, small = np.zeros((500, 32), np.float32), np.zeros((20, 4), np.float32)
    tables = {"table": table, "small": small, "empty": small[:0], "one": np.array([1])}
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in tables.items())
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    inputs = [spec("i", "n", element="int64"), spec("j", "n", element="int64"), spec("x", 7, "n")]
    assert index_sizes(str(tmp_path / "m.onnx"), inputs) == found


def test_index_sizes_need_no_weights(tmp_path: Path) -> None:
    """Weights in a file of their own can be many gigabytes: only their shape is wanted."""
    graph = onnx.parser.parse_graph("g (int64[n] i) => (float[n,32] y) { y = Gather (table, i) }")
    table = onnx.TensorProto(name="table", dims=[500, 32], data_type=onnx.TensorProto.FLOAT)
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="missing.bin")
    graph.initializer.append(table)
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    assert index_sizes(str(path), [spec("i", "n", element="int64")]) == {"i": 500}


def test_index_sizes_need_integer_inputs_and_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.ort").write_bytes(b"\x1c\x00\x00\x00ORTM and more")
    for path, given in (
        (MODELS / "tiny.onnx", spec("x", 16)),
        (MODELS / "tiny.onnx", TensorSpec("x", "seq(tensor(int64))", ())),
        (tmp_path / "missing.onnx", spec("i", element="int64")),
        (tmp_path / "m.ort", spec("i", element="int64")),
    ):
        assert index_sizes(str(path), [given]) == {}
