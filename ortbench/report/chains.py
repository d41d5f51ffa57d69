"""The tables of a chain: by mode the whole of it, by stage what it takes in each mode, and the links."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.steps_and_stages import LINKED, crosses, crossing_ns
from ortbench.core import units
from ortbench.core.stats import Stats
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import Chain, ChainLink, ChainStage
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns, filled
from ortbench.report.words import mode_name, ratio_cells, stage_place

_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("chain", Kind.TIME, 1),
    *columns(Kind.NUMBER, "speedup", "95% CI", group=2),
    *columns(Kind.NUMBER, "samples", "chains/s", "copied/chain", group=3),
)
_STAGE_COLUMNS = (
    Column("stage", Kind.NAME, KEY),
    Column("steps", Kind.NUMBER, KEY),
    Column("on", Kind.WORD, 1),
)
_LINK_COLUMNS = (
    Column("link", Kind.NAME, KEY),
    Column("bytes", Kind.NUMBER, 1),
    Column("with device-resident", Kind.WORD, 1),
    Column("through the host", Kind.NUMBER, 1),
    Column("why", Kind.WORDS, 2),
)
STAYS, COPIED, ON_HOST = "stays", "copied", "in host memory"


def chain_table(result: Result) -> Table:
    """The table of a chain: a row for each mode that was measured; only columns that hold something."""
    shown = _shown(result)
    unit, scale = units.time_unit(max((case.median(LATENCY) or 1 for case in shown), default=1))
    return filled(Table(_COLUMNS, tuple(_row(case, scale) for case in shown), unit, title="Table"))


def _shown(result: Result) -> list[Case]:
    return [case for case in result.cases if case.stats(LATENCY) is not None]


def _row(case: Case, scale: float) -> tuple[str, ...]:
    total = case.stats(LATENCY)
    assert total is not None
    copied = None if case.bytes_h2d is None or case.bytes_d2h is None else case.bytes_h2d + case.bytes_d2h
    return (
        mode_name(case),
        units.time(total.median, scale),
        *ratio_cells(case),
        str(total.n),
        units.rate(1e9 / max(total.median, 1)),
        NOTHING if copied is None else units.size(copied) if copied else "0",
    )


def stage_table(result: Result) -> Table:
    """A row for each stage: what it takes in each mode, its fence at its end."""
    chain: Chain = result.part
    shown = [case for case in _shown(result) if case.stages]
    every = [stats.median for case in shown for stats in case.stages.values()]
    unit, scale = units.time_unit(max(every, default=1))
    headed = [
        (Column(mode_name(case), Kind.TIME, at), Column("95% CI", Kind.NUMBER, at)) for at, case in enumerate(shown, 2)
    ]
    rows = tuple(_stage_row(stage, shown, scale, result) for stage in chain["stages"])
    every_column = (*_STAGE_COLUMNS, *(column for pair in headed for column in pair))
    return filled(Table(every_column, rows, unit, title="Stages"))


def _stage_row(stage: ChainStage, cases: Sequence[Case], scale: float, result: Result) -> tuple[str, ...]:
    times = [cell for case in cases for cell in _time_cells(case.stages.get(stage["name"]), scale)]
    steps = str(stage["repeat"]) if stage["repeat"] > 1 else NOTHING
    return stage["name"], steps, stage_place(stage, result), *times


def _time_cells(stats: Stats | None, scale: float) -> tuple[str, str]:
    if stats is None:
        return NOTHING, NOTHING
    return units.time(stats.median, scale), "–".join(units.time(end, scale) for end in stats.ci95)


def link_table(result: Result) -> Table:
    """A row for each link: its bytes, whether it stays, and what it costs through the host."""
    chain: Chain = result.part
    case = next((case for case in result.cases if case.mode == LINKED), None)
    is_there = case is not None and case.status == OK
    rows = tuple(_link_row(link, is_there) for link in chain["links"])
    return filled(Table(_LINK_COLUMNS, rows, title="Links"))


def _link_row(link: ChainLink, is_measured: bool) -> tuple[str, ...]:
    cost = crossing_ns(link) if crosses(link) else None
    state = ON_HOST if not crosses(link) else STAYS if link["stays"] else COPIED
    return (
        f"{link['from']} → {link['to']}",
        units.size(link["bytes"]),
        state if is_measured else NOTHING,
        NOTHING if cost is None else units.duration(cost),
        link["why"] or NOTHING,
    )
