"""Resource usage, besides time: host CPU, and what features measure."""

from __future__ import annotations

from ortbench.analysis.resource_usage import cpu_time_ns
from ortbench.core import units
from ortbench.core.features import part_of, passes
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import METRICS, Group
from ortbench.model.modes import CPU_TIME, ENQUEUE, NO_SPIN, SPIN_SHARE
from ortbench.model.result import Result
from ortbench.report import model
from ortbench.report.case_table import Own, figure_table, in_groups

_HOST = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_IN_A_PASS = [it.key for it in _HOST if it.key.endswith(NO_SPIN) or it.key == SPIN_SHARE]
_ALWAYS = [it.key for it in _HOST if it.key not in _IN_A_PASS]
# CPU time of single blocks is too short for the system's counting.
CPU_COLUMN = {CPU_TIME: Own(lambda case: model.maybe(cpu_time_ns(case), units.duration))}


TITLE = "Resource usage"


def host_table(result: Result) -> model.Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    cases = in_groups([it for it in result.at_point() if it.host is not None or it.median(ENQUEUE) is not None])
    return figure_table((_ALWAYS, _IN_A_PASS), cases, own=CPU_COLUMN, title="Host CPU")


def cost_parts(result: Result) -> list[list[model.Block]]:
    """A part of a report for each kind of cost that a result has, with its title."""
    table, parts = host_table(result), []
    if table.rows:
        parts.append([model.Title(f"{TITLE}: host CPU per {kind_of(result.kind).work}"), table])
    for feature, it in passes().values():
        has_it = any(it.key in case.own for case in result.at_point())
        if has_it and (blocks := part_of(feature, "report", "cost_blocks")(result)):
            parts.append([model.Title(f"{TITLE}: {it.key}"), *blocks])
    return parts
