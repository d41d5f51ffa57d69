"""What shapes of a sweep cost besides time, where one was asked for that: a row for each mode of each shape."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.host import cpu_time_ns
from ortbench.core import units
from ortbench.model.modes import ALL_MODES, CPU_TIME, DEVICE_MEMORY, ENERGY, HOST_MEMORY, NO_SPIN, SPIN_SHARE
from ortbench.model.result import Case, Point, Result
from ortbench.report.cells import cell, cells
from ortbench.report.model import (
    KEY,
    NOTHING,
    Block,
    Column,
    Kind,
    Note,
    Notes,
    Paragraph,
    Table,
    columns,
    filled,
)

_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("shape", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "CPU time", "spinning", "without", group=1),
    *columns(Kind.NUMBER, "device memory", "host memory", group=2),
    *columns(Kind.NUMBER, "energy/run", "power", "items/J", group=3),
)
_CPU_STILL = f"{CPU_TIME}_{NO_SPIN}"
_MEMORY = "memory: each shape and mode alone, in a worker of its own after the measurement."
_ENERGY = "energy/run: in a stretch of runs after the measurement, less the idle draw beside it."
_SPIN = "spinning: what threads that wait for work take of the CPU time; without: of runs, in sessions of their own, that do not."


def shape_blocks(result: Result) -> list[Block]:
    """The table with what it says and what is not known; nothing of what is no sweep or was not asked for it."""
    asked = [
        (shape, case)
        for mode in ALL_MODES
        for shape in result.shapes
        for case in result.at_point(shape.point)
        if case.mode == mode and _is_asked(case)
    ]
    if not asked:
        return []
    found: list[Block] = []
    table = filled(Table(_COLUMNS, tuple(_row(shape, case) for shape, case in asked), title="What shapes cost"))
    if len(table.columns) > 2:
        found.append(table)
    shown = {column.name for column in table.columns}
    said = [
        text
        for text, of in ((_SPIN, "spinning"), (_MEMORY, "host memory"), (_ENERGY, "energy/run"))
        if of in shown or (of == "host memory" and "device memory" in shown)
    ]
    if said:
        found.append(Paragraph(" ".join(said)))
    if notes := _lacking(asked):
        found.append(Notes(notes))
    return found


def _is_asked(case: Case) -> bool:
    return case.memory is not None or case.energy is not None or _CPU_STILL in case.metrics


def _row(shape: Point, case: Case) -> tuple[str, ...]:
    spent, per_joule = cpu_time_ns(case) if _CPU_STILL in case.metrics else None, case.value("items_per_joule")
    return (
        case.mode,
        shape.name,
        NOTHING if spent is None else units.duration(spent),
        cell(case, SPIN_SHARE, mark=True),
        *cells(case, (_CPU_STILL, DEVICE_MEMORY, HOST_MEMORY, ENERGY, "power")),
        NOTHING if per_joule is None else units.rate(per_joule),
    )


def _lacking(asked: Sequence[tuple[Point, Case]]) -> list[Note]:
    """What could not be measured, each reason once, with the shapes and modes that it is of where those are not all."""
    why: dict[str, list[str]] = {}
    for shape, case in asked:
        of = f"{shape.name} with {case.mode}"
        if case.memory is not None and case.memory["failed"] is not None:
            why.setdefault(f"memory could not be measured: {case.memory['failed']}", []).append(of)
        if case.energy is not None and "unsupported" in case.energy:
            why.setdefault(f"energy is unsupported: {case.energy['unsupported']}", []).append(of)
    return [
        Note(reason if len(cases) == len(asked) else f"{', '.join(cases)}: {reason}", "!", "unclear")
        for reason, cases in why.items()
    ]
