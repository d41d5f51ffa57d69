"""Outputs that are bound without a shape, so that ONNX Runtime allocates them in each inference, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.safe_text import listed

if TYPE_CHECKING:
    from ortbench.model.schema import Tensor

# Why, in `unshaped` of an output.
DECLARED, VALUES, INPUT = "declared", "values", "input"

_MOST = 3  # outputs that are named


def reasons(outputs: Sequence[Tensor]) -> list[str]:
    """Why some of the outputs are, a clause a reason."""
    found = []
    for why, said in ((VALUES, _values), (INPUT, _input), (DECLARED, _declared)):
        if some := [it for it in outputs if it.get("unshaped") == why]:
            found.append(said(some))
    return found


def _names(some: Sequence[Tensor]) -> str:
    more = [f"{len(some) - _MOST} more"] if len(some) > _MOST else []
    return listed([*(it["name"] for it in some[:_MOST]), *more])


def _values(some: Sequence[Tensor]) -> str:
    sizes, depend = ("size", "depends") if len(some) == 1 else ("sizes", "depend")
    return f"the {sizes} of {_names(some)} {depend} on the values of the inputs"


def _input(some: Sequence[Tensor]) -> str:
    are = "is an input" if len(some) == 1 else "are inputs"
    return f"{_names(some)} {are} that the model passes through"


def _declared(some: Sequence[Tensor]) -> str:
    more = [f"{len(some) - _MOST} more alike"] if len(some) > _MOST else []
    said = (f"{it['name']} as {_form(it['model_shape'])} and gives {_form(it['shape'] or ())}" for it in some[:_MOST])
    return f"the model declares {'; '.join([*said, *more])}"


def _form(shape: Sequence[int | str | None]) -> str:
    return "x".join("?" if dim is None else str(dim) for dim in shape) or "a scalar"
