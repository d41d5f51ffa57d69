"""Inputs: shapes filled in, random arrays in their ranges, files, and how far indices may go."""

from __future__ import annotations

import re
from collections.abc import Sequence
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


def refused(message: str) -> Any:
    """Expects a `BadInput` whose whole text is `message`."""
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


# Shapes


IDS = [spec("ids", "batch", "length", element="int64"), spec("mask", "batch", "length", element="int64")]


@pytest.mark.parametrize(
    ("specs", "shapes", "dims", "found", "guessed"),
    [
        ([spec("x", 1, 3), spec("s")], {}, {}, {"x": (1, 3), "s": ()}, []),
        (IDS, {}, {"batch": 2, "length": 16}, {"ids": (2, 16), "mask": (2, 16)}, []),
        (IDS, {"mask": (2, 16)}, {}, {"ids": (2, 16), "mask": (2, 16)}, []),
        (IDS, {}, {"length": 8}, {"ids": (1, 8), "mask": (1, 8)}, ["batch"]),  # told once
        (IDS, {"ids": (2, 4)}, {"batch": 2}, {"ids": (2, 4), "mask": (2, 4)}, []),
        ([spec("x", None, 3, None)], {}, {}, {"x": (1, 3, 1)}, ["x[0]", "x[2]"]),  # without a name
        ([spec("x", None, 3, None)], {"x": (4, 3, 5)}, {}, {"x": (4, 3, 5)}, []),
        ([spec("x", None, 3, None), spec("y", "x[0]")], {}, {"x[0]": 4, "x[2]": 5}, {"x": (4, 3, 5), "y": (4,)}, []),
        ([spec("x")], {"x": (2, 2)}, {}, {"x": (2, 2)}, []),  # of unknown rank
        # Axes that have a name, by their places
        ([spec("x", None, 3, "?", "?")], {}, {"x[2]": 48, "x[3]": 192}, {"x": (1, 3, 48, 192)}, ["x[0]"]),
        ([spec("x", None, 3, "?", "?")], {}, {"x[2]": 48, "?": 7}, {"x": (1, 3, 48, 7)}, ["x[0]"]),
        ([spec("x", 3, "?"), spec("y", "?")], {}, {"x[1]": 4}, {"x": (3, 4), "y": (4,)}, []),  # as --shape says it
        (IDS, {}, {"mask[1]": 5, "length": 4}, {"ids": (1, 4), "mask": (1, 5)}, ["batch"]),
        (IDS, {}, {"mask[1]": "2*length", "length": 4}, {"ids": (1, 4), "mask": (1, 8)}, ["batch"]),
        # Axes of one name with several sizes, which then say nothing of other inputs.
        ([spec("x", None, 3, "?", "?")], {"x": (1, 3, 48, 192)}, {}, {"x": (1, 3, 48, 192)}, []),
        ([spec("x", None, 3, "?", "?")], {}, {"?": 48}, {"x": (1, 3, 48, 48)}, ["x[0]"]),
        (IDS, {"ids": (2, 4), "mask": (3, 4)}, {}, {"ids": (2, 4), "mask": (3, 4)}, []),
        (IDS, {"ids": (2, 4)}, {"length": 5}, {"ids": (2, 4), "mask": (2, 5)}, []),
        ([spec("x", "unk", "unk"), spec("y", "unk")], {"x": (2, 3)}, {}, {"x": (2, 3), "y": (1,)}, ["unk"]),
        ([spec("x", "unk", "unk"), spec("y", "unk")], {"x": (2, 3)}, {"unk": 7}, {"x": (2, 3), "y": (7,)}, []),
    ],
)
def test_shapes(
    specs: list[TensorSpec], shapes: dict[str, Any], dims: dict[str, Any], found: dict[str, Any], guessed: list[str]
) -> None:
    assert resolve_shapes(specs, shapes, dims) == (found, guessed)


# Dimensions that are sums

CACHE = [spec("ids", "batch", "sequence"), spec("past", "batch", "past"), spec("mask", "batch", "total")]


