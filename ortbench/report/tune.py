"""The report of what a search for settings left out; what it left stands side by side (`ortbench.report.comparison`)."""

from __future__ import annotations

from collections.abc import Mapping

from ortbench.core import units
from ortbench.model.modes import CPU_TIME, LATENCY
from ortbench.report.model import BAD, KEY, Column, Kind, Note, Notes, Paragraph, Report, Table, columns, maybe

_COLUMNS = (Column("left out", Kind.NAME, KEY), *columns(Kind.NUMBER, "latency vs first", "CPU time vs first"))


_RATIOS = "Ratios to the default, from the search; above 1 is slower or costs more."


def left_out(found: Mapping[str, Mapping[str, float]], failures: Mapping[str, str]) -> list[Report]:
    """The configurations that were tried and are not among the best, with their figures against the first, the fastest first; and
    those that could not be measured."""
    order = sorted((name for name in found if name not in failures), key=lambda name: found[name].get(LATENCY, 0))
    rows = tuple((name, *(maybe(found[name].get(goal), units.ratio) for goal in (LATENCY, CPU_TIME))) for name in order)
    notes = Notes([Note(f"{name}: {why}", "✗", BAD) for name, why in failures.items()])
    table = [Table(_COLUMNS, rows, title="Left out"), Paragraph(_RATIOS)] if rows else []
    return [Report("ortbench tune: left out", ([*table, notes],))] if rows or failures else []
