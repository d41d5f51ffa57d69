"""The report of a run, and the tables in a folder of results: ``table.md``, ``table.csv``, a loop's ``steps.csv``, and the plot of a bandwidth curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from ortbench.analysis.bandwidth import measured
from ortbench.analysis.findings.advice import findings, superseded
from ortbench.analysis.findings.finding import Weight
from ortbench.core import units
from ortbench.core.files import write_or_note
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.model.modes import COPY_RATE, COPY_TIME, LATENCY, PHASE_NAMES, is_rate, mode_of
from ortbench.model.result import CHAIN, LOAD, LOOP, SWEEP, Case, Result
from ortbench.report import bandwidth, sweep
from ortbench.report import load as report_load
from ortbench.report.bars import COPIES, FILLS, PER_RUN, SPLIT, WHOLE, segments_of
from ortbench.report.composed import WHAT_A_LOOP_IS, chain_table, link_table, loop_table, stage_table, steps_csv
from ortbench.report.costs import cost_parts
from ortbench.report.markdown import markdown
from ortbench.report.model import (
    DERIVED,
    KEY,
    MOST_LINES,
    NOTHING,
    PAGE,
    TERMINAL,
    Bar,
    Block,
    Column,
    Findings,
    Kind,
    Notes,
    Paragraph,
    Report,
    Table,
    columns,
    filled,
)
from ortbench.report.phrases import (
    advice,
    cell,
    has_items,
    hint,
    item_cells,
    item_columns,
    measured_report,
    mode_name,
    not_measured,
    speedup_cells,
    warnings,
)
from ortbench.report.placement import placement_parts
from ortbench.report.records import records_csv

# The columns in the order of their weight; those of a group stay together where the terminal is narrow.
COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("latency", Kind.TIME, 1),
    *columns(Kind.NUMBER, "speedup", "95% CI", group=2),
    *columns(Kind.TIME, "p95", "p99", group=3),
    Column("samples", Kind.NUMBER, 3),
    *columns(Kind.TIME, "H2D", "inference", "D2H", group=4),
    *columns(Kind.NUMBER, "inf/s", "copied/run", "copy rate", group=5),
)


def mode_table(result: Result) -> Table:
    """The table of a run: a row for each mode that was measured, with a bar of its phases; only columns that hold something."""
    return _MAIN.get(result.kind, _phase_table)(result)


def _phase_table(result: Result) -> Table:
    medians = [median for case in result.at_point() for phase in PHASE_NAMES if (median := case.median(phase))]
    unit, scale = units.time_unit(max(medians, default=1))
    shown = [case for case in result.at_point() if case.stats(LATENCY) is not None]
    headed, rows = COLUMNS, tuple(_row(case, scale) for case in shown)
    if has_items([result]):
        headed = (*COLUMNS, *item_columns(6))
        rows = tuple((*row, *item_cells([case])) for row, case in zip(rows, shown, strict=True))
    bars = splits(result)
    if len(bars) == 1 and len(bars[0]) == 1:  # neither shared out nor beside another
        bars = []
    return filled(Table(headed, rows, unit, title="Table", bars=bars))


_MAIN: dict[str, Callable[[Result], Table]] = {LOOP: loop_table, CHAIN: chain_table}
_FURTHER: dict[str, tuple[Callable[[Result], Table], ...]] = {CHAIN: (stage_table, link_table)}
_LEGENDS = {LOOP: WHAT_A_LOOP_IS}  # by kind, what the work is that is timed


def _row(case: Case, scale: float) -> tuple[str, ...]:
    total = case.stats(LATENCY)
    assert total is not None
    return (
        mode_name(case),
        units.time(total.median, scale),
        *speedup_cells(case),
        _percentile(case, total, "p95", scale),
        _percentile(case, total, "p99", scale),
        str(_runs(case)),
        *_phase_cells(case, scale),
        units.rate(1e9 / max(total.median, 1)),
        *_copy_cells(case),
    )


def _runs(case: Case) -> int | None:
    """How many inferences the figures of `latency` rest on; None where there are none."""
    total = case.stats(LATENCY)
    return None if total is None else total.n * case.inferences(LATENCY)


def _phase_cells(case: Case, scale: float) -> tuple[str, str, str]:
    if mode_of(case.mode).of_cpu_tensors:
        copy, rest = case.value(COPY_TIME), case.value("inference")
        if copy is None or rest is None:
            return NOTHING, NOTHING, NOTHING
        copies, inference = units.time(copy, scale), units.time(rest, scale)
        # What a run with CPU tensors copies is known only in sum, so the sum stands for both directions.
        return f"{DERIVED}{copies if copy > 0 else 0}", f"{DERIVED}{inference}", "(both)"
    cells = []
    for phase in ("h2d", "inference", "d2h"):
        median = case.median(phase)
        cells.append(NOTHING if median is None else units.time(median, scale))
    return cells[0], cells[1], cells[2]


def _percentile(case: Case, stats: Stats, name: str, scale: float) -> str:
    # Everyone takes these columns for percentiles of latency.
    if is_rate(case.mode, LATENCY) or stats.n < SAMPLES_FOR[name]:
        return NOTHING
    return units.time(getattr(stats, name), scale)


def _copy_cells(case: Case) -> tuple[str, str]:
    if case.bytes_h2d is None or case.bytes_d2h is None:
        return NOTHING, NOTHING
    copied, mark = case.bytes_h2d + case.bytes_d2h, mode_of(case.mode).of_cpu_tensors
    return (f"{DERIVED if mark and copied else ''}{units.size(copied)}" if copied else "0"), cell(case, COPY_RATE, mark)


# The bars


def splits(result: Result) -> list[Bar]:
    """The bar of each row of `mode_table`: fills and sizes in ns (`ortbench.report.bars.bar`), which add up to the row's latency.

    Phases are timed apart from `latency` and need not add up to it, so they share it out in proportion to their medians.
    Of a pipeline's copies there is what is not hidden.
    """
    return [_split(case, total) for case in result.at_point() if (total := case.median(LATENCY)) is not None]


def _split(case: Case, total: float) -> list[tuple[str, float]]:
    segments = segments_of(case)
    whole = sum(it.ns for it in segments)
    return [(FILLS[it.kind], it.ns / whole * total) for it in segments] if whole else [(FILLS[WHOLE], total)]


_TITLES = {"h2d": "H2D", "d2h": "D2H", COPIES: "copies both ways", PER_RUN: "time per run (throughput)"}


def split_legend(parts: Sequence[Bar]) -> str:
    """What bars mean."""
    used = {fill for row in parts for fill, size in row if size > 0}
    fills = " ".join(f"{fill} {_TITLES.get(kind, kind)}" for kind, fill in FILLS.items() if fill in used)
    return f"{SPLIT}: {fills}, scaled to latency"


# All of it


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a run, and the tables in a folder of results: ``table.md``, ``table.csv``, a loop's ``steps.csv``, and the plot of a bandwidth curve."""
    return _REPORTS.get(result.kind, _build)(result, folder)


