"""A table of text, and what can be done with one whatever is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOTHING = "–"


DERIVED = "≈"


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        columns: headings; the first column is the mode's.
        rows: a cell for each column.
        notes: for modes without figures, why.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def select(self, columns: tuple[str, ...]) -> Table:
        """The table with some of its columns, without notes."""
        at = [self.columns.index(name) for name in columns]
        return Table(columns, tuple(tuple(row[index] for index in at) for row in self.rows), ())


def stacked(
    key: Sequence[str], groups: Sequence[Sequence[str]], widths: Mapping[str, int], width: int, gap: int = 2
) -> list[tuple[str, ...]]:
    """The columns of tables to print one below the other, each within a width.

    Args:
        key: the columns that every table begins with.
        groups: columns that stay together, unless even a table of their own is too wide for them.
        widths: of each column, in cells.
        width: that a table may have. A single column that is too wide stands alone all the same.
        gap: between columns.

    Returns:
        The columns of each table, those of `groups` in their order and each once.
    """

    def fits(columns: Sequence[str]) -> bool:
        return sum(widths[name] for name in (*key, *columns)) + gap * (len(key) + len(columns) - 1) <= width

    stack: list[list[str]] = [[]]
    for group in groups:
        for piece in [group] if fits(group) else [[name] for name in group]:
            if stack[-1] and not fits([*stack[-1], *piece]):
                stack.append([])
            stack[-1] += piece
    return [(*key, *columns) for columns in stack]


def table_markdown(table: Table, unit: str, timed: Sequence[str]) -> str:
    """A table as Markdown; columns named in `timed` get the unit."""
    columns = [f"{name} ({unit})" if name in timed else name for name in table.columns]
    lines = [
        markdown_line(columns),
        markdown_line(["---", *["---:"] * (len(columns) - 1)]),
        *map(markdown_line, table.rows),
    ]
    return "\n".join(lines)


def markdown_line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
