"""The summary of a suite: its headline, table, Markdown and CSV."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from csv import DictWriter

from ortbench.gate.limits import FAILED, PASSED, UNCLEAR
from ortbench.report.table import NOTHING, Table, table_markdown
from ortbench.suite.record import BROKEN, INCOMPARABLE, MISSING, SKIPPED, Record
from ortbench.units import duration, ratio


def headline(records: Sequence[Record]) -> str:
    """How many cases came to what."""
    counts = Counter(record.outcome for record in records)
    order = (PASSED, FAILED, UNCLEAR, INCOMPARABLE, BROKEN, MISSING, SKIPPED)
    cases = "1 case" if len(records) == 1 else f"{len(records)} cases"
    return f"{cases}: {', '.join(f'{counts[word]} {word}' for word in order if counts[word]) or 'nothing to do'}"


COLUMNS = ("case", "cpu", "fastest mode", "total", "× cpu", "verdict")


def build(records: Sequence[Record]) -> Table:
    """The summary's table; its notes say why a case did not pass."""
    rows = tuple(
        (
            record.id,
            NOTHING if record.cpu_ns is None else duration(record.cpu_ns),
            record.fastest or NOTHING,
            NOTHING if record.fastest_ns is None else duration(record.fastest_ns),
            NOTHING if record.vs_cpu is None else ratio(record.vs_cpu),
            record.outcome,
        )
        for record in records
    )
    notes = tuple(f"{record.id}: {record.outcome}: {record.reason}" for record in records if record.reason)
    return Table(COLUMNS, rows, notes)


def markdown(name: str, records: Sequence[Record]) -> str:
    """The summary as Markdown."""
    table = build(records)
    lines = [f"# ortbench suite {name}: {headline(records)}", "", table_markdown(table, "", ()), ""]
    lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines).rstrip() + "\n"


CSV_COLUMNS = (
    "id", "model", "ep", "shape", "outcome", "exit_code", "reason", "seconds", "cpu_ns", "fastest", "fastest_ns", "vs_cpu",
)  # fmt: skip


def csv(records: Sequence[Record]) -> str:
    """The records as CSV, without their checks."""
    text = io.StringIO()
    writer = DictWriter(text, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(record.to_dict() for record in records)
    return text.getvalue()
