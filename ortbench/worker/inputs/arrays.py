"""The arrays of a run: made from a seed or read from files, with the outputs that are expected of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ortbench.core.errors import BadInput
from ortbench.plan.target import Inputs
from ortbench.worker.inputs.files import load
from ortbench.worker.inputs.shapes import resolve_shapes
from ortbench.worker.session.tensors import Array, TensorSpec, Value

# What random values are when the model's graph does not say: inclusive for integers.
_FLOAT_RANGE = (0.0, 1.0)
_WIDE_INTEGER_RANGE = (0, 1)  # int32 and int64 are mostly ids, masks and flags: 0 and 1 are valid for nearly all


def make(
    inputs: Sequence[TensorSpec], request: Inputs, index_sizes: Mapping[str, int]
) -> tuple[dict[str, Value], list[str], dict[str, tuple[float, float]]]:
    """The arrays of a run.

    Args:
        inputs: the model's inputs.
        request: what the user asked for.
        index_sizes: for integer inputs that end as indices, how many entries they index into.

    Returns:
        Arrays (C-contiguous) or lists of them by input name, the dimensions that were set to 1, and the ranges random values have.

    Raises:
        BadInput: what was asked for does not fit the model.
        Unsupported: an input that cannot be held.
    """
    _check_lengths(inputs, request)
    for name in request.ranges:
        spec = next((spec for spec in inputs if spec.name == name), None)
        if spec is None:
            raise BadInput(f"--range {name}: the model has no such input")
        if spec.element == "string":
            raise BadInput(f"--range {name}: the input holds strings")
    if request.path is not None:
        made_up = {
            "--shape": request.shapes,
            "--dim": request.dims,
            "--length": request.lengths,
            "--range": request.ranges,
        }
        for option, given in made_up.items():
            if given:
                raise BadInput(f"{option} cannot be combined with --input: the files say it all")
        return load(Path(request.path), inputs, "input"), [], {}
    shapes, guessed = resolve_shapes(inputs, request.shapes, request.dims)
    ranges = {
        spec.name: request.ranges.get(spec.name) or default_range(spec, index_sizes.get(spec.name))
        for spec in inputs
        if spec.element != "string"
    }
    generator = np.random.default_rng(request.seed)

    def random(spec: TensorSpec) -> Array:
        return random_array(spec, shapes[spec.name], ranges.get(spec.name, _FLOAT_RANGE), generator)

    arrays: dict[str, Value] = {
        spec.name: [random(spec) for _ in range(request.lengths[spec.name])] if spec.is_sequence else random(spec)
        for spec in inputs
    }
    return arrays, guessed, ranges


def _check_lengths(inputs: Sequence[TensorSpec], request: Inputs) -> None:
    """Raises:
    BadInput: a length of what is no sequence, or a sequence to be made without one.
    """
    sequences = [spec.name for spec in inputs if spec.is_sequence]
    for name in request.lengths:
        if name not in sequences:
            has = f"it has {', '.join(sequences)}" if sequences else "it has none"
            raise BadInput(f"--length {name}: the model has no such input that is a sequence; {has}")
    missing = [name for name in sequences if name not in request.lengths]
    if missing and request.path is None:
        options = " ".join(f"--length {name}=N" for name in missing)
        raise BadInput(
            f"{', '.join(map(repr, missing))}: a sequence has any number of tensors; say how many: {options}"
        )


def default_range(spec: TensorSpec, index_size: int | None) -> tuple[float, float]:
    """The range of random values for an input, inclusive for integers."""
    dtype = spec.dtype
    if dtype.kind == "b" or spec.is_packed:
        return _limits(spec)
    if dtype.kind not in "iu":
        return _FLOAT_RANGE
    if index_size is not None:
        return (0, max(0, min(index_size - 1, int(np.iinfo(dtype).max))))
    if dtype.itemsize <= 2:  # pixels and quantised values use all of their range
        info = np.iinfo(dtype)
        return (int(info.min), int(info.max))
    return _WIDE_INTEGER_RANGE


def random_array(
    spec: TensorSpec, shape: tuple[int, ...], bounds: tuple[float, float], generator: np.random.Generator
) -> Array:
    """A random array of `spec.dtype` (strings are short texts, whatever the range); large float32 and float64 arrays are made without a temporary copy.

    Raises:
        BadInput: the range does not fit the dtype.
    """
    dtype, (low, high) = spec.dtype, bounds
    if dtype.kind == "O":
        texts = [f"s{number}" for number in generator.integers(0, 10, math.prod(shape))]
        return np.array(texts, dtype=object).reshape(shape)
    refusal = f"--range {spec.name}:{low:g},{high:g} does not fit {dtype}"
    if dtype.kind in "biu" or spec.is_packed:
        least, most = _limits(spec)
        if not (low == int(low) and high == int(high) and least <= low and high <= most):
            raise BadInput(refusal)
        drawn = np.uint8 if dtype.kind == "b" else np.int8 if spec.is_packed else dtype
        return generator.integers(int(low), int(high), shape, dtype=drawn, endpoint=True).astype(dtype, copy=False)
    if max(abs(low), abs(high), high - low) > _largest(dtype):
        raise BadInput(refusal)
    working = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)
    array = np.empty(shape, dtype=working)
    generator.random(dtype=working, out=array)
    if bounds != (0.0, 1.0):
        array *= working.type(high - low)
        array += working.type(low)
    return array if working == dtype else array.astype(dtype)


def _limits(spec: TensorSpec) -> tuple[int, int]:
    """The least and the largest value of a dtype of integers or bools, also of those that numpy has not."""
    if spec.dtype.kind == "b":
        return (0, 1)
    if spec.is_packed:
        return (-8, 7) if spec.element == "int4" else (0, 15)
    info = np.iinfo(spec.dtype)
    return (int(info.min), int(info.max))


def _largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a floating-point dtype, also of those that numpy has not."""
    if dtype in (np.float16, np.float32, np.float64):
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def expected(request: Inputs, outputs: Sequence[TensorSpec]) -> dict[str, Value] | None:
    """The outputs to hold the modes against: of ``--expect``, or those beside the inputs of an ONNX test set.

    Raises:
        BadInput: they do not fit the model.
    """
    if request.expect is not None:
        return load(Path(request.expect), outputs, "output")
    if request.path is not None and (Path(request.path) / "output_0.pb").is_file():
        return load(Path(request.path), outputs, "output")
    return None
