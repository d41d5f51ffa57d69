"""Reports in the terminal."""

from __future__ import annotations

from rich.cells import cell_len

from ortbench.report.model import (
    Block,
    Conclusion,
    Heading,
    Hint,
    Medium,
    Notes,
    Paragraph,
    Report,
    SavedIn,
    SideBySide,
    Table,
    Title,
    numbers,
)
from ortbench.report.terminal.console import Screen, shown
from ortbench.report.terminal.grid import FILL_STYLES, Grid, print_table

_FIGURES = 2  # the last of the groups of columns beside which names must have room


def print_report(report: Report) -> None:
    """Print a report to standard output, with an empty line between its parts."""
    screen, begun = Screen(), False
    for part in report.parts:
        blocks = [block for block in part if Medium.TERMINAL in block.media and not _is_empty(block)]
        if blocks and begun:
            screen.blank()
        for block in blocks:
            _print(screen, block)
        begun = begun or bool(blocks)


def _is_empty(block: Block) -> bool:
    match block:
        case Table():
            return not block.rows
        case Notes():
            return not block.notes
        case SavedIn():
            return block.folder is None
    return False


def _print(screen: Screen, block: Block) -> None:
    match block:
        case Title():
            screen.text(block.text, style="heading")
        case Heading():
            for line in block.lines:
                screen.text(line)
        case Paragraph():
            screen.text(block.text, signs=FILL_STYLES if block.fills else None)
        case Hint():
            if not screen.endless:
                screen.text(block.text)
        case Table():
            print_table(screen, block)
        case SideBySide():
            _print_side_by_side(screen, block)
        case Notes():
            for note in block.notes:
                screen.text(note.text, label=f"{note.sign} ", label_style=note.tone)
        case Conclusion():
            style = block.tone or "heading"
            screen.text(block.text, label=block.label, style=style, label_style=style)
        case SavedIn():
            screen.text(f"Saved in {block.folder}")


def _print_side_by_side(screen: Screen, block: SideBySide) -> None:
    """Print what each of several results is of, after what the table calls it, and the table."""
    labels, grid, more = block.names, None, block.more[:1]
    if block.table is not None and block.numbered is not None:
        columns = block.table.columns
        grid = Grid(block.table, screen)
        mistakable = len({column.name for column in columns}) < len(columns)  # a result that is called as a column is
        if mistakable or not grid.fits(_FIGURES):
            labels, more = numbers(len(block.names)), block.more[1:]
            grid = Grid(block.numbered, screen)
    indent = max(map(cell_len, map(shown, labels))) + 2
    for name, label, heading in zip(block.names, labels, block.headings, strict=True):
        for number, line in enumerate(heading if name == label else [name, *heading]):
            screen.text(line, label=("" if number else label).ljust(indent))
    if grid is not None and block.table is not None and block.table.rows:
        screen.blank()
        grid.print()
    for table in more:
        screen.blank()
        screen.text(table.title, style="heading")
        print_table(screen, table)
