"""Results side by side: the report of a comparison, and its flat records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from ortbench import units
from ortbench.analysis.compare import EVERYTHING, Row, Selection, cost_rows, lacks, parts, rows, word
from ortbench.analysis.compare_levels import are_loads, level_rows, untold
from ortbench.analysis.compare_sweeps import are_sweeps, common, only_in, sweep_lacks, sweep_rows
from ortbench.modes import COSTS, TOTAL, WHOLE_CHAIN, WHOLE_LOOP
from ortbench.report import sweep
from ortbench.report.costs.compared import compared_costs, cost_table
from ortbench.report.costs.energy import energy_comparison
from ortbench.report.costs.memory import change_records
from ortbench.report.load import level_failures
from ortbench.report.load_compared import LEVEL_LEGEND, level_records, level_table
from ortbench.report.model import (
    KEY,
    NOTHING,
    Column,
    Kind,
    Note,
    Notes,
    Paragraph,
    Report,
    SideBySide,
    Table,
    columns,
    numbers,
)
from ortbench.report.spreads import spread_cells
from ortbench.report.throughput import best_note, has_items, item_cells, item_columns
from ortbench.report.together import off_target
from ortbench.report.words import heading, hint, not_measured, remark
from ortbench.result import Result

# Of two results.
_PAIR = (Column("mode", Kind.NAME, KEY), Column("phase", Kind.WORD, KEY))
_RATIO = columns(Kind.NUMBER, "ratio", "95 %", group=2)
# Of three and more.
_STEPS = (
    Column("mode", Kind.NAME, KEY),
    Column("result", Kind.WORD, KEY),
    Column("median", Kind.TIME, 1),
    *columns(Kind.NUMBER, "vs first", "95 %", group=2),
    Column("verdict", Kind.WORD, 2),
)
_PREVIOUS = (Column("vs previous", Kind.NUMBER, 3), Column("step", Kind.WORD, 3))


def side_table(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None,
    in_order: bool,
    only: Selection = EVERYTHING,
) -> Table:
    """Results side by side.

    Args:
        results: at least two. Two give every mode and phase, more the total of every mode; of loops and chains those of their parts too.
        names: what to call them.
        same: up to which share a difference does not matter; None leaves the words out.
        in_order: they are steps of one history, so each is held against the one before it too.
        only: these modes and phases.
    """
    if _by_level(results, only):
        return level_table(level_rows(results, only.modes), names, same, in_order)
    return _table(results, _rows(results, only), names, same, in_order)


def _by_level(results: Sequence[Result], only: Selection) -> bool:
    """Whether results are compared level by level: loads are, unless a phase was asked for, which one caller alone has."""
    return are_loads(results) and not only.phases


def _rows(results: Sequence[Result], only: Selection) -> list[Row]:
    if are_sweeps(results):
        return sweep_rows(results, only)
    is_all = len(results) == 2 or only.phases or parts(results)
    return rows(results, only if is_all else Selection(only.modes, (TOTAL,)))


def _is_whole(row: Row) -> bool:
    """Whether it is of whole inferences, loops or chains."""
    return row.phase in (TOTAL, WHOLE_LOOP, WHOLE_CHAIN)


def _table(
    results: Sequence[Result], found: Sequence[Row], names: Sequence[str], same: float | None, in_order: bool
) -> Table:
    table = _times(found, names, same, in_order)
    if are_sweeps(results):
        return _of_shapes(table)
    if not has_items(results):
        return table
    of_total = [[result.case(row.mode) if _is_whole(row) else None for result in results] for row in found]
    if len(names) == 2:
        added, cells = item_columns(4, names), [item_cells(cases) for cases in of_total]
    else:
        added, cells = item_columns(4), [item_cells([case]) for cases in of_total for case in cases]
    rows = tuple((*row, *more) for row, more in zip(table.rows, cells, strict=True))
    return replace(table, columns=(*table.columns, *added), rows=rows)


def _of_shapes(table: Table) -> Table:
    """The same table of sweeps, whose rows are of shapes."""
    headed = tuple(Column("shape", Kind.WORD, KEY) if it.name == "phase" else it for it in table.columns)
    return replace(table, columns=headed)


def _times(found: Sequence[Row], names: Sequence[str], same: float | None, in_order: bool) -> Table:
    medians = [median for row in found for median in row.medians_ns if median]
    unit, scale = units.time_unit(max(medians, default=1))
    if len(names) == 2:
        words = () if same is None else (Column("verdict", Kind.WORD, 2),)
        headed = (*_PAIR, *columns(Kind.TIME, *names), *_RATIO, *words)
        return Table(headed, tuple(_pair_row(row, scale, same) for row in found), unit, title="Side by side")
    steps = tuple(line for row in found for line in _step_rows(row, names, scale, same, in_order))
    return Table((*_STEPS, *_PREVIOUS) if in_order else _STEPS, steps, unit, title="Side by side")


def _pair_row(row: Row, scale: float, same: float | None) -> tuple[str, ...]:
    cells = (NOTHING if median is None else units.time(median, scale) for median in row.medians_ns)
    return (row.mode, row.phase, *cells, *spread_cells(row.since_first[1], same))


def _step_rows(
    row: Row, names: Sequence[str], scale: float, same: float | None, in_order: bool
) -> list[tuple[str, ...]]:
    lines = []
    for number, (name, median) in enumerate(zip(names, row.medians_ns, strict=True)):
        cells = [row.mode if row.phase == TOTAL else f"{row.mode} {row.phase}"] if number == 0 else [""]
        cells += [name, NOTHING if median is None else units.time(median, scale)]
        cells += spread_cells(row.since_first[number], same)
        if in_order:
            ratio, _, *words = spread_cells(row.since_last[number], same)
            cells += [ratio, *words]
        lines.append(tuple(cells))
    return lines


def build(
    results: Sequence[Result],
    names: Sequence[str],
    same: float,
    in_order: bool,
    only: Selection = EVERYTHING,
    remarks: Sequence[str] = (),
) -> Report:
    """The report of a comparison; see `side_table`.

    Args:
        remarks: what the results differ in, in sentences.
    """
    sweeps = are_sweeps(results)
    lacking = sweep_lacks(results, names, only) if sweeps else _lacking(results, names, only)
    remarks = [*remarks, *(only_in(results, names) if sweeps else ())]
    said = map(remark, [*lacking, *remarks])
    notes = [*why_missing(results, names), *said, *best_note(results, names, only.modes)]
    sides = side_by_side(results, names, same, in_order, only)
    explained = [Paragraph(legend(results, same)), hint("ratio", "95 %", "verdict")]
    off = off_target(results, names)
    return Report(title(names), (*([off] if off else ()), [sides], [Notes(notes), *explained]))


def _lacking(results: Sequence[Result], names: Sequence[str], only: Selection) -> list[str]:
    """What there is too little of for intervals."""
    if not _by_level(results, only):
        return lacks(results, names, _rows(results, only))
    why = untold(level_rows(results, only.modes))
    return [] if why is None else [why]


def build_alone(names: Sequence[str]) -> Report:
    """The report of results beside which there is nothing that they may be compared with."""
    text = f"not compared, nothing else here was measured on the same thing: {', '.join(names)} (--force compares all)"
    return Report("ortbench compare: the rest", ([Notes([remark(text)])],))


def title(names: Sequence[str], what: str = "") -> str:
    """What a comparison of results is called, with what it is of where there are several."""
    return f"ortbench compare: {what}: {', '.join(names)}" if what else f"ortbench compare: {', '.join(names)}"


def side_by_side(
    results: Sequence[Result],
    names: Sequence[str],
    same: float | None = None,
    in_order: bool = False,
    only: Selection = EVERYTHING,
) -> SideBySide:
    """What each result is of and, where there are several, a table of them; see `side_table`."""
    headings = [_heading(result) for result in results]
    if len(results) == 1:
        return SideBySide(names, headings)
    if _by_level(results, only):
        of_levels = level_rows(results, only.modes)
        named, numbered = (level_table(of_levels, called, same, in_order) for called in (names, numbers(len(names))))
        return SideBySide(names, headings, named, numbered)
    found, either = _rows(results, only), (names, numbers(len(names)))
    named, numbered = (_table(results, found, called, same, in_order) for called in either)
    costs = [] if same is None else compared_costs(results, only)
    more = [cost_table(costs, called, same, in_order) for called in either if costs]
    return SideBySide(names, headings, named, numbered, more)


def _heading(result: Result) -> list[str]:
    """One result in two lines, of a loop, a chain, a load or a sweep in three: what ran where, and when."""
    *first, where = heading(result)[: 2 if result.kind is None else 3]
    return [*first, f"{where}; {result.created}"]


def why_missing(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """Why a mode of one result has no figures."""
    return [note for name, result in zip(names, results, strict=True) for note in _failures(result)(result, name)]


def _failures(result: Result) -> Callable[[Result, str], Iterable[Note]]:
    """What says why something has no figures, in a result of this kind."""
    if result.load is not None:
        return level_failures
    return not_measured if result.points is None else sweep.not_measured


def legend(results: Sequence[Result], same: float | None) -> str:
    """What the columns of a comparison mean."""
    alternated = len({result.setup.get("run_id") for result in results}) == 1 and results[0].setup.get("run_id")
    how = "blocks of the same rounds" if alternated else "runs at different times, with the noise that each recorded"
    within = "" if same is None else f"; same: within ±{same * 100:g} % for certain"
    if are_loads(results):
        return f"{LEVEL_LEGEND}{', by blocks of the same rounds' if alternated else ' and that between runs'}{within}."
    return f"ratio: of median times, above 1 is slower, from {how}{within}."


def records(
    results: Sequence[Result], names: Sequence[str], same: float, only: Selection = EVERYTHING
) -> list[dict[str, Any]]:
    """A comparison as flat records, one a mode, phase and result: medians in ns, ratios of times, words, and
    of totals items a second and the time of each in ns, where it is known how many a run has; then what runs draw. Of loads
    `ortbench.report.load_compared.level_records`."""
    if _by_level(results, only):
        return level_records(results, names, same, only.modes)
    if are_sweeps(results):
        return [
            {"shape": name, **record} for name, alike in common(results) for record in records(alike, names, same, only)
        ]
    found = []
    for row in [*rows(results, only), *cost_rows(results, only)]:
        for number, name in enumerate(names):
            record: dict[str, Any] = {"mode": row.mode, "phase": row.phase, "result": name}
            record["median_ns"] = row.medians_ns[number]
            case = results[number].case(row.mode) if _is_whole(row) else None
            known = None if case is None else case.throughput
            record["items_per_s"], record["item_ns"] = known and known["items_per_s"], known and known["item_ns"]
            for key, spread in (("vs_first", row.since_first[number]), ("vs_previous", row.since_last[number])):
                record[key] = spread and {**asdict(spread), "verdict": word(spread, same, row.phase in COSTS)}
            found.append(record)
    found += energy_comparison(results, names, same, only)
    return found if only.phases else [*found, *change_records(results, names, same, only.modes)]
