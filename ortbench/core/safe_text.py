"""What people are shown, on any machine: the one gate for texts from outside.

Names in a model are anybody's text. `visible` and `visible_lines` let no character through that cannot be seen: every
renderer sends through one of them what it shows, and adds what its medium takes for markup. Saved data keeps the true names.

What an encoding lacks is written in ASCII, not refused.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Sequence
from typing import TextIO

# What ortbench prints beyond ASCII, and what stands for it where the encoding has no such character.
ASCII = {
    "≈": "~", "≥": ">=", "×": "x", "±": "+-", "µ": "u", "–": "-", "…": "...", "→": "->",
    "✓": "+", "✗": "x", "•": "*", "░": ".", "█": "#", "▒": ":", "━": "=", "┅": "-", "─": "-", "└": "`", "−": "-", "≤": "<=",
    "▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "*",
}  # fmt: skip
_ERRORS = "ortbench.ascii"
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # but line breaks and tabs
_NO_CHARACTERS = r"\ud800-\udfff\ufffe\uffff"  # halves of surrogate pairs, and what Unicode promises never to assign
# What has no width (soft hyphen, fillers, joiners, the byte order mark, tags), and what turns the direction of writing.
_UNSEEN = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e007f"
)
# Texts, which `re` compiles when they are first used: that takes longer than loading all of this, and most texts are plain.
_UNPRINTABLE = f"[{_CONTROLS}{_NO_CHARACTERS}]"
_INVISIBLE = f"[{_CONTROLS}{_NO_CHARACTERS}{_UNSEEN}]"
_BREAK = r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]"
_SURROGATE = r"[\ud800-\udfff]"
LONGEST_NAME = 200  # characters of what a run is called
_NAME_BYTES = 200  # of the 255 that file systems take
_LOST = "\N{REPLACEMENT CHARACTER}"
LONGEST = 1000  # characters of a word that are shown; no path, and no name that somebody typed, is longer
_END = 100  # characters that are left of a longer one, at its beginning and at its end
_LONG_WORD = rf"\S{{{LONGEST + 1},}}"


def accept_all_characters() -> None:
    """Let both streams take any text: a pipe on Windows, ``LC_ALL=C`` or ``PYTHONIOENCODING`` may lack what is printed.

    Also in UTF-8, which cannot write the bytes of a file's name that are not UTF-8.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where a test or a notebook has put something else in its place
            stream.reconfigure(errors=_ERRORS)


def as_displayed(text: str, stream: TextIO) -> str:
    """A text as a stream will show it, on one line, so that it can be laid out as it will look."""
    encoding = stream.encoding or "utf-8"
    return visible(text).encode(encoding, _ERRORS).decode(encoding)


def visible(text: str) -> str:
    """A text on one line, as people may be shown it.

    A space stands for each line break and tab, an escape (``\\udcff``) for half of a surrogate pair, which is what a byte
    of a path that is no text is here, and U+FFFD for every other control, for what turns the direction of writing and for
    what has no width. Words of thousands of characters are cut in the middle.
    """
    if _is_plain(text):
        return text
    text = re.sub(_SURROGATE, lambda found: f"\\u{ord(found[0]):04x}", re.sub(_BREAK, " ", text))
    return _shorten_words(re.sub(_INVISIBLE, _LOST, text))


def visible_lines(text: str) -> str:
    """The same for a text of any number of lines; U+FFFD for half of a surrogate pair too."""
    if _is_plain(text):
        return text
    return _shorten_words(re.sub(_INVISIBLE, _LOST, text.replace("\r\n", "\n").replace("\r", "\n")))


def _is_plain(text: str) -> bool:
    """Whether there is nothing to do, in a tenth of the time: a timeline has a million texts."""
    return len(text) <= LONGEST and text.isascii() and text.isprintable()


def _shorten_words(text: str) -> str:
    return text if len(text) <= LONGEST else re.sub(_LONG_WORD, lambda found: shorten(found[0]), text)


def shorten(name: str) -> str:
    """A name, or beginning and end of one that is thousands of characters long."""
    return name if len(name) <= LONGEST else f"{name[:_END]}…{name[-_END:]}"


def join_words(words: Sequence[str]) -> str:
    """Words in a row: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def first_of(words: Sequence[str], most: int) -> str:
    """So many words at most, and how many more there are: ``a, b and 7 more``."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def capitalize(text: str) -> str:
    """A text with a capital letter in front; the rest as it is."""
    return text[:1].upper() + text[1:]


def complain(text: str) -> None:
    """Say something on standard error, in a line."""
    print(f"ortbench: {visible(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """A text that any file can hold: U+FFFD for what is no character, and for controls but line breaks and tabs."""
    return re.sub(_UNPRINTABLE, _LOST, text)


def encode(text: str) -> bytes:
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
    """A text as a file's name, or as part of one: no more than file systems take, and not one of theirs (``..``)."""
    name = re.sub(r"[^\w.-]+", "-", text).strip("-")
    if len(name.encode()) > _NAME_BYTES:
        half = _NAME_BYTES // 2 - 1
        ends = name.encode()[:half], name.encode()[-half:]
        name = "--".join(end.decode(errors="ignore") for end in ends)
    return name if name.strip(".") else "unnamed"
