"""Values as Python source: texts, shapes, arrays that are made, sizes that follow from the step of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_DRAWN = {"float32": "np.float32", "float64": "np.float64"}  # what a generator of random numbers gives by itself
FOUR_BITS = {"int4": "np.int8", "uint4": "np.uint8"}  # as arrays, by their types
ML_DTYPES = "ml_dtypes"  # the package that has what numpy has not
_ML_NAMES = ("bfloat16", "float8")
_WIDTH = 100  # columns of a line, about


def literal(value: Any) -> str:
    """A value as source: texts in double quotes wherever that takes no escapes, shapes as tuples, dictionaries as they are."""
    if isinstance(value, str):
        text = repr(value)
        return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in value else text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        items = [str(literal(it)) for it in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def list_literal(values: Sequence[Any], indent: int = 0) -> str:
    """Values as a list: on one line, or on a line each where that is too long."""
    words = [literal(value) for value in values]
    one_line = f"[{', '.join(words)}]"
    if indent + len(one_line) <= _WIDTH:
        return one_line
    inner = "".join(f"{' ' * indent}    {word},\n" for word in words)
    return f"[\n{inner}{' ' * indent}]"


def dtype(name: str) -> str:
    if name in FOUR_BITS:
        return FOUR_BITS[name]
    return name if name in ("object", "bool") else f"{ML_DTYPES}.{name}" if name.startswith(_ML_NAMES) else f"np.{name}"


def random_array(name: str, shape: str, bounds: Sequence[float] | None) -> str:
    """An expression that makes a random array of a dtype, with a generator ``rng``, as ortbench makes its own. `shape` is source;
    `bounds` are inclusive for integers, and None for texts."""
    if name == "object":
        return (
            f'np.array([f"s{{number}}" for number in rng.integers(0, 10, {shape}).flat], dtype=object).reshape({shape})'
        )
    low, high = bounds or (0.0, 1.0)
    if name == "bool":
        made = f"rng.integers({literal(float(low))}, {literal(float(high))}, {shape}, dtype=np.uint8, endpoint=True)"
        return f"{_array(made, shape)}.astype(bool)"
    if "int" in name:  # four bits are in bytes of their own here
        ends = f"{literal(float(low))}, {literal(float(high))}"
        return _array(f"rng.integers({ends}, {shape}, dtype={dtype(name)}, endpoint=True)", shape)
    made = _array(f"rng.random({shape}, dtype={_DRAWN.get(name, 'np.float32')})", shape)
    if (low, high) != (0.0, 1.0):
        made = f"({made} * {high - low!r} + {low!r}).astype({dtype(name)})"
    elif name not in _DRAWN:
        made = f"{made}.astype({dtype(name)})"
    return made


def _array(made: str, shape: str) -> str:
    """Without dimensions a generator gives a number."""
    return f"np.asarray({made})" if shape == "()" else made


def by_step(values: Sequence[float]) -> str:
    """An expression of ``step``, from 0 on, for a number that each step has.

    A number, one that grows evenly, either of them from the second step on, or all of them in a row.
    """
    if (found := _even(values, 0)) is not None:
        return found
    rest = _even(values[1:], 1)
    if rest is not None:
        return f"{literal(values[0])} if step == 0 else {rest}"
    return f"({', '.join(literal(value) for value in values)})[step]"


def _even(values: Sequence[float], first_step: int) -> str | None:
    """The same of numbers that grow evenly; None where they do not."""
    grows = values[1] - values[0] if len(values) > 1 else 0
    if any(after - before != grows for before, after in pairwise(values)):
        return None
    first = values[0] - first_step * grows
    if not grows:
        return literal(first)
    steps = "step" if grows == 1 else f"{literal(grows)} * step"
    return steps if not first else f"{literal(first)} + {steps}"


def shape_by_step(shapes: Sequence[Sequence[int]]) -> str:
    """A shape as source, of ``step`` where it is not the same in all."""
    sizes = [by_step([shape[place] for shape in shapes]) for place in range(len(shapes[0]))]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
