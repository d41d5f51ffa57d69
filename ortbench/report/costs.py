"""Resource usage, besides time: host CPU, and what features measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.host import cpu_time_ns
from ortbench.core import units
from ortbench.core.features import part_of, passes
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import METRICS, Group
from ortbench.model.modes import CPU_TIME, ENQUEUE, NO_SPIN, SPIN_SHARE
from ortbench.model.result import Case, Result
from ortbench.report import model
from ortbench.report.case_table import Own, figure_table, in_groups

_HOST = [it for it in METRICS.values() if it.group is Group.HOST]
# Those of a pass of its own, and what comes in one: columns that stay together where the terminal is narrow.
_IN_A_PASS = [it.key for it in _HOST if it.key.endswith(NO_SPIN) or it.key == SPIN_SHARE]
_ALWAYS = [it.key for it in _HOST if it.key not in _IN_A_PASS]
# CPU time of single blocks is too short for the system's counting.
CPU_COLUMN = {CPU_TIME: Own(lambda case: model.maybe(cpu_time_ns(case), units.duration))}


def host_blocks(result: Result) -> list[model.Block]:
    """The table; nothing of a result in which nothing of it was taken."""
    table = host_table(result)
    return [table] if table.rows else []


def _work(result: Result) -> str:
    return kind_of(result.kind).work


def host_table(result: Result) -> model.Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    cases = [case for case in _cases(result) if case.host is not None or case.median(ENQUEUE) is not None]
    return figure_table((_ALWAYS, _IN_A_PASS), cases, own=CPU_COLUMN, title="Host CPU")


def _cases(result: Result) -> list[Case]:
    """In the order of the table above."""
    return in_groups(result.at_point())


TITLE = "Resource usage"

# What each of the core is called, and its blocks: a table with what explains it, or none where a result has nothing of it.
_COSTS: tuple[tuple[str, Callable[[Result], Sequence[model.Block]]], ...] = (("host CPU per {work}", host_blocks),)


def cost_parts(result: Result) -> list[list[model.Block]]:
    """A part of a report for each kind of cost that a result has, with its title."""
    per, cases = {"work": _work(result)}, result.at_point()
    of_features = (
        (it.key, part_of(feature, "report", "cost_blocks"))
        for feature, it in passes().values()
        if any(it.key in case.own for case in cases)
    )
    return [
        [model.Title(f"{TITLE}: {name.format(**per)}"), *blocks]
        for name, build in (*_COSTS, *of_features)
        if (blocks := build(result))
    ]
