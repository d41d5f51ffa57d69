"""The tables of the default screen, by kind: the most important columns of the whole tables, eight at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ortbench.analysis.residency import is_on_host
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU
from ortbench.model.result import CHAIN, LOAD, LOOP, RUN, Case, Result
from ortbench.report import load
from ortbench.report.case_table import Own
from ortbench.report.model import NOTHING, Table
from ortbench.report.run import mode_table
from ortbench.report.screens.narrow import narrowed

_PLACES = 1  # of a per cent, of what an interval reaches
_OF_TOKENS = ("TTFT", "ITL", "prefill tokens/s", "decode tokens/s", "speedup")
_OF_CLIENTS = ("inf/s", "sequences/s", "tokens/s", "latency", "p99", "SLO", "CPU cores", "scaling")
_OF_RATES = ("latency", "p99", "SLO", "CPU cores", "utilisation", "mean queue delay")


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


def _of_load(result: Result) -> list[Table]:
    """By clients and by rate."""
    tables = [(load.closed_table(result), _OF_CLIENTS), (load.open_table(result), _OF_RATES)]
    return [_only(table, names) for table, names in tables if table.rows]


_TABLES: dict[str, Callable[[Result], list[Table]]] = {
    **dict.fromkeys((RUN, LOOP, CHAIN), _of_modes),
    LOAD: _of_load,
}


def tables_of(result: Result) -> list[Table]:
    return _TABLES.get(result.kind, _of_modes)(result)
