"""The summary of a suite: its headline, report and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ortbench.analysis.items import is_batch
from ortbench.analysis.speedups import FASTER
from ortbench.core.parts import plain
from ortbench.core.units import count, duration, energy, rate, size
from ortbench.facts import Fact, Values
from ortbench.facts.run import findings_of
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.suite.job.record import BROKEN, INCOMPARABLE, MEASURED, MISSING, SKIPPED, Record
from ortbench.model.metrics import RATIO
from ortbench.report import model
from ortbench.report.model import (
    KEY,
    NOTHING,
    Block,
    Column,
    Kind,
    Note,
    Notes,
    Report,
    Table,
    drop_empty_columns,
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
_OF_ITEMS = ((Column("items/s"), "item_throughput_per_s", rate), (Column("time per item"), "item_time_ns", duration))
_MORE = (
    (Column("steps"), "steps", str),  # of a loop, whose latency is all of them
    (Column("steps/s"), "step_throughput_per_s", rate),
    (Column("peak inf/s"), "throughput_per_s", rate),
    (Column("clients"), "clients", str),
    (Column("knee"), "knee", str),
    (Column("highest rate in SLO"), "slo_rate", lambda per_s: f"{rate(per_s)}/s"),
    (Column("device memory"), "device_memory_bytes", size),
    (Column("host memory"), "host_memory_bytes", size),
    (Column("energy"), "energy_j", energy),  # of the fastest mode, with --measure-energy
)
_TONES = {PASSED: model.GOOD, FAILED: model.BAD, BROKEN: model.BAD, UNCLEAR: model.UNCLEAR}
_MACHINE = (Column("machine", Kind.WORD), Column("GPU", Kind.WORD))  # of a case


def case_table(records: Sequence[Record]) -> Table:
    """A row a case; only columns that hold something."""
    of_items = _OF_ITEMS if any(is_batch(record.items) for record in records) else ()
    columns = (*_COLUMNS, (Column(_BEST_SHAPE), "best_shape", str), *of_items, *_MORE)
    rows = tuple(
        (
            *(_cell(record, field, show) for _, field, show in columns),
            *_machine_cells(record),
            model.Cell(record.outcome, _TONES.get(record.outcome, "")),
        )
        for record in records
    )
    return drop_empty_columns(
        Table((*(column for column, *_ in columns), *_MACHINE, Column("verdict", Kind.WORD)), rows)
    )


def _cell(record: Record, field: str, show: Callable[[Any], str]) -> str:
    claim = getattr(record, _CLAIMS[field]) if field in _CLAIMS else FASTER
    return maybe(getattr(record, field), show) if claim == FASTER else claim or NOTHING


def build(name: str, records: Sequence[Record], folder: str | None = None) -> Report:
    """The summary of a suite; `folder` is where it was saved, which is said in a terminal."""
    notes = _reasons(records)
    last: list[Block] = [Notes(notes)] if notes else []
    last += [HINT, model.Conclusion(f"suite {name}, {headline(records)}"), model.SavedIn(folder)]
    across: list[list[Block]] = [[it] for it in (across_eps(records), across_cards(records)) if it is not None]
    tables: list[list[Block]] = [[case_table(records)], *across] if records else []
    return Report(f"ortbench suite {name}, {headline(records)}", (*_noise(records), *tables, last))


def verdicts_report(name: str, records: Sequence[Record]) -> Report:
    """What became of the cases, without figures: what stands first on a page."""
    outcomes: dict[str, list[str]] = {}
    for record in records:
        if not record.reason:
            outcomes.setdefault(record.outcome, []).append(record.id)
    notes = [Note(f"{outcome}: {', '.join(ids)}") for outcome, ids in outcomes.items()]
    return Report(f"Suite {name}, {headline(records)}", [[Notes([*notes, *_reasons(records)])]])


def _reasons(records: Sequence[Record]) -> list[Note]:
    """Why cases failed, or are doubtful."""
    reasons = [
        Note(record.explain_outcome(), *(("✗", model.BAD) if record.exit_code else ()))
        for record in records
        if record.reason
    ]
    doubtful = [
        Note(f"{record.id}: {record.doubtful}", "!", model.UNCLEAR) for record in records if record.doubtful is not None
    ]
    return [*reasons, *doubtful]


def _noise(records: Sequence[Record]) -> list[list[Block]]:
    """Which cases were measured on a busy machine; no part where none was."""
    busy = [record.id for record in records if record.noise is not None]
    if not busy:
        return []
    values: Values = {"busy": len(busy), "cases": len(records), "names": busy}
    quieter = 'set wait-quiet = "60s" under [defaults] in the suite\'s file'
    return [[model.Findings(findings_of([Fact("busy-cases", "some", "", values, quieter)]))]]


_CSV_COLUMNS = (
    "id", "model", "ep", "shape", "outcome", "exit_code", "reason", "seconds", "cpu_ns", "fastest", "fastest_ns", "speedup", "cpu_time_ns",
)  # fmt: skip
_CSV_ITEMS = ("items", "item_throughput_per_s", "item_time_ns")
# Columns that are there where any record has something in them.
_CSV_MORE = (
    "resident", "resident_ns", "resident_speedup", "best_shape", "steps", "step_throughput_per_s", "throughput_per_s", "clients", "knee",
    "slo_rate", "device_memory_bytes", "host_memory_bytes", "energy_j", "node", "address", "card", "driver",
)  # fmt: skip


def csv(records: Sequence[Record]) -> str:
    """The records as CSV, without their checks."""
    rows = [plain(record) | {"items": record.items and record.items["count"]} for record in records]
    for row in rows:
        if node := row.pop("node"):
            row |= {"node": node["name"], "address": node["address"], "card": node["card"], "driver": node["driver"]}
    of_items = _CSV_ITEMS if any(is_batch(record.items) for record in records) else ()
    more = [name for name in _CSV_MORE if any(row.get(name) is not None for row in rows)]
    return csv_text([*_CSV_COLUMNS, *of_items, *more], rows)


def _machine_cells(record: Record) -> tuple[str, str]:
    return (NOTHING, NOTHING) if record.node is None else (record.node["name"], card_of(record) or NOTHING)


def card_of(record: Record) -> str | None:
    """The card that a case was on, by its name or else by the resources that it was given; None without any."""
    if record.node is None:
        return None
    return record.node["card"] or ", ".join(sorted(record.node["resources"])) or None


def across_cards(records: Sequence[Record]) -> Table | None:
    """The same cases on different cards beside each other; None where there are none."""
    groups = [(record.fingerprint, card, record) for record in records if (card := card_of(record)) is not None]
    return _across(groups, Column("vs slowest GPU"), "The same cases on different GPUs")


def across_eps(records: Sequence[Record]) -> Table | None:
    """The same model and shape on different EPs of a machine beside each other; None where there are none."""
    groups = [((it.model, it.shape, it.node and it.node["name"], card_of(it)), it.provider, it) for it in records]
    return _across(groups, Column("vs slowest EP"), "The same models on different EPs")


def _across(cases: Sequence[tuple[Hashable, str | None, Record]], slowest: Column, title: str) -> Table | None:
    """Records that are the same but for one thing, such as the GPU, without doubtful figures; of each what is the same, and the thing."""
    groups: dict[Hashable, list[tuple[float, str | None, Record]]] = {}
    for same, thing, record in cases:
        per_s = record.throughput_per_s or (1e9 / record.fastest_ns if record.fastest_ns else None)
        if per_s and record.doubtful is None:
            groups.setdefault(same, []).append((per_s, thing, record))
    rows = [
        (
            record.id,
            *_machine_cells(record)[::-1],
            record.fastest or NOTHING,
            maybe(record.fastest_ns, duration),
            maybe(record.throughput_per_s, rate),
            RATIO.text(speed / min(speed for speed, *_ in group)),
        )
        for group in groups.values()
        if len({thing for _, thing, _ in group}) > 1
        for speed, _, record in sorted(group, key=lambda it: -it[0])
    ]
    columns = (Column("case", Kind.NAME, KEY), *_MACHINE[::-1], Column("mode", Kind.WORD), Column("latency"))
    return (
        drop_empty_columns(Table((*columns, Column("peak inf/s"), slowest), tuple(rows), title=title)) if rows else None
    )
