"""The terminal: its width, colours and characters, and reports in it: tables as wide as it allows, in parts below each other where that is too
narrow; with bars. Everything that commands print for people goes through a `Screen`.

On a terminal lines are as long as it is wide, or as ``COLUMNS`` says; into a pipe or a file they are as long as they
come, unless ``COLUMNS`` is set. Colour and emphasis are for terminals, and for none with ``NO_COLOR`` or ``TERM=dumb``;
``FORCE_COLOR`` gives them to a pipe too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import IO, TYPE_CHECKING, TypeVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, RenderableType
from rich.text import Text
from rich.theme import Theme

from ortbench.core import safe_text
from ortbench.core.safe_text import visible_lines
from ortbench.model.schema import Memory
from ortbench.report import model
from ortbench.report.case_table import COPIES, FILLS, PER_RUN, SPLIT, bar

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NARROW = 19  # characters of a long name; with so few every table of nodes fits 80 columns
_GAP = 2  # cells between two columns
_BAR_LEAST, _BAR_MOST, _BAR_ENDLESS = 12, 60, 24  # cells of the longest bar; the last where lines have no end
_NAME_LEAST = 22  # cells that are left to a long name beside its figures: no mode has a longer one
_BARS = model.Column(SPLIT, model.Kind.WORD)
_FLUSH_RIGHT = {model.Kind.NUMBER, model.Kind.TIME}
FILL_STYLES = {
    **dict.fromkeys((FILLS["h2d"], FILLS["d2h"], FILLS[COPIES]), "copy"),
    **dict.fromkeys((FILLS["inference"], FILLS[PER_RUN]), "inference"),
}

Name = TypeVar("Name", bound=Hashable)


def stack_columns(
    key: Sequence[Name], groups: Sequence[Sequence[Name]], widths: Mapping[Name, int], width: int
) -> list[tuple[Name, ...]]:
    """The columns of tables to print one below the other, each within a width, all with those of `key` first.

    Columns of one of `groups` stay together, unless even a table of their own is too wide for them; a single one that is too wide
    stands alone all the same.
    """

    def has_room(columns: Sequence[Name]) -> bool:
        return sum(widths[name] for name in (*key, *columns)) + _GAP * (len(key) + len(columns) - 1) <= width

    stack: list[list[Name]] = [[]]
    for group in groups:
        for piece in [group] if has_room(group) else [[name] for name in group]:
            if stack[-1] and not has_room([*stack[-1], *piece]):
                stack.append([])
            stack[-1] += piece
    return [(*key, *columns) for columns in stack]


def _fold_name(cell: str, width: int) -> str:
    """A name in lines; of several words those after the first are indented, so that they look like no name of their own."""
    lines = wrap(cell, width)
    return "\n  ".join(wrap(cell, width - _GAP)) if len(lines) > 1 and " " in cell else "\n".join(lines)


class Grid:
    def __init__(self, table: model.Table, screen: Screen) -> None:
        self._screen = screen
        long = [column.group for column in table.columns if column.kind is model.Kind.LONG_NAME]
        layouts = [(table, model.WIDE)] + [(table, NARROW)] * bool(long)
        if table.bars and max(column.group for column in table.columns) <= 1:
            layouts.append((replace(table, bars=()), model.WIDE))
        in_parts = table, NARROW if model.KEY in long else model.WIDE  # where none fits
        for layout in (*layouts, in_parts):
            self._lay_out(*layout)
            if self._width([*self._cells]) <= screen.width:
                break

    def _lay_out(self, table: model.Table, longest: int) -> None:
        """Its cells and their widths, with so many characters of long names at most."""
        rows = table.cut_rows(longest)
        self._unit = screen_text(table.unit)
        self._bars, self._groups = table.bars, table.groups
        self._cells = {column: [_screen_cell(row[at]) for row in rows] for at, column in enumerate(table.columns)}
        self._widths = {
            column: max(map(cell_len, (screen_text(column.name), self._unit_of(column), *cells)))
            for column, cells in self._cells.items()
        }
        if table.bars:
            self._cells = {_BARS: [""] * len(rows), **self._cells}
            self._widths[_BARS] = _BAR_LEAST

    def _unit_of(self, column: model.Column) -> str:
        return self._unit if column.kind is model.Kind.TIME else ""

    def _group(self, number: int) -> list[model.Column]:
        return [column for column in self._cells if column.group == number]

    def _width(self, columns: Sequence[model.Column]) -> int:
        """How wide some of its columns are side by side, with a short bar if it is among them."""
        return sum(self._widths[column] for column in columns) + _GAP * (len(columns) - 1)

    def has_room_for(self, last_group: int) -> bool:
        """Whether there is room for the columns up to a group side by side."""
        return self._width([column for column in self._cells if column.group <= last_group]) <= self._screen.width

    def print(self) -> None:
        """Print it; names in the last of the columns that every part begins with are folded where there is no room."""
        key = self._group(model.KEY)
        groups = [self._group(number) for number in sorted({column.group for column in self._cells} - {model.KEY})]
        room = self._screen.width - max(self._width([*key[:-1], *group]) for group in groups) - _GAP
        self._widths[key[-1]] = width = min(self._widths[key[-1]], max(room, _NAME_LEAST))
        self._cells[key[-1]] = [_fold_name(cell, width) for cell in self._cells[key[-1]]]
        for number, columns in enumerate(stack_columns(key, groups, self._widths, self._screen.width)):
            if number:
                self._screen.blank()
            left = self._screen.width - self._width(columns) + _BAR_LEAST
            is_named = all(cell for column in key for cell in self._cells[column])  # without the rows above
            rows = self._telling(columns[len(key) :]) if number and is_named else None
            self._print_part(columns, _BAR_ENDLESS if self._screen.endless else min(left, _BAR_MOST), rows)

    def _telling(self, columns: Sequence[model.Column]) -> set[int]:
        cells = zip(*(self._cells[column] for column in columns), strict=True)
        return {at for at, row in enumerate(cells) if set(row) != {model.NOTHING}}

    def _print_part(self, columns: Sequence[model.Column], bar_width: int, only: Collection[int] | None) -> None:
        """Print some of its columns, of all rows or of some, with a light rule above each group of rows that has a title."""
        cells = [self._draw_bars(bar_width) if it is _BARS else map(_cell, self._cells[it]) for it in columns]
        rows = list(zip(*cells, strict=True))
        begins = [0, *(at for at, _ in self._groups), len(rows)]
        width = min(self._screen.width, self._width(columns) + (bar_width - _BAR_LEAST) * (_BARS in columns))
        titles = ("", *(title for _, title in self._groups))
        for number, ((begin, end), title) in enumerate(zip(pairwise(begins), titles, strict=True)):
            shown_rows = [rows[at] for at in range(begin, end) if only is None or at in only]
            if title and shown_rows:
                rule = screen_text("─") * (width - cell_len(screen_text(title)) - 1)
                self._screen.text(f"{screen_text(title)} {rule}", style="rule")
            self._screen.show(self._rich(columns, shown_rows, bar_width, headed=not number))

    def _rich(
        self, columns: Sequence[model.Column], rows: Sequence[Sequence[Text]], bar_width: int, *, headed: bool
    ) -> RichTable:
        from rich.table import Table as RichTable  # for which `ortbench explain` need not wait

        rich = RichTable(box=None, pad_edge=False, header_style="heading", padding=(0, 1), show_header=headed)
        has_times = bool(self._unit) and any(column.kind is model.Kind.TIME for column in columns)
        for column in columns:
            heading = f"{screen_text(column.name)}\n{self._unit_of(column)}" if has_times else screen_text(column.name)
            rich.add_column(
                heading,
                justify="right" if column.kind in _FLUSH_RIGHT else "left",
                overflow="fold",
                # groups of rows are tables of their own, in line with each other
                width=(bar_width if column is _BARS else self._widths[column]) if self._groups else None,
            )
        for row in rows:
            rich.add_row(*row)
        return rich

    def _draw_bars(self, width: int) -> list[Text]:
        """The bars on one scale, the longest as long as there is room."""
        scale = max(sum(size for _, size in parts) for parts in self._bars)
        lines = [bar(parts, scale, width) for parts in self._bars]
        runs = [
            [(screen_text("".join(run)), FILL_STYLES.get(fill, "")) for fill, run in groupby(line)] for line in lines
        ]
        return [Text.assemble(*parts) for parts in runs]


def print_table(screen: Screen, table: model.Table) -> None:
    """Print a table, and below it what was left out."""
    Grid(table, screen).print()
    if table.rest:
        screen.text(table.rest)


def _screen_cell(cell: str) -> str:
    return model.Cell(screen_text(cell), cell.tone) if isinstance(cell, model.Cell) else screen_text(cell)


def _cell(cell: str) -> Text:
    return Text(cell, style=cell.tone if isinstance(cell, model.Cell) else "")


_FIGURES = 2  # the last of the groups of columns beside which names must have room


def print_report(report: model.Report) -> None:
    """Print a report to standard output, with an empty line between its parts."""
    screen, begun = Screen(), False
    for part in report.parts:
        blocks = [block for block in part if model.Medium.TERMINAL in block.media and not _is_empty(block)]
        if blocks and begun:
            screen.blank()
        for number, block in enumerate(blocks):
            if number and isinstance(block, model.Title):
                screen.blank()
            _print(screen, block)
        begun = begun or bool(blocks)


def _is_empty(block: model.Block) -> bool:
    match block:
        case model.Table():
            return not block.rows
        case model.Notes():
            return not block.notes
        case model.Findings():
            return not block.findings
        case model.SavedIn():
            return block.folder is None
    return False


def _print(screen: Screen, block: model.Block) -> None:
    match block:
        case model.Title():
            screen.text(block.text, style="heading")
        case model.Heading():
            for line in block.lines:
                screen.text(line)
        case model.Paragraph():
            screen.text(block.text, signs=FILL_STYLES if block.fills else None)
        case model.Hint():
            if not screen.endless:
                screen.text(block.text)
        case model.Table():
            print_table(screen, block)
        case model.ComparedResults():
            _print_compared(screen, block)
        case model.Notes():
            for note in block.notes:
                screen.text(note.text, label=f"{note.sign} ", label_style=note.tone)
                if note.command:
                    screen.command(note.command, label=f"{'':{len(note.sign)}} try: ")
        case model.Findings():
            for finding in block.findings:
                screen.text(
                    finding.text, label="! " if finding.tone == model.UNCLEAR else "• ", label_style=finding.tone
                )
                if finding.next:
                    show = screen.command if finding.is_command else screen.text
                    show(finding.next, label="  Next: ", label_style="heading")
        case model.Conclusion():
            style = block.tone or "heading"
            screen.text(block.text, label=block.label, style=style, label_style=style)
        case model.SavedIn():
            screen.text(f"Saved in {block.folder}")


def _print_compared(screen: Screen, block: model.ComparedResults) -> None:
    """Print what each of several results is of, after what the table calls it, and the table."""
    labels, grid = block.names, None
    more: Sequence[model.Table] = [it.with_names for it in block.more]
    if block.table is not None:
        columns = (named := block.table.with_names).columns
        grid = Grid(named, screen)
        mistakable = len({column.name for column in columns}) < len(columns)  # a result that is called as a column is
        if mistakable or not grid.has_room_for(_FIGURES):
            labels, more = model.numbers(len(block.names)), block.more
            grid = Grid(block.table, screen)
    indent = max(map(cell_len, map(screen_text, labels))) + 2
    for line in block.shared:
        screen.text(line)
    for name, label, heading in zip(block.names, labels, block.headings, strict=True):
        for number, line in enumerate(heading if name == label else [name, *heading]):
            screen.text(line, label=("" if number else label).ljust(indent))
    if grid is not None and block.table is not None and block.table.rows:
        screen.blank()
        grid.print()
        if block.table.rest:
            screen.text(block.table.rest)
    for table in more:
        screen.blank()
        screen.text(table.title, style="heading")
        print_table(screen, table)


# What lists of EPs and of models say of an EP: its memory and its modes


def print_memory(screen: Screen, memory: Memory, label: str) -> None:
    default, shared = memory["default"] or "no DEFAULT", memory["host_accessible"] or "no HOST_ACCESSIBLE"
    in_host = f"{default}: all modes have their tensors in it, so copies are within host memory"
    screen.text(in_host if memory["kind"] == "host" else f"{default}; {shared}", label=label)


def print_modes(screen: Screen, modes: Mapping[str, str | None], label: str) -> None:
    """Those that can be measured, and why the others cannot, each reason once."""
    screen.text(", ".join(mode for mode, why in modes.items() if why is None), label=label)
    for one in dict.fromkeys(why for why in modes.values() if why is not None):
        names = ", ".join(mode for mode, why in modes.items() if why == one)
        screen.text(f"{names} unsupported: {one}", label=" " * len(label))


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
