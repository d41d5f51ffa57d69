"""Outputs: when two arrays are the same, how far they are apart, poison that none survives, and nodes that draw at random."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from ortbench.worker import output_errors, proofs
from ortbench.worker.output_errors import OutputErrors
from ortbench.worker.proofs import compare_outputs, difference, poison
from ortbench.worker.tensors import Array, random_nodes
from tests.conftest import ortbench

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8 = [np.dtype(getattr(ml_dtypes, f"float8_{it}")) for it in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")]
FLOATS = [np.dtype("float64"), np.dtype("float32"), np.dtype("float16"), BFLOAT16, *FLOAT8]
INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, np.dtype) else None


def array(values: Any, dtype: np.dtype[Any]) -> Array:
    return np.array(values).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "reference", "same", "other"),
    [
        (np.dtype("float64"), 1, 1 + 0.9e-7, 1 + 1.1e-7),
        (np.dtype("float32"), 1, 1 + 0.9e-3, 1 + 1.1e-3),
        (np.dtype("float16"), 1, 1 + 1.0e-2, 1 + 1.2e-2),
        (BFLOAT16, 1, 1 + 7 / 128, 1 + 8 / 128),
        (FLOAT8[0], 1, 1.25, 1.375),
        (FLOAT8[2], 1, 1.25, 1.5),
        (np.dtype("float64"), 0, 0.9e-9, 1.1e-9),
        (np.dtype("float32"), 0, 0.9e-5, 1.1e-5),
        (np.dtype("float16"), 0, 0.9e-3, 1.1e-3),
        (BFLOAT16, 0, 0.9e-2, 1.1e-2),
        *((dtype, 0, 0.09375, 0.109375) for dtype in FLOAT8),
    ],
    ids=name_of,
)
def test_tolerance(dtype: np.dtype[Any], reference: int, same: float, other: float) -> None:
    right = array([reference], dtype)
    assert difference("y", array([same], dtype), right) is None
    assert difference("y", array([other], dtype), right) is not None


@pytest.mark.parametrize(
    ("got", "tolerances", "is_same"),
    [
        (1.01, {}, False),
        (1.01, {"rtol": 0.02}, True),
        (1.01, {"atol": 0.02}, True),
        (1.0005, {"rtol": 0.0}, False),
        (1.0, {"rtol": 0.0, "atol": 0.0}, True),
    ],
)
def test_tolerances_of_the_user_replace_those_of_the_dtype(got: float, tolerances: Any, is_same: bool) -> None:
    found = difference("y", np.array([got], np.float32), np.array([1.0], np.float32), **tolerances)
    assert (found is None) == is_same


@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_integers_are_exact(dtype: np.dtype[Any]) -> None:
    info = np.iinfo(dtype)
    reference, got = (np.array([info.min, 7, most], dtype) for most in (info.max, info.max - 1))
    assert difference("y", reference.copy(), reference) is None
    wanted = f"1 of 3 values of output y differ, first at [2]: {info.max - 1} instead of {info.max}"
    assert difference("y", got, reference) == wanted
    assert difference("y", got, reference, rtol=1.0, atol=1.0) == wanted  # tolerances are for floats


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_nan_and_infinity_equal_only_themselves(dtype: np.dtype[Any]) -> None:
    values = [np.nan, 1.0] if dtype in FLOAT8[:2] + FLOAT8[3:] else [np.nan, np.inf, -np.inf, 1.0]
    for one, other in itertools.product(range(len(values)), repeat=2):
        got, reference = array([values[one]], dtype), array([values[other]], dtype)
        assert (difference("y", got, reference) is None) == (one == other), (values[one], values[other])
    assert difference("y", array([np.nan, 1.0], dtype), array([np.nan, 1.25], dtype), rtol=1.0, atol=1.0) is None


@pytest.mark.parametrize(
    ("got", "reference", "said"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), "output y has shape [2, 3] instead of [3, 2]"),
        (np.zeros(()), np.zeros(1), "output y has shape [] instead of [1]"),
        (np.zeros((0, 3)), np.zeros((3, 0)), "output y has shape [0, 3] instead of [3, 0]"),
        (np.zeros(2, BFLOAT16), np.zeros(2, np.float16), "output y is bfloat16 instead of float16"),
        (np.array([True]), np.array([False]), "1 of 1 values of output y differ, first at [0]: True instead of False"),
        (np.array(["b"], object), np.array(["ç"], object), "1 of 1 values of output y differ, first at [0]: b instead of ç"),
        (np.array(1.0), np.array(2.0), "1 of 1 values of output y differ, first at []: 1 instead of 2"),
        (np.array([[0, 1], [2, 9]]).T, np.array([[0, 1], [2, 3]]).T, "1 of 4 values of output y differ, first at [1, 1]: 9 instead of 3"),
    ],
)  # fmt: skip
def test_what_differs_is_said(got: Array, reference: Array, said: str) -> None:
    assert difference("y", got, reference) == said
    assert difference("y", reference.copy(), reference) is None


def test_floats_have_as_many_digits_as_tell_them_apart() -> None:
    for got, said in ((0.1390041, "0.139 instead of 0.1158"), (0.11580001, "0.11580001 instead of 0.1158")):
        wrong = difference("y", np.array([got]), np.array([0.1158]), 0.0, 0.0)
        assert str(wrong).endswith(f"first at [0]: {said}")


@pytest.mark.parametrize("at", [0, 3, 4, 7, 8, 9])
def test_differences_on_both_sides_of_a_chunk(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "CHUNK", 4)
    reference = np.arange(10, dtype=np.float32).reshape(5, 2)
    got = reference.copy()
    got.reshape(-1)[at:] += 100
    where = f"first at [{at // 2}, {at % 2}]: {at + 100} instead of {at}"
    assert difference("y", got, reference) == f"{10 - at} of 10 values of output y differ, {where}"


def bit_patterns(dtype: np.dtype[Any]) -> Array:
    """Values of all exponents, infinities and NaNs among them."""
    generator = np.random.default_rng(0)
    if dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(dtype)
    bits = generator.integers(0, 256, 4096 * dtype.itemsize, dtype=np.uint8).view(dtype)
    with np.errstate(all="ignore"):
        special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]).astype(dtype)
    return np.concatenate([bits, special])


def every_element_differs(one: Array, other: Array) -> bool:
    pairs = zip(one.reshape(-1), other.reshape(-1), strict=True)
    with np.errstate(all="ignore"):
        return all(difference("y", np.array([a]), np.array([b])) is not None for a, b in pairs)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=name_of)
def test_poison_differs_in_every_element(dtype: np.dtype[Any]) -> None:
    reference = np.arange(-128, 128).astype(dtype) if dtype.kind in "iu" else bit_patterns(dtype)[-600:]
    assert every_element_differs(poison(reference), reference)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.dtype(bool), np.dtype(object)], ids=name_of)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 0), (1, 1, 3)])
def test_poison_keeps_the_form_and_leaves_the_reference_alone(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    for reference in (np.ones(shape).astype(dtype), np.ones((2, 3)).astype(dtype).T):  # which is not contiguous
        before, poisoned = reference.copy(), poison(reference)
        assert isinstance(poisoned, np.ndarray)
        assert (poisoned.dtype, poisoned.shape) == (dtype, reference.shape)
        assert every_element_differs(poisoned, reference)
        assert np.array_equal(reference, before)


NOTHING = {"max_error": None, "mean_error": None, "sqnr": None, "cosine": None, "top1": None}


def figures(got: Any, reference: Any, name: str = "y") -> dict[str, Any]:
    errors = OutputErrors(name)
    errors.add(got, reference)
    found: dict[str, Any] = {**errors.distance()}
    assert (found.pop("name"), found.pop("inputs")) == (name, 1)
    return found


def vector(*values: float, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("chunk", [7, 1 << 22])
def test_the_formulas(dtype: Any, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole arrays in float64 give what chunks of them give."""
    monkeypatch.setattr(output_errors, "CHUNK", chunk)
    random = np.random.default_rng(1)
    r = random.standard_normal((5, 4, 3)).astype(dtype)
    g = (r.astype(np.float64) * (1 + 0.1 * random.standard_normal(r.shape))).astype(dtype)
    x, y = g.astype(np.float64).ravel(), r.astype(np.float64).ravel()
    assert figures(g, r) == {
        "max_error": pytest.approx(np.max(np.abs(x - y))),
        "mean_error": pytest.approx(np.mean(np.abs(x - y))),
        "sqnr": pytest.approx(20 * np.log10(np.linalg.norm(y) / np.linalg.norm(y - x))),
        "cosine": pytest.approx(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))),
        "top1": None,
    }


