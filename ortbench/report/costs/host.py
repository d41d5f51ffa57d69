"""The host's own work: every metric of it that the catalogue has."""

from __future__ import annotations

from ortbench.analysis.comparing.series import value_of
from ortbench.analysis.host import cpu_time_ns
from ortbench.model.metrics import METRICS, Figure, Group, Metric
from ortbench.model.modes import CPU_TIME, ENQUEUE, SPIN_SHARE
from ortbench.model.result import Case, Result
from ortbench.report.model import DERIVED, KEY, MARKDOWN, NOTHING, Block, Column, Kind, Paragraph, Table, filled
from ortbench.report.words import hint, mode_name

_METRICS = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_APART = {it.key for it in _METRICS if it.key.endswith("spin_off")} | {SPIN_SHARE}


def host_blocks(result: Result) -> list[Block]:
    """The table with what its columns mean; nothing of a result in which nothing of it was taken."""
    table = host_table(result)
    if not table.rows:
        return []
    shown = {column.name for column in table.columns}
    said = [f"{it.title}: {it.meaning}" for it in _METRICS if it.title in shown]
    first = [it.title for it in _METRICS if it.title in shown][:3]
    return [table, Paragraph(" ".join(said), media=MARKDOWN), hint(*first)]


def host_table(result: Result) -> Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    shown = [case for case in result.at_point() if case.host is not None or case.median(ENQUEUE) is not None]
    # Each in its own unit: a call returns in microseconds where a run takes milliseconds.
    headed = [Column(it.title, Kind.NUMBER, 3 if it.key in _APART else 2) for it in _METRICS]
    rows = tuple((mode_name(case), *(_cell(case, it) for it in _METRICS)) for case in shown)
    return filled(Table((Column("mode", Kind.NAME, KEY), *headed), rows, title="Host CPU"))


def _cell(case: Case, metric: Metric) -> str:
    # CPU time of single blocks is too short for the system's counting.
    value = cpu_time_ns(case) if metric.key == CPU_TIME else value_of(case, Figure(metric.key, metric.usual))
    mark = DERIVED if metric.key == SPIN_SHARE else ""
    show = metric.unit.cell if metric.unit.heading in metric.title else metric.unit.text
    return NOTHING if value is None else f"{mark}{show(value)}"
