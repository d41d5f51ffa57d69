"""The report of a run, and its figures as flat records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortbench import units
from ortbench.analysis.advice import sentences, superseded
from ortbench.analysis.memory import is_weighed
from ortbench.analysis.pairs import timed_phase
from ortbench.analysis.placed import missed
from ortbench.analysis.points import alone
from ortbench.modes import COSTS, PHASE_NAMES, TOTAL, is_rate, mode_of
from ortbench.report import load as report_load
from ortbench.report import nodes, sweep
from ortbench.report.bars import COPIES, FILLS, PER_RUN, SPLIT, WHOLE
from ortbench.report.chains import chain_table, link_table, stage_table
from ortbench.report.costs.energy import energy_records
from ortbench.report.costs.host import host_records
from ortbench.report.costs.memory import memory_record
from ortbench.report.costs.section import cost_parts
from ortbench.report.csv import csv_text, ratio, statistics
from ortbench.report.load_records import load_csv, load_records
from ortbench.report.loops import WHAT_A_LOOP_IS, loop_records, loop_table
from ortbench.report.model import (
    DERIVED,
    KEY,
    MARKDOWN,
    NOTHING,
    TERMINAL,
    UNCLEAR,
    Bar,
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
from ortbench.report.places import places_table
from ortbench.report.throughput import has_items, item_cells, item_columns
from ortbench.report.words import heading, hint, mode_name, not_measured, ratio_cells, result_name, warnings
from ortbench.result import Case, Result
from ortbench.stats import SAMPLES_FOR, Stats

if TYPE_CHECKING:
    import pandas


# The columns in the order of their weight; those of a group stay together where the terminal is narrow.
COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    Column("total", Kind.TIME, 1),
    *columns(Kind.NUMBER, "vs cpu", "95 %", group=2),
    *columns(Kind.TIME, "p95", "p99", group=3),
    Column("runs", Kind.NUMBER, 3),
    *columns(Kind.TIME, "upload", "inference", "download", group=4),
    *columns(Kind.NUMBER, "runs/s", "copied/run", "copy rate", group=5),
)


def mode_table(result: Result) -> Table:
    """The table of a run: a row for each mode that was measured, with a bar of its phases; only columns that hold something."""
    if result.loop is not None:
        return loop_table(result)
    if result.chain is not None:
        return chain_table(result)
    medians = [median for case in result.cases for phase in PHASE_NAMES if (median := case.median(phase))]
    unit, scale = units.time_unit(max(medians, default=1))
    shown = [case for case in result.cases if case.phases[TOTAL] is not None]
    headed, rows = COLUMNS, tuple(_row(case, scale) for case in shown)
    if has_items([result]):
        headed = (*COLUMNS, *item_columns(6))
        rows = tuple((*row, *item_cells([case])) for row, case in zip(rows, shown, strict=True))
    bars = splits(result)
    if len(bars) == 1 and len(bars[0]) == 1:  # neither shared out nor beside another
        bars = []
    return filled(Table(headed, rows, unit, title="Table", bars=bars))


def _row(case: Case, scale: float) -> tuple[str, ...]:
    total = case.phases[TOTAL]
    assert total is not None
    return (
        mode_name(case),
        units.time(total.median_ns, scale),
        *ratio_cells(case),
        _percentile(case, total, "p95", scale),
        _percentile(case, total, "p99", scale),
        str(_runs(case)),
        *_phase_cells(case, scale),
        units.rate(1e9 / max(total.median_ns, 1)),
        *_copy_cells(case),
    )


def _runs(case: Case) -> int | None:
    """How many inferences the figures of `total` rest on; None where there are none."""
    total = case.phases[TOTAL]
    return None if total is None else total.n * case.inferences(TOTAL)


def _phase_cells(case: Case, scale: float) -> tuple[str, str, str]:
    if mode_of(case.mode).of_cpu_tensors:
        if case.derived is None:
            return NOTHING, NOTHING, NOTHING
        copies, inference = (units.time(case.derived[key], scale) for key in ("copies_ns", "inference_ns"))
        # What a run with CPU tensors copies is known only in sum, so the sum stands for both directions.
        return f"{DERIVED}{copies if case.derived['copies_ns'] > 0 else 0}", f"{DERIVED}{inference}", "(both)"
    cells = []
    for phase in FILLS:
        median = case.median(phase)
        cells.append(NOTHING if median is None else units.time(median, scale))
    return cells[0], cells[1], cells[2]


def _percentile(case: Case, stats: Stats, name: str, scale: float) -> str:
    # Everyone takes these columns for percentiles of latency.
    if is_rate(case.mode, TOTAL) or stats.n < SAMPLES_FOR[name]:
        return NOTHING
    return units.time(getattr(stats, f"{name}_ns"), scale)


def _copy_cells(case: Case) -> tuple[str, str]:
    if case.bytes_in is None or case.bytes_out is None:
        return NOTHING, NOTHING
    copied = case.bytes_in + case.bytes_out
    if not copied:
        return "0", NOTHING
    if mode_of(case.mode).of_cpu_tensors:
        took = case.derived["copies_ns"] if case.derived else 0
        return f"{DERIVED}{units.size(copied)}", f"{DERIVED}{_per_second(copied, took)}" if took > 0 else NOTHING
    upload, download = case.median("upload"), case.median("download")
    took = (upload or 0) + (download or 0)
    return units.size(copied), _per_second(copied, took) if took else NOTHING


def _per_second(count: int, ns: int) -> str:
    return f"{units.size(count / ns * 1e9)}/s"


# The bars


def splits(result: Result) -> list[Bar]:
    """The bar of each row of `mode_table`: fills and sizes in ns (`ortbench.report.bars.bar`), which add up to the row's total.

    Phases are timed apart from `total` and need not add up to it, so they share it out in proportion to their medians.
    Of a pipeline's copies there is what is not hidden.
    """
    return [_split(case, total) for case in result.cases if (total := case.median(TOTAL)) is not None]


def _split(case: Case, total: int) -> list[tuple[str, float]]:
    if mode_of(case.mode).in_bursts:
        return [(PER_RUN, total)]
    if is_rate(case.mode, TOTAL):
        return _left_over(case, total)
    phases = FILLS.keys() if timed_phase(case.mode, "inference") != TOTAL else ("inference",)
    medians = {phase: median for phase in phases if (median := case.median(phase)) is not None}
    parts: list[tuple[str, float]] = []
    if medians and all(phase in medians or case.copies_nothing(phase) for phase in phases):
        parts = [(FILLS[phase], median) for phase, median in medians.items()]
    elif case.derived is not None:
        parts = [(COPIES, max(case.derived["copies_ns"], 0)), (FILLS["inference"], case.derived["inference_ns"])]
    whole = sum(size for _, size in parts)
    return [(fill, size / whole * total) for fill, size in parts] if whole else [(WHOLE, total)]


def _left_over(case: Case, total: int) -> list[tuple[str, float]]:
    """What a pipeline still waits for: the copies that are not hidden, and inference."""
    pipeline = case.pipeline
    if pipeline is None or pipeline["copies_ns"] is None or pipeline["hidden_ns"] is None:
        return [(WHOLE, total)]
    copies = pipeline["copies_ns"] - pipeline["hidden_ns"]
    return [(COPIES, copies), (FILLS["inference"], max(total - copies, 0))]


_FILLED = {**{fill: phase for phase, fill in FILLS.items()}, COPIES: "copies both ways"}
_FILLED |= {PER_RUN: "time per run (throughput)", WHOLE: "not split"}


def split_legend(parts: Sequence[Bar]) -> str:
    """What bars mean."""
    used = {fill for row in parts for fill, size in row if size > 0}
    fills = " ".join(f"{fill} {phase}" for fill, phase in _FILLED.items() if fill in used)
    return f"{SPLIT}: {fills}, scaled to total"


# All of it


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a run.

    Args:
        result: of it.
        folder: where it was saved, which is said in a terminal.
    """
    if result.load is not None:
        return report_load.build(result, folder)
    if result.points is not None:
        return sweep.build(result, folder)
    table = mode_table(result)
    said, off = sentences(result), bool(table.rows) and missed(result) is not None
    notes = [*not_measured(result), *map(Note, said[off:]), *warnings(result, superseded(result))]
    of_loop = f" {WHAT_A_LOOP_IS}" if result.loop is not None else ""
    legend = Paragraph(f"Times are medians.{derived_mark(table)}{of_loop}", media=MARKDOWN)
    last: list[Block] = [Notes(notes), legend, Command(result.command), SavedIn(folder)]
    parts: list[Sequence[Block]] = [[Heading(heading(result))]]
    if off:  # what the figures are of comes before them
        parts.append([Notes([Note(said[0], "!", UNCLEAR)])])
    if table.rows:
        parts += [[table], _explained(table, result)]
    parts += [[it] for it in chain_tables(result)]
    parts += cost_parts(result)
    if (places := places_table(result, MARKDOWN)).rows:
        parts.append([places])
    if result.nodes is not None:
        parts += [[Paragraph(nodes.heading(result))], *([found] for found in nodes.tables(result.nodes))]
    return Report(f"ortbench: {result_name(result) or result.model['path']}", [*parts, last])


