"""Sweeps side by side, shape by shape. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.compare import EVERYTHING, Row, Selection, lacks, rows
from ortbench.analysis.points import alone
from ortbench.modes import ALL_MODES, TOTAL
from ortbench.result import Result


def are_sweeps(results: Sequence[Result]) -> bool:
    """Whether all of them are."""
    return all(result.points is not None for result in results)


def common(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """The shapes that all sweeps have, by name, with what each sweep has of them, as results of their own."""
    points = [{point.name: point for point in result.points or []} for result in results]
    return [
        (name, [alone(result, of[name]) for result, of in zip(results, points, strict=True)])
        for name in points[0]
        if all(name in of and of[name].shape == points[0][name].shape for of in points)
    ]


def only_in(results: Sequence[Result], names: Sequence[str]) -> list[str]:
    """The shapes that not all of them have, in a sentence for each sweep."""
    shared = {name for name, _ in common(results)}
    found = []
    for name, result in zip(names, results, strict=True):
        more = [point.name for point in result.points or [] if point.name not in shared]
        if more:
            found.append(f"only in {name}: {', '.join(more)}")
    return found


def sweep_rows(results: Sequence[Result], only: Selection = EVERYTHING) -> list[Row]:
    """Mode by mode the shapes that all sweeps have: the total, or the phases that are asked for. The ``phase`` of a row is the
    shape's name, with the phase where that is not the total."""
    chosen = Selection(only.modes, only.phases or (TOTAL,))
    found = [
        replace(row, phase=name if row.phase == TOTAL else f"{name} {row.phase}")
        for name, alike in common(results)
        for row in rows(alike, chosen)
    ]
    return sorted(found, key=lambda row: list(ALL_MODES).index(row.mode))


def sweep_lacks(results: Sequence[Result], names: Sequence[str], only: Selection = EVERYTHING) -> list[str]:
    """What results have too few blocks of, each sentence once."""
    chosen = Selection(only.modes, only.phases or (TOTAL,))
    said = (it for _, alike in common(results) for it in lacks(alike, names, rows(alike, chosen)))
    return list(dict.fromkeys(said))
