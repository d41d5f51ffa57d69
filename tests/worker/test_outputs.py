"""Outputs: when two arrays are the same, what is said when they are not, and poison that no output survives."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortbench.worker import proofs
from ortbench.worker.proofs import difference, poison
from ortbench.worker.tensors import Array

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8 = [
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e4m3fnuz),
    np.dtype(ml_dtypes.float8_e5m2),
    np.dtype(ml_dtypes.float8_e5m2fnuz),
]
FLOATS = [np.dtype("float64"), np.dtype("float32"), np.dtype("float16"), BFLOAT16, *FLOAT8]
INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, np.dtype) else None


def array(values: Any, dtype: np.dtype[Any]) -> Array:
    return np.array(values).astype(dtype)


# What is near enough, around a reference of 1 and of 0


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
        (1.0005, {}, True),
        (1.0005, {"rtol": 0.0}, False),
        (1.0, {"rtol": 0.0, "atol": 0.0}, True),
    ],
)
def test_tolerances_of_the_user_replace_those_of_the_dtype(
    got: float, tolerances: dict[str, Any], is_same: bool
) -> None:
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


# Form


@pytest.mark.parametrize(
    ("got", "reference", "said"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), "output y has shape [2, 3] instead of [3, 2]"),
        (np.zeros(()), np.zeros(1), "output y has shape [] instead of [1]"),
        (np.zeros(2, np.float32), np.zeros(2, np.float64), "output y is float32 instead of float64"),
        (np.zeros(2, BFLOAT16), np.zeros(2, np.float16), "output y is bfloat16 instead of float16"),
        (np.array([True]), np.array([False]), "1 of 1 values of output y differ, first at [0]: True instead of False"),
        (np.array(["b"], object), np.array(["ç"], object), "1 of 1 values of output y differ, first at [0]: b instead of ç"),
        (np.array(1.0), np.array(2.0), "1 of 1 values of output y differ, first at []: 1 instead of 2"),
        (np.array([[0, 1], [2, 9]]).T, np.array([[0, 1], [2, 3]]).T, "1 of 4 values of output y differ, first at [1, 1]: 9 instead of 3"),
        (np.zeros((0, 3)), np.zeros((3, 0)), "output y has shape [0, 3] instead of [3, 0]"),
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
    monkeypatch.setattr(proofs, "_CHUNK", 4)
    reference = np.arange(10, dtype=np.float32).reshape(5, 2)
    got = reference.copy()
    got.reshape(-1)[at:] += 100
    assert difference("y", got, reference) == (
        f"{10 - at} of 10 values of output y differ, first at [{at // 2}, {at % 2}]: {at + 100} instead of {at}"
    )
    assert difference("y", reference.copy(), reference) is None


# Poison


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
