"""What shapes of a sweep cost besides time, where one was asked for that: a row for each mode of each shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortbench import units
from ortbench.analysis.host import cpu_time_ns, spin_share
from ortbench.analysis.memory import DEVICE, HOST, figure
from ortbench.modes import ALL_MODES
from ortbench.report.model import (
    DERIVED,
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
from ortbench.result import Case, Point, Result

_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("shape", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "CPU time", "spinning", "without", group=1),
    *columns(Kind.NUMBER, "device memory", "host memory", group=2),
    *columns(Kind.NUMBER, "energy/run", "power", "items/J", group=3),
)
_MEMORY = "memory: each shape and mode alone, in a worker of its own after the measurement."
_ENERGY = "energy/run: in a stretch of runs after the measurement, less the idle draw beside it."
_SPIN = "spinning: what threads that wait for work take of the CPU time; without: of runs, in sessions of their own, that do not."


def shape_blocks(result: Result) -> list[Block]:
    """The table with what it says and what is not known; nothing of what is no sweep or was not asked for it."""
    asked = [(point, case) for point, case in _by_mode(result.points or []) if _is_asked(case)]
    if not asked:
        return []
    found: list[Block] = []
    table = filled(Table(_COLUMNS, tuple(_row(point, case) for point, case in asked), title="What shapes cost"))
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


def _by_mode(points: Sequence[Point]) -> Iterator[tuple[Point, Case]]:
    """Mode by mode the shapes that have it."""
    return ((point, case) for mode in ALL_MODES for point in points for case in point.cases if case.mode == mode)


def _is_asked(case: Case) -> bool:
    return case.memory is not None or case.energy is not None or case.spin is not None


def _row(point: Point, case: Case) -> tuple[str, ...]:
    return (case.mode, point.name, *_host_cells(case), *_memory_cells(case), *_energy_cells(point, case))


def _host_cells(case: Case) -> tuple[str, str, str]:
    part = spin_share(case)
    if case.host is None or case.spin is None or part is None:
        return NOTHING, NOTHING, NOTHING
    spent, still = (units.duration(cpu_time_ns(it)) for it in (case.host, case.spin))
    return spent, f"{DERIVED}{units.share(part)}", still


def _memory_cells(case: Case) -> tuple[str, ...]:
    sizes = (figure(case, side) for side in (DEVICE, HOST))
    return tuple(NOTHING if size is None else units.size(size) for size in sizes)


def _energy_cells(point: Point, case: Case) -> tuple[str, str, str]:
    found = case.energy
    if found is None or "joules" not in found:
        return NOTHING, NOTHING, NOTHING
    rate = found["runs_per_joule"]
    items = NOTHING if rate is None or point.items is None else units.rate(rate * point.items["count"])
    return units.energy(found["joules"]), f"{units.digits(found['watts'], most=2)} W", items


def _lacking(asked: Sequence[tuple[Point, Case]]) -> list[Note]:
    """What could not be measured, each reason once, with the shapes and modes that it is of where those are not all."""
    why: dict[str, list[str]] = {}
    for point, case in asked:
        of = f"{point.name} with {case.mode}"
        if case.memory is not None and case.memory["failed"] is not None:
            why.setdefault(f"memory could not be measured: {case.memory['failed']}", []).append(of)
        if case.energy is not None and "unsupported" in case.energy:
            why.setdefault(f"energy is unsupported: {case.energy['unsupported']}", []).append(of)
    return [
        Note(reason if len(cases) == len(asked) else f"{', '.join(cases)}: {reason}", "!", "unclear")
        for reason, cases in why.items()
    ]
