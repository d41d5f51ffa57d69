"""The report of what ortbench made in a folder, before it is removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortbench.core import units
from ortbench.report.model import KEY, UNCLEAR, Column, Kind, Note, Notes, Report, Table

_AGES = (("w", 7 * 86400), ("d", 86400), ("h", 3600), ("min", 60))
_LISTED = 5  # names that stand in a sentence

_COLUMNS = (
    Column("folder", Kind.NAME, KEY),
    Column("what", Kind.WORDS),
    Column("age", Kind.NUMBER),
    Column("size", Kind.NUMBER),
)


def build(
    rows: Sequence[tuple[str, str, float, int]], foreign: Mapping[str, Sequence[str]], kept: int, others: Sequence[str]
) -> Report:
    """The report.

    Args:
        rows: of each folder that is to be removed its name, what it is, its age in seconds and its size in bytes.
        foreign: by folder, what in it ortbench did not make.
        kept: how many folders of ortbench's are not to be removed.
        others: what beside them ortbench did not make.
    """
    table = Table(_COLUMNS, tuple((name, kind, age(old), units.size(size)) for name, kind, old, size in rows))
    notes = [
        Note(f"{name} stays with what ortbench did not make: {listed(names)}", "!", UNCLEAR)
        for name, names in foreign.items()
        if names
    ]
    if kept:
        notes.append(Note(f"kept: {kept} that {'is' if kept == 1 else 'are'} newer"))
    if others:
        notes.append(Note(f"left alone, not made by ortbench: {listed(others)}"))
    if not rows:
        notes.insert(0, Note("nothing to remove"))
    return Report("ortbench clean", [[table], [Notes(notes)]])


def age(seconds: float) -> str:
    """How old something is, in its largest whole unit: ``3 d``."""
    unit, length = next(((unit, length) for unit, length in _AGES if seconds >= length), ("s", 1))
    return f"{max(0, seconds) // length:.0f} {unit}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    more = len(names) - _LISTED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_LISTED])} and {more} more"
