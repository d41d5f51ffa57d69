"""Loads held against each other, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ortbench import units
from ortbench.analysis.compare import Spread, word
from ortbench.analysis.compare_levels import LevelRow, level_rows
from ortbench.analysis.levels import RUNS_PER_S
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns
from ortbench.report.spreads import spread_cells
from ortbench.result import Result

LEVEL_LEGEND = "ratio: above 1 is slower, of runs/s too, from each level's own noise"
_TITLE = "Side by side"
_WHAT = (Column("mode", Kind.NAME, KEY), Column("level", Kind.WORD, KEY), Column("figure", Kind.WORD, KEY))
_RATIO = columns(Kind.NUMBER, "ratio", "95 %", group=2)
_STEPS = (
    *_WHAT,
    Column("result", Kind.WORD, KEY),
    Column("value", Kind.NUMBER, 1),
    *columns(Kind.NUMBER, "vs first", "95 %", group=2),
    Column("verdict", Kind.WORD, 2),
)
_PREVIOUS = (Column("vs previous", Kind.NUMBER, 3), Column("step", Kind.WORD, 3))


def level_table(found: Sequence[LevelRow], names: Sequence[str], same: float | None, in_order: bool) -> Table:
    """A row for each figure of each level, of more than two results one for each of them.

    Args:
        found: by `ortbench.analysis.compare_levels.level_rows`.
        names: of the results.
        same: up to which share a difference does not matter; None leaves the words out.
        in_order: results are steps of one history.
    """
    if len(names) == 2:
        words = () if same is None else (Column("verdict", Kind.WORD, 2),)
        rows = tuple((*_of(row), *_cells(row), *spread_cells(row.since_first[1], same)) for row in found)
        return Table((*_WHAT, *columns(Kind.NUMBER, *names), *_RATIO, *words), rows, title=_TITLE)
    lines = tuple(line for row in found for line in _lines(row, names, same, in_order))
    headed = _STEPS if same is not None else tuple(it for it in _STEPS if it.name != "verdict")
    return Table((*headed, *_PREVIOUS) if in_order else headed, lines, title=_TITLE)


def _of(row: LevelRow) -> tuple[str, str, str]:
    return row.mode, row.at.text, "runs/s" if row.stat == RUNS_PER_S else row.stat


def _cells(row: LevelRow) -> list[str]:
    show = units.rate if row.stat == RUNS_PER_S else units.duration
    return [NOTHING if value is None else show(value) for value in row.values]


def _lines(row: LevelRow, names: Sequence[str], same: float | None, in_order: bool) -> list[tuple[str, ...]]:
    lines = []
    for number, (name, cell) in enumerate(zip(names, _cells(row), strict=True)):
        cells = [*(_of(row) if number == 0 else ("", "", "")), name, cell, *spread_cells(row.since_first[number], same)]
        if in_order:
            ratio, _, *words = spread_cells(row.since_last[number], same)
            cells += [ratio, *words]
        lines.append(tuple(cells))
    return lines


def level_records(
    results: Sequence[Result], names: Sequence[str], same: float, modes: Sequence[str]
) -> list[dict[str, Any]]:
    """A comparison of loads as flat records, one a figure of a level and result: ``concurrency`` or ``rate`` (the other is
    None), ``figure``, ``value`` (runs/s, or ns), and what it is against the first and the previous one."""
    found = []
    for row in level_rows(results, modes):
        for number, name in enumerate(names):
            record: dict[str, Any] = {"mode": row.mode, "concurrency": None, "rate": None, row.at.kind: row.at.value}
            record |= {"figure": row.stat, "result": name, "value": row.values[number]}
            record |= {
                "vs_first": _told(row.since_first[number], same),
                "vs_previous": _told(row.since_last[number], same),
            }
            found.append(record)
    return found


def _told(spread: Spread | None, same: float) -> dict[str, Any] | None:
    if spread is None:
        return None
    own = asdict(spread)
    return {key: own[key] for key in ("ratio", "low", "high", "paired")} | {"verdict": word(spread, same)}
