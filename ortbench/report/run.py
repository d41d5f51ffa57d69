"""The table of a run: one model of it, and its Markdown and CSV forms. The terminal's form is in `ortbench.report.terminal.print`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from csv import DictWriter
from typing import TYPE_CHECKING, Any

from ortbench import units
from ortbench.analysis.advice import sentences
from ortbench.analysis.pairs import timed_phase
from ortbench.modes import CPU, TOTAL, is_rate, mode_of
from ortbench.report import nodes as report_nodes
from ortbench.report.table import DERIVED, NOTHING, Table, markdown_line, table_markdown
from ortbench.report.terminal.bars import COPIES, FILLS, PER_RUN, WHOLE
from ortbench.report.words import heading
from ortbench.result import OK, Case, Result
from ortbench.stats import Stats

if TYPE_CHECKING:
    import pandas


# A percentile needs at least one sample beyond it, or it is only another name for the slowest one.
SAMPLES_FOR = {"p95": 20, "p99": 100}


TIME_COLUMNS = ("total", "p95", "p99", "upload", "inference", "download")
SPLIT = "split"  # the column of bars, which the terminal adds
# The columns in the order of their weight; those of a group stay together where the terminal is narrow.
RUN_COLUMNS = (
    ("total",),
    ("vs cpu", "95 %"),
    ("p95", "p99"),
    ("upload", "inference", "download"),
    ("runs/s", "copied/run", "copy rate"),
)


def build(result: Result) -> tuple[Table, str]:
    """The table of a result, and the unit of its times."""
    medians = [median for case in result.cases if (median := case.median(TOTAL))] or [1]
    unit, scale = units.time_unit(min(medians), max(medians))
    lines = tuple(_row(case, scale) for case in result.cases if case.phases[TOTAL] is not None)
    notes = tuple(f"{case.mode}: {case.status}: {case.reason}" for case in result.cases if case.status != OK)
    columns = [name for group in RUN_COLUMNS for name in group]
    return Table(("mode", *columns), lines, notes), unit


def _row(case: Case, scale: float) -> tuple[str, ...]:
    total = case.phases[TOTAL]
    assert total is not None
    name = case.mode if case.status == OK else f"{case.mode} (failed)"
    return (
        name,
        units.time(total.median_ns, scale),
        *_ratio_cells(case),
        _percentile(case, total, "p95", scale),
        _percentile(case, total, "p99", scale),
        *_phase_cells(case, scale),
        units.rate(1e9 / max(total.median_ns, 1)),
        *_copy_cells(case),
    )


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


def _ratio_cells(case: Case) -> tuple[str, str]:
    if case.vs_cpu is None:
        return NOTHING, NOTHING
    if case.mode == CPU:
        return "1.00×", NOTHING
    interval = case.vs_cpu["ci95"]
    return f"{units.ratio(case.vs_cpu['ratio'])}×", NOTHING if interval is None else "–".join(
        map(units.ratio, interval)
    )


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


def splits(result: Result) -> list[list[tuple[str, float]]]:
    """The bar of each row of `build`: fills and sizes in ns (`ortbench.report.terminal.bars.bar`), which add up to the row's total.

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
    if len(medians) == len(phases):
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


def split_legend(parts: Sequence[Sequence[tuple[str, float]]]) -> str:
    """What bars mean."""
    used = {fill for row in parts for fill, size in row if size > 0}
    fills = " ".join(f"{fill} {phase}" for fill, phase in _FILLED.items() if fill in used)
    return f"{SPLIT}: {fills}, scaled to total"


# Tables in a terminal's width


# Results side by side


def markdown(result: Result) -> str:
    """The report as Markdown: heading, table, what it means, warnings."""
    table, unit = build(result)
    lines = [f"# ortbench: {result.model['path']}", "", *(f"{line}  " for line in heading(result)), ""]
    if table.rows:
        lines += [table_markdown(table, unit, TIME_COLUMNS), ""]
    lines += _nodes_markdown(result)
    lines += [f"- {note}" for note in table.notes]
    lines += [f"- {sentence}" for sentence in sentences(result)]
    lines += [f"- warning: {warning['message']}" for warning in result.warnings]
    lines += ["", f"Times are medians. {DERIVED} marks what was derived, not measured.", ""]
    lines += [f"`{' '.join(result.command)}`"] if result.command else []
    return "\n".join(lines) + "\n"


def _nodes_markdown(result: Result) -> list[str]:
    """The tables of `ortbench.analysis.node_advice` as Markdown, where nodes were profiled."""
    if result.nodes is None:
        return []
    lines = [report_nodes.heading(result), ""]
    for section in report_nodes.sections(result.nodes):
        rule = ["---" if name in section.left else "---:" for name in section.columns]
        lines += [markdown_line(section.columns), markdown_line(rule), *map(markdown_line, section.rows)]
        lines += ["", *([section.rest, ""] if section.rest else [])]
    return lines


def records(result: Result) -> list[dict[str, Any]]:
    """The figures as flat records, one a mode: every statistic of every phase in ns, bytes, ratios; None if not known."""
    found = []
    for case in result.cases:
        row: dict[str, Any] = {"mode": case.mode, "status": case.status, "reason": case.reason}
        for phase, stats in case.phases.items():
            for key in ("n", "median_ns", "p95_ns", "p99_ns", "min_ns", "max_ns", "mean_ns", "stdev_ns"):
                row[f"{phase}_{key}"] = None if stats is None else getattr(stats, key)
            row[f"{phase}_ci95_low_ns"], row[f"{phase}_ci95_high_ns"] = (None, None) if stats is None else stats.ci95_ns
        row["derived_copies_ns"] = case.derived and case.derived["copies_ns"]
        row["bytes_in"], row["bytes_out"] = case.bytes_in, case.bytes_out
        row["vs_cpu"] = case.vs_cpu and case.vs_cpu["ratio"]
        row["vs_cpu_ci95_low"], row["vs_cpu_ci95_high"] = (case.vs_cpu and case.vs_cpu["ci95"]) or (None, None)
        row["outputs_match"] = case.outputs_match
        row["zero_copy_proved"] = case.zero_copy and case.zero_copy["proved"]
        row["depth"] = case.pipeline and case.pipeline["depth"]
        row["hidden_share"] = case.pipeline and case.pipeline["hidden_share"]
        found.append(row)
    return found


def csv(result: Result) -> str:
    """The records as CSV. Python's own writer: pandas takes longer to import than a short benchmark takes to run."""
    lines = records(result)
    text = io.StringIO()
    writer = DictWriter(text, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def frame(results: Sequence[Result]) -> pandas.DataFrame:
    """The records of many results as a data frame, for a notebook: one row a case, with model, EP and time of the run.

    Columns are those of `records`, with pandas' nullable dtypes.
    """
    import pandas

    lines = [
        {"created": result.created, "model": result.model["path"], "ep": result.target["ep"], **record}
        for result in results
        for record in records(result)
    ]
    return pandas.DataFrame(lines).convert_dtypes()
