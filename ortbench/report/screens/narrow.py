"""Tables for a screen: the columns that fit 80 characters, the most important ones, and so many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.report.model import KEY, Kind, Table
from ortbench.report.terminal.console import shortened

WIDTH = 80
_GAP = 2  # between columns
_LONGEST = 60  # characters of what names a row
_TAILS = ("p95", "p99")  # the first to go, the last of them first
_WITH_INTERVALS = ("ratio", "vs first")


def narrowed(table: Table, wanted: Sequence[int]) -> Table:
    """A table with its key and as many of some columns as fit side by side, the most important first; one figure stays, and no ratio is
    without the interval behind it."""
    names = [at for at, it in enumerate(table.columns) if it.group == KEY]
    cells = [[it.name, table.unit if it.kind is Kind.TIME else ""] for it in table.columns]
    for row in table.rows:
        for at, cell in enumerate(row):
            cells[at].append(shortened(cell, _LONGEST) if at in names else cell)
    widths = [max(map(len, column)) + _GAP for column in cells]
    figures = [*wanted]
    while len(figures) > 1 and sum(widths[at] for at in (*names, *figures)) - _GAP > WIDTH:
        tail = _tail(table.columns[figures.pop()].name)
        # Of results side by side none has a tail without the others.
        while tail and len(figures) > 1 and _tail(table.columns[figures[-1]].name) == tail:
            figures.pop()
    if len(figures) < len(wanted) and len(figures) > 1 and table.columns[figures[-1]].name in _WITH_INTERVALS:
        figures.pop()
    kept = sorted([*names, *figures])
    return replace(
        table,
        columns=tuple(table.columns[at]._replace(group=min(table.columns[at].group, 1)) for at in kept),
        rows=tuple(tuple(_short(row[at]) if at in names else row[at] for at in kept) for row in table.rows),
        bars=table.bars if len(table.rows) > 1 else (),  # which a terminal leaves out where they do not fit
    )


def _short(cell: str) -> str:
    return cell if len(cell) <= _LONGEST else shortened(cell, _LONGEST)


def fitted(table: Table, most: int, first: Sequence[tuple[str, ...]] = ()) -> Table:
    """A table with the columns that fit a screen, the tails last, and so many rows, `first` those with some names, each in its place; the
    rest is counted."""
    rows = [*range(len(table.rows))]
    if len(rows) > most:  # the figures that the first row has come first
        keys = [at for at, it in enumerate(table.columns) if it.group == KEY]
        names = [{row[at].partition(" (")[0] for at in keys} for row in table.rows]
        ranks = [next((at for at, it in enumerate(first) if row.issuperset(it)), len(first)) for row in names]
        rows = sorted(sorted(alike(table), key=lambda row: ranks[row])[:most])
    left = len(table.rows) - len(rows)
    cut = replace(
        _without_metric(table, rows),
        bars=[table.bars[row] for row in rows] if table.bars else (),
        groups=_groups(table, rows),
        rest=f"{left} more row{'s' if left > 1 else ''}: -v" if left else table.rest,
    )
    figures = [at for at, it in enumerate(cut.columns) if it.group != KEY]
    return narrowed(cut, sorted(figures, key=lambda at: _tail(cut.columns[at].name)))


def _groups(table: Table, rows: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """The groups of which rows are left."""
    ends = [*(at for at, _ in table.groups[1:]), len(table.rows)]
    found = [
        (sum(row < at for row in rows), title)
        for (at, title), end in zip(table.groups, ends, strict=False)
        if any(at <= row < end for row in rows)
    ]
    return tuple(found)


def _tail(name: str) -> int:
    """0 of a column that is no tail, which stays longest."""
    return next((number for number, tail in enumerate(_TAILS, 1) if name.endswith(tail)), 0)


def _without_metric(table: Table, rows: Sequence[int]) -> Table:
    """A table of some rows; where all are of one metric, its name is above the figures."""
    kept = tuple(table.rows[row] for row in rows)
    names = [it.name for it in table.columns]
    of = {row[names.index("metric")] for row in kept} - {""} if {"metric", "value"} <= {*names} else set()
    if len(of) != 1:
        return replace(table, rows=kept)
    at = names.index("metric")
    columns = [it._replace(name=of.pop()) if it.name == "value" else it for it in table.columns]
    cells = (tuple(cell for number, cell in enumerate(row) if number != at) for row in kept)
    return replace(table, columns=tuple(columns[:at] + columns[at + 1 :]), rows=tuple(cells))


def alike(table: Table) -> list[int]:
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
