"""The report of several sides of one run: one table, and what is to be known of each."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.report import comparison
from ortbench.report.model import Note, Notes, Report, SavedIn
from ortbench.report.words import warnings
from ortbench.result import Result


def build(results: Sequence[Result], names: Sequence[str], same: float, folder: str | None = None) -> Report:
    """The comparison of the sides, with what each of them warns of.

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
    return Report(compared.title, [*parts, [Notes(_warnings(results, names)), *last, SavedIn(folder)]])


def _warnings(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """What sides warn of, once where all of them do."""
    found: dict[str, tuple[Note, list[str]]] = {}
    for name, result in zip(names, results, strict=True):
        for note in warnings(result):
            found.setdefault(note.text, (note, []))[1].append(name)
    return [
        note if len(of) == len(results) else Note(f"{', '.join(of)}: {note.text}", note.sign, note.tone)
        for note, of in found.values()
    ]
