"""What a report is, whatever it is shown on: blocks of plain data, which say their content once. A renderer a medium shows
them: `ortbench.report.records`, `ortbench.report.terminal`, `ortbench.features.page.report.parts`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import compress
from typing import NamedTuple, TypeVar

from ortbench.analysis.advice import Finding
from ortbench.core.units import ends

Known = TypeVar("Known")

NOTHING = "–"  # a cell without a figure
DERIVED = "≈"  # before what was derived, not measured
DOUBTED = "?"  # behind what noise of the machine may have made
RESULT = "result"  # the column of which of several results a row is of
SLO = "SLO"  # the column, or the row of two results, of whether an SLO is met
GOOD, BAD, UNCLEAR = "good", "bad", "unclear"  # tones, which a terminal shows as colours


class Medium(Enum):
    TERMINAL = auto()
    MARKDOWN = auto()
    PAGE = auto()


TERMINAL = frozenset({Medium.TERMINAL})
MARKDOWN = frozenset({Medium.MARKDOWN})
PAGE = frozenset({Medium.PAGE})
PRINTED = TERMINAL | MARKDOWN
FILES = MARKDOWN | PAGE
EVERYWHERE = PRINTED | PAGE


class Kind(Enum):
    """What a column holds, from which its alignment and its heading follow."""

    NAME = auto()  # what a row is of: words, flush left
    WORD = auto()  # one of a few, such as a verdict: flush left, but in Markdown aligned like the figures beside it
    WORDS = auto()  # flush left
    LONG_NAME = auto()  # of a node or a tensor: flush left; of a long one the end is shown, where they differ
    NUMBER = auto()  # with its own unit, if it has one: flush right
    TIME = auto()  # in the table's unit, which stands in the heading: flush right


WIDE = 60  # characters of a long name, where there is room
KEY = 0  # the group of the columns that stand at the head of every part of a table that is shown in parts


def maybe(value: Known | None, show: Callable[[Known], str]) -> str:
    """What shows a figure, where it is known."""
    return NOTHING if value is None else show(value)


def interval_text(interval: Iterable[float] | None, show: Callable[[float], str]) -> str:
    """Both ends of an interval, where there is one."""
    return maybe(interval, lambda known: "–".join(ends(known, show)))


class Cell(str):
    tone: str

    def __new__(cls, text: str, tone: str = "") -> Cell:
        """The text, which is all that media without colours take."""
        cell = super().__new__(cls, text)
        cell.tone = tone
        return cell


class Column(NamedTuple):
    name: str  # its heading, without a unit
    kind: Kind = Kind.NUMBER  # of its cells
    group: int = 1  # columns of one group stay together where a table has to be shown in parts; `KEY` is in all of them


def columns(kind: Kind, *names: str, group: int = 1) -> tuple[Column, ...]:
    return tuple(Column(name, kind, group) for name in names)


Bar = Sequence[tuple[str, float]]  # fills and sizes; see `ortbench.report.case_table.bar`


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a report, and the media that show it."""

    media: frozenset[Medium] = EVERYWHERE


@dataclass(frozen=True)
class Title(Block):
    """A title of a part of a report; depth 1 is that of a report."""

    text: str
    depth: int = 2


