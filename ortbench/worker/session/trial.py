"""What a trial tells of a model's outputs: a run with the inputs as given, and where their sizes may depend on values a run with
other values of the same shapes. What the model declares is not believed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ortbench.analysis.unshaped import DECLARED, INPUT, VALUES
from ortbench.worker.inputs.arrays import random_array
from ortbench.worker.session.tensors import Array, TensorSpec, Value

_SEED = 54  # of the other values; inputs are made from another one
_ZEROS, _FEW = 0.75, 16  # the part of them that is zero; of few all are, since small counts are soon the same by chance


def find_unshaped(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    arrays: Mapping[str, Value],
    ranges: Mapping[str, tuple[float, float]],
    first: Sequence[Value],
    run: Callable[[dict[str, Value]], Sequence[Value]] | None,
    value_sized_outputs: Callable[[], Collection[str]],
    known: Collection[str] = (),
) -> dict[str, str]:
    """The outputs that are to be bound without a shape, and why, as `ortbench.analysis.unshaped` has it.

    `first` is what a run with `arrays` gave. `run` is called once, and only where an output's size may depend on values; where that
    tells nothing, `value_sized_outputs` says which outputs come of operators that make sizes of values. Of
    `known` outputs only what is declared is looked at.
    """
    tensors = [
        (number, spec, array) for number, (spec, array) in enumerate(zip(outputs, first, strict=True)) if spec.is_tensor
    ]
    found = {spec.name: DECLARED for _, spec, array in tensors if not spec.has_shape(array.shape)}
    sizes = _input_sizes(inputs, arrays)
    unexplained = [item for item in tensors if item[1].name not in known and not _is_explained(*item[1:], sizes)]
    if unexplained and run is not None:
        second = _try_run(lambda: run(change_values(inputs, arrays, ranges)))
        # What is empty, or could not be compared, says nothing by itself.
        is_unknown = [second is None or not array.size for _, _, array in unexplained]
        counts = value_sized_outputs() if any(is_unknown) else ()
        found |= {
            spec.name: VALUES
            for (number, spec, array), unknown in zip(unexplained, is_unknown, strict=True)
            if (unknown and spec.name in counts) or (second is not None and second[number].shape != array.shape)
        }
    names = {spec.name for spec in inputs}
    return found | {spec.name: INPUT for _, spec, _ in tensors if spec.name in names}


def _try_run(run: Callable[[], Sequence[Value]]) -> Sequence[Value] | None:
    try:
        return run()
    except Exception:  # lengths that must fit others, say
        return None


def _input_sizes(specs: Sequence[TensorSpec], arrays: Mapping[str, Value]) -> dict[str, set[int]]:
    """The sizes that the inputs have along dimensions of each name."""
    found: dict[str, set[int]] = {}
    for spec in specs:
        for dim, size in zip(spec.shape, arrays[spec.name].shape, strict=False) if spec.is_tensor else ():
            if isinstance(dim, str):
                found.setdefault(dim, set()).add(size)
    return found


def _is_explained(spec: TensorSpec, array: Array, sizes: Mapping[str, set[int]]) -> bool:
    """Whether an output's size follows from the inputs' shapes: it has the fixed sizes, and sizes of the inputs, that it declares.
    A declared 0 is what an exporter's own inputs gave, as of a detector that found nothing."""
    if len(spec.shape) != array.ndim:
        return False
    dims = zip(spec.shape, array.shape, strict=True)
    return all((size == dim and size) or (isinstance(dim, str) and size in sizes.get(dim, ())) for dim, size in dims)


def change_values(
    specs: Sequence[TensorSpec], arrays: Mapping[str, Value], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, Value]:
    """Inputs of the same shapes: random ones of the same ranges, given ones in another order; most of their elements are zero, or
    what of their range is nearest to it, as sizes often count what is not."""
    generator = np.random.default_rng(_SEED)

    def change(spec: TensorSpec, value: Value) -> Value:
        if value is None:
            return None
        if isinstance(value, list):
            return [change(spec, array) for array in value]
        return _change_array(spec, value, ranges.get(spec.name), generator)

    return {spec.name: change(spec, arrays[spec.name]) for spec in specs}


def _change_array(spec: TensorSpec, array: Array, bounds: tuple[float, float] | None, generator: Any) -> Array:
    if spec.is_string or not array.size:
        return _permute(array, generator)
    if bounds is not None and array.size == 1:
        return np.full_like(array, max(bounds, key=lambda end: abs(end - float(array.reshape(-1)[0]))))
    if bounds is None:
        changed, low, high = _permute(array, generator), *(float(it) for it in (array.min(), array.max()))
    else:
        changed, (low, high) = random_array(spec, array.shape, bounds, generator), bounds
    if array.size > 1:
        changed[generator.random(array.shape) < (_ZEROS if array.size >= _FEW else 1)] = min(max(0.0, low), high)
    return changed


def _permute(array: Array, generator: Any) -> Array:
    permuted: Array = array.reshape(-1)[generator.permutation(array.size)].reshape(array.shape)
    return permuted
