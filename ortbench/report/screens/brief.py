"""Any report on one screen: its heading, its first table, the first findings, what is doubtful or failed, the conclusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from textwrap import shorten, wrap
from typing import TypeVar

from ortbench.analysis.findings.finding import Finding
from ortbench.report.model import (
    BAD,
    GOOD,
    KEY,
    UNCLEAR,
    Block,
    Conclusion,
    Findings,
    Heading,
    Kind,
    Medium,
    Note,
    Notes,
    Report,
    SavedIn,
    SideBySide,
    Table,
)

Item = TypeVar("Item", Finding, Note)

HEIGHT, WIDTH = 24, 80
BEHIND_A_SIGN = 74  # characters of a line
FINDINGS = 3  # with one command
_LEAST_ROWS = 3
_SPACES, _TABLE = 5, 3  # empty lines with the prompt; lines of a table's heading with what was left out
GAP, _BAR = 2, 12  # between columns; the shortest bar
_TAILS = ("p99", "p95")
_WITH_INTERVALS = ("ratio", "vs first")
_ORDER = {BAD: 0, UNCLEAR: 1, GOOD: 3}  # of notes; those without a tone stand between


def brief(report: Report, height: int = HEIGHT) -> Report:
    """A report as its default screen, in so many lines of 80 characters; ``--verbose`` prints the whole."""
    blocks = [it for part in report.parts for it in part if Medium.TERMINAL in it.media]
    heads = [replace(it, lines=[*map(_short, it.lines[:2])]) for it in blocks if isinstance(it, Heading)][:1]
    sides = [_narrow(it) for it in blocks if isinstance(it, SideBySide)][:1]
    table = next((it for it in blocks if isinstance(it, Table)), None)
    of_sides = sides[0].table if sides and table is None else None
    rows = len((table or of_sides or Table((), ())).rows)
    least = min(rows, _LEAST_ROWS)
    last = [it for it in blocks if isinstance(it, (Conclusion, SavedIn))]
    notes = sorted(
        (it for block in blocks if isinstance(block, Notes) for it in block.notes),
        key=lambda it: _ORDER.get(it.tone, 2),
    )
    urgent = [it for it in notes if it.tone in (BAD, UNCLEAR)]

    texts = [line for it in heads for line in it.lines] + _heads(sides)
    texts += [it.text if isinstance(it, Conclusion) else f"Saved in {it.folder}" for it in last]
    room = height - _SPACES - lines_behind_signs(texts) - (_TABLE if rows else 0)
    findings = one_command([it for block in blocks if isinstance(block, Findings) for it in block.findings])
    findings = _fitting(findings, room - least, bool(findings))
    room -= lines_behind_signs(it.text for it in findings) + any(it.next for it in findings)
    said = _fitting(urgent, room - least, bool(urgent))
    room -= lines_behind_signs(it.text for it in said)
    most = max(room, least)
    room -= min(rows, most)
    if len(said) == len(urgent):
        said += _fitting([it for it in notes if it not in urgent], room, False)
    parts: list[Sequence[Block]] = [
        [*heads, *(_with_rows(it, most) for it in sides)],
        [fitted(table, most)] if table else [],
        [Findings(findings, most=height), Notes(said)],
        last,
    ]
    return Report(report.title, [part for part in parts if part])


def one_command(findings: Sequence[Finding]) -> list[Finding]:
    """The first findings, of which only one has what to do next: the first that has."""
    found = list(findings[:FINDINGS])
    with_command = next((it for it in found if it.next), None)
    return [it if it is with_command else it._replace(next="") for it in found]


def _heads(sides: Sequence[SideBySide]) -> list[str]:
    return [line for it in sides for line in (*it.shared, *(" ".join(lines) for lines in it.headings))]


def lines_behind_signs(texts: Iterable[str]) -> int:
    """How many lines of a screen texts take, each behind a sign."""
    return sum(max(1, len(wrap(text, BEHIND_A_SIGN))) for text in texts)


def _fitting(items: Sequence[Item], room: int, one: bool) -> list[Item]:
    """The first items whose texts fit so many lines; with `one` the first in any case."""
    kept: list[Item] = []
    for item in items:
        room -= lines_behind_signs([item.text])
        if room < 0 and not (one and not kept):
            break
        kept.append(item)
    return kept


def _narrow(sides: SideBySide) -> SideBySide:
    """Results side by side, in few lines, without the tables below the first."""
    headings = [[*map(_short, lines[:1])] for lines in sides.headings]
    return replace(sides, shared=[*map(_short, sides.shared[:2])], headings=headings, more=())


def _with_rows(sides: SideBySide, rows: int) -> SideBySide:
    table, numbered = (it and fitted(it, rows) for it in (sides.table, sides.numbered))
    return replace(sides, table=table, numbered=numbered)


def _short(line: str) -> str:
    return shorten(line, 3 * BEHIND_A_SIGN, placeholder=" …")


def fitted(table: Table, most: int) -> Table:
    """A table with the columns that fit a screen, the tails last, and so many rows; the rest is counted."""
    rows = [*range(len(table.rows))]
    if len(rows) > most:  # the figures that the first row has come first
        rows = _alike(table)[:most]
    left = len(table.rows) - len(rows)
    table = _named(table, rows)
    kept = _columns(replace(table, rows=tuple(table.rows[row] for row in rows), bars=table.bars and [()] * len(rows)))
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(table.rows[row][at] for at in kept) for row in rows),
        bars=[table.bars[row] for row in rows] if table.bars and len(kept) == len(table.columns) else (),
        groups=tuple((at, title) for at, title in table.groups if at < len(rows)),
        rest=f"{left} more row{'s' if left > 1 else ''}: -v" if left else table.rest,
    )


def _named(table: Table, rows: Sequence[int]) -> Table:
    """A table in which all rows are of one metric, with its name above the figures."""
    names = [it.name for it in table.columns]
    of = {table.rows[row][names.index("metric")] for row in rows} - {""} if {"metric", "value"} <= {*names} else set()
    if len(of) != 1:
        return table
    at = names.index("metric")
    columns = [it._replace(name=of.pop()) if it.name == "value" else it for it in table.columns]
    cells = (tuple(cell for number, cell in enumerate(row) if number != at) for row in table.rows)
    return replace(table, columns=tuple(columns[:at] + columns[at + 1 :]), rows=tuple(cells))


def _columns(table: Table) -> list[int]:
    """Which columns fit side by side: p95 and p99 go first, then from the right; no ratio is left without its interval."""
    cells: list[tuple[str, ...]] = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    widths = [
        max(map(len, (it.name, table.unit if it.kind is Kind.TIME else "", *column)))
        for it, column in zip(table.columns, cells, strict=True)
    ]
    kept = [*range(len(widths))]
    bars = _BAR + GAP if table.bars else 0

    def is_wide() -> bool:
        return bool(sum(widths[at] + GAP for at in kept) - GAP + bars > WIDTH)

    for tail in _TAILS:
        if is_wide():
            kept = [at for at in kept if not table.columns[at].name.endswith(tail)]
    while is_wide() and table.columns[kept[-2]].group != KEY:  # one figure stays
        kept.pop()
    return kept[:-1] if table.columns[kept[-1]].name in _WITH_INTERVALS else kept


def _alike(table: Table) -> list[int]:
    """The rows of the metric that the first row is of; one without a name of its own is of that above it."""
    at = next((at for at, it in enumerate(table.columns) if it.name == "metric"), None)
    if at is None:
        return [*range(len(table.rows))]
    found, metric = [], ""
    for number, row in enumerate(table.rows):
        metric = row[at] or metric
        if metric == table.rows[0][at]:
            found.append(number)
    return found
