"""What is written on a command line as the values it stands for. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ortbench.core.errors import BadInput
from ortbench.core.expressions import names_in


def parse_pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """``k=v`` items as a dict.

    Raises:
        BadInput: an item without ``=`` or with an empty key.
    """
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadInput(f"{option} {item!r}: write it as key=value", option)
        pairs[key] = value
    return pairs


def parse_shapes(items: Iterable[str], option: str = "--shape") -> dict[str, tuple[int, ...]]:
    """``name:1x3x224x224`` items (a name may hold colons; a scalar is ``name:``) as a dict.

    Raises:
        BadInput: an item that is not of that form, or with a dimension below 1.
    """
    shapes = {}
    for item in items:
        name, colon, text = item.rpartition(":")
        if not colon or not name:
            raise BadInput(f"{option} {item!r}: write it as name:1x3x224x224", option)
        parts = re.split(r"[x,]", text) if text else []
        shapes[name] = tuple(parse_dimension(part, f"{option} {item!r}", option) for part in parts)
    return shapes


def parse_dims(items: Iterable[str], option: str = "--dim") -> dict[str, int | str]:
    """``batch=8`` and ``total=past+1`` items as a dict, of numbers and of expressions.

    Raises:
        BadInput: an item that is not of that form, or below 0.
    """
    found: dict[str, int | str] = {}
    for item in items:
        # A name may be a sum itself, as exporters write them: only the last = divides.
        name, equals, text = item.rpartition("=")
        if not equals or not name:
            raise BadInput(f"{option} {item!r}: write it as key=value", option)
        where = f"{option} {name}={text}"
        if names_in(text):
            found[name] = text
        else:
            found[name] = 0 if re.fullmatch("0+", text, re.ASCII) else parse_dimension(text, where, option)
    return found


def parse_pairings(items: Iterable[str], option: str = "--feedback") -> tuple[tuple[str, str], ...]:
    """``out=in`` items as pairs; a * in one stands for the same text as that in the other.

    Raises:
        BadInput: an item that is not of that form.
    """
    found = []
    for item in items:
        one, equals, other = item.partition("=")
        if not equals or not one or not other:
            raise BadInput(f"{option} {item!r}: write it as output=input", option)
        if one.count("*") != other.count("*"):
            raise BadInput(f"{option} {item!r}: there are as many * on one side as on the other", option)
        found.append((one, other))
    return tuple(found)


def parse_lengths(items: Iterable[str], option: str = "--length") -> dict[str, int]:
    """``name=3`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or below 0.
    """
    pairs = parse_pairs(items, option)
    for name, text in pairs.items():
        if not re.fullmatch(r"\d+", text, re.ASCII):
            raise BadInput(f"{option} {name}={text}: {text!r} is not a number of tensors", option)
    return {name: int(text) for name, text in pairs.items()}


def parse_dimension(text: str, where: str, option: str | None = None) -> int:
    """A dimension's size.

    Args:
        text: it is written as.
        where: it stands, for messages.
        option: that it belongs to.

    Raises:
        BadInput: not a whole number, or below 1.
    """
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
            f"{where}: a dimension of 0 leaves nothing to measure; a model that needs one takes it by --input",
            option,
        )
    return size


def parse_clock(text: str, option: str = "--lock-clocks") -> int | str:
    """``1200`` as 1200, in MHz; ``base`` as it is.

    Raises:
        BadInput: neither.
    """
    if text == "base":
        return text
    if not re.fullmatch(r"\d+", text, re.ASCII) or not 0 < int(text) < 100_000:
        raise BadInput(f"{option} {text!r}: write base, or a number of MHz such as 1200", option)
    return int(text)


def parse_items(text: str, option: str = "--items") -> int | str:
    """``8`` as 8, ``batch`` as it is: how many items a run has, or the dimension whose size that is.

    Raises:
        BadInput: a number that is not a whole one above zero, or no text.
    """
    try:
        float(text)
    except ValueError:
        if not text:
            raise BadInput(f"{option} {text!r}: write a number, or the name of a dimension", option) from None
        return text
    if not re.fullmatch(r"\d+", text, re.ASCII) or not int(text):
        raise BadInput(f"{option} {text}: write a whole number above zero, or the name of a dimension", option)
    return int(text)


def parse_ranges(items: Iterable[str], option: str = "--range") -> dict[str, tuple[float, float]]:
    """``name:lo,hi`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or with low above high.
    """
    ranges = {}
    for item in items:
        name, colon, text = item.rpartition(":")
        low, comma, high = text.partition(",")
        try:
            bounds = (float(low), float(high))
        except ValueError:
            bounds = None
        if not colon or not name or not comma or bounds is None:
            raise BadInput(f"{option} {item!r}: write it as name:low,high", option)
        if not all(map(math.isfinite, bounds)):
            raise BadInput(f"{option} {item!r}: both ends must be finite numbers", option)
        if not bounds[0] <= bounds[1]:
            raise BadInput(f"{option} {item!r}: low is above high", option)
        ranges[name] = bounds
    return ranges


def parse_share(text: str, option: str) -> float:
    """``1%`` or ``0.01`` as 0.01.

    Raises:
        BadInput: not a number above 0.
    """
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
    """``2GB``, ``512MiB`` or ``4096`` in bytes: kB, MB, GB, TB are decimal, KiB, MiB, GiB, TiB binary; case does not matter.

    Raises:
        BadInput: something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", text.strip(), re.ASCII | re.IGNORECASE)
    if not found or found[2].lower() not in _BYTES:
        raise BadInput(f"{option} {text!r}: write a size such as 2GB, 512MiB or a number of bytes", option)
    return round(float(found[1]) * _BYTES[found[2].lower()])


def parse_precision(text: str, option: str = "--precision") -> float:
    """As `parse_share`; 0 is a precision that is never reached.

    Raises:
        BadInput: not a number from 0 on.
    """
    return 0.0 if text.strip() in ("0", "0%", "0.0") else parse_share(text, option)


_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def parse_age(text: str, option: str) -> float:
    """``12h``, ``7d`` or ``2w`` in seconds.

    Raises:
        BadInput: something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text, re.ASCII)
    if not found:
        raise BadInput(f"{option} {text!r}: write it as 12h, 7d or 2w", option)
    return float(found[1]) * _SECONDS[found[2]]


def parse_amounts(items: Iterable[str], option: str) -> dict[str, float]:
    """``H100=1`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or not above zero.
    """
    found = {}
    for name, text in parse_pairs(items, option).items():
        try:
            found[name] = float(text)
        except ValueError:
            found[name] = math.nan
        if not 0 < found[name] < math.inf:
            raise BadInput(f"{option} {name}={text}: write how much of it, such as {name}=1", option)
    return found


def parse_speedups(items: Iterable[str], option: str = "--min-speedup") -> dict[str, float]:
    """``device-resident=1.5`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or not above zero.
    """
    found = {}
    for mode, text in parse_pairs(items, option).items():
        try:
            found[mode] = float(text)
        except ValueError:
            found[mode] = math.nan
        if not 0 < found[mode] < math.inf:
            wanted = f"write how many times as fast as cpu-tensors, such as {mode}=1.5"
            raise BadInput(f"{option} {mode}={text}: {wanted}", option)
    return found
