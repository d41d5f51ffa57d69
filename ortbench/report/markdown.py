"""Reports as Markdown: files beside results, and the job summary of a CI system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortbench.report.model import (
    Block,
    Command,
    Heading,
    Kind,
    Medium,
    Notes,
    Paragraph,
    Report,
    SideBySide,
    Table,
    Title,
)


def markdown(report: Report) -> str:
    """A report as Markdown: every block is followed by an empty line, so that nothing runs into the next one."""
    shown = [block for part in report.parts for block in part if Medium.MARKDOWN in block.media]
    return "\n".join(line for block in (Title(report.title, 1), *shown) for line in (*_lines(block), ""))


def _lines(block: Block) -> list[str]:
    match block:
        case Title():
            return [f"{'#' * block.level} {block.text}"]
        case Heading():
            return _broken(block.lines)
        case Paragraph():
            return [block.text]
        case Table():
            return table_lines(block)
        case SideBySide():
            sides = zip(block.names, block.headings, strict=True)
            lines = _broken(f"{name}: {line}" for name, heading in sides for line in heading)
            return lines if block.table is None else [*lines, "", *table_lines(block.table)]
        case Notes():
            return [f"- {note.text}" for note in block.notes]
        case Command():
            return [f"`{' '.join(block.words)}`"] if block.words else []
    raise TypeError(block)


def _broken(lines: Iterable[str]) -> list[str]:
    """Lines that do not run together."""
    return [f"{line}  " for line in lines]


def table_lines(table: Table) -> list[str]:
    """A table, line by line, and what was left out of it after an empty one."""
    rule = ["---" if at == 0 or column.kind in _LEFT else "---:" for at, column in enumerate(table.columns)]
    lines = [_line(cells) for cells in (table.headings, rule, *table.cut_rows())]
    return [*lines, "", table.rest] if table.rest else lines


_LEFT = {Kind.WORDS, Kind.LONG_NAME}


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
