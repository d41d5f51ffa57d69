"""Names of dimensions, sums of them and of the step, as ``--dim total_length=past_length+1`` and ``--fill position_ids=step`` have
them, and patterns of tensors' names, as ``--feedback present.*=past.*`` and a chain's links have them. Pure."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortbench.core.errors import BadInput

# The number of the step, from 0; of an input's values: the place along its last dimension.
STEP, INDEX = "step", "index"
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod,
}  # fmt: skip
_PARTS = (ast.Constant, ast.Name, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp, *_OPERATORS)
_LONGEST = 200  # characters
# A name: an identifier, one as exporters write them, such as p2o.DynamicDimension.1 or x:0, or a place, such as m[0].
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*(?:[.:]\w+)*(?:\[\d+\])?")


def named_dims(tensor: str, shape: Sequence[int | str | None]) -> tuple[int | str, ...]:
    """The sizes and names of a tensor's dimensions; one without a name is called by its place, such as ``m[0]``."""
    return tuple(f"{tensor}[{axis}]" if dim is None else dim for axis, dim in enumerate(shape))


def by_size(sizes: Mapping[str, int]) -> dict[int, list[str]]:
    """The names of dimensions of each size."""
    found: dict[int, list[str]] = {}
    for name, size in sizes.items():
        found.setdefault(size, []).append(name)
    return found


def names_in(text: str) -> set[str] | None:
    """The names in an expression of numbers and names with + - * // / % and parentheses; None where the text is
    none."""
    try:
        if len(text) > _LONGEST:
            return None
        tree, odd = _parse(text)
        parts = list(ast.walk(tree))
    except (SyntaxError, ValueError):
        return None
    if not all(isinstance(it, _PARTS) and type(getattr(it, "value", 0)) in (int, float) for it in parts):
        return None
    return {odd.get(node.id, node.id) for node in parts if isinstance(node, ast.Name)}


def _parse(text: str) -> tuple[ast.expr, dict[str, str]]:
    """An expression, and the names that are no identifiers by what stands for them in it."""
    odd: dict[str, str] = {}

    def replace_name(found: re.Match[str]) -> str:
        if found[0].isidentifier():
            return found[0]
        odd[name := f"_odd{len(odd)}"] = found[0]
        return name

    return ast.parse(_NAME.sub(replace_name, text.strip()), mode="eval").body, odd


def value_of(text: str, known: Mapping[str, Any], option: str) -> Any:
    """What an expression (see `names_in`) comes to: a number, or an array where a name is one.

    Raises `BadInput` of the option where a name is not known, for a division by zero, or a number beyond what a
    computer holds.
    """
    try:
        tree, odd = _parse(text)
        return _value(tree, {**known, **{name: known[meant] for name, meant in odd.items()}})
    except KeyError as error:
        names = ", ".join(sorted(known)) or "nothing"
        raise BadInput(f"{option}: {error.args[0]!r} is not known here; known are {names}") from None
    except (ZeroDivisionError, FloatingPointError):  # of numbers, and of arrays
        raise BadInput(f"{option}: divides by zero") from None
    except OverflowError:
        raise BadInput(f"{option}: is beyond all bounds") from None


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, known)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, known), _value(node.right, known))
    assert isinstance(node, ast.Constant)
    return node.value


# Patterns of names


def match_pairs(
    feedback: Sequence[tuple[str, str]], outputs: Sequence[str], inputs: Sequence[str]
) -> list[tuple[str, str]]:
    """The pairs of names that patterns (see `Steps`) stand for, in the order of the outputs.

    Raises `BadInput` for a pattern that matches nothing, an output without its input, or one that is named twice.
    """
    pairs: dict[str, str] = {}
    fed: set[str] = set()
    known = set(inputs)
    for out, into in feedback:
        where = f"--feedback {out}={into}"
        found = expand_pattern(out, into, outputs)
        if not found:
            raise BadInput(f"{where}: the model has no such output{nearest(out, outputs)}", "--feedback")
        for name, wanted in found:
            if wanted not in known:
                raise BadInput(f"{where}: the model has no input {wanted!r}{nearest(wanted, inputs)}", "--feedback")
            if name in pairs:
                raise BadInput(f"{where}: {name!r} is fed back already", "--feedback")
            if wanted in fed:
                raise BadInput(f"{where}: {wanted!r} is fed already", "--feedback")
            pairs[name] = wanted
            fed.add(wanted)
    return [(name, pairs[name]) for name in outputs if name in pairs]


def expand_pattern(out: str, into: str, outputs: Sequence[str]) -> list[tuple[str, str]]:
    """The outputs that a pattern stands for, each with what the other pattern then is: a ``*`` of both stands for the
    same text."""
    pattern = re.compile("(.*)".join(map(re.escape, out.split("*"))))
    return [(name, _fill_pattern(into, match.groups())) for name in outputs if (match := pattern.fullmatch(name))]


def _fill_pattern(pattern: str, parts: Sequence[str]) -> str:
    """A pattern with its stars replaced by what those of the other one stand for."""
    first, *rest = pattern.split("*")
    return first + "".join(part + piece for part, piece in zip(parts, rest, strict=True))


def nearest(name: str, names: Sequence[str]) -> str:
    """The nearest names, or all where they are few, as the end of a message."""
    from difflib import get_close_matches  # for a mistake alone

    close = get_close_matches(name.replace("*", "0"), names, n=3, cutoff=0.4) or list(names[:8])
    return f"; it has {', '.join(close)}{' …' if len(close) < len(names) else ''}" if names else ""
