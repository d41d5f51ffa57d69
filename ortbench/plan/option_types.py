"""Kinds of options: how the value of each is read, from the words of a command line and from the data of TOML or Python. Pure.

Data is written as a command line would have it (`data`, `Entries.text`) and read like that (`parse`, `Entries.item`). What is no
value of an option raises `BadInput`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput
from ortbench.core.expressions import names_in
from ortbench.model.modes import ALL_MODES, EVERY, USUAL, no_such


class Entries(NamedTuple):
    """Of a table: how an entry is written. Readers are given the option's name too and raise `BadInput`."""

    form: str  # of a word, for messages
    item: Callable[[str, str, str], Any]  # the value, from the name and the text behind it
    text: Callable[[str, Any, str], str]  # the text, from the name and the value in TOML or Python
    joint: str = "="  # what stands between both
    last: bool = False  # the last joint divides a word, as names may have some

    def split(self, word: str, option: str) -> tuple[str, str]:
        name, joint, text = word.rpartition(self.joint) if self.last else word.partition(self.joint)
        if not joint or not name:
            raise BadInput(f"{option} {word!r}: write it as {self.form}", option)
        return name, text


class OptionType(NamedTuple):
    """What an option takes. Each reader is also given the option's name, and raises `BadInput` for what it cannot read."""

    example: str  # how TOML writes one, for the documentation; empty for text
    data: Callable[[Any, str], Any]  # gives what a command line would give, from a value of TOML or Python
    parse: Callable[[Any, str], Any] = lambda given, option: (
        given
    )  # gives the value, from what a command line gives: a list if repeatable
    word: type = str  # what the command line makes of a word
    repeatable: bool = False  # may be given several times
    entries: Entries | None = None  # in place of `data` and `parse`, where TOML has a table
    # which texts are paths, that a suite writes relative to its file
    is_path: Callable[[str], bool] | None = None
    of_options: bool = False  # its value is of other options, by their names: as if each of these had been given
    python: str = "str"  # the type of what a call from Python gives, in the names of `ortbench.api.calls`

    def with_paths(self, value: Any, to: Callable[[str], str]) -> Any:
        """A value with something else in place of its paths; other values as they are."""
        if self.is_path is None or not value:
            return value
        if isinstance(value, tuple):
            return tuple(self.with_paths(it, to) for it in value)
        return to(value) if self.is_path(value) else value


_LIBRARY = re.compile(r"\.(?:so|dll|dylib)(?:\.[\d.]+)?$")


def is_library(text: str) -> bool:
    """Whether a text names a library by its path, not an EP or a package."""
    return _LIBRARY.search(text) is not None or os.sep in text


# Texts as the values that they stand for: of options, and by name and text of the entries of tables


DIGITS = r"\d{1,18}"  # of a whole number: what 64 bits hold


def finite(text: str) -> float:
    """The finite number that a text is; NaN for any other text."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def parse_shape(name: str, text: str, option: str) -> tuple[int, ...]:
    """``1x3x224x224``, or an empty text for a scalar."""
    parts = re.split(r"[x,]", text) if text else []
    return tuple(parse_dimension(part, f"{option} {f'{name}:{text}'!r}", option) for part in parts)


def parse_dim(name: str, text: str, option: str) -> int | str:
    """``8``, or an expression such as ``past+1`` as it is."""
    if names_in(text):
        return text
    return 0 if re.fullmatch("0+", text, re.ASCII) else parse_dimension(text, f"{option} {name}={text}", option)


def parse_pairings(items: Iterable[str], option: str = "--feedback") -> tuple[tuple[str, str], ...]:
    """``out=in`` items as pairs; a * in one stands for the same text as that in the other."""
    found = []
    for item in items:
        one, equals, other = item.partition("=")
        if not equals or not one or not other:
            raise BadInput(f"{option} {item!r}: write it as output=input", option)
        if one.count("*") != other.count("*"):
            raise BadInput(f"{option} {item!r}: there are as many * on one side as on the other", option)
        found.append((one, other))
    return tuple(found)


def parse_length(name: str, text: str, option: str) -> int:
    """How many tensors there are."""
    if not re.fullmatch(DIGITS, text, re.ASCII):
        raise BadInput(f"{option} {name}={text}: {text!r} is not a number of tensors", option)
    return int(text)


def parse_dimension(text: str, where: str, option: str | None = None) -> int:
    """A dimension's size, as it is written in a place that messages name."""
    if not re.fullmatch(f"-?{DIGITS}", text, re.ASCII):
        several = (
            ", and one is taken here: 'ortbench run' and 'ortbench sweep' take several, a suite's 'shapes' gates each"
        )
        is_list = re.fullmatch(r"\d+((,|\.\.)\d+)+", text, re.ASCII)
        too_long = " of at most 18 digits" * text.removeprefix("-").isdecimal()
        raise BadInput(f"{where}: {text!r} is not a whole number{too_long}{several if is_list else ''}", option)
    size = int(text)
    if size < 0:
        raise BadInput(f"{where}: a dimension cannot be negative", option)
    if size == 0:
        raise BadInput(
            f"{where}: a dimension of 0 leaves nothing to measure; a model that needs one takes it by --input", option
        )
    return size


