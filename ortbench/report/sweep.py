"""The report of a sweep: by mode a table of its shapes, the shapes themselves, and what switching between them costs."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.findings.advice import findings
from ortbench.analysis.findings.run_advice import copy_share
from ortbench.analysis.sweep import failures, has_a_cost, is_noisy, keeps, point_as_result
from ortbench.core import units
from ortbench.model.modes import ALL_MODES, CPU, ITEM_THROUGHPUT, ITEM_TIME, LATENCY, is_rate
from ortbench.model.result import FAILED, OK, UNSUPPORTED, Case, Point, Result
from ortbench.model.schema import BestShape, Switching
from ortbench.model.slo import Slo, slo_of
from ortbench.report.costs import cost_parts
from ortbench.report.model import (
    BAD,
    DERIVED,
    KEY,
    NOTHING,
    PAGE,
    PRINTED,
    TERMINAL,
    UNCLEAR,
    Block,
    Column,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    Table,
    between,
    columns,
    filled,
    maybe,
)
from ortbench.report.phrases import advice, hint, measured_report, speedup_cells, warnings
from ortbench.report.placement import on_page, placement_parts

BEST, TIE = "best", "as good"
_KEPT = {True: "kept", False: "broken", None: "too few runs"}
_SHAPE = Column("shape", Kind.NAME, KEY)
_COLUMNS = (
    _SHAPE,
    Column("latency", Kind.TIME, 1),
    *columns(Kind.NUMBER, "per item", "items/s", group=1),
    Column("best", Kind.WORD, 1),
    *columns(Kind.NUMBER, "speedup", "95% CI", "copies", group=2),
    *columns(Kind.NUMBER, "p95", "p99", group=3),
    Column("SLO", Kind.WORD, 3),
    Column("samples", Kind.NUMBER, 3),
)
_SHAPES = (_SHAPE, *columns(Kind.NUMBER, "items", "inputs", "outputs", "first run", "× later", group=1))
_SWITCHING = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "switching", "95% CI", "adds/call", group=1),
    Column("most with", Kind.WORDS, 2),
)
WHAT_SWITCHING_IS = "switching: calls that each have another shape, against one shape at a time."


def mode_tables(result: Result) -> list[Table]:
    """A table for each mode that was measured: a row for each shape; only columns that hold something."""
    cases = (case for shape in result.shapes for case in result.at_point(shape.point))
    measured = {case.mode for case in cases if case.status == OK and _is_measured(case)}
    return [_of_mode(result, mode) for mode in ALL_MODES if mode in measured]


def _is_measured(case: Case) -> bool:
    return case.stats(LATENCY) is not None


def _of_mode(result: Result, mode: str) -> Table:
    # A mode that failed keeps what was measured.
    shown = [
        (shape, case)
        for shape in result.shapes
        for case in result.at_point(shape.point)
        if case.mode == mode and _is_measured(case)
    ]
    unit, scale = units.time_unit(max(case.median(LATENCY) or 1 for _, case in shown))
    best = None if result.best is None or is_noisy(result, mode) else result.best["modes"].get(mode)
    slo = slo_of(result.sweep)
    rows = tuple(
        _row(point_as_result(result, shape), shape.name, case, _mark(shape, best), slo, scale) for shape, case in shown
    )
    return filled(Table(_COLUMNS, rows, unit, title=mode))


def _mark(shape: Point, best: BestShape | None) -> str:
    if best is None:
        return NOTHING
    return BEST if shape.name == best["shape"] else TIE if shape.name in best["ties"] else NOTHING


def _row(result: Result, name: str, case: Case, best: str, slo: Slo | None, scale: float) -> tuple[str, ...]:
    total = case.stats(LATENCY)
    assert total is not None
    tails = not is_rate(case.mode, LATENCY)
    item_ns, items_per_s = case.value(ITEM_TIME), case.value(ITEM_THROUGHPUT)
    return (
        name if case.status != FAILED else f"{name} (failed)",
        units.time(total.median, scale),
        maybe(item_ns, units.duration),
        maybe(items_per_s, units.rate),
        best,
        *speedup_cells(case),
        _copies(result, case),
        *(_tail(limit, total.n, getattr(total, it), tails) for it, limit in (("p95", 20), ("p99", 100))),
        NOTHING if slo is None or not tails else _KEPT[keeps(case, slo)],
        str(total.n * case.inferences(LATENCY)),
    )


def _tail(needed: int, n: int, ns: int, there: bool) -> str:
    return units.duration(ns) if there and n >= needed else NOTHING


def _copies(result: Result, case: Case) -> str:
    """The share of copies: with CPU tensors what the difference says, else the sum of the copies that were timed apart."""
    if case.mode == CPU:
        share = copy_share(result)
        return NOTHING if share is None else f"{DERIVED}{units.share(share)}"
    copies, total = case.copy_ns(), case.median(LATENCY)
    if copies is None or not total or is_rate(case.mode, LATENCY):
        return NOTHING
    return f"{DERIVED}{units.share(min(copies / total, 1.0))}"


def shape_table(result: Result) -> Table:
    """The shapes: their items and bytes, and what the first run of each took."""
    rows = tuple(_shape_row(it, result.case(CPU, it.point)) for it in result.shapes if it.inputs)
    return filled(Table(_SHAPES, rows, title="Shapes"))


def _shape_row(shape: Point, cpu: Case | None) -> tuple[str, ...]:
    later = None if cpu is None else cpu.median(LATENCY)
    first = shape.first_inference_ns
    return (
        shape.name,
        NOTHING if shape.items is None else str(shape.items["count"]),
        *(units.size(sum(it["bytes"] or 0 for it in tensors)) for tensors in (shape.inputs, shape.outputs)),
        NOTHING if not first else units.duration(first),
        NOTHING if not first or not later else f"{units.ratio(first / later, 1)}×",
    )


def switching_table(result: Result) -> Table:
    """What it costs that each call has another shape, by mode."""
    return filled(Table(_SWITCHING, tuple(map(_switched, result.switching or [])), title="Switching shapes"))


def _switched(found: Switching) -> tuple[str, ...]:
    worst = max(found["shapes"], key=lambda it: it["ratio"])
    most = f"{worst['shape']} ({units.ratio(worst['ratio'])}×)" if has_a_cost(found) else NOTHING
    sign = "+" if found["cost_ns"] >= 0 else "−"
    return (
        found["mode"],
        f"{units.ratio(found['ratio'])}×",
        between(found["ci95"], units.ratio),
        f"{sign}{units.duration(abs(found['cost_ns']))}",
        most,
    )


def not_measured(result: Result) -> list[Note]:
    """Which modes of which shapes have no figures, or none that count, and why."""
    return [
        *(Note(text, "✗", BAD) for text in failures(result)),
        *(Note(text, "✗", UNCLEAR) for text in failures(result, UNSUPPORTED)),
    ]


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a sweep."""
    tables = mode_tables(result)
    parts: list[Sequence[Block]] = [[Paragraph(f"{table.title}:", media=PRINTED), table] for table in tables]
    if tables:
        times = f"Times are medians; {DERIVED} derived, not measured."
        parts.append([Paragraph(times, media=TERMINAL | PAGE), hint("per item", "best", "× later")])
    if (shapes := shape_table(result)).rows:
        parts.append([Paragraph("shapes:", media=PRINTED), shapes])
    if (switching := switching_table(result)).rows:
        parts.append([switching, Paragraph(WHAT_SWITCHING_IS)])
    parts += [*cost_parts(result), *on_page(placement_parts(result))]
    said = [Notes(not_measured(result)), advice(findings(result)), Notes(warnings(result))]
    legend = f"Times are medians. {DERIVED} marks what was derived, not measured."
    return measured_report("ortbench", result, parts, said, legend, folder)
