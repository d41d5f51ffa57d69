"""The tables of the default screen, by kind: the most important columns of the whole tables, eight at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.residency import is_on_host
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU
from ortbench.model.result import Case, Result
from ortbench.report.case_table import Own
from ortbench.report.model import NOTHING, Table
from ortbench.report.run import mode_table
from ortbench.report.screens.narrow import narrowed

_PLACES = 1  # of a per cent, of what an interval reaches
_OF_TOKENS = ("TTFT", "ITL", "prefill tokens/s", "decode tokens/s", "speedup")


def _only(table: Table, names: Sequence[str]) -> Table:
    """A table with its key and as many of some columns as fit a screen, the most important ones first; each name once, without a title."""
    at_name = {it.name: at for at, it in reversed(list(enumerate(table.columns)))}
    return replace(narrowed(table, [at_name[name] for name in names if name in at_name]), title="")


def _speedup(case: Case) -> str:
    """A speedup, and how far its interval reaches at most."""
    if case.speedup is None or case.mode == CPU:
        return "1.00×" if case.mode == CPU else NOTHING
    value, ends = case.speedup.value, case.speedup.ci95
    reach = "" if ends is None else f" ±{max(ends[1] - value, value - ends[0]) / value:.{_PLACES}%}"
    return f"{units.times(value)}{reach}{'?' * case.noisy}"


def _of_modes(result: Result) -> list[Table]:
    names = _OF_TOKENS if result.generation else kind_of(result.kind).view().screen
    table = part_of(result.kind, "report", "mode_table", mode_table)(result, {"speedup": Own(_speedup)})
    return [_only(table, [it for it in names if it != "copies" or not is_on_host(result)])]


def tables_of(result: Result) -> list[Table]:
    by_axis = part_of(result.kind, "report", "axis_tables")
    if by_axis is None:
        return _of_modes(result)
    kind = kind_of(result.kind)
    return [_only(table, kind.view((axis,)).screen) for axis, table in by_axis(result).items() if table.rows]
