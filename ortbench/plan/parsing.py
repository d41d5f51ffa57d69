"""Texts as the values that they stand for: of options, and by name and text of the entries of tables; what is none raises
`BadInput`. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from ortbench.core.errors import BadInput
from ortbench.core.expressions import names_in


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


def parse_freed(name: str, text: str, option: str) -> str:
    """The name that a dimension of an input, such as ``image:0``, gets."""
    where = f"{option} {name}={text}"
    if not re.fullmatch(r".+:\d+", name, re.ASCII):
        raise BadInput(f"{where}: write it as input:axis=name, such as image:0=batch", option)
    if not text.isidentifier():
        raise BadInput(f"{where}: {text!r} is no name for a dimension, such as batch", option)
    return text


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
    if not re.fullmatch(r"\d+", text, re.ASCII):
        raise BadInput(f"{option} {name}={text}: {text!r} is not a number of tensors", option)
    return int(text)


def parse_dimension(text: str, where: str, option: str | None = None) -> int:
    """A dimension's size, as it is written in a place that messages name."""
    if not re.fullmatch(r"-?\d+", text, re.ASCII):
        several = (
            ", and one is taken here: 'ortbench run' and 'ortbench sweep' take several, a suite's 'shapes' gates each"
        )
        is_list = re.fullmatch(r"\d+((,|\.\.)\d+)+", text, re.ASCII)
        raise BadInput(f"{where}: {text!r} is not a whole number{several if is_list else ''}", option)
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
    if not re.fullmatch(r"\d+", text, re.ASCII) or not 0 < int(text) < 100_000:
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
    if not re.fullmatch(r"\d+", text, re.ASCII) or not int(text):
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
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", text.strip(), re.ASCII | re.IGNORECASE)
    if not found or found[2].lower() not in _BYTES:
        raise BadInput(f"{option} {text!r}: write a size such as 2GB, 512MiB or a number of bytes", option)
    return round(float(found[1]) * _BYTES[found[2].lower()])


def parse_precision(text: str, option: str = "--precision") -> float:
    """As `parse_share`; 0 is a precision that is never reached."""
    return 0.0 if text.strip() in ("0", "0%", "0.0") else parse_share(text, option)


_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def parse_age(text: str, option: str) -> float:
    """``12h``, ``7d`` or ``2w`` in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text, re.ASCII)
    if not found:
        raise BadInput(f"{option} {text!r}: write it as 12h, 7d or 2w", option)
    return float(found[1]) * _SECONDS[found[2]]


def parse_time(text: str, option: str) -> float:
    """``60s``, ``5min`` (or ``5m``), ``2h`` or a number of seconds, in seconds."""
    found = re.fullmatch(r"(\S+?) ?(s|m|min|h|)", text.strip(), re.ASCII)
    value = finite(found[1]) if found else math.nan
    if not found or math.isnan(value):
        raise BadInput(f"{option} {text!r}: write it as 60s, 5min or 2h", option)
    if not 0 < value < 1e6:
        raise BadInput(f"{option} {text}: must be above zero seconds", option)
    return value * {"s": 1, "m": 60, "h": 3600}.get(found[2][:1], 1)


def parse_above_zero(wanted: str) -> Callable[[str, str, str], float]:
    """A reader of numbers above zero; `wanted` is what to write instead, with the name of the entry as ``{name}``."""

    def parse(name: str, text: str, option: str) -> float:
        value = finite(text)
        if not value > 0:
            raise BadInput(f"{option} {name}={text}: write {wanted.format(name=name)}", option)
        return value

    return parse
