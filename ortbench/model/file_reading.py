"""The one way in for files that ortbench or somebody else has written: JSON to dataclasses, typed dicts and lists of them.

A file may come from another version or another hand. Whatever is wrong with one ends in `BadInput`, a line with the file's
name and the path inside the file; keys that no type knows are kept, and written again by `ortbench.core.parts`.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import msgspec

from ortbench.core.errors import BadInput, one_line
from ortbench.core.parts import INLINE, UNKNOWN, OneOf, Wrong, value_text
from ortbench.core.safe_text import printable, visible

if TYPE_CHECKING:
    pass


T = TypeVar("T")
LIMIT = 256  # MiB of a file; 200,000 samples are about 2
_DEEPEST = 100  # lists and objects in one another; every version of Python can write as many again
_TOO_LARGE = "does not fit the memory that this process may have"


def read(path: Path, type: type[T]) -> T:
    """What a file holds, as `decode` gives it; `BadInput`: the file cannot be read, or is larger than 256 MiB."""
    return decode(content_of(path), str(path), type)


def content_of(path: Path) -> bytes:
    """The bytes of a file of at most 256 MiB; raises `BadInput`."""
    try:
        _check_size(path.stat().st_size, str(path))
        with path.open("rb") as file:
            return file.read((LIMIT << 20) + 1)  # a pipe or a device has no size before; `parse` checks what came
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except MemoryError:
        raise BadInput(f"{path} {_TOO_LARGE}") from None


def decode(content: bytes, name: str, type: type[T], check: Callable[[T], object] | None = None) -> T:
    """What the content of a JSON file holds, as parts, dicts and lists of them; `name` is what messages call the file; `BadInput`:
    it is not JSON, or not what the type says."""
    return shape(parse(content, name), name, type, check)


def parse(content: bytes, name: str) -> Any:
    """The data of a JSON file: every text is `printable`, every number finite and of at most 64 bits."""
    _check_size(len(content), name)
    try:
        return _clean(_loads(content))
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not JSON: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{name} is not JSON: {_syntax_reason(error)}") from None
    except RecursionError:
        raise BadInput(f"{name} cannot be read: more than {_DEEPEST} lists or objects are nested") from None
    except Wrong as wrong:
        raise BadInput(_line(name, wrong.path, str(wrong))) from None
    except MemoryError:
        raise BadInput(f"{name} {_TOO_LARGE}") from None


def shape(
    data: Any, name: str, type: type[T], check: Callable[[T], object] | None = None, own: type[Any] | None = None,
    of_cases: Mapping[str, Any] = {},
) -> T:  # fmt: skip
    """The data that `parse` gave, as the type says, with keys of its `own` where it has some, and those `of_cases`; `check` raises `Wrong`
    where values do not go together."""
    try:
        found = _convert(data, type)
        if own is not None:
            found.own = _convert(data, own)  # type: ignore[attr-defined]
        if of_cases:
            parts: Any = TypedDict("parts", of_cases, total=False)  # type: ignore[misc]
            whole: Any = TypedDict("whole", {"cases": list[parts]})
            for case, own_of_case in zip(found.cases, _convert(data, whole)["cases"], strict=True):  # type: ignore[attr-defined]
                case.own = own_of_case
        if check is not None:
            check(found)
        kept: T = _restore(data, found)
        return kept
    except msgspec.ValidationError as error:
        raise BadInput(_explain(data, name, type, str(error))) from None
    except Wrong as wrong:
        raise BadInput(_line(name, wrong.path, str(wrong))) from None
    except MemoryError:
        raise BadInput(f"{name} {_TOO_LARGE}") from None


def _check_size(size: int, name: str) -> None:
    if size > LIMIT << 20:
        raise BadInput(f"{name} has more than {LIMIT} MiB, the most that is read")


def _loads(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Python's reader takes halves of surrogate pairs, as in names of files, and NaN, which `_clean` then finds, and
        # says where a file is no JSON. More than 4300 digits are no integer for it.
        return json.loads(content.decode("utf-8-sig"), parse_int=lambda digits: int(digits[:4000]))


def _syntax_reason(error: json.JSONDecodeError) -> str:
    if not error.doc.strip():
        return "it is empty"
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return "it ends too early"
    return f"line {error.lineno}, column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"


def _clean(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, dict):
        return {_clean_text(key): _clean_item(key, item, depth) for key, item in value.items()}
    if isinstance(value, list):
        try:
            array("q", value)  # samples are many: in one call, whether all are integers of 64 bits
            return value
        except (TypeError, OverflowError):
            return [_clean_item(number, item, depth) for number, item in enumerate(value)]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise Wrong(f"an integer of at most 64 bits is needed, not {value_text(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise Wrong(f"a number is needed, not {value_text(value)}")
    return value


def _clean_item(key: str | int, value: Any, depth: int) -> Any:
    try:
        return _clean(value, depth + 1)
    except Wrong as wrong:
        wrong.path.insert(0, key)
        raise


def _clean_text(value: str) -> str:
    return value if value.isascii() and value.isprintable() else printable(value)


def _convert(data: Any, type: type[T]) -> T:
    return msgspec.convert(data, type, dec_hook=_choose)


def _choose(type: type[Any], value: Any) -> Any:
    """A value as that subclass of a `OneOf` that it is."""
    if not issubclass(type, OneOf):
        raise NotImplementedError(type)
    if not isinstance(value, dict):
        raise ValueError("Expected `object`")
    parts: list[Any] = type.__subclasses__()
    try:
        return _convert(value, max(parts, key=lambda part: len(value.keys() & part.__dataclass_fields__.keys())))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # or msgspec would not add where the object stands


def _restore(data: Any, found: Any) -> Any:
    """What was converted, with the keys of the data that its types do not have, and numbers as they are in the data."""
    if is_dataclass(found):
        known: dict[str, Any] = found.__dataclass_fields__
        inline = [key for key, it in known.items() if it.metadata == INLINE]
        own = {key: _restore(data[key], item) for it in inline for key, item in getattr(found, it).items()}
        for key in inline:
            object.__setattr__(found, key, own)
        for key in data.keys() & known.keys() - {*inline}:
            object.__setattr__(found, key, _restore(data[key], getattr(found, key)))
        if unknown := {key: value for key, value in data.items() if key not in known and key not in own}:
            object.__setattr__(found, UNKNOWN, unknown)
        return found
    if isinstance(found, dict):
        return {key: _restore(value, found[key]) if key in found else value for key, value in data.items()}
    if isinstance(found, (list, tuple)):
        if {*map(type, data)} == {int}:  # samples are many
            return type(found)(data)
        return type(found)(map(_restore, data, found))
    return data if isinstance(found, float) else found  # 5 stays 5 where 5.5 may be


_NAMES = {"float": "a number", "str": "a text", "bool": "true or false", "array": "a list", "object": "an object"}
_LIMITS = {None: "", ">=": "at least ", "<=": "at most ", ">": "more than ", "<": "less than "}


def _explain(data: Any, name: str, type: type[Any], message: str) -> str:
    """msgspec's message in a line, with the keys of dicts, which msgspec does not say, and the value that is wrong."""
    why, *paths = message.split(" - at ")  # several, the innermost first, where an object is one of a `OneOf`
    path: list[str | int] = []
    value = data
    for token in re.findall(r"\.[^.\[`]+|\[\d+\]|\[\.\.\.\]", "".join(reversed(paths))):
        key: str | int = token[1:] if token[0] == "." else token[1:-1]
        if token == "[...]":
            key = _failing_key(data, value, type, message)
        elif token[0] == "[":
            key = int(key)
        path.append(key)
        value = value[key]
    if paths and paths[0].startswith("`key`"):
        value = _failing_key(data, value, type, message)
    return _line(name, path, _reason(why, value))


