"""The parts of files that ortbench writes: dataclasses, with dicts and lists in them, as data and as text.

What reads them is `ortbench.model.file_reading`, which knows msgspec; this knows nothing but Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from os import urandom
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ortbench.core.safe_text import visible

SOMETIMES = {"sometimes": True}  # metadata of a field whose key files have only where its value is not the default
INLINE = {"inline": True}  # metadata of a field that is a dict, whose keys stand among those of its part in files
_SHOWN = 40  # characters of a value or a key in a message
UNKNOWN = "_unknown_keys"  # the attribute of a part that was read, for the keys of the file that its type does not have


class OneOf:
    """What the dataclasses derive from that may stand at one place: an object is read as that one with which it shares most keys.

    msgspec tells objects of a union apart by a tag alone, which the files do not have.
    """

    __slots__ = ()


class Wrong(Exception):
    """A value that a file cannot have; `path` leads to it."""

    def __init__(self, why: str, *path: str | int) -> None:
        super().__init__(why)
        self.path = [*path]


def value_text(value: Any) -> str:
    """A value in a message: short, and with no character that cannot be seen."""
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    written = visible(json.dumps(value, ensure_ascii=False))
    if len(written) <= _SHOWN:
        return written
    return written[: _SHOWN - 2] + ('…"' if isinstance(value, str) else "…")


def keys_of(part: Any) -> dict[str, Any]:
    """What a dataclass has, by key, with the keys of its file that its type does not have."""
    unknown: dict[str, Any] = vars(part).get(UNKNOWN, {})
    known: dict[str, Any] = {}
    for key, field in part.__dataclass_fields__.items():
        value = getattr(part, key)
        if field.metadata == INLINE:
            known |= value
        elif field.metadata != SOMETIMES or value != field.default:
            known[key] = value
    return known | unknown


def plain(data: Any, numbers: Callable[[Any], Any] = list) -> Any:
    """Parts as dicts and lists; `numbers` gives what stands for a list of them."""
    if is_dataclass(data):
        data = keys_of(data)
    if isinstance(data, dict):
        return {key: plain(item, numbers) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return numbers(data) if _are_numbers(data) else [plain(item, numbers) for item in data]
    return data


def text(data: Any) -> str:
    """Parts as a file's text: indented, with lists of numbers on one line each."""
    folded: list[str] = []
    mark = urandom(16).hex()  # which no text of the data is

    def fold(values: Any) -> str:
        folded.append(json.dumps(values, allow_nan=False))
        return f"{mark}{len(folded) - 1}"

    indented = json.dumps(plain(data, fold), indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(rf'"{mark}(\d+)"', lambda match: folded[int(match[1])], indented) + "\n"


def typed_value(kind: Any, data: Any) -> Any:
    """The inverse of `dataclasses.asdict`, after JSON turned tuples into lists: a value of a type, by the hints of dataclasses."""
    origin, inner = get_origin(kind), [it for it in get_args(kind) if it not in (NoneType, Ellipsis)]
    if data is None:
        return None
    if origin in (Union, UnionType):
        return data if inner[1:] else typed_value(inner[0], data)
    if origin is tuple:
        return tuple(typed_value(inner[at] if inner[1:] else inner[0], it) for at, it in enumerate(data))
    if origin is dict:
        return {key: typed_value(inner[1], it) for key, it in data.items()}
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        return kind(**{key: typed_value(hints[key], it) for key, it in data.items()})
    return kind(*data) if hasattr(kind, "_fields") else data


def _are_numbers(values: Any) -> bool:
    """Whether all are numbers, by the types that there are: asking each of 200,000 samples takes as long as writing them."""
    return all(issubclass(it, (int, float)) for it in set(map(type, values)))
