"""The summary of a suite: its headline, report and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ortbench.analysis.comparing.claims import FASTER
from ortbench.analysis.items import is_batch
from ortbench.core.parts import plain
from ortbench.core.units import count, duration, energy, rate, size
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR
from ortbench.facts.fact import Fact, Values
from ortbench.facts.findings import shown
from ortbench.features.suite.job.record import BROKEN, INCOMPARABLE, MEASURED, MISSING, SKIPPED, Record
from ortbench.model.metrics import RATIO
from ortbench.report import model
from ortbench.report.model import (
    BAD,
    GOOD,
    KEY,
    NOTHING,
    Block,
    Cell,
    Column,
    Conclusion,
    Findings,
    Kind,
    Note,
    Notes,
    Report,
    SavedIn,
    Table,
    filled,
    maybe,
)
from ortbench.report.phrases import HINT
from ortbench.report.records import csv_text


def headline(records: Sequence[Record]) -> str:
    counts = Counter(record.outcome for record in records)
    order = (PASSED, MEASURED, FAILED, UNCLEAR, INCOMPARABLE, BROKEN, MISSING, SKIPPED)
    said = (f"{counts[word]} {word}{_MEANS.get(word, '')}" for word in order if counts[word])
    return f"{count(len(records), 'case')}: {', '.join(said) or 'nothing to do'}"


# What an outcome means beside others that sound like it.
_MEANS = {
    MEASURED: " (no gate)",
    FAILED: " (by the gate)",
    INCOMPARABLE: " (with the baseline)",
    BROKEN: " (an error)",
}


def _rate_kept(rate_per_s: float) -> str:
    return f"{rate(rate_per_s)}/s"


# Columns, the fields of a record that they show, and how.
_COLUMNS: tuple[tuple[Column, str, Callable[[Any], str]], ...] = (
    (Column("case", Kind.NAME, KEY), "id", str),
    (Column("cpu-tensors"), "cpu_ns", duration),
    (Column("mode", Kind.WORD), "fastest", str),
    (Column("latency"), "fastest_ns", duration),
    (Column("speedup"), "speedup", RATIO.text),
    (Column("CPU time"), "cpu_time_ns", duration),
    (Column("tensors on the device", Kind.WORD), "resident", str),
    (Column("latency on device"), "resident_ns", duration),
    (Column("speedup on device"), "resident_speedup", RATIO.text),
)
_CLAIMS = {"speedup": "faster", "resident_speedup": "resident_faster"}  # a ratio is shown where it is more than chance
_BEST_SHAPE = "best shape"  # of a sweep, of which the other figures are
_OF_SHAPES = (Column(_BEST_SHAPE), "best_shape", str)
_OF_ITEMS = ((Column("items/s"), "item_throughput_per_s", rate), (Column("time per item"), "item_time_ns", duration))
_MORE = (
    (Column("steps"), "steps", str),  # of a loop, whose latency is all of them
    (Column("steps/s"), "step_throughput_per_s", rate),
    (Column("peak inf/s"), "throughput_per_s", rate),
    (Column("clients"), "clients", str),
    (Column("knee"), "knee", str),
    (Column("highest rate in SLO"), "slo_rate", _rate_kept),
    (Column("device memory"), "device_memory_bytes", size),
    (Column("host memory"), "host_memory_bytes", size),
    (Column("energy"), "energy_j", energy),  # of the fastest mode, with --measure-energy
)
_VERDICT = Column("verdict", Kind.WORD)
_TONES = {PASSED: GOOD, FAILED: BAD, BROKEN: BAD, UNCLEAR: model.UNCLEAR}


def case_table(records: Sequence[Record]) -> Table:
    """A row a case; only columns that hold something."""
    if not records:
        return Table((*(column for column, *_ in _COLUMNS), _VERDICT), ())
    of_items = _OF_ITEMS if any(is_batch(record.items) for record in records) else ()
    shown = (*_COLUMNS, _OF_SHAPES, *of_items, *_MORE)
    rows = tuple(
        (
            *(_cell(record, field, show) for _, field, show in shown),
            *_machine_cells(record),
            Cell(record.outcome, _TONES.get(record.outcome, "")),
        )
        for record in records
    )
    return filled(Table((*(column for column, *_ in shown), *_MACHINE, _VERDICT), rows))


def _cell(record: Record, field: str, show: Callable[[Any], str]) -> str:
    claim = getattr(record, _CLAIMS[field]) if field in _CLAIMS else FASTER
    return maybe(getattr(record, field), show) if claim == FASTER else claim or NOTHING


def build(name: str, records: Sequence[Record], folder: str | None = None) -> Report:
    """The summary of a suite; `folder` is where it was saved, which is said in a terminal."""
    notes = _reasons(records)
    last: list[Block] = [Notes(notes)] if notes else []
    last += [HINT, Conclusion(f"suite {name}, {headline(records)}"), SavedIn(folder)]
    across: list[list[Block]] = [[it] for it in (across_eps(records), across_cards(records)) if it is not None]
    tables: list[list[Block]] = [[case_table(records)], *across]
    return Report(f"ortbench suite {name}, {headline(records)}", (*_noise(records), *tables, last))


def verdicts_report(name: str, records: Sequence[Record]) -> Report:
    """What became of the cases, without figures: what stands first on a page."""
    outcomes: dict[str, list[str]] = {}
    for record in records:
        if not record.reason:
            outcomes.setdefault(record.outcome, []).append(record.id)
    plain = [Note(f"{outcome}: {', '.join(ids)}") for outcome, ids in outcomes.items()]
    return Report(f"Suite {name}, {headline(records)}", [[Notes([*plain, *_reasons(records)])]])


def _reasons(records: Sequence[Record]) -> list[Note]:
    """Why cases failed, or are doubtful."""
    doubtful = [Note(f"{it.id}: {it.doubtful}", "!", model.UNCLEAR) for it in records if it.doubtful is not None]
    return [*(_reason(record) for record in records if record.reason), *doubtful]


def _noise(records: Sequence[Record]) -> list[list[Block]]:
    """Which cases were measured on a busy machine; no part where none was."""
    busy = [record for record in records if record.noise is not None]
    if not busy:
        return []
    values: Values = {"busy": len(busy), "cases": len(records), "names": [it.id for it in busy]}
    return [[Findings(shown([Fact("busy-cases", "some", "", values, _QUIETER)]))]]


_QUIETER = 'set wait-quiet = "60s" under [defaults] in the suite\'s file'


def _reason(record: Record) -> Note:
    return Note(record.why(), "✗", BAD) if record.exit_code else Note(record.why())


_CSV_COLUMNS = (
    "id", "model", "ep", "shape", "outcome", "exit_code", "reason", "seconds", "cpu_ns", "fastest", "fastest_ns", "speedup", "cpu_time_ns",
)  # fmt: skip


# Columns that are there where any record has one of them.
_CSV_MORE = (
    ("resident", "resident_ns", "resident_speedup"), ("best_shape",), ("steps", "step_throughput_per_s"), ("throughput_per_s", "clients", "knee", "slo_rate"), ("device_memory_bytes", "host_memory_bytes"), ("energy_j",),
)  # fmt: skip


def csv(records: Sequence[Record]) -> str:
    """The records as CSV, without their checks."""
    names = [*_CSV_COLUMNS]
    if any(is_batch(record.items) for record in records):
        names += ["items", "item_throughput_per_s", "item_time_ns"]
    for more in _CSV_MORE:
        if any(getattr(record, name) is not None for record in records for name in more):
            names += more
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


_MACHINE = (Column("machine", Kind.WORD), Column("GPU", Kind.WORD))  # of a case
_ACROSS = (
    Column("case", Kind.NAME, KEY),
    Column("GPU", Kind.WORD),
    Column("machine", Kind.WORD),
    Column("mode", Kind.WORD),
    Column("latency"),
    Column("peak inf/s"),
)


def is_spread(records: Sequence[Record]) -> bool:
    """Whether a case was on a machine of a cluster."""
    return any(record.node is not None for record in records)


def _machine_cells(record: Record) -> tuple[str, str]:
    return (NOTHING, NOTHING) if record.node is None else (record.node["name"], card_of(record) or NOTHING)


def card_of(record: Record) -> str | None:
    """The card that a case was on, by its name or else by the resources that it was given; None without any."""
    if record.node is None:
        return None
    return record.node["card"] or ", ".join(sorted(record.node["resources"])) or None


def across_cards(records: Sequence[Record]) -> Table | None:
    """The same cases on different cards beside each other; None where there are none."""
    known = [record for record in records if card_of(record) is not None]
    return _across(
        known, lambda record: record.fingerprint, card_of, Column("vs slowest GPU"), "The same cases on different GPUs"
    )


def across_eps(records: Sequence[Record]) -> Table | None:
    """The same model and shape on different EPs of a machine beside each other; None where there are none."""

    def same(record: Record) -> tuple[object, ...]:
        return record.model, record.shape, record.node and record.node["name"], card_of(record)

    return _across(
        records, same, lambda record: record.provider, Column("vs slowest EP"), "The same models on different EPs"
    )


def _across(
    records: Sequence[Record],
    same: Callable[[Record], Hashable],
    of: Callable[[Record], str | None],
    slowest: Column,
    title: str,
) -> Table | None:
    """What is the same but for one thing, such as its GPU; without doubtful figures."""
    groups: dict[Hashable, list[Record]] = {}
    for record in records:
        if _speed(record) is not None and record.doubtful is None:
            groups.setdefault(same(record), []).append(record)
    rows = [row for group in groups.values() if len({*map(of, group)}) > 1 for row in _rows_across(group)]
    return filled(Table((*_ACROSS, slowest), tuple(rows), title=title)) if rows else None


def _rows_across(group: Sequence[Record]) -> list[tuple[str, ...]]:
    speeds = [(_speed(record) or 0.0, record) for record in group]
    slowest = min(speed for speed, _ in speeds)
    return [
        (
            record.id,
            *_machine_cells(record)[::-1],
            record.fastest or NOTHING,
            maybe(record.fastest_ns, duration),
            maybe(record.throughput_per_s, rate),
            RATIO.text(speed / slowest),
        )
        for speed, record in sorted(speeds, key=lambda it: -it[0])
    ]


def _speed(record: Record) -> float | None:
    """Inferences a second in the mode that is shown; None where nothing was measured."""
    if record.throughput_per_s:
        return record.throughput_per_s
    return 1e9 / record.fastest_ns if record.fastest_ns else None
