"""The report of a sweep: by mode a table of its shapes, the shapes themselves, and what switching between them costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench import units
from ortbench.analysis.advice import copy_share, sentences
from ortbench.analysis.points import alone
from ortbench.analysis.sweep import failures, has_a_cost, keeps
from ortbench.modes import ALL_MODES, CPU, TOTAL, is_rate
from ortbench.report.costs.section import cost_parts
from ortbench.report.model import (
    BAD,
    DERIVED,
    KEY,
    MARKDOWN,
    NOTHING,
    TERMINAL,
    UNCLEAR,
    Block,
    Column,
    Command,
    Heading,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    SavedIn,
    Table,
    columns,
    filled,
)
from ortbench.report.words import heading, hint, ratio_cells, result_name, warnings
from ortbench.result import FAILED, UNSUPPORTED, Case, Point, Result
from ortbench.schema import BestPoint, Switching
from ortbench.slo import Slo, slo_of

BEST, TIE = "best", "as good"
_KEPT = {True: "kept", False: "broken", None: "too few runs"}
_SHAPE = Column("shape", Kind.NAME, KEY)
_COLUMNS = (
    _SHAPE,
    Column("total", Kind.TIME, 1),
    *columns(Kind.NUMBER, "per item", "items/s", group=1),
    Column("best", Kind.WORD, 1),
    *columns(Kind.NUMBER, "vs cpu", "95 %", "copies", group=2),
    *columns(Kind.NUMBER, "p95", "p99", group=3),
    Column("SLO", Kind.WORD, 3),
    Column("runs", Kind.NUMBER, 3),
)
_SHAPES = (_SHAPE, *columns(Kind.NUMBER, "items", "inputs", "outputs", "first run", "× later", group=1))
_SWITCHING = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "switching", "95 %", "adds/call", group=1),
    Column("most with", Kind.WORDS, 2),
)
WHAT_SWITCHING_IS = "switching: calls that each have another shape, against one shape at a time."


def mode_tables(result: Result) -> list[Table]:
    """A table for each mode that was measured: a row for each shape; only columns that hold something."""
    points = result.points or []
    modes = [mode for mode in ALL_MODES if any(_is_measured(case) for point in points if (case := point.case(mode)))]
    return [_of_mode(result, points, mode) for mode in modes]


def _is_measured(case: Case) -> bool:
    return case.phases[TOTAL] is not None


def _of_mode(result: Result, points: Sequence[Point], mode: str) -> Table:
    shown = [(number, point, case) for number, point in enumerate(points) if (case := _case(point, mode)) is not None]
    unit, scale = units.time_unit(max(case.median(TOTAL) or 1 for _, _, case in shown))
    best, slo = result.best and result.best["modes"].get(mode), slo_of(result.sweep)
    rows = tuple(
        _row(alone(result, point), point, case, _mark(number, best), slo, scale) for number, point, case in shown
    )
    return filled(Table(_COLUMNS, rows, unit, title=mode))


def _case(point: Point, mode: str) -> Case | None:
    """The case of a mode that has been measured; one that failed keeps what was."""
    return next((case for case in point.cases if case.mode == mode and _is_measured(case)), None)


def _mark(number: int, best: BestPoint | None) -> str:
    if best is None:
        return NOTHING
    return BEST if number == best["point"] else TIE if number in best["ties"] else NOTHING


def _row(result: Result, point: Point, case: Case, best: str, slo: Slo | None, scale: float) -> tuple[str, ...]:
    total = case.phases[TOTAL]
    assert total is not None
    tails = not is_rate(case.mode, TOTAL)
    by_item = case.throughput
    return (
        point.name if case.status != FAILED else f"{point.name} (failed)",
        units.time(total.median_ns, scale),
        NOTHING if by_item is None else units.duration(by_item["item_ns"]),
        NOTHING if by_item is None else units.rate(by_item["items_per_s"]),
        best,
        *ratio_cells(case),
        _copies(result, case),
        *(
            _tail(name, limit, total.n, getattr(total, f"{name}_ns"), tails)
            for name, limit in (("p95", 20), ("p99", 100))
        ),
        NOTHING if slo is None or not tails else _KEPT[keeps(case, slo)],
        str(total.n * case.inferences(TOTAL)),
    )


def _tail(name: str, needed: int, n: int, ns: int, there: bool) -> str:
    return units.duration(ns) if there and n >= needed else NOTHING


def _copies(result: Result, case: Case) -> str:
    """The share of copies: with CPU tensors what the difference says, else the sum of the copies that were timed apart."""
    if case.mode == CPU:
        share = copy_share(result)
        return NOTHING if share is None else f"{DERIVED}{units.share(share)}"
    copies, total = case.copy_ns(), case.median(TOTAL)
    if copies is None or not total or is_rate(case.mode, TOTAL):
        return NOTHING
    return f"{DERIVED}{units.share(min(copies / total, 1.0))}"


def shape_table(result: Result) -> Table:
    """The shapes: their items and bytes, and what the first run of each took."""
    rows = tuple(_shape_row(point) for point in result.points or [] if point.inputs)
    return filled(Table(_SHAPES, rows, title="Shapes"))


def _shape_row(point: Point) -> tuple[str, ...]:
    cpu = point.case(CPU)
    later = None if cpu is None else cpu.median(TOTAL)
    first = point.first_run_ns
    return (
        point.name,
        NOTHING if point.items is None else str(point.items["count"]),
        *(units.size(sum(it["bytes"] or 0 for it in tensors)) for tensors in (point.inputs, point.outputs)),
        NOTHING if not first else units.duration(first),
        NOTHING if not first or not later else f"{units.ratio(first / later, 1)}×",
    )


def switching_table(result: Result) -> Table:
    """What it costs that each call has another shape, by mode."""
    points = result.points or []
    return filled(
        Table(_SWITCHING, tuple(_switched(it, points) for it in result.switching or []), title="Switching shapes")
    )


def _switched(found: Switching, points: Sequence[Point]) -> tuple[str, ...]:
    worst = max(found["points"], key=lambda it: it["ratio"])
    most = f"{points[worst['point']].name} ({units.ratio(worst['ratio'])}×)" if has_a_cost(found) else NOTHING
    sign = "+" if found["cost_ns"] >= 0 else "−"
    return (
        found["mode"],
        f"{units.ratio(found['ratio'])}×",
        NOTHING if found["ci95"] is None else "–".join(map(units.ratio, found["ci95"])),
        f"{sign}{units.duration(abs(found['cost_ns']))}",
        most,
    )


def tables(result: Result) -> list[Table]:
    """All tables of a sweep that have rows; none of what is none."""
    if result.points is None:
        return []
    return [it for it in (*mode_tables(result), shape_table(result), switching_table(result)) if it.rows]


def not_measured(result: Result, name: str = "") -> list[Note]:
    """Which modes of which shapes have no figures, or none that count, and why; after the result's name, where there is one."""
    points, before = result.points or [], f"{name}: " if name else ""
    return [
        *(Note(f"{before}{text}", "✗", BAD) for text in failures(points)),
        *(Note(f"{before}{text}", "✗", UNCLEAR) for text in failures(points, UNSUPPORTED)),
    ]


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a sweep.

    Args:
        result: of it.
        folder: where it was saved, which is said in a terminal.
    """
    tables = mode_tables(result)
    parts: list[Sequence[Block]] = [[Heading(heading(result))]]
    parts += [[Paragraph(f"{table.title}:"), table] for table in tables]
    if tables:
        said = f"Times are medians; {DERIVED} derived, not measured."
        parts.append([Paragraph(said, media=TERMINAL), hint("per item", "best", "× later")])
    if (shapes := shape_table(result)).rows:
        parts.append([Paragraph("shapes:"), shapes])
    if (switching := switching_table(result)).rows:
        parts.append([switching, Paragraph(WHAT_SWITCHING_IS)])
    parts += cost_parts(result)
    notes = [*not_measured(result), *map(Note, sentences(result)), *warnings(result)]
    legend = Paragraph(f"Times are medians. {DERIVED} marks what was derived, not measured.", media=MARKDOWN)
    parts.append([Notes(notes), legend, Command(result.command), SavedIn(folder)])
    return Report(f"ortbench: {result_name(result) or result.model['path']}", parts)


# For other programs


def point_record(result: Result, number: int) -> dict[str, Any]:
    """What the records of a shape begin with: its name, the sizes of the dimensions that differ, its set of real inputs, and
    its first run in ns."""
    point = (result.points or [])[number]
    dims = [] if result.sweep is None else result.sweep["dims"]
    return {
        "shape": point.name,
        **{f"dim_{name}": point.shape.get(name) for name in dims},
        "data": point.data,
        "first_run_ns": point.first_run_ns,
    }


def best_record(result: Result, number: int, mode: str) -> dict[str, Any]:
    """Whether a shape is the best of a mode (``best``, ``as good``), and what switching makes of it in that mode."""
    best = result.best and result.best["modes"].get(mode)
    mark = _mark(number, best)
    switched = next(
        (
            it
            for found in result.switching or []
            if found["mode"] == mode
            for it in found["points"]
            if it["point"] == number
        ),
        None,
    )
    return {
        "best": None if mark == NOTHING else mark,
        "alone_ns": switched and switched["alone_ns"],
        "in_turns_ns": switched and switched["turns_ns"],
    }
