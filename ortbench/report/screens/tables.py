"""The tables of the default screen, by kind: the most important columns of the whole tables, eight at most, and ten rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ortbench.analysis.loads.levels import modes_of
from ortbench.analysis.residency import is_on_host
from ortbench.core import units
from ortbench.facts.sweep import best_shapes
from ortbench.model.modes import CPU
from ortbench.model.result import CHAIN, LOAD, LOOP, RUN, SOAK, START, SWEEP, Case, Result
from ortbench.report import load, sweep
from ortbench.report.case_table import Own
from ortbench.report.model import KEY, NOTHING, Table
from ortbench.report.run import mode_table
from ortbench.report.screens.brief import GAP, WIDTH

_MOST_ROWS = 8
_PLACES = 1  # of a per cent, of what an interval reaches
# The columns of a table of modes, by kind; those of a loop that generates are others.
_COLUMNS = {
    RUN: ("latency", "p95", "p99", "speedup", "copies", "inf/s"),
    LOOP: ("loop", "p95", "speedup", "step", "steps/s", "state/step"),
    CHAIN: ("chain", "p95", "p99", "speedup", "chains/s", "copied/chain"),
    START: ("time to ready", "import", "EP load", "session", "1st inference"),
    SOAK: ("latency", "p99", "inferences", "private memory at start", "at end"),
    SWEEP: ("latency", "p95", "speedup", "items/s", "best", "SLO"),
}
_OF_TOKENS = ("TTFT", "ITL", "prefill tokens/s", "decode tokens/s", "speedup")
_OF_CLIENTS = ("inf/s", "sequences/s", "tokens/s", "latency", "p99", "SLO", "CPU cores", "scaling")
_OF_RATES = ("latency", "p99", "SLO", "CPU cores", "utilisation", "mean queue delay")


def _only(table: Table, names: Sequence[str]) -> Table:
    """A table with its key and as many of some columns as fit 80 characters, the most important ones first; each name once, in one piece."""
    at_name = {it.name: at for at, it in reversed(list(enumerate(table.columns)))}
    key = [at for at, it in enumerate(table.columns) if it.group == KEY]
    wanted = [at_name[name] for name in names if name in at_name]
    while wanted and _width(table, [*key, *wanted]) > WIDTH:
        wanted.pop()
    kept = sorted([*key, *wanted])
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    columns = tuple(table.columns[at]._replace(group=min(table.columns[at].group, 1)) for at in kept)
    return replace(table, columns=columns, rows=rows, bars=table.bars if len(rows) > 1 else [], title="")


def _width(table: Table, columns: Sequence[int]) -> int:
    cells = [max([len(table.columns[at].name), *(len(row[at]) for row in table.rows)]) for at in columns]
    return sum(cells) + GAP * (len(cells) - 1)


def _few_rows(table: Table, keep: Callable[[tuple[str, ...]], bool]) -> Table:
    """A table of many rows with those that matter most, and how many there are more."""
    if len(table.rows) <= _MOST_ROWS:
        return table
    rows = tuple(row for row in table.rows if keep(row))[:_MOST_ROWS]
    left = len(table.rows) - len(rows)
    return replace(table, rows=rows, bars=(), groups=(), rest=f"{units.count(left, 'more row')}: -v")


def _speedup(case: Case) -> str:
    """A speedup, and how far its interval reaches at most."""
    if case.speedup is None or case.mode == CPU:
        return "1.00×" if case.mode == CPU else NOTHING
    value, ends = case.speedup.value, case.speedup.ci95
    reach = "" if ends is None else f" ±{max(ends[1] - value, value - ends[0]) / value:.{_PLACES}%}"
    return f"{units.times(value)}{reach}{'?' * case.noisy}"


def _of_modes(result: Result) -> list[Table]:
    names = _OF_TOKENS if result.generation else _COLUMNS[result.kind]
    table = mode_table(result, {"speedup": Own(_speedup)})
    return [_only(table, [it for it in names if it != "copies" or not is_on_host(result)])]


def _of_shapes(result: Result) -> list[Table]:
    """Of many modes `cpu-tensors` and the best one."""
    table = _only(sweep.mode_table(result, {"speedup": Own(_speedup)}), _COLUMNS[SWEEP])
    best = {CPU, *(mode for mode, _ in best_shapes(result)[:1])}
    return [_few_rows(table, lambda row: row[0] in best)]


def _of_load(result: Result) -> list[Table]:
    """By clients and by rate; of many rows those of the first mode."""
    tables = [(load.closed_table(result), _OF_CLIENTS), (load.open_table(result), _OF_RATES)]
    first = modes_of(result)[:1]
    return [_few_rows(_only(table, names), lambda row: row[0] in first) for table, names in tables if table.rows]


TABLES: dict[str, Callable[[Result], list[Table]]] = {
    **dict.fromkeys((RUN, LOOP, CHAIN, START, SOAK), _of_modes),
    SWEEP: _of_shapes,
    LOAD: _of_load,
}
