"""The summary of a suite: its headline, report and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ortbench.analysis.items import Rate, best, is_batch
from ortbench.core.parts import plain
from ortbench.core.units import duration, energy, rate, ratio, size
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR
from ortbench.report import model
from ortbench.report.cells import HEADINGS
from ortbench.report.model import (
    BAD,
    GOOD,
    KEY,
    NOTHING,
    Block,
    Cell,
    Column,
    Conclusion,
    Kind,
    Note,
    Notes,
    Report,
    SavedIn,
    Table,
    columns,
    filled,
)
from ortbench.report.records import csv_text
from ortbench.report.words import hint
from ortbench.suite.record import BROKEN, INCOMPARABLE, MEASURED, MISSING, SKIPPED, Record


def headline(records: Sequence[Record]) -> str:
    """How many cases came to what."""
    counts = Counter(record.outcome for record in records)
    order = (PASSED, MEASURED, FAILED, UNCLEAR, INCOMPARABLE, BROKEN, MISSING, SKIPPED)
    cases = "1 case" if len(records) == 1 else f"{len(records)} cases"
    return f"{cases}: {', '.join(f'{counts[word]} {word}' for word in order if counts[word]) or 'nothing to do'}"


_COLUMNS = (
    Column("case", Kind.NAME, KEY),
    Column("cpu-tensors"),
    Column("fastest mode", Kind.WORD),
    Column("latency"),
    Column("× cpu-tensors"),
    Column("CPU time"),
    Column("verdict", Kind.WORD),
)
_OF_MEMORY = columns(Kind.NUMBER, "device memory", "host memory")
_BEST_SHAPE = "best shape"  # of a sweep, of which the other figures are
_OF_LOADS = ("most runs/s", "callers", "knee", "keeps SLO up to")
_ENERGY = "energy/run"  # of the fastest mode, with --energy
_OF_LOOPS = ("steps", "steps/s")  # of a loop, whose latency is all of them


_TONES = {PASSED: GOOD, FAILED: BAD, BROKEN: BAD, UNCLEAR: model.UNCLEAR}


def case_table(records: Sequence[Record]) -> Table:
    """A row a case; only columns that hold something."""
    shown = any(is_batch(record.items) for record in records)
    rows = tuple(
        (
            record.id,
            NOTHING if record.cpu_ns is None else duration(record.cpu_ns),
            record.fastest or NOTHING,
            NOTHING if record.fastest_ns is None else duration(record.fastest_ns),
            NOTHING if record.speedup is None else ratio(record.speedup),
            NOTHING if record.cpu_time_ns is None else duration(record.cpu_time_ns),
            record.best_shape or NOTHING,
            *(_item_cells(record) if shown else ()),
            *_step_cells(record),
            *_load_cells(record),
            *map(_size, (record.memory_device, record.memory_host)),
            _energy_cell(record),
            *_machine_cells(record),
            Cell(record.outcome, _TONES.get(record.outcome, "")),
        )
        for record in records
    )
    more = (_BEST_SHAPE, *(HEADINGS if shown else ()), *_OF_LOOPS, *_OF_LOADS)
    columns = (*_COLUMNS[:-1], *map(Column, more), *_OF_MEMORY, Column(_ENERGY), *_MACHINE, _COLUMNS[-1])
    return filled(Table(columns if rows else _COLUMNS, rows))


def _item_cells(record: Record) -> tuple[str, str]:
    if record.items_per_s is None or record.item_ns is None:
        return NOTHING, NOTHING
    return rate(record.items_per_s), duration(record.item_ns)


def _step_cells(record: Record) -> tuple[str, str]:
    steps = NOTHING if record.steps is None else str(record.steps)
    return steps, NOTHING if record.steps_per_s is None else rate(record.steps_per_s)


def _is_load(record: Record) -> bool:
    return record.runs_per_s is not None or record.slo_rate is not None


def _load_cells(record: Record) -> tuple[str, str, str, str]:
    return (
        NOTHING if record.runs_per_s is None else rate(record.runs_per_s),
        NOTHING if record.callers is None else str(record.callers),
        NOTHING if record.knee is None else str(record.knee),
        NOTHING if record.slo_rate is None else f"{rate(record.slo_rate)}/s",
    )


def _is_weighed(record: Record) -> bool:
    return record.memory_device is not None or record.memory_host is not None


def _size(count: int | None) -> str:
    return NOTHING if count is None else size(count)


def _energy_cell(record: Record) -> str:
    return NOTHING if record.energy_j is None else energy(record.energy_j)


def build(name: str, records: Sequence[Record], folder: str | None = None) -> Report:
    """The summary of a suite; `folder` is where it was saved, which is said in a terminal."""
    notes = [*(_reason(record) for record in records if record.reason), *map(Note, _best(records))]
    words = [hint(*dict.fromkeys(record.outcome for record in records))] if records else []
    last: list[Block] = [Notes(notes)] if notes else []
    last += [Conclusion(f"suite {name}: {headline(records)}"), SavedIn(folder)]
    across = across_cards(records)
    tables: list[list[Block]] = [[case_table(records), *words]]
    if across is not None:
        tables.append([across])
    return Report(f"ortbench suite {name}: {headline(records)}", (*tables, last))


def _best(records: Sequence[Record]) -> list[str]:
    """Which case of each model gets most items done, where several of them have items."""
    rates: dict[str, list[Rate]] = {}
    for it in records:
        if it.items is not None and it.items_per_s is not None and it.fastest is not None:
            rates.setdefault(it.model, []).append(Rate(it.id, it.items, it.items_per_s, it.fastest))
    several = len({record.model for record in records}) > 1
    return list(filter(None, (best(found, model if several else "") for model, found in rates.items())))


def _reason(record: Record) -> Note:
    """Why a case did not pass."""
    text = f"{record.id}: {record.outcome}: {record.reason}"
    return Note(text, "✗", BAD) if record.exit_code else Note(text)


_CSV_COLUMNS = (
    "id", "model", "ep", "shape", "outcome", "exit_code", "reason", "seconds", "cpu_ns", "fastest", "fastest_ns", "speedup", "cpu_time_ns",
)  # fmt: skip


def csv(records: Sequence[Record]) -> str:
    """The records as CSV, without their checks."""
    names = [*_CSV_COLUMNS]
    if any(is_batch(record.items) for record in records):
        names += ["items", "items_per_s", "item_ns"]
    if any(record.best_shape is not None for record in records):
        names.append("best_shape")
    if any(record.steps is not None for record in records):
        names += ["steps", "steps_per_s"]
    if any(_is_load(record) for record in records):
        names += ["runs_per_s", "callers", "knee", "slo_rate"]
    if any(_is_weighed(record) for record in records):
        names += ["memory_device", "memory_host"]
    if any(record.energy_j is not None for record in records):
        names.append("energy_j")
    if is_spread(records):
        names += ["node", "address", "card", "driver"]
    found = (
        {**plain(record), **_of_node(record), "items": record.items and record.items["count"]} for record in records
    )
    return csv_text(names, found)


def _of_node(record: Record) -> dict[str, str | None]:
    if record.node is None:
        return {}
    node = record.node
    return {"node": node["name"], "address": node["address"], "card": node["card"], "driver": node["driver"]}


_MACHINE = (Column("machine", Kind.WORD), Column("card", Kind.WORD))  # of a case
_ACROSS = (
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


def _machine_cells(record: Record) -> tuple[str, str]:
    """Of `_MACHINE`."""
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
    rows = [row for group in groups.values() if len({*map(card_of, group)}) > 1 for row in _card_rows(group)]
    return filled(Table(_ACROSS, tuple(rows), title="The same cases on different cards")) if rows else None


def _card_rows(group: Sequence[Record]) -> list[tuple[str, ...]]:
    """The fastest card first."""
    speeds = [(_speed(record) or 0.0, record) for record in group]
    slowest = min(speed for speed, _ in speeds)
    return [
        (
            record.id,
            *_machine_cells(record)[::-1],
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
