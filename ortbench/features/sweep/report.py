"""The report of a sweep: a table of its modes and shapes, the shapes themselves, and what switching between them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from ortbench.analysis.comparison import CANNOT_TELL
from ortbench.analysis.items import failures, mode_by_mode
from ortbench.core import units
from ortbench.core.features import part_of, passes
from ortbench.core.safe_text import first_of
from ortbench.features.sweep.analysis import (
    ITEMS,
    best_by_mode,
    best_by_other_sizes,
    has_a_cost,
    is_noisy,
    meets_slo,
    shapes_by_other_sizes,
    slo_of,
    ties,
)
from ortbench.features.sweep.model import Switching
from ortbench.model.metrics import RATIO
from ortbench.model.modes import (
    CPU,
    CPU_TIME,
    DEVICE_MEMORY,
    ENERGY,
    HOST_MEMORY,
    LATENCY,
    NO_SPIN,
    SPIN_SHARE,
    is_rate,
)
from ortbench.model.result import UNSUPPORTED, Case, Point, Result
from ortbench.report import model
from ortbench.report.case_table import MODE, KeyColumn, Own, case_table, figure_table
from ortbench.report.parts import CPU_COLUMN, TITLE, on_page, own_outputs, placement_parts, with_title
from ortbench.report.phrases import measured_report, said_once

_NAMES = 3  # of shapes that a heading has
BEST, TIE, WORSE, SMALLER = "best", "as good", "worse", "smaller"
_MET = {True: "met", False: "violated", None: CANNOT_TELL}
_SHAPE = model.Column("shape", model.Kind.NAME, model.KEY)
_SHAPES = (
    _SHAPE,
    *model.columns(model.Kind.NUMBER, "items", "inputs", "outputs", "first inference", "first vs later", group=1),
)
_SWITCHING = (
    model.Column("mode", model.Kind.NAME, model.KEY),
    *model.columns(model.Kind.NUMBER, "switching", "95% CI", "one shape", "switching cost", group=1),
    model.Column("most with", model.Kind.WORDS, 2),
)


def mode_table(result: Result, own: Mapping[str, Own] | None = None) -> model.Table:
    """A row for each mode and shape that was measured; only columns that hold something; `own` columns are shown in their own way."""
    # A mode that failed keeps what was measured.
    found = [(case, shape.name) for shape, case in mode_by_mode(result) if case.stats(LATENCY) is not None]
    names = {id(case): shape for case, shape in found}
    best, slo = best_by_mode(result), slo_of(result)

    # In a grid the best is looked for among the shapes of one size otherwise.
    group_of = {name: sizes for sizes, named in shapes_by_other_sizes(result).items() for name in named}
    by_size = {mode: best_by_other_sizes(result, mode) if group_of else {} for mode in best}
    tied: dict[tuple[str, str], tuple[list[str], list[str]]] = {}

    def mark(case: Case) -> str:
        shape = names[id(case)]
        of = by_size.get(case.mode, {}).get(group_of.get(shape, ""), best.get(case.mode))
        if case.mode not in best or (slo is not None and is_rate(case.mode, LATENCY)):
            return model.NOTHING
        met = slo is None or meets_slo(case, slo)
        if of is None or not met or is_noisy(result, case.mode):
            return f"SLO {_MET[False]}" if met is False else CANNOT_TELL
        if of["by"] != ITEMS:
            return BEST if shape == of["shape"] else SMALLER
        key = case.mode, of["shape"]
        if key not in tied:
            tied[key] = ties(result, case.mode, of)
        alike, unknown = tied[key]
        first = CANNOT_TELL if unknown else TIE if alike else BEST
        return first if shape in (of["shape"], *alike, *unknown) else WORSE

    def slo_cell(case: Case) -> str:
        return model.NOTHING if slo is None or is_rate(case.mode, LATENCY) else _MET[meets_slo(case, slo)]

    own = {**(own or {}), "best": Own(mark, model.Kind.WORD), "SLO": Own(slo_cell, model.Kind.WORD)}
    shape_of: KeyColumn = (_SHAPE, lambda case: names[id(case)])
    return case_table(result, [case for case, _ in found], [MODE, shape_of], own)


def shape_table(result: Result) -> model.Table:
    """The shapes: their items and bytes, and what the first run of each took."""
    rows = tuple(_shape_row(it, result.case(CPU, it.point)) for it in result.shapes if it.inputs)
    return model.drop_empty_columns(model.Table(_SHAPES, rows, title="Shapes"))


def _shape_row(shape: Point, cpu: Case | None) -> tuple[str, ...]:
    later = None if cpu is None else cpu.median(LATENCY)
    first = shape.first_inference_ns
    return (
        shape.name,
        model.NOTHING if shape.items is None else str(shape.items["count"]),
        *(units.size(sum(it["bytes"] or 0 for it in tensors)) for tensors in (shape.inputs, shape.outputs)),
        model.NOTHING if not first else units.duration(first),
        model.NOTHING if not first or not later else RATIO.text(first / later),
    )


def switching_table(result: Result) -> model.Table:
    """What it costs that each call has another shape, by mode."""
    rows = tuple(map(_switching_row, result.own.get("switching") or []))
    return model.drop_empty_columns(model.Table(_SWITCHING, rows, title="Switching shapes"))


def _switching_row(found: Switching) -> tuple[str, ...]:
    worst = max(found["shapes"], key=lambda it: it["ratio"])
    most = f"{worst['shape']} ({RATIO.text(worst['ratio'])})" if has_a_cost(found) else model.NOTHING
    return (
        found["mode"],
        RATIO.text(found["ratio"]),
        model.interval_text(found["ci95"], units.digits),
        units.duration(fmean(it["alone_ns"] for it in found["shapes"])),
        units.difference(found["cost_ns"]),
        most,
    )


_CPU_STILL = f"{CPU_TIME}_{NO_SPIN}"
_COSTS = ((CPU_TIME, SPIN_SHARE, _CPU_STILL), (DEVICE_MEMORY, HOST_MEMORY), (ENERGY, "power", "items_per_joule"))


def _cost_blocks(result: Result) -> list[model.Block]:
    """What shapes cost besides time: the table with what it says and what is not known; nothing where it was not asked for."""
    asked = [(shape, case) for shape, case in mode_by_mode(result) if case.own or _CPU_STILL in case.metrics]
    if not asked:
        return []
    found: list[model.Block] = []
    names = {id(case): shape.name for shape, case in asked}
    own = {CPU_TIME: Own(lambda case: CPU_COLUMN[CPU_TIME].cell(case) if _CPU_STILL in case.metrics else model.NOTHING)}
    shape_of: KeyColumn = (_SHAPE, lambda case: names[id(case)])
    table = figure_table(_COSTS, [case for _, case in asked], [MODE, shape_of], own, "By shape")
    if len(table.columns) > 2:
        found.append(table)
    if notes := _lacking(asked):
        found.append(model.Notes(notes))
    return found


def _lacking(asked: Sequence[tuple[Point, Case]]) -> list[model.Note]:
    """What could not be measured, each reason once, with the shapes and modes that it is of where those are not all."""
    why: list[tuple[str, str]] = []
    for shape, case in asked:
        of = f"{shape.name} with {case.mode}"
        for feature, measured in passes().values():
            if measured.key in case.own and (problem := part_of(feature, "report", "problem")(case.own[measured.key])):
                why.append((problem, of))
    return [
        model.Note(reason if len(cases) == len(asked) else f"{', '.join(cases)}: {reason}", "!", "unclear")
        for reason, cases in said_once(why).items()
    ]


def not_measured(result: Result) -> list[model.Note]:
    """Which modes of which shapes have no figures, or none that count, and why."""
    return [
        *(model.Note(text, "✗", model.BAD) for text in failures(result)),
        *(model.Note(text, "–", model.UNCLEAR) for text in failures(result, UNSUPPORTED)),
    ]


def build(result: Result, folder: str | None = None) -> model.Report:
    table, *others = mode_table(result), shape_table(result), switching_table(result)
    parts: list[Sequence[model.Block]] = [[table]] if table.rows else []
    parts += [with_title(it) for it in others if it.rows]
    costs = [[model.Title(f"{TITLE}: by shape"), *blocks]] if (blocks := _cost_blocks(result)) else []
    further = [*own_outputs(result), *costs, *on_page(placement_parts(result))]
    return measured_report("ortbench", result, parts, not_measured(result), further, folder)


def own_line(result: Result) -> str:
    return f"sweep of {units.count(len(result.shapes), 'shape')} in one session: {heading(result)}"


def heading(result: Result) -> str:
    return first_of([it.name for it in result.shapes], _NAMES)