@pytest.mark.parametrize(
    ("got", "reference", "expected"),
    [
        (vector(3, 4, 0.5), vector(3, 4, 0), {"max_error": 0.5, "mean_error": pytest.approx(0.5 / 3), "sqnr": pytest.approx(20.0),
         "cosine": pytest.approx(25 / (5 * math.sqrt(25.25)))}),
        (vector(1, 2), vector(1, 2), {"max_error": 0.0, "mean_error": 0.0, "cosine": 1.0}),
        (vector(math.nan, 2, math.inf), vector(math.nan, 1, math.inf),
         {"max_error": 1.0, "mean_error": pytest.approx(1 / 3), "sqnr": 0.0, "cosine": 1.0}),
        (vector(math.inf, 2), vector(-math.inf, 2), {}),
        (vector(math.nan, 2), vector(1, 2), {}),
        (vector(1), vector(0), {"max_error": 1.0, "mean_error": 1.0}),  # no signal, so no ratio
        (vector(-1, dtype=np.int8), vector(100, dtype=np.int8), {"max_error": 101.0, "mean_error": 101.0, "cosine": -1.0,
         "sqnr": pytest.approx(10 * math.log10(1e4 / 101**2))}),
        (vector(1e300, dtype=np.float64), vector(-1e300, dtype=np.float64), {"max_error": 2e300, "mean_error": 2e300}),
        *((got, reference, {}) for got, reference in (
            (vector(1, 2), vector(1)), (np.array(["a"], object), np.array(["b"], object)), (vector(1, dtype=bool), vector(0, dtype=bool)),
            ([vector(1)], [vector(2)]), (None, vector(1)), (vector(), vector()),
        )),
    ],
)  # fmt: skip
def test_what_has_which_figures(got: Any, reference: Any, expected: dict[str, Any]) -> None:
    assert figures(got, reference) == {**NOTHING, **expected}