def test_a_dimension_that_is_a_sum_of_others() -> None:
    given: dict[str, int | str] = {"batch": 2, "past": 6, "sequence": 3, "total": "past+sequence"}
    assert resolve_shapes(CACHE, {}, given) == ({"ids": (2, 3), "past": (2, 6), "mask": (2, 9)}, [])
    assert resolve_shapes(CACHE, {"past": (2, 6)}, {"total": "past+1"})[0]["mask"] == (2, 7)
    chained: dict[str, int | str] = {"total": "2*sequence", "sequence": "past//2", "past": 8}
    assert resolve_shapes(CACHE, {}, chained) == ({"ids": (1, 4), "past": (1, 8), "mask": (1, 8)}, ["batch"])


def test_in_a_loop_there_are_steps_and_states_of_no_length() -> None:
    known = {"step": 4, "past": 0}
    found = {"ids": (1, 1), "past": (1, 0), "mask": (1, 4)}
    assert resolve_shapes(CACHE, {}, {"total": "past+step"}, known)[0] == found
    assert resolve_shapes(CACHE, {}, {"total": "past"}, known)[0]["mask"] == (1, 0)


def test_a_name_that_is_a_sum_itself() -> None:
    """As exporters write them."""
    specs = [spec("past", "past_length"), spec("mask", "past_length + 1"), spec("half", "past_length / 2")]
    assert resolve_shapes(specs, {}, {"past_length": 6}) == ({"past": (6,), "mask": (7,), "half": (3,)}, [])
    assert resolve_shapes(specs, {}, {"past_length": 6, "past_length + 1": 9})[0]["mask"] == (9,)
    assert resolve_shapes(specs, {}, {}, {"step": 0, "past_length": 0})[0] == {"past": (0,), "mask": (1,), "half": (0,)}


def test_sums_of_dimensions_whose_names_are_no_identifiers() -> None:
    specs = [spec("x.1", None, None), spec("state", 2, None, 4), spec("mask", "total")]
    given: dict[str, int | str] = {"x.1[0]": 4, "state[1]": "x.1[0]", "total": "x.1[1]+state[1]"}
    assert resolve_shapes(specs, {}, given) == ({"x.1": (4, 1), "state": (2, 4, 4), "mask": (5,)}, ["x.1[1]"])
    specs = [spec("x", "p2o.Dim.0"), spec("y", "unk:1"), spec("z", "p2o.Dim.0 + 1")]
    assert resolve_shapes(specs, {}, {"p2o.Dim.0": 4, "unk:1": "2*p2o.Dim.0"})[0] == {"x": (4,), "y": (8,), "z": (5,)}
    specs = [spec("x.1", None, None), spec("state", 2, None, 4)]
    with refused("--dim state[1]=state[1]+1: is a sum of itself"):
        resolve_shapes(specs, {}, {"state[1]": "state[1]+1"})


def test_a_name_that_comes_to_no_size_is_a_name_like_others() -> None:
    specs = [spec("x", "n", "n / 2", "n - 1", "other + 1")]
    shapes, guessed = resolve_shapes(specs, {}, {})
    assert (shapes["x"], sorted(guessed)) == ((1, 1, 1, 1), ["n", "n - 1", "n / 2", "other + 1"])
    assert resolve_shapes(specs, {}, {"n": 5}) == ({"x": (5, 1, 4, 1)}, ["n / 2", "other + 1"])


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"total": "many"}, "--dim total=many: the model has no dimension 'many'; write a whole number, or a sum of batch, past, sequence"),
        ({"total": "past+step"}, "--dim total=past+step: only a loop has steps"),
        ({"total": "total+1"}, "--dim total=total+1: is a sum of itself"),
        ({"total": "past", "past": "total"}, "--dim total=past: is a sum of itself"),
        ({"total": "past-2"}, "--dim total=past-2: -1 is no size"),
        ({"total": "past-1"}, "--dim total=past-1: 0 is no size, which leaves nothing to measure"),
        ({"total": "past/2"}, "--dim total=past/2: 0.5 is no size"),
        ({"total": "past*1e999"}, "--dim total=past*1e999: inf is no size"),
        ({"total": "past//(past-1)"}, "--dim total=past//(past-1): divides by zero"),
        ({"width": "past"}, "--dim width: the model has no such symbolic dimension; it has batch, past, sequence, total"),
    ],
)  # fmt: skip
def test_sums_that_are_no_sizes(dims: dict[str, int | str], message: str) -> None:
    with refused(message):
        resolve_shapes(CACHE, {}, dims)


