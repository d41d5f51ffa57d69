"""The parts of files that ortbench writes: dataclasses, with dicts and lists in them, as data and as text.

What reads them is `ortbench.model.door`, which knows msgspec; this knows nothing but Python.
"""

from __future__ import annotations

import json
import re
from dataclasses import is_dataclass
from os import urandom
from typing import Any

SOMETIMES = {"sometimes": True}  # metadata of a field whose key files have only where its value is not the default
UNKNOWN = "_unknown_keys"  # the attribute of a part that was read, for the keys of the file that its type does not have


class OneOf:
    """What the dataclasses derive from that may stand at one place: an object is read as that one with which it shares most keys.

    msgspec tells objects of a union apart by a tag alone, which the files do not have.
    """

    __slots__ = ()


def keys_of(part: Any) -> dict[str, Any]:
    """What a dataclass has, by key, with the keys of its file that its type does not have."""
    unknown: dict[str, Any] = vars(part).get(UNKNOWN, {})
    known = {key: (getattr(part, key), it) for key, it in part.__dataclass_fields__.items()}
    return {
        key: value for key, (value, it) in known.items() if it.metadata != SOMETIMES or value != it.default
    } | unknown


def plain(data: Any) -> Any:
    """Parts as dicts and lists."""
    if is_dataclass(data):
        data = keys_of(data)
    if isinstance(data, dict):
        return {key: plain(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return list(data) if _numbers(data) else [plain(item) for item in data]
    return data


def text(data: Any) -> str:
    """Parts as a file's text: indented, with lists of numbers on one line each."""
    folded: list[str] = []
    mark = urandom(16).hex()  # which no text of the data is

    def fold(value: Any) -> Any:
        if is_dataclass(value):
            value = keys_of(value)
        if isinstance(value, dict):
            return {key: fold(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            if value and _numbers(value):
                folded.append(json.dumps(value, allow_nan=False))
                return f"{mark}{len(folded) - 1}"
            return [fold(item) for item in value]
        return value

    indented = json.dumps(fold(data), indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(rf'"{mark}(\d+)"', lambda match: folded[int(match[1])], indented) + "\n"


def _numbers(values: Any) -> bool:
    """Whether all are numbers, by the types that there are: asking each of 200,000 samples takes as long as writing them."""
    return all(issubclass(it, (int, float)) for it in set(map(type, values)))
