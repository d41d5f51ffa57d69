"""Kinds of options: how the value of each is read, from the words of a command line and from the data of TOML or Python. Pure.

Data is written as a command line would have it (`data`, `Entries.text`) and read like that (`parse`, `Entries.item`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput
from ortbench.core.expressions import names_in
from ortbench.model.modes import ALL_MODES, EVERY, OLD_NAMES, USUAL, no_such
from ortbench.plan.parsing import (
    parse_above_zero,
    parse_clock,
    parse_dim,
    parse_freed,
    parse_items,
    parse_length,
    parse_pairings,
    parse_precision,
    parse_range,
    parse_shape,
    parse_share,
    parse_size,
    parse_time,
)


def as_given(given: Any, option: str) -> Any:
    """What a command line gives, as it is."""
    return given


class Entries(NamedTuple):
    """Of a table: how an entry is written. Readers are given the option's name too and raise `BadInput`.

    Attributes:
        form: of a word, for messages.
        item: the value, from the name and the text behind it.
        text: the text, from the name and the value in TOML or Python.
        joint: what stands between both.
        last: the last joint divides a word, as names may have some.
    """

    form: str
    item: Callable[[str, str, str], Any]
    text: Callable[[str, Any, str], str]
    joint: str = "="
    last: bool = False

    def split(self, word: str, option: str) -> tuple[str, str]:
        name, joint, text = word.rpartition(self.joint) if self.last else word.partition(self.joint)
        if not joint or not name:
            raise BadInput(f"{option} {word!r}: write it as {self.form}", option)
        return name, text


class OptionType(NamedTuple):
    """What an option takes. Each reader is also given the option's name, and raises `BadInput` for what it cannot read.

    Attributes:
        example: how TOML writes one, for the documentation; empty for text.
        data: gives what a command line would give, from a value of TOML or Python.
        parse: gives the value, from what a command line gives: of a repeatable option a list.
        word: what the command line makes of a word.
        repeatable: may be given several times.
        entries: in place of `data` and `parse`, where TOML has a table.
        is_path: a suite writes it relative to its file.
        of_options: its value is of other options, by their names: a command has these as if each had been given.
        python: the type of what a call from Python gives, see `ortbench.api.values`.
    """

    example: str
    data: Callable[[Any, str], Any]
    parse: Callable[[Any, str], Any] = as_given
    word: type = str
    repeatable: bool = False
    entries: Entries | None = None
    is_path: bool = False
    of_options: bool = False
    python: str = "str"


# Values of TOML and Python


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


def whole_of(value: Any, option: str = "") -> int:
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


def _text_or(read: Callable[[Any, str], Any]) -> Callable[[Any, str], str]:
    """Of what may be text, or a number that `read` takes."""
    return lambda value, option: value if isinstance(value, str) else str(read(value, option)).removesuffix(".0")


def _mode(name: str, option: str) -> str:
    if name not in ALL_MODES:
        raise BadInput(f"{option} {no_such(name)}", option)
    return name


def _modes(given: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(_mode(name, option) for name in given)


def _mode_names(given: Sequence[str], option: str) -> tuple[str, ...]:
    """Names of modes or of several; which modes there are to choose from, the plan knows that has them."""
    return tuple(_mode(name, option) if name in OLD_NAMES else name for name in given)


def _one_mode(given: str, option: str) -> tuple[str, ...]:
    if given in (EVERY, USUAL):
        raise BadInput(f"{option} {given}: a program does one mode: name it", option)
    return _mode_names([given], option)


def _mode_texts(value: Any, option: str) -> list[str]:
    return [name if name in (EVERY, USUAL) else _mode(name, option) for name in texts_of(value)]


def _no_table(value: Any, option: str) -> Any:
    raise BadInput("must be a table")


def _pair(name: str, value: Any, option: str) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise BadInput("must be text or a number")
    return str(value)


def _sizes(name: str, value: Any, option: str) -> str:
    """A size, an expression or, of a sweep, a list of them."""
    if isinstance(value, list):
        return ",".join(_sizes(name, it, option) for it in value)
    if isinstance(value, str) and (names_in(value) or re.search(r",|\.\.", value)):
        return value
    return str(whole_of(value))


def _shape(name: str, value: Any, option: str) -> str:
    """A shape or, of a sweep, a list of them."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BadInput('must be such as "1x3x224x224" or [1, 3, 224, 224]')
    if any(isinstance(it, (str, list)) for it in value):
        return ",".join(_shape(name, it, option) for it in value)
    return "x".join(str(whole_of(size)) for size in value)


def _range(name: str, value: Any, option: str) -> str:
    if not isinstance(value, list) or len(value) != 2:
        raise BadInput("must be such as [0, 1]")
    for end in value:
        _number(end, option)
    return f"{value[0]},{value[1]}"


def _amount(name: str, value: Any, option: str) -> str:
    return f"{_number(value, option):g}"


def _speedup(name: str, value: Any, option: str) -> str:
    return str(_number(value, option))


