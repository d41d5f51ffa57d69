"""Lists of settings, as ``--dim batch=1,8,32`` or ``--dim batch=1..32``: what the command line would give for each of them alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput


class Listed(NamedTuple):
    """How `ortbench run` takes several values of an option, each for a side of its own.

    Attributes:
        example: a list, for the help; "" where the option is repeated instead.
        each: gives what a command line would give for each side, from what it gave; takes the option's name too and raises
            `BadInput` for what is no list.
        joint: what stands between a name and its list, where each is of a name.
        of_lists: whether what is listed is a list itself in Python.
    """

    example: str
    each: Callable[[Any, str], list[Any]]
    joint: str = "="
    of_lists: bool = False


def _each_word(given: Sequence[str], option: str) -> list[str]:
    for number, word in enumerate(given):
        if word in given[:number]:
            raise BadInput(f"{option} {word}: was given twice; give it once", option)
    return list(given)


def _each_choice(given: str, option: str) -> list[str]:
    return _parts(given, given, option)


def _each_whole(given: str, option: str) -> list[int]:
    found = []
    for part in _parts(given, given, option):
        try:
            found.append(int(part))
        except ValueError:
            raise BadInput(f"{option} {part!r}: is not a whole number; several are written as 1,2", option) from None
    return found


def _each_entry(given: Sequence[str], option: str) -> list[list[str]]:
    values = []
    for word in given:
        name, equals, text = word.partition("=")
        values.append([f"{name}{equals}{part}" for part in _parts(_spelled_out(text, word, option), word, option)])
    return [list(words) for words in product(*values)]


_RANGE = re.compile(r"\s*(\d+)\s*\.\.\s*(\d+)\s*")


def _spelled_out(text: str, word: str, option: str) -> str:
    """A list with the ranges in it, such as ``4..64``, as what they stand for: 4,8,16,32,64."""
    parts: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        parts += [part] if found is None else _doubled(int(found[1]), int(found[2]), word, option)
    return ",".join(parts)


def _doubled(low: int, high: int, word: str, option: str) -> list[str]:
    """Both ends of a range, and between them what doubling the lower one gives.

    Raises:
        BadInput: it is empty, or begins with 0.
    """
    if not 0 < low < high:
        raise BadInput(f"{option} {word}: {low}..{high} is no range: write the smaller size first, above 0", option)
    found = [low]
    while found[-1] * 2 < high:
        found.append(found[-1] * 2)
    return [*map(str, found), str(high)]


def _each_shape(given: Sequence[str], option: str) -> list[list[str]]:
    shapes = []
    for word in given:
        name, colon, text = word.rpartition(":")
        parts = text.split(",")
        # A comma may also stand for an x: 1,3,224,224 is one shape, and 1x3,8x3 cannot be.
        is_list = len(parts) > 1 and all("x" in part for part in parts)
        shapes.append([f"{name}{colon}{part}" for part in _parts(text, word, option)] if is_list else [word])
    return [list(words) for words in product(*shapes)]


def _parts(text: str, word: str, option: str) -> list[str]:
    """The parts of a list, each once.

    Raises:
        BadInput: one is there twice, and would be measured against itself.
    """
    parts = [part.strip() for part in text.split(",")]
    for number, part in enumerate(parts):
        if part in parts[:number]:
            raise BadInput(f"{option} {word}: {part!r} is in the list twice", option)
    return parts


REPEATED = Listed("", _each_word)
CHOICES = Listed("basic,all", _each_choice)
WHOLES = Listed("1,2", _each_whole)
ENTRIES = Listed("NAME=1,8 or 1..8", _each_entry)
SHAPES = Listed("NAME:1x3,8x3", _each_shape, joint=":", of_lists=True)
