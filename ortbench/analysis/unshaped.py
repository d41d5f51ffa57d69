"""Outputs that are bound without a shape, so that ONNX Runtime allocates them in each inference, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.safe_text import listed

if TYPE_CHECKING:
    from ortbench.model.schema import Tensor

# Why, in `unshaped` of an output, and what is said of it.
DECLARED, VALUES, INPUT = "declared", "values", "input"
WHY = {
    VALUES: "its size depends on the values of the inputs",
    INPUT: "an input that the model passes through",
    DECLARED: "not the shape that the model declares",
}

_MOST = 3  # outputs that are named


def reasons_without_shape(outputs: Sequence[Tensor]) -> list[str]:
    """Why some of the outputs are, a clause a reason with those that it is of."""
    found = []
    for why, said in WHY.items():
        if names := [it["name"] for it in outputs if it.get("unshaped") == why]:
            more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
            found.append(f"{listed([*names[:_MOST], *more])} ({said})")
    return found
