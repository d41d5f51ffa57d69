"""Cells of tables that are figures of the catalogue, ratios of two, and columns of items."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ortbench.analysis.comparing.compare import CANNOT_TELL, FASTER, SLOWER, RatioEstimate, Row, word
from ortbench.analysis.items import best_of, is_batch
from ortbench.core import units
from ortbench.model.metrics import known_or_plain
from ortbench.model.modes import ITEM_THROUGHPUT, ITEM_TIME
from ortbench.model.result import Case, Result
from ortbench.report.model import BAD, DERIVED, GOOD, NOTHING, UNCLEAR, Cell, Column, Kind, Note, columns


def cell(case: Case, key: str, mark: bool = False) -> str:
    """The one number of a metric with its unit; where it was derived behind the `mark` of that."""
    value = case.value(key)
    return NOTHING if value is None else f"{DERIVED if mark else ''}{known_or_plain(key).unit.text(value)}"


def cells(case: Case, keys: Iterable[str]) -> list[str]:
    """The cells of metrics that are one number each."""
    return [cell(case, key) for key in keys]


_TONES = {FASTER: GOOD, SLOWER: BAD, CANNOT_TELL: UNCLEAR}


def ratio_cells(row: Row, found: RatioEstimate | None, same: float | None) -> list[str]:
    """The ratio, its interval unless it is exact, and the word for it unless `same` is None.

    Args:
        row: whose figures are compared.
        found: None where there is nothing to compare.
        same: up to which share a difference does not matter.
    """
    if found is None:
        return [NOTHING] * (2 if same is None else 3)
    interval = NOTHING
    if found.low is not None and found.high is not None and not found.exact:
        interval = f"{units.ratio(found.low, 3)}–{units.ratio(found.high, 3)}"
    cells = [f"×{units.ratio(found.ratio, 3)}", interval]
    return cells if same is None else [*cells, verdict_cell(word(found, same, row.is_cost))]


def verdict_cell(verdict: str) -> Cell:
    """The word for a ratio; that of a cost is neither good nor bad."""
    return Cell(verdict, _TONES.get(verdict, ""))


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
