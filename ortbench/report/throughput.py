"""Columns of items: how many a second, and the time of each, where a run has several."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortbench.analysis.items import best_of, is_batch
from ortbench.core import units
from ortbench.model.modes import ITEM_THROUGHPUT, ITEM_TIME
from ortbench.model.result import Case, Result
from ortbench.report.model import NOTHING, Column, Kind, Note, columns

HEADINGS = ("items/s", "per item")


def has_items(results: Sequence[Result]) -> bool:
    """Whether one of them has several items, so that there is something to show."""
    return any(is_batch(result.items) for result in results)


def item_columns(group: int, names: Sequence[str] = ("",)) -> tuple[Column, ...]:
    """The columns, for each of several results where there are names."""
    return columns(Kind.NUMBER, *(f"{it} {name}".strip() for it in HEADINGS for name in names), group=group)


def item_cells(cases: Sequence[Case | None]) -> list[str]:
    """The cells of `item_columns`, of the same mode of each result."""
    rates = [None if case is None else case.value(ITEM_THROUGHPUT) for case in cases]
    times = [None if case is None else case.value(ITEM_TIME) for case in cases]
    per_s = [NOTHING if it is None else units.rate(it) for it in rates]
    return [*per_s, *(NOTHING if it is None else units.duration(it) for it in times)]


def best_note(results: Sequence[Result], names: Sequence[str], modes: Collection[str] = ()) -> list[Note]:
    """Which of several results gets most items done, in some modes or in all."""
    found = best_of(results, names, modes)
    return [] if found is None else [Note(found)]
