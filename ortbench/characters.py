"""The characters of standard output and standard error on any machine.

What an encoding lacks is written in ASCII, not refused, and what a terminal would take for a command is not sent to it.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from typing import TextIO

# What ortbench prints beyond ASCII, and what stands for it where the encoding has no such character.
ASCII = {
    "≈": "~", "×": "x", "±": "+-", "µ": "u", "–": "-", "…": "...", "→": "->",
    "✓": "+", "✗": "x", "•": "*", "░": ".", "█": "#", "▒": ":", "━": "=", "┅": "-",
}  # fmt: skip
_ERRORS = "ortbench.ascii"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def accept_all_characters() -> None:
    """Let both streams take any text: a pipe on Windows, ``LC_ALL=C`` or ``PYTHONIOENCODING`` may lack what is printed.

    Also in UTF-8, which cannot write the bytes of a file's name that are not UTF-8.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where a test or a notebook has put something else in its place
            stream.reconfigure(errors=_ERRORS)


def shown(text: str, stream: TextIO) -> str:
    """A text as a stream will show it, on one line, so that it can be laid out as it will look."""
    encoding = stream.encoding or "utf-8"
    return without_controls(text).encode(encoding, _ERRORS).decode(encoding)


def without_controls(text: str) -> str:
    """A text on one line that commands no terminal: spaces for line breaks and tabs, U+FFFD for other controls."""
    return _CONTROL.sub(lambda found: " " if found[0].isspace() else "\N{REPLACEMENT CHARACTER}", text)


def printable(text: str) -> str:
    """A text that any page can hold: U+FFFD for what is no character, and for controls but line breaks and tabs."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def encoded(text: str) -> bytes:
    """A text in UTF-8, with escapes for what UTF-8 has not: bytes of a path that are not text, which are surrogates here.

    The escape is JSON's own (``\\udcff``), so that a reader of JSON gets the very path.
    """
    return text.encode(errors="backslashreplace")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that cannot be written; without one of its own, as Python writes it: ``\\u6a21``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(ASCII.get(it) or it.encode("ascii", "backslashreplace").decode() for it in lacking), error.end


codecs.register_error(_ERRORS, _in_ascii)


def plain_name(text: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-") or "unnamed"