def _faster(name: str, text: str, option: str) -> float:
    return _TIMES(_mode(name, option), text, option)


def _as_text(name: str, text: str, option: str) -> str:
    return text


def _tuple(given: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(given)


def _place(given: str, option: str) -> Path:
    return Path(given)


def table_of(entries: Entries, example: str, value: str) -> OptionType:
    return OptionType(example, _no_table, repeatable=True, entries=entries, python=f"Mapping[str, {value}]")


_PAIR = "key=value"
_TIMES = parse_above_zero("how many times as fast as cpu-tensors, such as {name}=1.5")
_MUCH = parse_above_zero("how much of it, such as {name}=1")
TEXT = OptionType("", text_of)
TEXTS = OptionType('"text" or a list', texts_of, _tuple, repeatable=True, python="Texts")
PATHS = TEXTS._replace(example='"path" or a list', is_path=True)
PATH = OptionType("", text_of, is_path=True, python="Place")
PLACE = OptionType("", text_of, _place, python="Place")  # where something is written or found that belongs to no suite
WHOLE = OptionType("1", whole_of, word=int, python="int")
NUMBER = OptionType("0.5", _number, word=float, python="float")
FLAG = OptionType("true", _flag, word=bool, python="bool")
SWITCH = FLAG._replace(example="false", python="bool")  # on by default: it has two names, and false says something
SHARE = OptionType('"1%" or 0.01', _text_or(_number), parse_share, python="float | str")
PRECISION = OptionType('"1%" or 0.01', _text_or(_number), parse_precision, python="float | str")
SIZE = OptionType('"2GB" or a number of bytes', _text_or(whole_of), parse_size, python="int | str")
TIME = OptionType('"60s" or a number of seconds', _text_or(_number), parse_time, python="float | str")
CLOCK = OptionType('"base" or 1200', _text_or(whole_of), parse_clock, python="int | str")
ITEMS = OptionType('8 or "batch"', _text_or(whole_of), parse_items, python="int | str")
MODE_NAMES = OptionType('"cpu-tensors" or a list', _mode_texts, _mode_names, repeatable=True, python="Texts")
MODES_ALONE = MODE_NAMES._replace(data=texts_of, parse=_modes)
ONE_MODE = OptionType('"cpu-tensors"', text_of, _one_mode)
PAIRINGS = OptionType('"out=in" or a list', texts_of, parse_pairings, repeatable=True, python="Texts")
PAIRS = table_of(Entries(_PAIR, _as_text, _pair), '{key = "value"}', "str | float")
# The name of a dimension may be a sum itself, as exporters write them: only the last = divides.
DIMS = table_of(Entries(_PAIR, parse_dim, _sizes, last=True), '{name = 8} or {name = "other+1"}', "int | str")
FREED = table_of(
    Entries("input:axis=name", parse_freed, lambda name, value, option: text_of(value), last=True),
    '{"image:0" = "batch"}',
    "str",
)
LENGTHS = table_of(Entries(_PAIR, parse_length, _sizes), "{name = 8}", "int")
SHAPES = table_of(
    Entries("name:1x3x224x224", parse_shape, _shape, ":", last=True),
    '{name = "1x3"} or {name = [1, 3]}',
    "str | Sequence[int]",
)
RANGES = table_of(Entries("name:low,high", parse_range, _range, ":", last=True), "{name = [0, 1]}", "Sequence[float]")
AMOUNTS = table_of(Entries(_PAIR, _MUCH, _amount), "{name = 1}", "float")
SPEEDUPS = table_of(Entries(_PAIR, _faster, _speedup), "{mode = 1.5}", "float")


# Twins: the same option of another side, which can also take back what this side was given


@cache
def or_default(kind: OptionType, default: Any) -> OptionType:
    """A kind that is no table, but an empty word gives the default; in place of a flag it is on or off."""
    if kind.word is bool:
        return OptionType('"on" or "off"', _switch, _switched, python="bool")
    nothing: Any = [""] if kind.repeatable else ""

    def data(value: Any, option: str) -> Any:
        return nothing if value == "" else kind.data(value, option)

    def parse(given: Any, option: str) -> Any:
        if kind.repeatable:
            words = [word for word in given if word]
            return kind.parse(words, option) if words else default
        if given == nothing:
            return default
        try:
            return kind.parse(kind.word(given), option)
        except ValueError:
            what = "a whole number" if kind.word is int else "a number"
            raise BadInput(f"{option} {given!r}: is not {what}", option) from None

    python = kind.python if kind.repeatable or kind.word is str else f"{kind.python} | str"
    return kind._replace(data=data, parse=parse, word=str, python=python)


_SWITCHED = {"on": True, "off": False}


def _switch(value: Any, option: str) -> str:
    word = ("on" if value else "off") if isinstance(value, bool) else value
    _switched(word, option)
    return str(word)


def _switched(given: Any, option: str) -> bool:
    if given not in _SWITCHED:
        raise BadInput(f"{option} {given!r}: write on or off", option)
    return _SWITCHED[given]