def chain_tables(result: Result) -> list[Table]:
    """Of a chain, the tables of its stages and links that have rows; of others none."""
    if result.chain is None:
        return []
    return [table for table in (stage_table(result), link_table(result)) if table.rows]


def derived_mark(table: Table) -> str:
    """A sentence on the mark of what was derived, after a space; nothing where no cell of the table has it."""
    return f" {DERIVED} marks what was derived, not measured." if _is_marked(table) else ""


def _is_marked(table: Table) -> bool:
    return any(cell.startswith(DERIVED) for row in table.rows for cell in row)


def _explained(table: Table, result: Result) -> list[Block]:
    """What a terminal says right below the table."""
    if result.loop is not None:
        shown = {column.name for column in table.columns}
        unusual = [word for word in ("each adds", "by step", "state/step") if word in shown]
        return [Paragraph(f"Times are medians. {WHAT_A_LOOP_IS}", media=TERMINAL), hint("fence", "loop", *unusual)]
    text = f"Times are medians, in {table.unit}" + (f"; {DERIVED} derived, not measured." if _is_marked(table) else ".")
    bars = [Paragraph(split_legend(table.bars), fills=True, media=TERMINAL)] if table.bars else []
    marks = {SPLIT: bool(table.bars), DERIVED: _is_marked(table)}
    return [*bars, Paragraph(text, media=TERMINAL), hint("fence", *(word for word, there in marks.items() if there))]


