"""The shapes of inputs: what the user gave, and what the model leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortbench.core.errors import BadInput
from ortbench.core.expressions import STEP, names_in, value_of
from ortbench.worker.session.tensors import TensorSpec

_LARGEST = 2**63 - 1  # that a dimension's size can be


def resolve_shapes(
    inputs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int | str],
    known: Mapping[str, int] | None = None,
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Fill symbolic dimensions in.

    Args:
        inputs: the model's inputs.
        shapes: whole shapes that the user gave, by input name.
        dims: what the user gave, by the dimension's name: a size, or an expression of others.
        known: of a loop: ``step``, and the sizes that its state has by now.

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
    sizes = {name: size for name, size in dims.items() if isinstance(size, int)} | dict(known or {})
    for spec in inputs:  # what --shape says of a named dimension holds for every input that uses the name
        for dim, size in zip(spec.shape, shapes.get(spec.name, ()), strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                raise BadInput(f"--shape {spec.name}: dimension {dim} is {size} here and {sizes[dim]} elsewhere")
    sums = {name: text for name, text in dims.items() if isinstance(text, str) and name not in sizes}
    guessed = _sum_up(sizes, sums, symbols, least=1 if known is None else 0)
    resolved: dict[str, tuple[int, ...]] = {}
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


def _sum_up(sizes: dict[str, int], sums: Mapping[str, str], symbols: set[str], least: int) -> list[str]:
    """Put the size of every dimension that is a sum of others into `sizes`; gives those of them that were set to 1.

    Exporters name a dimension by the sum that it is, such as "past_sequence_length + 1": such a name is a sum too where it
    comes to a size.

    Args:
        sizes: that are known.
        sums: that were given, by the dimension's name.
        symbols: the names of all dimensions.
        least: the smallest size that there may be.

    Raises:
        BadInput: a name that is no dimension, a circle, or what is no size.
    """
    guessed: list[str] = []

    def size_of(name: str, above: tuple[str, ...]) -> int:
        if name in sizes:
            return sizes[name]
        if name in above:
            raise BadInput(f"--dim {name}={sums[name]}: is a sum of itself")
        text = sums.get(name, "" if name.isidentifier() else name)
        where, names, size = f"--dim {name}={text}", names_in(text) or set(), -1.0
        if name in sums:
            _check_known(where, names - symbols - set(sizes), symbols - {name})
        if names and names <= symbols | set(sizes):
            size = value_of(text, {other: size_of(other, (*above, name)) for other in sorted(names)}, where)
        if least <= size <= _LARGEST and size == int(size):
            sizes[name] = int(size)
        elif name in sums:
            raise BadInput(f"{where}: {size:g} is no size{'' if size else ', which leaves nothing to measure'}")
        else:
            guessed.append(name)
            sizes[name] = 1
        return sizes[name]

    own = (name for name in sorted(symbols - set(sums)) if not name.isidentifier() and names_in(name))
    for name in (*sums, *own):
        size_of(name, ())
    return guessed


def _check_known(where: str, unknown: set[str], symbols: set[str]) -> None:
    """Raises:
    BadInput: there are unknown names in a sum.
    """
    for other in sorted(unknown):
        if other == STEP:
            raise BadInput(f"{where}: only a loop has steps")
        or_sum = f", or a sum of {', '.join(sorted(symbols))}" if symbols else ""
        raise BadInput(f"{where}: the model has no dimension {other!r}; write a whole number{or_sum}")


def check_fit(spec: TensorSpec, shape: Sequence[int], source: str) -> None:
    wanted = "x".join(str(dim) if dim is not None else "?" for dim in spec.shape) or "a scalar"
    text = "x".join(map(str, shape)) or "a scalar"
    # An empty shape is also how ORT reports an input of unknown rank: the session itself is the judge then.
    if spec.shape and len(shape) != len(spec.shape):
        raise BadInput(f"{source} {spec.name}: {text} does not fit {wanted}: {len(spec.shape)} dimension(s) are needed")
    for dim, size in zip(spec.shape, shape, strict=False):
        if isinstance(dim, int) and dim != size:
            raise BadInput(f"{source} {spec.name}: {text} does not fit {wanted}: the model fixes {dim}")