@pytest.mark.parametrize(
    ("got", "reference", "name", "share"),
    [
        ([[1, 3, 2], [5, 4, 0]], [[1, 9, 2], [4, 5, 0]], "y", 0.5),
        ([[1, 2, 3]], [[7, 1, 7]], "y", 1.0),  # of two largest either will do
        ([[[0.25, 0.75]]], [[[0.5, 0.5]]], "y", 1.0),  # rows of probabilities
        ([[[3, 4]]], [[[4, 3]]], "y", None),  # neither by name nor by form
        ([[[3, 4]]], [[[4, 3]]], "logits", 0.0),
        ([3, 4], [4, 3], "class_scores", 0.0),
    ],
)
def test_top1_agreement_of_scores(got: Any, reference: Any, name: str, share: float | None) -> None:
    assert figures(np.array(got, np.float32), np.array(reference, np.float32), name)["top1"] == share


def test_figures_are_of_all_inputs_and_say_of_how_many() -> None:
    """No error in one input, two of 2 in the other, whose largest value is elsewhere."""
    base, other = np.array([[1, 2, 3]], np.float32), np.array([[3, 2, 1]], np.float32)
    pairs = [("y", base, base), ("n", None, None), ("y", other, base), ("n", None, None)]
    for are_real, share in ((True, 0.5), (False, None)):
        y, n = compare_outputs(pairs, None, None, are_real)["distances"]
        assert (y["name"], y.get("inputs"), y["max_error"], y["top1"]) == ("y", 2, 2.0, share)
        assert y["mean_error"] == pytest.approx(4 / 6)
        assert y["sqnr"] == pytest.approx(10 * math.log10(28 / 8))
        assert (n["name"], n.get("inputs"), n["max_error"]) == ("n", 2, None)


