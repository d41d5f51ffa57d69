"""Cells of a ratio of two figures and where it may lie."""

from __future__ import annotations

from ortbench.analysis.comparing.compare import CANNOT_TELL, FASTER, SLOWER, RatioEstimate, Row, word
from ortbench.core import units
from ortbench.report.model import BAD, GOOD, NOTHING, UNCLEAR, Cell

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
