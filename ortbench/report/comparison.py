"""Results side by side: one table of them, its Markdown, and its flat records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ortbench import units
from ortbench.analysis.compare import EVERYTHING, Row, Selection, Spread, rows, word
from ortbench.modes import TOTAL
from ortbench.report.table import NOTHING, Table, table_markdown
from ortbench.report.words import heading
from ortbench.result import OK, Result

STEP_COLUMNS = ("mode", "result", "median", "vs first", "95 %", "verdict")  # of three results and more


PREVIOUS_COLUMNS = ("vs previous", "step")


def comparison(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
) -> tuple[Table, str]:
    """Results side by side, and the unit of the times.

    Args:
        results: at least two. Two give every mode and phase, more the total of every mode.
        names: what to call them.
        same: up to which share a difference does not matter; None leaves the words out.
        in_order: they are steps of one history, so each is held against the one before it too.
        only: these modes and phases.
    """
    if len(results) > 2 and not only.phases:
        only = Selection(only.modes, (TOTAL,))
    found = rows(results, only)
    medians = [median for row in found for median in row.medians_ns if median]
    unit, scale = units.time_unit(min(medians, default=1), max(medians, default=1))
    if len(results) == 2:
        pairs = tuple(_pair_row(row, scale, same) for row in found)
        words = () if same is None else ("verdict",)
        return Table(("mode", "phase", *names, "ratio", "95 %", *words), pairs, _only(results, names)), unit
    columns = [*STEP_COLUMNS, *PREVIOUS_COLUMNS] if in_order else [*STEP_COLUMNS]
    steps = tuple(line for row in found for line in _step_rows(row, names, scale, same, in_order))
    return Table(tuple(columns), steps, _only(results, names)), unit


def comparison_columns(table: Table) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns of a comparison: those that say what a row is of, and groups of the others; see `stacked`."""
    if table.columns[:2] != STEP_COLUMNS[:2]:
        return table.columns[:2], [table.columns[2:4], table.columns[4:]]
    last = [PREVIOUS_COLUMNS] if PREVIOUS_COLUMNS[0] in table.columns else []
    return STEP_COLUMNS[:2], [STEP_COLUMNS[2:3], STEP_COLUMNS[3:], *last]


def _pair_row(row: Row, scale: float, same: float | None) -> tuple[str, ...]:
    cells = (NOTHING if median is None else units.time(median, scale) for median in row.medians_ns)
    return (row.mode, row.phase, *cells, *_spread_cells(row.since_first[1], same))


def _step_rows(
    row: Row, names: Sequence[str], scale: float, same: float | None, in_order: bool
) -> list[tuple[str, ...]]:
    lines = []
    for number, (name, median) in enumerate(zip(names, row.medians_ns, strict=True)):
        cells = [row.mode if row.phase == TOTAL else f"{row.mode} {row.phase}"] if number == 0 else [""]
        cells += [name, NOTHING if median is None else units.time(median, scale)]
        cells += _spread_cells(row.since_first[number], same)
        if in_order:
            ratio, _, *words = _spread_cells(row.since_last[number], same)
            cells += [ratio, *words]
        lines.append(tuple(cells))
    return lines


def _spread_cells(spread: Spread | None, same: float | None) -> list[str]:
    """Ratio of times, its interval, and the word for it."""
    if spread is None:
        return [NOTHING] * (2 if same is None else 3)
    interval = NOTHING
    if spread.low is not None and spread.high is not None:
        interval = f"{units.ratio(spread.low, 3)}–{units.ratio(spread.high, 3)}"
    return [f"×{units.ratio(spread.ratio, 3)}", interval] + ([] if same is None else [word(spread, same)])


def _only(results: Sequence[Result], names: Sequence[str]) -> tuple[str, ...]:
    """Why a mode of one result has no figures."""
    return tuple(
        f"{name}: {case.mode}: {case.status}: {case.reason}"
        for name, result in zip(names, results, strict=True)
        for case in result.cases
        if case.status != OK
    )


def comparison_markdown(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
    remarks: Sequence[str] = (),
) -> str:
    """A comparison as Markdown; see `comparison`."""
    table, unit = comparison(results, names, same, in_order, only)
    lines = [f"# ortbench compare: {', '.join(names)}", ""]
    lines += [f"{name}: {line}  " for name, it in zip(names, results, strict=True) for line in side_heading(it)]
    lines += ["", table_markdown(table, unit, (*names, "median")), ""]
    lines += [f"- {note}" for note in (*table.notes, *remarks)]
    lines += ["", comparison_legend(results, same), ""]
    return "\n".join(lines)


def comparison_legend(results: Sequence[Result], same: float | None) -> str:
    """What the columns of a comparison mean."""
    alternated = len({result.setup.get("run_id") for result in results}) == 1 and results[0].setup.get("run_id")
    how = "blocks of the same rounds" if alternated else "runs at different times, with the noise that each recorded"
    within = "" if same is None else f"; same: within ±{same * 100:g} % for certain"
    return f"ratio: of median times, above 1 is slower, from {how}{within}."


def comparison_records(
    results: Sequence[Result], names: Sequence[str], same: float, only: Selection = EVERYTHING
) -> list[dict[str, Any]]:
    """A comparison as flat records, one a mode, phase and result: medians in ns, ratios of times, words."""
    found = []
    for row in rows(results, only):
        for number, name in enumerate(names):
            record: dict[str, Any] = {"mode": row.mode, "phase": row.phase, "result": name}
            record["median_ns"] = row.medians_ns[number]
            for key, spread in (("vs_first", row.since_first[number]), ("vs_previous", row.since_last[number])):
                record[key] = spread and {**asdict(spread), "verdict": word(spread, same)}
            found.append(record)
    return found


def side_heading(result: Result) -> list[str]:
    """One result in two lines: what ran where, and when."""
    lines = heading(result)[:2]
    return [lines[0], f"{lines[1]}; {result.created}"]