def parse_clock(text: str, option: str = "--lock-clocks") -> int | str:
    """``1200`` as 1200, in MHz; ``base`` as it is."""
    if text == "base":
        return text
    if not re.fullmatch(DIGITS, text, re.ASCII) or not 0 < int(text) < 100_000:
        raise BadInput(f"{option} {text!r}: write base, or a number of MHz such as 1200", option)
    return int(text)


def parse_items(text: str, option: str = "--items") -> int | str:
    """``8`` as 8, ``batch`` as it is: how many items a run has, or the dimension whose size that is."""
    try:
        float(text)
    except ValueError:
        if not text:
            raise BadInput(f"{option} {text!r}: write a number, or the name of a dimension", option) from None
        return text
    if not re.fullmatch(DIGITS, text, re.ASCII) or not int(text):
        raise BadInput(f"{option} {text}: write a whole number above zero, or the name of a dimension", option)
    return int(text)


def parse_range(name: str, text: str, option: str) -> tuple[float, float]:
    """``0,1.5``, both included."""
    item = f"{name}:{text}"
    low, _, high = text.partition(",")
    try:
        bounds = (float(low), float(high))
    except ValueError:
        raise BadInput(f"{option} {item!r}: write it as name:low,high", option) from None
    if not all(map(math.isfinite, bounds)):
        raise BadInput(f"{option} {item!r}: both ends must be finite numbers", option)
    if not bounds[0] <= bounds[1]:
        raise BadInput(f"{option} {item!r}: low is above high", option)
    return bounds


