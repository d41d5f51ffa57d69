"""Kinds of options: how each is read, from the words of a command line and from a suite's TOML. Pure.

What a suite gives is turned into the words that the command line would have: from there on there is one way for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput
from ortbench.core.expressions import names_in
from ortbench.model.modes import ALL_MODES, no_such
from ortbench.plan.list_syntax import ENTRIES
from ortbench.plan.list_syntax import SHAPES as LISTS_OF_SHAPES
from ortbench.plan.parsing import (
    parse_amounts,
    parse_clock,
    parse_dims,
    parse_items,
    parse_lengths,
    parse_pairings,
    parse_pairs,
    parse_precision,
    parse_ranges,
    parse_shapes,
    parse_share,
    parse_size,
    parse_speedups,
)


def _as_given(given: Any, option: str) -> Any:
    return given


class Kind(NamedTuple):
    """What an option takes. Each reader is also given the option's name, and raises `BadInput` for what it cannot read.

    Attributes:
        example: how TOML writes one, for the documentation; empty for text.
        toml: gives what a command line would give, from a value of TOML.
        parse: gives the value, from what a command line gives: of a repeatable option a list.
        word: what the command line makes of a word.
        repeatable: may be given several times.
        entry: in place of `toml`, where TOML has a table: gives a word, from the key and the value of an entry.
        is_path: a suite writes it relative to its file.
        python: the type of what a call from Python gives, see `ortbench.api.values`.
    """

    example: str
    toml: Callable[[Any, str], Any]
    parse: Callable[[Any, str], Any] = _as_given
    word: type = str
    repeatable: bool = False
    entry: Callable[[str, Any, str], str] | None = None
    is_path: bool = False
    python: str = "str"


# Values of TOML


def text_of(value: Any, option: str = "") -> str:
    """Text that says something."""
    if not isinstance(value, str) or not value:
        raise BadInput("must be text")
    return value


def texts_of(value: Any, option: str = "") -> list[str]:
    """A text, or a list of them."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(item, str) and item for item in values):
        raise BadInput("must be text or a list of texts")
    return values


