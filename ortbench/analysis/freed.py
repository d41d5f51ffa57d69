"""What is to be said of a copy of a model with freed dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ortbench.core.safe_text import first_of

if TYPE_CHECKING:  # a worker loads neither for a message
    from ortbench.model.schema import Freed, Tensor

_MOST = 3  # nodes that are named


def sentence(freed: Freed, done: str = "measured") -> str:
    """What was freed, what that took, and how it was verified; `done`: with the copy."""
    dims = ", ".join(f"{it['input']}:{it['axis']} is {it['name']} (fixed at {it['size']})" for it in freed["dims"])
    sizes = ", ".join(dict.fromkeys(f"{it['name']}={it['size']}" for it in freed["dims"]))
    nodes = freed["nodes"]
    changed = f"; changed for it: {first_of(nodes, _MOST)}" if nodes else ""
    return f"a copy of the model was {done}, in which {dims}{changed}; verified: with {sizes} its outputs are those of the model"


def kinds_of(shape: Sequence[int | str | None]) -> str:
    """Which dimensions of a tensor a model fixes and which are symbolic, in words; "" of a scalar."""
    kinds = ["fixed" if isinstance(dim, int) else "symbolic" for dim in shape]
    if len(set(kinds)) < 2:
        return f"all {kinds[0]}" if len(kinds) > 1 else "".join(kinds)
    groups = ((kind, [axis for axis, it in enumerate(kinds) if it == kind]) for kind in dict.fromkeys(kinds))
    return "; ".join(
        f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))} {kind}" for kind, axes in groups
    )


TO_FREE, IN_A_COPY = "; to free ", ", in a copy of the model: add "


def to_free(inputs: Iterable[tuple[str, Sequence[int | str | None]]], name: str) -> str:
    """The end of a message: how to free the first dimensions of inputs, which mostly are the batch, under a name; "" where they
    are not fixed alike."""
    fixed = [(tensor, shape[0]) for tensor, shape in inputs if shape and isinstance(shape[0], int)]
    if not fixed or len({size for _, size in fixed}) > 1 or not name.isidentifier():
        return ""
    tensors = ", ".join(tensor for tensor, _ in fixed)
    options = " ".join(f"--free-dim {tensor}:0={name}" for tensor, _ in fixed)
    return f"{TO_FREE}dimension 0 of {tensors}, fixed at {fixed[0][1]}{IN_A_COPY}{options}"


def problem(freed: Freed, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str | None:
    """The first output that has another size than the freed dimension that the copy states for it; None where all have it."""
    sizes = {}
    for it in freed["dims"]:
        shape = next((tensor["shape"] for tensor in inputs if tensor["name"] == it["input"]), None)
        if shape is not None:
            sizes[it["name"]] = shape[it["axis"]]
    for tensor in outputs:
        for axis, (dim, size) in enumerate(zip(tensor["model_shape"], tensor["shape"] or (), strict=False)):
            if dim in sizes and size != sizes[dim]:
                return f"the copy does not do what it states: {dim} is {sizes[dim]}, and output {tensor['name']} is {size} long in axis {axis}"
    return None