@pytest.mark.parametrize(
    ("specs", "shapes", "dims", "message"),
    [
        (IDS, {"x": (1,)}, {}, "--shape x: the model has no such input; it has ids, mask"),
        (IDS, {}, {"n": 1}, "--dim n: the model has no such symbolic dimension; it has batch, length"),
        (IDS, {}, {"ids[2]": 1}, "--dim ids[2]: the model has no such symbolic dimension; it has batch, length"),
        (IDS, {"ids": (2,)}, {}, "--shape ids: 2 does not fit batchxlength: 2 dimension(s) are needed"),
        (IDS, {"ids": ()}, {}, "--shape ids: a scalar does not fit batchxlength: 2 dimension(s) are needed"),
        (
            [spec("x", 1, None)],
            {},
            {"batch": 2},
            "--dim batch: the model has no such symbolic dimension; it has x[1]; "
            "onnx.tools.update_model_dims.update_inputs_outputs_dims makes a copy of the model with free dimensions",
        ),
        (
            [spec("x", None, 3)],
            {"x": (2, 4)},
            {},
            "--shape x: 2x4 does not fit ?x3: the model fixes 3; "
            "onnx.tools.update_model_dims.update_inputs_outputs_dims makes a copy of the model with free dimensions",
        ),
    ],
)
def test_shapes_that_do_not_fit(
    specs: list[TensorSpec], shapes: dict[str, tuple[int, ...]], dims: dict[str, int], message: str
) -> None:
    with refused(message):
        resolve_shapes(specs, shapes, dims)


# Ranges


@pytest.mark.parametrize(
    ("element", "size", "bounds"),
    [
        *((element, None, (0, 1)) for element in (*FLOATS, "int32", "uint32", "int64", "uint64", "bool", "string")),
        ("uint8", None, (0, 255)),
        ("int8", None, (-128, 127)),
        ("uint16", None, (0, 65535)),
        ("int16", None, (-32768, 32767)),
        # Indices stay in their table.
        ("int64", 500, (0, 499)),
        ("int32", 1, (0, 0)),
        ("int8", 500, (0, 127)),
        ("uint8", 500, (0, 255)),
    ],
)
def test_default_ranges(element: str, size: int | None, bounds: tuple[int, int]) -> None:
    assert default_range(spec("x", element=element), size) == bounds


# Random arrays


def random(element: str, shape: tuple[int, ...], low: float, high: float, seed: int = 0) -> Array:
    return random_array(spec("x", element=element), shape, (low, high), np.random.default_rng(seed))


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (1, 2, 3)])
def test_random_arrays_have_the_form_that_was_asked_for(element: str, shape: tuple[int, ...]) -> None:
    array = random(element, shape, 0, 1)
    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.shape) == (DTYPES[element], shape)
    assert array.flags.c_contiguous


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-2, 6), (0.5, 0.5), (-8, -4)])
def test_floats_lie_within_their_bounds(element: str, low: float, high: float) -> None:
    array = random(element, (20_000,), low, high).astype(np.float64)
    assert low <= array.min() <= low + 0.02 * (high - low)
    assert high - 0.07 * (high - low) <= array.max() <= high
    assert array.mean() == pytest.approx((low + high) / 2, abs=0.02 * (high - low) + 1e-9)


@pytest.mark.parametrize("element", INTEGERS)
def test_integers_reach_both_bounds(element: str) -> None:
    assert set(random(element, (500,), 3, 6).tolist()) == {3, 4, 5, 6}
    assert set(random(element, (5,), 7, 7).tolist()) == {7}


