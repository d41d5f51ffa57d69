"""The report of a run, and the tables in a folder of results: ``table.md``, ``table.csv``, a loop's ``steps.csv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.core.files import write_or_note
from ortbench.model.kinds import kind_of
from ortbench.model.modes import ITEM_THROUGHPUT, ITEM_TIME, LATENCY, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.bars import COPIES, FILLS, PER_RUN, SPLIT, WHOLE, segments_of
from ortbench.report.case_table import Own, case_table, in_groups
from ortbench.report.costs import cost_parts
from ortbench.report.markdown import markdown
from ortbench.report.model import (
    DERIVED,
    NOTHING,
    TERMINAL,
    Bar,
    Block,
    Paragraph,
    Report,
    Table,
)
from ortbench.report.outputs import own_outputs
from ortbench.report.phrases import has_items, measured_report, not_measured
from ortbench.report.placement import placement_parts, titled
from ortbench.report.records import records_csv


def mode_table(result: Result, own: Mapping[str, Own] | None = None) -> Table:
    """The table of modes: a row for each mode that was measured, of a run with a bar of its phases; `own` columns are
    shown in their own way."""
    shown = measured_cases(result)
    table = case_table(
        result,
        shown,
        own={**part_of(result.kind, "report", "own_columns", _own)(result), **(own or {})},
    )
    bars = splits(result) if "phases" in kind_of(result.kind).charts else []
    if len(bars) == 1 and len(bars[0]) == 1:  # neither shared out nor beside another
        bars = []
    return replace(table, bars=bars)


def measured_cases(result: Result) -> list[Case]:
    """The cases that have a row, in its order."""
    return in_groups([case for case in result.at_point() if case.stats(LATENCY) is not None])


def _own(result: Result) -> dict[str, Own]:
    own = {"copied/inf": Own(_copied_per_inference)}
    return (
        own if has_items([result]) else {**own, **dict.fromkeys((ITEM_THROUGHPUT, ITEM_TIME), Own(lambda _: NOTHING))}
    )


def _copied_per_inference(case: Case) -> str:
    if case.bytes_h2d is None or case.bytes_d2h is None:
        return NOTHING
    copied, mark = case.bytes_h2d + case.bytes_d2h, mode_of(case.mode).of_cpu_tensors
    if not copied:
        claim = case.checks.get("zero_copy")  # without which nobody knows what the EP copies
        return "0" if claim is None or claim["verdict"] == "passed" else NOTHING
    return f"{DERIVED if mark else ''}{units.size(copied)}"


# The bars


def splits(result: Result) -> list[Bar]:
    """The bar of each row of `mode_table`: fills and sizes in ns (`ortbench.report.bars.bar`), which add up to the row's latency.

    Phases are timed apart from `latency` and need not add up to it, so they share it out in proportion to their medians.
    Of a pipeline's copies there is what is not hidden.
    """
    return [_split(case, case.median(LATENCY) or 0) for case in measured_cases(result)]


def _split(case: Case, total: float) -> list[tuple[str, float]]:
    segments = segments_of(case)
    whole = sum(it.ns for it in segments)
    return [(FILLS[it.kind], it.ns / whole * total) for it in segments] if whole else [(FILLS[WHOLE], total)]


_TITLES = {"h2d": "H2D", "d2h": "D2H", COPIES: "copies (H2D and D2H)", PER_RUN: "time per inference (throughput)"}


def split_legend(parts: Sequence[Bar]) -> str:
    used = {fill for row in parts for fill, size in row if size > 0}
    fills = ", ".join(f"{fill} {_TITLES.get(kind, kind)}" for kind, fill in FILLS.items() if fill in used)
    return f"{SPLIT}: latency in the proportions of its parts, which are timed apart (one character at least): {fills}."


# All of it


def build(result: Result, folder: str | None = None) -> Report:
    """The report of a result; `folder` is where it was saved, which is said in a terminal."""
    report: Report = part_of(result.kind, "report", "build", _build)(result, folder)
    return report


def _build(result: Result, folder: str | None) -> Report:
    table = mode_table(result)
    parts: list[Sequence[Block]] = []
    if table.rows:
        parts.append([table])
    if table.bars:
        parts.append([Paragraph(split_legend(table.bars), fills=True, media=TERMINAL)])
    parts += [titled(it) for it in further_tables(result)]
    further = [*own_outputs(result), *cost_parts(result), *placement_parts(result)]
    return measured_report("ortbench", result, parts, not_measured(result), further, folder)


def further_tables(result: Result) -> list[Table]:
    """The tables beside the main one that have rows."""
    tables = part_of(result.kind, "report", "further_tables", lambda _: [])(result)
    return [table for table in tables if table.rows]


# Files


def write_run(result: Result, path: Path) -> None:
    """Write the tables of a finished result into its folder, or note that they could not be written."""
    write_or_note(path / "table.md", markdown(build(result)))
    write_or_note(path / "table.csv", records_csv(result))
    for name, made in part_of(result.kind, "report", "FILES", {}).items():
        write_or_note(path / name, made(result))