def test_all_outputs_count() -> None:
    base, near, far = vector(1, 2), vector(1, 2.02), vector(1, 4)
    found = compare_outputs([("a", base, base), ("b", near, base), ("c", base, base)], None, None)
    said = "1 of 2 values of output {} differ by up to {} % of the output's largest value"
    assert str(found["differs"]).startswith(f"{said.format('b', '1.00')}; if")
    assert found["relative"] == pytest.approx(0.01, rel=1e-3)
    assert (found["accepts"] or "").startswith("--rtol 0.0")
    assert [it["name"] for it in found["distances"]] == ["a", "b", "c"]
    both = compare_outputs([("b", near, base), ("c", far, base)], None, None)
    assert both["relative"] == pytest.approx(1.0)
    assert both["differs"] == said.format("c", "100")
    whole = [("b", near, base), ("n", vector(1, dtype=np.int64), vector(2, dtype=np.int64))]
    assert compare_outputs(whole, None, None)["relative"] is None  # of integers nobody can tell
    accepted = compare_outputs([("b", near, base)], 0.02, None)
    assert (accepted["differs"], accepted["relative"], accepted["accepts"]) == (None, 0.0, None)


HEAD = '<ir_version: 8, opset_import: ["" : 17, "f" : 1, "com.microsoft" : 1]>'


def model(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} g {body}")


INSIDE = """(float[4] x, bool c) => (float[4] y) <bool t = {0}> { y = If (c) <
    then_branch = a () => (float[4] p) { p = RandomUniformLike(x) }, else_branch = b () => (float[4] q) { q = Dropout(x, , t) }> }"""
NOISY = """(float[4] x) => (float[4] y) { y = f.noisy(x) }
    <domain: "f", opset_import: ["" : 17]> noisy (a) => (b) { r = RandomNormalLike(a) b = Add(a, r) }"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        *((f"(float[4] x) => (float[4] y) {{ y = {op} }}", [f"{op.partition('<')[0].partition('(')[0]} 'y'"]) for op in (
            "RandomNormal<shape=[4]>()", "RandomNormalLike<seed=1.0>(x)", "RandomUniform<shape=[4]>()", "RandomUniformLike(x)", "Bernoulli(x)",
        )),
        ("(float[1, 4] x) => (int32[1, 3] y) { y = Multinomial<sample_size=3>(x) }", ["Multinomial 'y'"]),
        # Dropout: a flag that is no constant may be true in a run.
        ("(float[4] x) => (float[4] y) { y = Dropout(x) }", []),
        ("(float[4] x) => (float[4] y) <bool t = {1}> { y = Dropout(x, , t) }", ["Dropout 'y'"]),
        ("(float[4] x) => (float[4] y) <bool t = {0}> { y = Dropout(x, , t) }", []),
        ("(float[4] x) => (float[4] y) { t = Constant<value = bool {1}>() y = Dropout(x, , t) }", ["Dropout 'y'"]),
        ("(float[4] x) => (float[4] y) { t = Constant<value = bool {0}>() y = Dropout(x, , t) }", []),
        ("(float[4] x, bool t) => (float[4] y) { y = Dropout(x, , t) }", ["Dropout 'y'"]),
        ("(float[4] x) => (float[4] y) { z = Relu(x) y = f.RandomNormal(z) }", []),  # another one of that name
        (INSIDE, ["RandomUniformLike 'p'"]),
        (NOISY, ["RandomNormalLike 'r' in function noisy"]),
    ],
)  # fmt: skip
def test_random_nodes_are_found(body: str, found: list[str]) -> None:
    assert list(random_nodes(model(body))) == found


@pytest.mark.process
def test_the_error_names_them(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model("(float[4] x) => (float[4] y) { r = RandomNormalLike(x) y = Add(x, r) }"), path)
    ran = ortbench("run", path, "--ep", "cpu", "--iterations", 1, "--warmup", 0, "--out", tmp_path / "out")
    said = "; the model has random nodes, which draw anew in each inference: RandomNormalLike 'r' (a seed makes"
    assert (ran.code, len(ran.err.splitlines())) == (1, 4)
    assert all("values of output" in line and said in line for line in ran.err.splitlines())