@pytest.mark.parametrize(
    ("element", "low", "high", "text"),
    [
        ("float16", 0, 1e6, "0,1e+06 does not fit float16"),
        ("double", -1.7e308, 1.7e308, "-1.7e+308,1.7e+308 does not fit float64"),
        ("bool", 0, 2, "0,2 does not fit bool"),
        ("uint8", -1, 5, "-1,5 does not fit uint8"),
        ("uint8", 0, 256, "0,256 does not fit uint8"),
        ("int8", -129, 0, "-129,0 does not fit int8"),
        ("int64", 0, 2.0**63, "0,9.22337e+18 does not fit int64"),
        ("int64", 0, 1.5, "0,1.5 does not fit int64"),
        ("int32", 0.5, 3, "0.5,3 does not fit int32"),
    ],
)
def test_ranges_that_do_not_fit_the_dtype(element: str, low: float, high: float, text: str) -> None:
    with refused(f"--range x:{text}"):
        random(element, (2,), low, high)


def test_strings_are_short_texts() -> None:
    texts = random("string", (2, 50), 0, 1)
    assert {type(text) for text in texts.flat} == {str}
    assert {str(text) for text in texts.flat} == {f"s{digit}" for digit in range(10)}


# A whole request


def test_make_follows_the_request() -> None:
    request = Inputs(dims={"batch": 2}, ranges={"mask": (1.0, 1.0)}, seed=3)
    arrays, guessed, ranges = make_arrays(IDS, request, {"ids": 40})
    assert {name: array.shape for name, array in arrays.items()} == {"ids": (2, 1), "mask": (2, 1)}
    assert guessed == ["length"]
    assert ranges == {"ids": (0, 39), "mask": (1.0, 1.0)}
    assert arrays["mask"].tolist() == [[1], [1]]


def test_make_is_the_same_for_the_same_seed() -> None:
    inputs = [spec("a", 50), spec("b", 50)]
    first, second, other = (make_arrays(inputs, Inputs(seed=seed), {})[0] for seed in (5, 5, 6))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)
    assert not np.array_equal(first["a"], first["b"])


@pytest.mark.parametrize(
    ("option", "request_"),
    [
        ("--shape", Inputs(path="a.npz", shapes={"ids": (1, 1)})),
        ("--dim", Inputs(path="a.npz", dims={"batch": 1})),
        ("--range", Inputs(path="a.npz", ranges={"ids": (0, 1)})),
    ],
)
def test_files_say_it_all(option: str, request_: Inputs) -> None:
    with refused(f"{option} cannot be combined with --input: the files say it all"):
        make_arrays(IDS, request_, {})


# Files


X = spec("x", "batch", 3)
Y = spec("y", element="int64")


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.savez(path, y=np.array(7), x=x)
    arrays = load_arrays(path, [X, Y], "input")
    assert list(arrays) == ["x", "y"]
    assert np.array_equal(arrays["x"], x)
    assert arrays["x"].flags.c_contiguous
    assert (arrays["y"].shape, arrays["y"].dtype, arrays["y"].tolist()) == ((), np.dtype("int64"), 7)


@pytest.mark.parametrize("array", [np.array(["a", "ü"]), np.array(["a", "ü"], dtype="U9")])
def test_npz_of_strings(tmp_path: Path, array: Array) -> None:
    np.savez(tmp_path / "in.npz", s=array)
    loaded = load_arrays(tmp_path / "in.npz", [spec("s", 2, element="string")], "input")["s"]
    assert (loaded.dtype, loaded.tolist()) == (np.dtype(object), ["a", "ü"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((1, 3), np.float32)}, "misses y; the model's inputs are x, y"),
        (
            {"a": np.zeros(1), "b": np.zeros(1)},
            "misses x, y and has a, b that the model has not; the model's inputs are x, y",
        ),
        (
            {"x": np.zeros((1, 3), np.float32), "y": np.array(1), "z": np.zeros(1)},
            "has z that the model has not; the model's inputs are x, y",
        ),
    ],
)
def test_npz_with_other_names(tmp_path: Path, arrays: dict[str, Array], message: str) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with refused(f"{path} {message}"):
        load_arrays(path, [X, Y], "input")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((1, 3)), "x is float64, the model wants float32"),
        (np.zeros((1, 3), np.int32), "x is int32, the model wants float32"),
        (np.array([["a", "b", "c"]]), "x is <U1, the model wants float32"),
        (np.zeros((1, 4), np.float32), "x: 1x4 does not fit batchx3: the model fixes 3"),
        (np.zeros(3, np.float32), "x: 3 does not fit batchx3: 2 dimension(s) are needed"),
        (np.zeros((), np.float32), "x: a scalar does not fit batchx3: 2 dimension(s) are needed"),
    ],
)
def test_npz_that_does_not_fit(tmp_path: Path, array: Array, message: str) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=array)
    with pytest.raises(BadInput, match=f"^{re.escape(str(path))}:? {re.escape(message)}$"):
        load_arrays(path, [X], "input")


