"""The terminal's width, colours and characters. Everything that commands print for people goes through a `Screen`.

On a terminal lines are as long as it is wide, or as ``COLUMNS`` says; into a pipe or a file they are as long as they
come, unless ``COLUMNS`` is set. Colour and emphasis are for terminals, and for none with ``NO_COLOR`` or ``TERM=dumb``;
``FORCE_COLOR`` gives them to a pipe too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import IO

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, RenderableType
from rich.text import Text
from rich.theme import Theme

from ortbench.core import safe_text
from ortbench.core.safe_text import visible_lines

_ENDLESS = 10_000  # columns: a pipe or a file has no edge to wrap at
_NARROWEST = 20
_WORD = re.compile(r"(?:[^\s'\"\\]|\\.|'[^']*'|\"[^\"]*\")+")  # of a shell: what is within quotes is one
# A space, but not between a number and its unit, and not in an interval.
_BREAK = re.compile(
    r"(?:(?<![\dkMG])|(?! (?:%|[nµum]?s|[kMG]?B|[kMG]?B/s|[a-z]+/s|m?J|W)(?:\W|$)))(?:(?<! to)|(?! [-+]?\d))(?! to [-+]?\d)"
    r"(?:(?<!95%)|(?! CI\b)) "
)
# Of the eight standard colours those that stand out on black and on white. Nothing is said by colour alone.
_THEME = Theme(
    {
        "good": "green",
        "bad": "red",
        "unclear": "magenta",
        "copy": "magenta",
        "inference": "green",
        "heading": "bold",
        "rule": "bright_black",
        "bar.complete": "green",
        "bar.finished": "green",
        "bar.back": "bright_black",
        "progress.elapsed": "none",
        "markdown.code": "bold",
        "markdown.h1": "bold",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.link_url": "none",
        "progress.percentage": "none",
    }
)


def console(stream: IO[str], width: int | None = None) -> Console:
    """Rich's console for a stream, in our colours."""
    plain = os.environ.get("NO_COLOR", "") != ""
    return Console(
        file=stream,
        width=width,
        color_system=None if plain else "auto",
        no_color=plain,
        theme=_THEME,
        highlight=False,
        markup=False,
        emoji=False,
    )


class Screen:
    """Standard output."""

    def __init__(self) -> None:
        fallback = 80 if sys.stdout.isatty() else _ENDLESS
        self.width = max(_NARROWEST, shutil.get_terminal_size((fallback, 24)).columns)  # of the longest line, cells
        self.endless = self.width >= _ENDLESS  # it has no edge
        self._console = console(sys.stdout, self.width)

    def text(
        self, text: str, style: str = "", label: str = "", label_style: str = "", signs: Mapping[str, str] | None = None
    ) -> None:
        """Print a paragraph, with a hanging indent behind its label where it is longer than a line; `signs` are styles of signs in the
        text that stand by themselves."""
        label, text = screen_text(label), screen_text(text)
        indent = cell_len(label)
        if indent > self.width // 2:  # no room beside it
            self.text(label.rstrip(), label_style)
            label, indent = "  ", 2
        for number, line in enumerate(wrap(text, self.width - indent)):
            whole = Text.assemble((" " * indent if number else label, label_style), (line, style))
            for sign, its_style in (signs or {}).items():
                whole.highlight_regex(rf"(?<!\S){re.escape(screen_text(sign))}(?!\S)", its_style)
            self._line(whole)

    @property
    def is_terminal(self) -> bool:
        """Whether a terminal shows it, or something that asks for colours as one."""
        return self._console.is_terminal

    def command(self, text: str, label: str = "", label_style: str = "") -> None:
        """Print a command that can be copied: a line that it does not fit ends with the shell's sign that it goes on."""
        label, text = screen_text(label), screen_text(text)
        first, *more = command_lines(text, self.width - cell_len(label))
        self._line(Text.assemble((label, label_style), first))
        for line in more:
            self._line(Text(" " * cell_len(label) + line))

    def blank(self) -> None:
        self._line(Text())

    def show(self, rendered: RenderableType) -> None:
        """Print what Rich can render, without the spaces that it puts at the end of lines."""
        for segments in self._console.render_lines(rendered, pad=False):
            self._line(Text.assemble(*((segment.text, segment.style or "") for segment in segments)))

    def _line(self, line: Text) -> None:
        line.rstrip()
        self._console.print(line, soft_wrap=True)


def screen_text(text: str) -> str:
    """A text as standard output will show it, so that it can be laid out as it will look."""
    return safe_text.as_displayed(text, sys.stdout)


def pad(text: str, width: int) -> str:
    """A text with spaces after it, where it has fewer than `width` cells."""
    return set_cell_size(text, max(width, cell_len(text)))


def shorten(text: str, width: int) -> str:
    """A text of at most `width` cells: of one that is longer, beginning and end."""
    if cell_len(text) <= width:
        return text
    gap = "..."
    half = max(0, width - len(gap)) // 2
    ends = [chop_cells(part, half)[:1] if half else [] for part in (text, text[::-1])]
    return "".join(ends[0]) + gap + "".join(ends[1])[::-1]


def wrap(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` cells.

    Lines end at spaces, but not between a number and its unit, nor in an interval that a line has room for; a word that is longer than
    a line goes on in the next one, if possible after a ``/``, ``-``, ``_`` or ``.`` of it.
    """
    words = (it for part in _BREAK.split(text) for it in ([part] if cell_len(part) <= width else part.split(" ")))
    return _fill_lines(([word] if cell_len(word) <= width else _pieces(word, width) for word in words), width)


def _fill_lines(words: Iterable[Sequence[str]], width: int) -> list[str]:
    """Words, each in the pieces into which it may be broken, in as few lines as they need."""
    lines = [""]
    for pieces in words:
        space = " " if lines[-1] else ""
        for piece in pieces:
            if cell_len(lines[-1] + space + piece) <= width:
                lines[-1] += space + piece
            else:
                lines.append(piece)
            space = ""
    return lines


def command_lines(text: str, width: int) -> list[str]:
    """A command in lines of at most `width` cells, all but the last with the shell's sign that it goes on."""
    goes_on = " \\"
    room = width - len(goes_on)
    *lines, last = lines_of_words(_WORD.findall(text), room) or wrap(text, room)
    return [*(f"{line}{goes_on}" for line in lines), last]


def lines_of_words(words: Sequence[str], width: int) -> list[str]:
    """The words of a shell in lines of at most `width` cells, an option beside its value; none where one is longer than a line."""
    parts: list[str] = []
    for before, word in pairwise(("", *words)):
        if before.startswith("--") and not word.startswith("-") and cell_len(f"{parts[-1]} {word}") <= width:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return [] if any(cell_len(part) > width for part in parts) else _fill_lines([[part] for part in parts], width)


def _pieces(word: str, width: int) -> list[str]:
    """Where a long word may be broken: pieces of at most `width` cells."""
    pieces = re.findall(r"[^/\\_.-]*[/\\_.-]+|[^/\\_.-]+", word)
    return [part for piece in pieces for part in chop_cells(piece, width)]


def show_markdown(text: str) -> None:
    """Markdown as a terminal shows it; a pipe or a file has it as it is written."""
    screen = Screen()
    if not screen.is_terminal:
        print(visible_lines(text))
        return
    from rich.markdown import Markdown

    screen.show(Markdown(visible_lines(text), hyperlinks=False))