@dataclass(frozen=True)
class Heading(Block):
    """The lines that say what was measured, where and how."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Paragraph(Block):
    """A text; with `fills` it explains the fills of bars, which are coloured in it as they are in the bars."""

    text: str
    fills: bool = False


@dataclass(frozen=True)
class Hint(Block):
    """Where to learn more, for who reads on a screen: a pipe or a file does without, so that logs stay short."""

    text: str
    media: frozenset[Medium] = field(default=TERMINAL, kw_only=True)


@dataclass(frozen=True)
class Table(Block):
    columns: tuple[Column, ...]  # one at least, but for a list of words and what they mean
    rows: tuple[tuple[str, ...], ...]  # a cell for each column, a `Cell` where it has a tone
    unit: str = ""  # of the columns that hold times
    title: str = ""  # what the page calls it
    rest: str = ""  # what was left out, or ""
    # for each row a bar, which a terminal draws on one scale and as wide as there is room; or none
    bars: Sequence[Bar] = ()
    # rows that belong together: the first of them, and what stands above it
    groups: tuple[tuple[int, str], ...] = ()
    shorter: tuple[Table, ...] = ()  # the same for a screen, each complete, from the most rows to the fewest
    results: Sequence[str] = ()  # the names of those that it calls #1, #2 …; see `with_names`

    @property
    def headings(self) -> list[str]:
        """The columns' names, with the unit where they hold times."""
        return [f"{it.name} ({self.unit})" if it.kind is Kind.TIME and self.unit else it.name for it in self.columns]

    @property
    def with_names(self) -> Table:
        """The table with the names of results in place of their numbers."""
        names = dict(zip(numbers(len(self.results)), self.results, strict=True))

        def name(text: str) -> str:
            number, *rest = text.split(" ", 1)
            return " ".join([names.get(number, number), *rest])

        of_rows = [it.name == RESULT for it in self.columns]
        return replace(
            self,
            columns=tuple(it._replace(name=name(it.name)) for it in self.columns),
            rows=tuple(tuple(name(it) if of else it for of, it in zip(of_rows, row, strict=True)) for row in self.rows),
            results=(),
        )

    def cut_rows(self, longest: int = WIDE) -> list[tuple[str, ...]]:
        """The rows with at most `longest` characters of long names."""
        long = {at for at, column in enumerate(self.columns) if column.kind is Kind.LONG_NAME}
        return [
            tuple(cut_start(cell, longest) if at in long else cell for at, cell in enumerate(row)) for row in self.rows
        ]


def drop_empty_columns(table: Table) -> Table:
    """A table without the columns in which no row has anything; one without rows as it is."""
    if not table.rows:
        return table
    kept = [any(cell != NOTHING for cell in cells) for cells in zip(*table.rows, strict=True)]
    rows = tuple(tuple(compress(row, kept)) for row in table.rows)
    return replace(table, columns=tuple(compress(table.columns, kept)), rows=rows)


def cut_start(text: str, longest: int) -> str:
    """The end of a name that is too long: names of nodes and tensors differ there."""
    return text if len(text) <= longest else f"…{text[1 - longest :]}"


@dataclass(frozen=True)
class ComparedResults(Block):
    """Several results, or one of which others could be beside it: what each is of, and a table that holds them together."""

    names: Sequence[str]  # of the results
    shared: Sequence[str]  # what all of them are of, in lines
    headings: Sequence[Sequence[str]]  # what each is of besides, in lines
    # Where there is one; a terminal shows the numbers of results where their names leave no room.
    table: Table | None = None
    more: Sequence[Table] = ()  # another one that is shown below under its title, or none
    screen: Table | None = None  # that of a default screen, where it is another one
    is_asked: bool = False  # whether all its metrics are to be seen


def numbers(count: int) -> list[str]:
    """What results are called in `ComparedResults.numbered`."""
    return [f"#{number}" for number in range(1, count + 1)]


class Note(NamedTuple):
    """One of the things to know: a text, a terminal's sign for it, the tone of the sign, and a command to copy."""

    text: str
    sign: str = "•"
    tone: str = ""
    command: str = ""
    name: str = ""  # of a check, which a screen names where it has no room for the text


@dataclass(frozen=True)
class Notes(Block):
    notes: Sequence[Note]


@dataclass(frozen=True)
class Findings(Block):
    """What figures mean and what to do, most important first."""

    findings: Sequence[Finding]


@dataclass(frozen=True)
class Conclusion(Block):
    """What it all comes to, in a line: a label, a text and its tone, or emphasis without one."""

    text: str
    label: str = ""
    tone: str = ""
    media: frozenset[Medium] = field(default=TERMINAL, kw_only=True)


@dataclass(frozen=True)
class SavedIn(Block):
    folder: str | None
    media: frozenset[Medium] = field(default=TERMINAL, kw_only=True)


@dataclass(frozen=True)
class Command(Block):
    """The command that was given, word for word; none where it is not known."""

    words: Sequence[str]
    media: frozenset[Medium] = field(default=MARKDOWN, kw_only=True)


class Report(NamedTuple):
    title: str  # of all of it; a terminal, where the command stands above, does without
    parts: Sequence[Sequence[Block]]  # blocks that stand together, set apart from those of the other parts
