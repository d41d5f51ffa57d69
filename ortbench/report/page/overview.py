"""What a page says of several results together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortbench.analysis.comparing.comparable import changes, unlike
from ortbench.analysis.comparing.compare import lacks, rows
from ortbench.analysis.comparing.pairs import is_faster
from ortbench.analysis.findings.advice import copy_share, fastest
from ortbench.analysis.items import best_mode, best_of
from ortbench.analysis.loads.levels import at, best_level, kept, rate_of
from ortbench.core import units
from ortbench.model.modes import ALL_MODES, LATENCY
from ortbench.model.result import LOAD, OK, Case, Result
from ortbench.report.cells import has_items
from ortbench.report.comparison import legend
from ortbench.report.comparison import tables as side_by_side
from ortbench.report.model import DERIVED, NOTHING, Column, Kind, Note, Paragraph, Table, columns, filled
from ortbench.report.page.chart_data.charts import charts_of_many
from ortbench.report.page.parts import Drawn, Section, drawn, sections
from ortbench.report.words import remark

_SAME = 0.02  # up to which difference two results are called the same


@dataclass(frozen=True)
class Overview:
    """Several results side by side: a row for each, pictures of all, and whether they may be compared."""

    table: Table
    notes: list[Note]
    pictures: list[Drawn]
    sections: list[Section]


def overview(results: Sequence[Result], names: Sequence[str]) -> Overview:
    """What a page says of several results together."""
    modes = [mode for mode in ALL_MODES if any(case.mode == mode for result in results for case in result.at_point())]
    pictures = [drawn(picture, f"0 {at}") for at, picture in enumerate(charts_of_many(results, names))]
    differences = [name for result in results[1:] for name, _, _ in unlike(results[0], result)]
    compared: list[Section] = []
    if differences:
        listed = ", ".join(dict.fromkeys(differences))
        said = [remark(f"not comparable: they differ in {listed}, so a ratio of their figures says little")]
    else:
        compared = sections(
            [it, Paragraph(legend(results, _SAME))] for it in side_by_side(results, names, _SAME, in_order=False)
        )
        said = [
            Note(f"{names[0]} → {name}: {change}")
            for name, result in zip(names[1:], results[1:], strict=True)
            for change in changes(results[0], result)
        ]
        said += [remark(f"cannot tell: {lack}") for lack in lacks(results, names, rows(results))]
    if (best := best_of(results, names)) is not None:
        said.append(Note(best))
    if {result.kind for result in results} == {LOAD}:
        return Overview(_loads(results, names), said, pictures, compared)
    headed = (Column("result", Kind.NAME), *columns(Kind.NUMBER, "copies", "fastest mode", "speedup", *modes))
    lines = tuple(_row(name, result, modes) for name, result in zip(names, results, strict=True))
    if has_items(results):
        headed = (*headed, Column("best items/s"))
        lines = tuple((*row, _items_cell(result)) for row, result in zip(lines, results, strict=True))
    return Overview(filled(Table(headed, lines)), said, pictures, compared)


def _loads(results: Sequence[Result], names: Sequence[str]) -> Table:
    """A row for each load: the most runs/s, with which mode and how many callers, and the highest rate that keeps the SLO."""
    headed = (Column("result", Kind.NAME), *columns(Kind.NUMBER, "most runs/s", "mode", "callers", "keeps SLO up to"))
    rows = []
    for name, result in zip(names, results, strict=True):
        best, rates = best_level(result), kept(result)
        most = (NOTHING,) * 3 if best is None else (units.rate(rate_of(best)), best.mode, f"{at(best).value:g}")
        rate = max((it["rate"] for it in rates.values()), default=None)
        rows.append((name, *most, NOTHING if rate is None else f"{units.rate(rate)}/s"))
    return filled(Table(headed, tuple(rows)))


def _row(name: str, result: Result, modes: Sequence[str]) -> tuple[str, ...]:
    by_mode = {case.mode: case for case in result.at_point()}
    share, best = copy_share(result), fastest(result)
    clear = best is not None and is_faster(best)
    return (
        name,
        NOTHING if share is None else f"{DERIVED}{units.share(share)}",
        NOTHING if best is None else best.mode if clear else "none for certain",
        NOTHING if best is None or best.speedup is None else f"{units.ratio(best.speedup.value)}×",
        *(_median_cell(by_mode.get(mode)) for mode in modes),
    )


def _items_cell(result: Result) -> str:
    found = best_mode(result, "")
    return NOTHING if found is None else units.rate(found.items_per_s)


def _median_cell(case: Case | None) -> str:
    if case is None:
        return NOTHING
    if case.status != OK:
        return case.status
    median = case.median(LATENCY)
    return NOTHING if median is None else units.duration(median)