def _failing_key(data: Any, within: dict[str, Any], type: type[Any], message: str) -> str:
    """The key in a dict of the data for which a message is: the dict loses halves of its items for as long as that stays."""
    items = [*within.items()]
    while len(items) > 1:
        half = items[: len(items) // 2]
        within.clear()
        within.update(half)
        try:
            _convert(data, type)
            same = False
        except msgspec.ValidationError as error:
            same = str(error) == message
        items = half if same else items[len(items) // 2 :]
    within.clear()
    within.update(items)
    return items[0][0]


def _reason(why: str, value: Any) -> str:
    if found := re.match(r"Object missing required field `(.+)`", why):
        return f"the key {value_text(found[1])} is missing"
    if why.startswith("Invalid enum value"):
        return f"{value_text(value)} is none of the values that are known"
    found = re.match(r"Expected `(.+?)`( of length)?(?: ([<>]=?))?(?: (-?\d[^, ]*))?(?:, got .*)?$", why)
    if found is None:
        return visible(one_line(why))
    kinds, length, compared, number = found.groups()
    names = {**_NAMES, "int": "a whole number" if isinstance(value, float) else "a number"}
    needed = dict.fromkeys(
        names.get(kind, kind) for kind in kinds.split(" | ") if kind != "int" or "float" not in kinds
    )
    limit = f"{length or ' of'} {_LIMITS[compared]}{number}" if number else ""
    return f"{' or '.join(needed)}{limit} is needed, not {value_text(value)}"


def _line(name: str, path: Sequence[str | int], why: str) -> str:
    return f"{name}: {_path_text(path)}: {why}" if path else f"{name}: {why}"


def _path_text(path: Sequence[str | int]) -> str:
    """A path inside a file: ``cases[2].metrics.latency``, with ``["stage.a b"]`` for keys of other characters."""
    keys = (
        f"[{value_text(key)}]" if isinstance(key, int) or not re.fullmatch(r"[\w-]{1,99}", key) else f".{key}"
        for key in path
    )
    return "".join(keys).removeprefix(".")
