"""What was asked for and is ignored: entries of the configuration and EP options that nobody reads.

ONNX Runtime takes any entry, and some EPs any option. Whether a name means something is read from the strings of the
libraries, which takes some tenths of a second: only where an entry is not documented, or EP options were given.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import onnxruntime as ort

from ortbench.plan.target import PARALLEL, Target
from ortbench.worker.session import config_keys
from ortbench.worker.session.config_keys import BETWEEN_OPERATORS, CODES, RUN, SESSION
from ortbench.worker.session.providers import Provider

if TYPE_CHECKING:
    from ortbench.model.schema import Warned

_KEY_PATTERN = rb"(?:session|optimization|memory|mlas|ep)\.[a-z0-9_.]*[a-z0-9_](?=\0)"
_SOURCE_FILE = re.compile(r"\.(?:h|hpp|c|cc|cpp)$")  # named in messages of errors: session.h
_PIECE = 8  # bytes that machine code holds at a time, where a compiler puts a text into the code and not beside it

T = TypeVar("T")


def warnings(target: Target, provider: Provider) -> list[Warned]:
    """A warning for everything that was asked for and does nothing, certainly or probably."""
    found: list[Warned] = []
    entries_read = target.session_config
    if target.execution_mode == PARALLEL:
        entries_read = {key: value for key, value in entries_read.items() if not key.startswith(BETWEEN_OPERATORS)}
    for option, entries in ((SESSION, entries_read), (RUN, target.run_config)):
        unsure = config_keys.undocumented(option, entries)
        known = {*_keys_of_onnxruntime(), *(_names_in_library(provider.library, unsure) or ())} if unsure else set()
        sentences = config_keys.sentences(option, entries, known, ort.__version__)
        found += [{"code": CODES[option], "message": sentence} for sentence in sentences]
    offered = set() if provider.ep_device is None else {*provider.ep_device.ep_options}
    options = [name for name in target.options if name not in offered]
    if options and (named := _names_in_library(provider.library, options)) is not None:
        for name in sorted({*options} - named):
            where = f"{provider.name} took it without a word, and its library does not hold that name"
            message = f"--ep-option {name} probably does nothing: {where}"
            found.append({"code": CODES["--ep-option"], "message": message})
    return found


def _keys_of_onnxruntime() -> set[str]:
    """What looks like a key among the strings of ONNX Runtime's library."""
    from onnxruntime.capi import onnxruntime_pybind11_state as library

    def find_keys(content: mmap.mmap) -> set[str]:
        return {key for it in re.findall(_KEY_PATTERN, content) if not _SOURCE_FILE.search(key := it.decode())}

    return _search_library(library.__file__, find_keys) or set()


def _names_in_library(library: str | None, names: Sequence[str]) -> set[str] | None:
    """Those of some names that a library holds, whole or as pieces in its code; None where it cannot be read."""

    def find_names(content: mmap.mmap) -> set[str]:
        return {name for name in names if all(content.find(piece) >= 0 for piece in _pieces(name.encode(), content))}

    return _search_library(library, find_names)


def _pieces(name: bytes, content: mmap.mmap) -> Iterable[bytes]:
    """What must be there of a name: all of it, or where it is not, each of its whole pieces."""
    if len(name) < 2 * _PIECE or content.find(name) >= 0:
        return [name]
    return [name[at : at + _PIECE] for at in range(0, len(name) - _PIECE + 1, _PIECE)]


def _search_library(library: str | None, search: Callable[[mmap.mmap], T]) -> T | None:
    """What is found in a library; None where there is none, or it cannot be read."""
    if library is None:
        return None
    with (
        suppress(OSError, ValueError),
        open(library, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return search(content)
    return None