# Its figures for other programs


def records(result: Result, with_items: bool = False) -> list[dict[str, Any]]:
    """The figures as flat records, one a mode: every statistic of every phase in ns, bytes, ratios; None if not known.

    With items also how many a run has, how many are done a second, and the time of each in ns. Those of a loop are
    `ortbench.report.loops.loop_records`, those of a load, one a level, `ortbench.report.load_records.load_records`; those of a
    sweep are a row a shape and mode, with the sizes of its dimensions.
    """
    if result.loop is not None:
        return loop_records(result)
    if result.load is not None:
        return load_records(result)
    if result.points is not None:
        return [
            {**sweep.point_record(result, number), **row, **sweep.best_record(result, number, row["mode"])}
            for number, point in enumerate(result.points)
            for row in records(alone(result, point), with_items=True)
        ]
    found = []
    for case in result.cases:
        row: dict[str, Any] = {"mode": case.mode, "status": case.status, "reason": case.reason}
        for phase in (*PHASE_NAMES, *COSTS):
            row |= statistics(phase, case.phases.get(phase))
        row |= host_records(case)
        row["derived_copies_ns"] = case.derived and case.derived["copies_ns"]
        row["bytes_in"], row["bytes_out"] = case.bytes_in, case.bytes_out
        row |= ratio(case)
        row["outputs_match"] = case.outputs_match
        row["zero_copy_proved"] = case.zero_copy and case.zero_copy["proved"]
        row["depth"] = case.pipeline and case.pipeline["depth"]
        row["hidden_share"] = case.pipeline and case.pipeline["hidden_share"]
        row["runs"] = _runs(case)
        if is_weighed(result):
            row |= memory_record(case)
        for name, stats in (case.stages or {}).items():
            row[f"stage_{name}_median_ns"] = stats.median_ns
        row |= energy_records(result, case)
        if with_items:
            row["items"] = result.items and result.items["count"]
            row["items_per_s"] = case.throughput and case.throughput["items_per_s"]
            row["item_ns"] = case.throughput and case.throughput["item_ns"]
        found.append(row)
    return found


def csv(result: Result) -> str:
    """The records as CSV, with those of items where a run has several."""
    if result.load is not None:
        return load_csv(result)
    found = records(result, has_items([result]))
    return csv_text(list(dict.fromkeys(name for row in found for name in row)), found)


def frame(results: Sequence[Result]) -> pandas.DataFrame:
    """The records of many results as a data frame, for a notebook: one row a case, with model, EP and time of the run.

    Columns are those of `records`, with pandas' nullable dtypes.
    """
    import pandas

    lines = [
        {"created": result.created, "model": result.model["path"], "ep": result.target["ep"], **record}
        for result in results
        for record in records(result, has_items(results))
    ]
    return pandas.DataFrame(lines).convert_dtypes()
