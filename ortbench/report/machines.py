"""What a suite that was spread over a cluster says of its machines: where each case was, and the same case on several cards."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core.units import duration, rate, ratio
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, filled
from ortbench.suite.record import Record

COLUMNS = (Column("machine", Kind.WORD), Column("card", Kind.WORD))  # of a case
_COLUMNS = (
    Column("case", Kind.NAME, KEY),
    Column("card", Kind.WORD),
    Column("machine", Kind.WORD),
    Column("fastest mode", Kind.WORD),
    Column("latency"),
    Column("most runs/s"),
    Column("× slowest card"),
)


def is_spread(records: Sequence[Record]) -> bool:
    """Whether a case was on a machine of a cluster."""
    return any(record.node is not None for record in records)


def cells(record: Record) -> tuple[str, str]:
    """Of `COLUMNS`."""
    return (NOTHING, NOTHING) if record.node is None else (record.node["name"], card_of(record) or NOTHING)


def card_of(record: Record) -> str | None:
    """The card that a case was on, by its name or else by the resources that it was given; None without any."""
    if record.node is None:
        return None
    return record.node["card"] or ", ".join(sorted(record.node["resources"])) or None


def across_cards(records: Sequence[Record]) -> Table | None:
    """The same cases on different cards beside each other; None where there are none."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.alike is not None and card_of(record) is not None and _speed(record) is not None:
            groups.setdefault(record.alike, []).append(record)
    rows = [row for group in groups.values() if len({*map(card_of, group)}) > 1 for row in _rows(group)]
    return filled(Table(_COLUMNS, tuple(rows), title="The same cases on different cards")) if rows else None


def _rows(group: Sequence[Record]) -> list[tuple[str, ...]]:
    """The fastest card first."""
    speeds = [(_speed(record) or 0.0, record) for record in group]
    slowest = min(speed for speed, _ in speeds)
    return [
        (
            record.id,
            *cells(record)[::-1],
            record.fastest or NOTHING,
            NOTHING if record.fastest_ns is None else duration(record.fastest_ns),
            NOTHING if record.runs_per_s is None else rate(record.runs_per_s),
            ratio(speed / slowest),
        )
        for speed, record in sorted(speeds, key=lambda it: -it[0])
    ]


def _speed(record: Record) -> float | None:
    """Runs a second in the fastest mode; None where nothing was measured."""
    if record.runs_per_s:
        return record.runs_per_s
    return 1e9 / record.fastest_ns if record.fastest_ns else None