def parse_share(text: str, option: str) -> float:
    """``1%`` or ``0.01`` as 0.01."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 10:
        raise BadInput(f"{option} {text!r}: write a share above zero such as 1% or 0.01", option)
    return value


_BYTES: dict[str, int] = {"": 1, "b": 1} | {
    f"{letter}{unit}": int(base**power)
    for unit, base in (("b", 1000), ("ib", 1024))
    for power, letter in enumerate("kmgt", 1)
}


def parse_size(text: str, option: str) -> int:
    """``2GB``, ``512MiB`` or ``4096`` in bytes: kB, MB, GB, TB are decimal, KiB, MiB, GiB, TiB binary; case does not matter."""
    found = re.fullmatch(rf"({DIGITS}(?:\.\d+)?) ?([a-z]*)", text.strip(), re.ASCII | re.IGNORECASE)
    if not found or found[2].lower() not in _BYTES:
        raise BadInput(f"{option} {text!r}: write a size such as 2GB, 512MiB or a number of bytes", option)
    return round(float(found[1]) * _BYTES[found[2].lower()])


def parse_precision(text: str, option: str = "--precision") -> float:
    """As `parse_share`; 0 is a precision that is never reached."""
    return 0.0 if text.strip() in ("0", "0%", "0.0") else parse_share(text, option)


def parse_time(text: str, option: str) -> float:
    """``60s``, ``5min`` (or ``5m``), ``2h``, ``32ms``, ``500us`` or a number of seconds, in seconds."""
    found = re.fullmatch(r"(\S+?) ?(us|µs|ms|s|m|min|h|)", text.strip(), re.ASCII)
    value = finite(found[1]) if found else math.nan
    if not found or math.isnan(value):
        raise BadInput(f"{option} {text!r}: write it as 60s, 5min or 2h", option)
    value *= {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "m": 60, "min": 60, "h": 3600}.get(found[2], 1)
    check_seconds(value, option)
    return value


def check_seconds(value: float, option: str) -> None:
    """Of times: above zero, and with an end."""
    if not 0 < value < 1e6:
        raise BadInput(f"{option} {value:g}: must be above zero and below 1,000,000 seconds", option)


def parse_above_zero(wanted: str) -> Callable[[str, str, str], float]:
    """A reader of numbers above zero; `wanted` is what to write instead, with the name of the entry as ``{name}``."""

    def parse(name: str, text: str, option: str) -> float:
        value = finite(text)
        if not value > 0:
            raise BadInput(f"{option} {name}={text}: write {wanted.format(name=name)}", option)
        return value

    return parse


# Values of TOML and Python


def text_of(value: Any, option: str = "") -> str:
    if not isinstance(value, str) or not value:
        raise BadInput("must be text")
    return value


def texts_of(value: Any, option: str = "") -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(item, str) and item for item in values):
        raise BadInput("must be text or a list of texts")
    return values


def whole_of(value: Any, option: str = "") -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput("must be a whole number")
    if abs(value) >= 10**18:
        raise BadInput("must be a whole number of at most 18 digits")
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


def check_modes(given: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(_mode(name, option) for name in given)


def _mode_names(given: Sequence[str], option: str) -> tuple[str, ...]:
    """Names of modes or of several; which modes there are to choose from, the plan knows that has them."""
    return tuple(given)


def _one_mode(given: str, option: str) -> tuple[str, ...]:
    if given in (EVERY, USUAL):
        raise BadInput(f"{option} {given}: a program does one mode: name it", option)
    return _mode_names([given], option)


def _mode_texts(value: Any, option: str) -> list[str]:
    return [name if name in (EVERY, USUAL) else _mode(name, option) for name in texts_of(value)]


def no_table(value: Any, option: str) -> Any:
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


def _faster(name: str, text: str, option: str) -> float:
    return _TIMES(_mode(name, option), text, option)


def table_of(entries: Entries, example: str, value: str) -> OptionType:
    return OptionType(example, no_table, repeatable=True, entries=entries, python=f"Mapping[str, {value}]")


_PAIR = "key=value"
_TIMES = parse_above_zero("how many times as fast as cpu-tensors, such as {name}=1.5")
_MUCH = parse_above_zero("how much of it, such as {name}=1")
TEXT = OptionType("", text_of)
TEXTS = OptionType('"text" or a list', texts_of, lambda given, option: tuple(given), repeatable=True, python="Texts")
PATHS = TEXTS._replace(example='"path" or a list', is_path=bool)
LIBRARIES = TEXTS._replace(
    example='"path or package" or a list', is_path=is_library, python="AnyPath | Sequence[AnyPath]"
)
PATH = OptionType("", text_of, is_path=bool, python="AnyPath")
ARRAYS = PATH._replace(python="AnyPath | Arrays")
ARRAY_SETS = PATHS._replace(python="AnyPath | Sequence[AnyPath | Arrays]")
MODEL = PATH._replace(python="Model")
PATH_OR_FOLDER = OptionType(
    "", text_of, lambda given, option: Path(given), python="AnyPath"
)  # where something is written or found that belongs to no suite
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
MODES_ALONE = MODE_NAMES._replace(data=texts_of, parse=check_modes)
ONE_MODE = OptionType('"cpu-tensors"', text_of, _one_mode)
PAIRINGS = OptionType('"out=in" or a list', texts_of, parse_pairings, repeatable=True, python="Texts")
PAIRS = table_of(Entries(_PAIR, lambda name, text, option: text, _pair), '{key = "value"}', "str | float")
# The name of a dimension may be a sum itself, as exporters write them: only the last = divides.
DIMS = table_of(Entries(_PAIR, parse_dim, _sizes, last=True), '{name = 8} or {name = "other+1"}', "int | str")
LENGTHS = table_of(Entries(_PAIR, parse_length, _sizes), "{name = 8}", "int")
SHAPES = table_of(
    Entries("name:1x3x224x224", parse_shape, _shape, ":", last=True),
    '{name = "1x3"} or {name = [1, 3]}',
    "str | Sequence[int]",
)
RANGES = table_of(Entries("name:low,high", parse_range, _range, ":", last=True), "{name = [0, 1]}", "Sequence[float]")
AMOUNTS = table_of(
    Entries(_PAIR, _MUCH, lambda name, value, option: f"{_number(value, option):g}"), "{name = 1}", "float"
)
SPEEDUPS = table_of(
    Entries(_PAIR, _faster, lambda name, value, option: str(_number(value, option))), "{mode = 1.5}", "float"
)


# Twins: the same option of another side, which can also take back what this side was given


@cache
def or_default(kind: OptionType, default: Any) -> OptionType:
    """A kind that is no table, but an empty word gives the default; in place of a flag it is on or off."""
    if kind.word is bool:
        return OptionType('"on" or "off"', _switch, _parse_switch, python="bool")
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
    _parse_switch(word, option)
    return str(word)


def _parse_switch(given: Any, option: str) -> bool:
    if given not in _SWITCHED:
        raise BadInput(f"{option} {given!r}: write on or off", option)
    return _SWITCHED[given]