def _whole(value: Any, option: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput("must be a whole number")
    return value


def _number(value: Any, option: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise BadInput("must be a number")
    return float(value)


def _flag(value: Any, option: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput("must be true or false")
    return value


def _share_by(parse: Callable[[str, str], float]) -> Callable[[Any, str], str]:
    """Of shares that `parse` reads."""

    def share(value: Any, option: str) -> str:
        text = value if isinstance(value, str) else str(_number(value, option))
        parse(text, option)
        return text

    return share


def _size(value: Any, option: str) -> str:
    text = value if isinstance(value, str) else str(_whole(value, option))
    parse_size(text, option)
    return text


def _clock(value: Any, option: str) -> str:
    text = value if isinstance(value, str) else str(_whole(value, option))
    parse_clock(text, option)
    return text


def _items(value: Any, option: str) -> str:
    text = value if isinstance(value, str) else str(_whole(value, option))
    parse_items(text, option)
    return text


def _mode(name: str, option: str) -> str:
    if name not in ALL_MODES:
        raise BadInput(f"{option} {no_such(name)}", option)
    return name


def _modes(value: Any, option: str) -> list[str]:
    return [_mode(name, option) for name in texts_of(value)]


# Entries of its tables


def _no_table(value: Any, option: str) -> Any:
    raise BadInput("must be a table")


def _pair(name: str, value: Any, option: str) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise BadInput("must be text or a number")
    parse_pairs([f"{name}={value}"], option)
    return f"{name}={value}"


def _sizes(value: Any, option: str) -> str:
    """A size or, of a sweep, a list of them."""
    if isinstance(value, str) and re.search(r",|\.\.", value):
        return value
    return ",".join(str(_whole(size, option)) for size in (value if isinstance(value, list) and value else [value]))


def _dim(name: str, value: Any, option: str) -> str:
    item = f"{name}={value if isinstance(value, str) and names_in(value) else _sizes(value, option)}"
    for words in ENTRIES.each([item], option):
        parse_dims(words, option)
    return item


def _length(name: str, value: Any, option: str) -> str:
    item = f"{name}={_sizes(value, option)}"
    for words in ENTRIES.each([item], option):
        parse_lengths(words, option)
    return item


def _shape(name: str, value: Any, option: str) -> str:
    if isinstance(value, list) and value and all(isinstance(it, str) for it in value):
        value = ",".join(value)
    elif isinstance(value, list):
        value = "x".join(str(_whole(size, option)) for size in value)
    elif not isinstance(value, str):
        raise BadInput('must be such as "1x3x224x224" or [1, 3, 224, 224]')
    for words in LISTS_OF_SHAPES.each([f"{name}:{value}"], option):
        parse_shapes(words, option)
    return f"{name}:{value}"


def _range(name: str, value: Any, option: str) -> str:
    if not isinstance(value, list) or len(value) != 2:
        raise BadInput("must be such as [0, 1]")
    low, high = (_number(end, option) for end in value)
    parse_ranges([f"{name}:{low!r},{high!r}"], option)
    return f"{name}:{value[0]},{value[1]}"


def _amount(name: str, value: Any, option: str) -> str:
    item = f"{name}={_number(value, option):g}"
    parse_amounts([item], option)
    return item


def _speedup(name: str, value: Any, option: str) -> str:
    item = f"{_mode(name, option)}={_number(value, option)}"
    parse_speedups([item], option)
    return item


def _pairings(value: Any, option: str) -> list[str]:
    values = texts_of(value)
    parse_pairings(values, option)
    return values


def _tuple(given: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(given)


def _place(given: str, option: str) -> Path:
    return Path(given)


def _table(parse: Callable[[Any, str], Any], entry: Callable[[str, Any, str], str], example: str, value: str) -> Kind:
    return Kind(example, _no_table, parse, repeatable=True, entry=entry, python=f"Mapping[str, {value}]")


TEXT = Kind("", text_of)
TEXTS = Kind('"text" or a list', texts_of, _tuple, repeatable=True, python="Texts")
PATHS = TEXTS._replace(example='"path" or a list', is_path=True)
PATH = Kind("", text_of, is_path=True, python="Place")
PLACE = Kind("", text_of, _place, python="Place")  # where something is written or found that belongs to no suite
WHOLE = Kind("1", _whole, word=int, python="int")
NUMBER = Kind("0.5", _number, word=float, python="float")
FLAG = Kind("true", _flag, word=bool, python="bool")
SHARE = Kind('"1%" or 0.01', _share_by(parse_share), parse_share, python="float | str")
PRECISION = Kind('"1%" or 0.01', _share_by(parse_precision), parse_precision, python="float | str")
SIZE = Kind('"2GB" or a number of bytes', _size, parse_size, python="int | str")
CLOCK = Kind('"base" or 1200', _clock, parse_clock, python="int | str")
ITEMS = Kind('8 or "batch"', _items, parse_items, python="int | str")
MODE_NAMES = Kind('"cpu-tensors" or a list', _modes, _tuple, repeatable=True, python="Texts")
PAIRINGS = Kind('"out=in" or a list', _pairings, parse_pairings, repeatable=True, python="Texts")
PAIRS = _table(parse_pairs, _pair, '{key = "value"}', "str | float")
DIMS = _table(parse_dims, _dim, '{name = 8} or {name = "other+1"}', "int | str")
LENGTHS = _table(parse_lengths, _length, "{name = 8}", "int")
SHAPES = _table(parse_shapes, _shape, '{name = "1x3"} or {name = [1, 3]}', "str | Sequence[int]")
RANGES = _table(parse_ranges, _range, "{name = [0, 1]}", "Sequence[float]")
AMOUNTS = _table(parse_amounts, _amount, "{name = 1}", "float")
SPEEDUPS = _table(parse_speedups, _speedup, "{mode = 1.5}", "float")


# Twins: the same option of another side, which can also take back what this side was given


@cache
def or_nothing(kind: Kind) -> Kind:
    """The same, but an empty word means that nothing was given; in place of a flag it is on or off."""
    if kind is FLAG:
        return Kind('"on" or "off"', _switch, _switched, python="bool")
    if kind.entry is not None:
        return kind  # an empty table is nothing already
    nothing: Any = [""] if kind.repeatable else ""

    def toml(value: Any, option: str) -> Any:
        return nothing if value == "" else kind.toml(value, option)

    if kind.repeatable:
        return kind._replace(toml=toml)
    python = kind.python if kind.word is str else f"{kind.python} | str"

    def parse(given: Any, option: str) -> Any:
        try:
            return kind.parse(kind.word(given), option)
        except ValueError:
            what = "a whole number" if kind.word is int else "a number"
            raise BadInput(f"{option} {given!r}: is not {what}", option) from None

    return kind._replace(toml=toml, parse=parse, word=str, python=python)


_SWITCHED = {"on": True, "off": False}


def _switch(value: Any, option: str) -> str:
    word = "on" if value is True else value  # false takes back what an earlier layer gave
    _switched(word, option)
    return str(word)


def _switched(given: Any, option: str) -> bool:
    if given not in _SWITCHED:
        raise BadInput(f"{option} {given!r}: write on or off", option)
    return _SWITCHED[given]
