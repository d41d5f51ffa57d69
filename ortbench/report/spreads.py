"""Cells of a ratio of two figures and where it may lie."""

from __future__ import annotations

from ortbench import units
from ortbench.analysis.compare import Spread, word
from ortbench.report.model import NOTHING


def spread_cells(spread: Spread | None, same: float | None, of_cost: bool = False, exact: bool = False) -> list[str]:
    """The ratio, its interval unless it is exact, and the word for it unless `same` is None.

    Args:
        spread: None where there is nothing to compare.
        same: up to which share a difference does not matter.
        exact: the figures are no samples, so that there is no interval to show.
        of_cost: what is compared is no time that a run takes, so that it is not slower but more.
    """
    if spread is None:
        return [NOTHING] * (2 if same is None else 3)
    interval = NOTHING
    if spread.low is not None and spread.high is not None and not exact:
        interval = f"{units.ratio(spread.low, 3)}–{units.ratio(spread.high, 3)}"
    return [f"×{units.ratio(spread.ratio, 3)}", interval] + ([] if same is None else [word(spread, same, of_cost)])
