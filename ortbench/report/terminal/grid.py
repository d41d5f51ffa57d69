"""Tables on the screen: as wide as it allows, and in parts below each other where that is too narrow; with bars."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from ortbench.analysis.compare import FASTER, SLOWER
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR
from ortbench.report import nodes as report_nodes
from ortbench.report.run import SPLIT
from ortbench.report.table import Table, stacked
from ortbench.report.terminal.bars import COPIES, FILLS, PER_RUN, bar
from ortbench.report.terminal.console import Screen, shown, wrapped
from ortbench.suite.record import BROKEN

_GAP = 2  # cells between two columns
_BAR_LEAST, _BAR_MOST, _BAR_ENDLESS = 16, 60, 24  # cells of the longest bar; the last where lines have no end
_WIDE = 118  # cells that leave room for long names
_NAME_LEAST = 16  # cells that are left to a long name beside its figures
# Columns of words are flush left, those of numbers flush right.
_WORDS = {"mode", SPLIT, "phase", "result", "verdict", "step", "case", "fastest mode"}
_STYLES = {PASSED: "good", FASTER: "good", FAILED: "bad", SLOWER: "bad", BROKEN: "bad", UNCLEAR: "unclear"}
FILL_STYLES = {
    **dict.fromkeys((FILLS["upload"], FILLS["download"], COPIES), "copy"),
    **dict.fromkeys((FILLS["inference"], PER_RUN), "inference"),
}


class Grid:
    """A table as it will look.

    Args:
        table: it; each column has a name of its own.
        unit: of times.
        timed: the columns that hold times.
        bars: for each row the parts of a bar (see `ortbench.report.terminal.bars.bar`), shown in a column `SPLIT`; or none.
        words: columns of text, flush left, besides those that are so in every table.
    """

    def __init__(
        self,
        table: Table,
        unit: str = "",
        timed: Sequence[str] = (),
        bars: Sequence[Sequence[tuple[str, float]]] = (),
        words: Sequence[str] = (),
    ) -> None:
        self._words = _WORDS.union(words)
        self._columns = {name: [shown(row[at]) for row in table.rows] for at, name in enumerate(table.columns)}
        self._units = {name: shown(unit) for name in timed}
        self._bars = bars
        self._widths = {
            name: max(map(cell_len, (shown(name), self._units.get(name, ""), *cells)))
            for name, cells in self._columns.items()
        }
        if bars:
            self._columns[SPLIT], self._widths[SPLIT] = [""] * len(bars), _BAR_LEAST

    def width(self, columns: Sequence[str]) -> int:
        """How wide some of its columns are side by side, with a short bar if it is among them."""
        return sum(self._widths[name] for name in columns) + _GAP * (len(columns) - 1)

    def print(self, screen: Screen, key: Sequence[str], groups: Sequence[Sequence[str]]) -> None:
        """Print it.

        Args:
            screen: to print it on.
            key: columns that every part begins with; names in the last of them are folded where they leave no room.
            groups: the other columns; see `ortbench.report.table.stacked`.
        """
        room = screen.width - max(self.width([*key[:-1], *group]) for group in groups) - _GAP
        self._widths[key[-1]] = width = min(self._widths[key[-1]], max(room, _NAME_LEAST))
        self._columns[key[-1]] = ["\n".join(wrapped(cell, width)) for cell in self._columns[key[-1]]]
        for number, names in enumerate(stacked(key, groups, self._widths, screen.width, _GAP)):
            if number:
                screen.blank()
            left = screen.width - self.width(names) + _BAR_LEAST
            screen.show(self._rich(names, _BAR_ENDLESS if screen.endless else min(left, _BAR_MOST)))

    def _rich(self, names: Sequence[str], bar_width: int) -> RichTable:
        rich = RichTable(box=None, pad_edge=False, header_style="heading", padding=(0, 1))
        has_times = not self._units.keys().isdisjoint(names)
        for name in names:
            title = f"{shown(name)}\n{self._units.get(name, '')}" if has_times else shown(name)
            rich.add_column(title, justify="left" if name in self._words else "right", overflow="fold")
        cells = [self._drawn(bar_width) if name == SPLIT else map(_cell, self._columns[name]) for name in names]
        for row in zip(*cells, strict=True):
            rich.add_row(*row)
        return rich

    def _drawn(self, width: int) -> list[Text]:
        """The bars on one scale, the longest as long as there is room."""
        scale = max(sum(size for _, size in parts) for parts in self._bars)
        return [_painted(bar(parts, scale, width)) for parts in self._bars]


def longest_name(screen: Screen) -> int:
    """How many characters of a node's name there is room for in a table."""
    return report_nodes.WIDE if screen.width >= _WIDE else report_nodes.NARROW


def print_section(screen: Screen, section: report_nodes.Section) -> None:
    """Print a table of `ortbench.analysis.node_advice` with an empty line before it."""
    first, *others = section.columns
    screen.blank()
    Grid(Table(section.columns, section.rows, ()), words=section.left).print(screen, (first,), [others])
    if section.rest:
        screen.text(section.rest)


def _cell(text: str) -> Text:
    return Text(text, style=_STYLES.get(text, ""))


def _painted(line: str) -> Text:
    return Text.assemble(*((shown("".join(run)), FILL_STYLES.get(fill, "")) for fill, run in groupby(line)))