class Trap:
    """Unpickling one is found out."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (setattr, (Trap, "sprung", True))


def test_pickled_arrays_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.array([Trap()], dtype=object))
    with pytest.raises(BadInput, match=f"^{re.escape(str(path))} is not an .npz file"):
        load_arrays(path, [spec("x", 1, element="string")], "input")
    assert not Trap.sprung


def write_folder(folder: Path, kind: str, arrays: Sequence[Array]) -> None:
    for index, array in enumerate(arrays):
        (folder / f"{kind}_{index}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


@pytest.mark.parametrize("element", DTYPES)
def test_folder_of_every_dtype(tmp_path: Path, element: str) -> None:
    array = random(element, (2, 3), 0, 1)
    write_folder(tmp_path, "input", [array])
    loaded = load_arrays(tmp_path, [spec("x", 2, 3, element=element)], "input")["x"]
    assert loaded.dtype == array.dtype
    assert loaded.tolist() == array.tolist()


def test_folder_that_misses_files(tmp_path: Path) -> None:
    write_folder(tmp_path, "input", [np.ones((2, 3), np.float32)])
    with refused(f"{tmp_path} has no input_1.pb; the model has 2 input(s)"):
        load_arrays(tmp_path, [X, Y], "input")
    with refused(f"{tmp_path} has no output_0.pb; the model has 1 output(s)"):
        load_arrays(tmp_path, [X], "output")


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    write_folder(tmp_path, "input", [np.ones((2, 3)), np.array(7)])
    with pytest.raises(BadInput, match=r"x is float64, the model wants float32$"):
        load_arrays(tmp_path, [X, Y], "input")
    with pytest.raises(BadInput, match=r"has one file too many, input_1\.pb; the model has 1 input\(s\)$"):
        load_arrays(tmp_path, [X], "input")
    path = tmp_path / "input_0.pb"
    path.write_bytes(b"\xff\xff\xff not a tensor")
    with pytest.raises(BadInput, match=f"^{re.escape(str(path))} is not a tensor in ONNX format: "):
        load_arrays(tmp_path, [X, Y], "input")


def test_expected_outputs(tmp_path: Path) -> None:
    folder, other = tmp_path / "set", tmp_path / "other.npz"
    folder.mkdir()
    write_folder(folder, "input", [np.zeros((1, 3), np.float32)])
    assert load_expected(Inputs(), [X]) is None
    assert load_expected(Inputs(path=str(folder)), [X]) is None
    write_folder(folder, "output", [np.ones((1, 3), np.float32)])
    np.savez(other, x=np.full((1, 3), 2, np.float32))
    beside = load_expected(Inputs(path=str(folder)), [X])
    assert beside is not None
    assert beside["x"].tolist() == [[1, 1, 1]]
    named = load_expected(Inputs(path=str(folder), expect=str(other)), [X])
    assert named is not None
    assert named["x"].tolist() == [[2, 2, 2]]


# Indices


def sizes(tmp_path: Path, body: str, *names: str, **tables: Array) -> dict[str, int]:
    """`index_sizes` of a graph with int64 inputs i, j and a float input x, and tables as initializers."""
    graph = onnx.parser.parse_graph(f"g (int64[n] i, int64[n] j, float[7,n] x) => (float[m] y) {{ {body} }}")
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in tables.items())
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    inputs = [spec("i", "n", element="int64"), spec("j", "n", element="int64"), spec("x", 7, "n")]
    return index_sizes(str(tmp_path / "m.onnx"), inputs)


TABLE = np.zeros((500, 32), np.float32)
SMALL = np.zeros((20, 4), np.float32)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y = Gather (table, i)", {"i": 500}),
        ("y = Gather <axis = 1> (table, i)", {"i": 32}),
        ("y = Gather <axis = -1> (table, i)", {"i": 32}),
        ("y = GatherElements <axis = 1> (table, i)", {"i": 32}),
        ("a = Gather (table, i) b = Gather (table, j) y = Add (a, b)", {"i": 500, "j": 500}),
        ("a = Gather (table, i) b = Gather (small, i) y = Add (a, b)", {"i": 20}),
        ("a = Gather (small, i) b = Gather (table, i) y = Add (a, b)", {"i": 20}),
        ("a = Cast <to = 6> (i) y = Gather (table, a)", {"i": 500}),
        ("a = Identity (i) b = Unsqueeze (a, one) c = Squeeze (b, one) y = Gather (table, c)", {"i": 500}),
        ("a = Reshape (i, one) b = Flatten (a) c = Transpose (b) y = Gather (table, c)", {"i": 500}),
        ("a = Slice (i, one, one) b = Expand (a, one) c = Tile (b, one) y = Gather (table, c)", {"i": 500}),
        ("a = Concat <axis = 0> (i, j) y = Gather (table, a)", {"i": 500, "j": 500}),
        ("a = Concat <axis = 0> (one, j) y = Gather (table, a)", {"j": 500}),
        ("t = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> () y = Gather (t, i)", {"i": 3}),
        ("y = Gather (x, i)", {"i": 7}),  # a table that is an input itself
        ("t = Relu (table) y = Gather (t, i)", {"i": 500}),  # a table that is computed
        ("y = Gather <axis = 1> (x, i)", {}),  # an axis nobody knows
        ("y = Gather <axis = -2> (table, i)", {"i": 500}),
        ("y = Gather <axis = 2> (table, i)", {}),
        ("y = Gather <axis = -3> (table, i)", {}),
        ("y = Gather (empty, i)", {}),
        ("a = Cast <to = 1> (i) y = Relu (a)", {}),
        ("a = Add (i, one) y = Gather (table, a)", {}),  # another value: the input is not the index
        ("y = Gather (i, one)", {}),  # indexed, not an index
    ],
)
def test_index_sizes(tmp_path: Path, body: str, found: dict[str, int]) -> None:
    one = np.array([1])
    assert sizes(tmp_path, body, table=TABLE, small=SMALL, empty=SMALL[:0], one=one) == found


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
    integers = [spec("i", element="int64")]
    assert index_sizes(str(MODELS / "tiny.onnx"), [spec("x", 16)]) == {}
    assert index_sizes(str(tmp_path / "missing.onnx"), integers) == {}
    (tmp_path / "m.ort").write_bytes(b"\x1c\x00\x00\x00ORTM and more")
    assert index_sizes(str(tmp_path / "m.ort"), integers) == {}
    assert index_sizes(str(MODELS / "tiny.onnx"), [TensorSpec("x", "seq(tensor(int64))", ())]) == {}


def test_files_that_are_nearly_npz(tmp_path: Path) -> None:
    spec = [TensorSpec("x", "tensor(float)", (1000,))]
    one = tmp_path / "one.npy"
    np.save(one, np.zeros(1000, np.float32))
    with pytest.raises(BadInput, match="holds one array"):
        load_arrays(one, spec, "input")
    whole = tmp_path / "whole.npz"
    np.savez_compressed(whole, x=np.random.default_rng(0).random(1000).astype(np.float32))
    content = bytearray(whole.read_bytes())
    content[100:140] = bytes(40)
    for name, data in (("damaged", bytes(content)), ("cut", bytes(content[:300]))):
        path = tmp_path / f"{name}.npz"
        path.write_bytes(data)
        with pytest.raises(BadInput, match=r"is not an \.npz file"):
            load_arrays(path, spec, "input")


def test_an_npz_holds_dtypes_that_numpy_has_not(tmp_path: Path) -> None:
    spec = TensorSpec("x", "tensor(bfloat16)", (3,))
    array = np.array([1.0, -2.5, 0.125]).astype(spec.dtype)
    np.savez(tmp_path / "x.npz", x=array)
    read = load_arrays(tmp_path / "x.npz", [spec], "input")["x"]
    assert read.dtype == spec.dtype
    assert read.tolist() == array.tolist()
