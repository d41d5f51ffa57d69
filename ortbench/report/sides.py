"""The report of several sides of one run: one table, and what is to be known of each."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.model.result import Result
from ortbench.report import comparison
from ortbench.report.model import Notes, Report, SavedIn
from ortbench.report.together import placed_and_warned


def build(results: Sequence[Result], names: Sequence[str], same: float, folder: str | None = None) -> Report:
    """The comparison of the sides, with what is copied inside their graphs and what they warn of.

    Args:
        results: at least two.
        names: of the sides.
        same: up to which share a difference does not matter.
        folder: of all of them, where nothing else says where they were saved and what they warn of.
    """
    compared = comparison.build(results, names, same, in_order=False)
    if folder is None:
        return compared
    *parts, last = compared.parts
    return Report(compared.title, [*parts, [Notes(placed_and_warned(results, names)), *last, SavedIn(folder)]])