def _build(result: Result, folder: str | None) -> Report:
    table = mode_table(result)
    found = findings(result)
    off = [it for it in found if it.weight is Weight.DOUBT and table.rows]
    rest = [it for it in found if it not in off]
    last = [
        Notes(not_measured(result)),
        advice(rest, MOST_LINES - sum(len(it.lines) for it in off)),
        Notes(warnings(result, superseded(result))),
    ]
    explained = filter(None, (f"Times are medians.{derived_mark(table)}", _LEGENDS.get(result.kind)))
    parts: list[Sequence[Block]] = []
    if off:  # what the figures are of comes before them
        parts.append([Findings(off)])
    if table.rows:
        parts += [[table], _EXPLAINED.get(result.kind, _explained)(table)]
    parts += [[it] for it in further_tables(result)]
    parts += [*cost_parts(result), *placement_parts(result)]
    return measured_report("ortbench", result, parts, last, " ".join(explained), folder)


_REPORTS: dict[str, Callable[[Result, str | None], Report]] = {LOAD: report_load.build, SWEEP: sweep.build}


def further_tables(result: Result) -> list[Table]:
    """The tables beside the main one that have rows: of a chain those of its stages and links."""
    return [table for made in _FURTHER.get(result.kind, ()) if (table := made(result)).rows]


def derived_mark(table: Table) -> str:
    """A sentence on the mark of what was derived, after a space; nothing where no cell of the table has it."""
    return f" {DERIVED} marks what was derived, not measured." if _is_marked(table) else ""


def _is_marked(table: Table) -> bool:
    return any(cell.startswith(DERIVED) for row in table.rows for cell in row)


def _explained(table: Table) -> list[Block]:
    """What a terminal says right below the table."""
    text = f"Times are medians, in {table.unit}" + (f"; {DERIVED} derived, not measured." if _is_marked(table) else ".")
    bars = [Paragraph(split_legend(table.bars), fills=True, media=TERMINAL)] if table.bars else []
    marks = {SPLIT: bool(table.bars), DERIVED: _is_marked(table)}
    return [
        *bars,
        Paragraph(text, media=TERMINAL | PAGE),
        hint("sync", *(word for word, there in marks.items() if there)),
    ]


def _loop_explained(table: Table) -> list[Block]:
    shown = {column.name for column in table.columns}
    unusual = [word for word in ("each adds", "by step", "state/step") if word in shown]
    return [Paragraph(f"Times are medians. {WHAT_A_LOOP_IS}", media=TERMINAL | PAGE), hint("sync", "loop", *unusual)]


_EXPLAINED: dict[str, Callable[[Table], list[Block]]] = {LOOP: _loop_explained}


# Files

_MORE = {LOOP: {"steps.csv": steps_csv}}  # by kind, further files


def write_run(result: Result, path: Path) -> None:
    """Write the tables of a finished result into its folder, or note that they could not be written."""
    write_or_note(path / "table.md", markdown(build(result)))
    write_or_note(path / "table.csv", records_csv(result))
    for name, made in _MORE.get(result.kind, {}).items():
        write_or_note(path / name, made(result))


def write_bandwidth(result: Result, path: Path) -> None:
    """Write the tables of a finished bandwidth curve into its folder, and the plot where Matplotlib was not left out.

    What could not be written is noted.
    """
    write_or_note(path / "table.md", markdown(bandwidth.build(result)))
    write_or_note(path / "table.csv", records_csv(result))
    if measured(result) and find_spec("matplotlib") is not None:
        from ortbench.report.page.chart_data.copies import bandwidth_curve
        from ortbench.report.page.chart_svg.draw import svg_file  # it takes longer to import than all else

        write_or_note(path / "bandwidth.svg", svg_file(bandwidth_curve(result)))
