"""Patterns of tensors' names, as ``--feedback present.*=past.*`` and a chain's links have them, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ortbench.core.errors import BadInput


def matched(
    feedback: Sequence[tuple[str, str]], outputs: Sequence[str], inputs: Sequence[str]
) -> list[tuple[str, str]]:
    """The pairs of names that patterns (see `Steps`) stand for, in the order of the outputs.

    Raises `BadInput` for a pattern that matches nothing, an output without its input, or one that is named twice.
    """
    pairs: dict[str, str] = {}
    for out, into in feedback:
        where = f"--feedback {out}={into}"
        found = expanded(out, into, outputs)
        if not found:
            raise BadInput(f"{where}: the model has no such output{nearest(out, outputs)}", "--feedback")
        for name, wanted in found:
            if wanted not in inputs:
                raise BadInput(f"{where}: the model has no input {wanted!r}{nearest(wanted, inputs)}", "--feedback")
            if name in pairs:
                raise BadInput(f"{where}: {name!r} is fed back already", "--feedback")
            if wanted in pairs.values():
                raise BadInput(f"{where}: {wanted!r} is fed already", "--feedback")
            pairs[name] = wanted
    return [(name, pairs[name]) for name in outputs if name in pairs]


def expanded(out: str, into: str, outputs: Sequence[str]) -> list[tuple[str, str]]:
    """The outputs that a pattern stands for, each with what the other pattern then is: a ``*`` of both stands for the
    same text."""
    pattern = re.compile("(.*)".join(map(re.escape, out.split("*"))))
    return [(name, _filled(into, match.groups())) for name in outputs if (match := pattern.fullmatch(name))]


def _filled(pattern: str, parts: Sequence[str]) -> str:
    """A pattern with its stars replaced by what those of the other one stand for."""
    first, *rest = pattern.split("*")
    return first + "".join(part + piece for part, piece in zip(parts, rest, strict=True))


def nearest(name: str, names: Sequence[str]) -> str:
    """The nearest names, or all where they are few, as the end of a message."""
    from difflib import get_close_matches  # for a mistake alone

    close = get_close_matches(name.replace("*", "0"), names, n=3, cutoff=0.4) or list(names[:8])
    return f"; it has {', '.join(close)}{' …' if len(close) < len(names) else ''}" if names else ""
