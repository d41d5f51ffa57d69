"""The shapes of inputs: what the user gave, and what the model leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortbench.errors import BadInput
from ortbench.worker.session.tensors import TensorSpec


def resolve_shapes(
    inputs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Fill symbolic dimensions in.

    Args:
        inputs: the model's inputs.
        shapes: whole shapes that the user gave, by input name.
        dims: sizes that the user gave, by the dimension's name.

    Returns:
        A shape for every input, and the dimensions that were set to 1 because nobody said otherwise.

    Raises:
        BadInput: a name the model has not, a shape that does not fit, or two sizes for one dimension.
    """
    names = [spec.name for spec in inputs]
    for name in shapes:
        if name not in names:
            raise BadInput(f"--shape {name}: the model has no such input; it has {', '.join(names)}")
    symbols = {dim for spec in inputs for dim in spec.shape if isinstance(dim, str)}
    for name in dims:
        if name not in symbols:
            has = f"it has {', '.join(sorted(symbols))}" if symbols else "it has none"
            raise BadInput(f"--dim {name}: the model has no such symbolic dimension; {has}")
    sizes = dict(dims)
    for spec in inputs:  # what --shape says of a named dimension holds for every input that uses the name
        for dim, size in zip(spec.shape, shapes.get(spec.name, ()), strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                raise BadInput(f"--shape {spec.name}: dimension {dim} is {size} here and {sizes[dim]} elsewhere")
    resolved, guessed = {}, []
    for spec in inputs:
        given = shapes.get(spec.name)
        if given is not None:
            check_fit(spec, given, "--shape")
            resolved[spec.name] = given
            continue
        shape = []
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, int):
                shape.append(dim)
            elif isinstance(dim, str) and dim in sizes:
                shape.append(sizes[dim])
            else:
                shape.append(1)
                label = dim if isinstance(dim, str) else f"{spec.name}[{axis}]"
                if label not in guessed:
                    guessed.append(label)
        resolved[spec.name] = tuple(shape)
    return resolved, guessed


def check_fit(spec: TensorSpec, shape: Sequence[int], source: str) -> None:
    wanted = "x".join(str(dim) if dim is not None else "?" for dim in spec.shape) or "a scalar"
    text = "x".join(map(str, shape)) or "a scalar"
    # An empty shape is also how ORT reports an input of unknown rank: the session itself is the judge then.
    if spec.shape and len(shape) != len(spec.shape):
        raise BadInput(f"{source} {spec.name}: {text} does not fit {wanted}: {len(spec.shape)} dimension(s) are needed")
    for dim, size in zip(spec.shape, shape, strict=False):
        if isinstance(dim, int) and dim != size:
            raise BadInput(f"{source} {spec.name}: {text} does not fit {wanted}: the model fixes {dim}")
