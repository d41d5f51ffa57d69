"""The cells of results side by side: ratios and their verdicts, figures with their units, and what kinds tell besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.comparison import CANNOT_TELL, FAR, FASTER, SLOWER, RatioEstimate, Row, word
from ortbench.analysis.series import Key, Point, Series
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.core.stats import percentile
from ortbench.model.metrics import USUAL, Group, Metric
from ortbench.model.modes import is_rate
from ortbench.report.model import BAD, GOOD, NOTHING, UNCLEAR, Cell

_TONES = {FASTER: GOOD, SLOWER: BAD, CANNOT_TELL: UNCLEAR}


def ratio_cells(row: Row, found: RatioEstimate | None, same: float | None) -> list[str]:
    """The ratio and its interval, unless it is exact or not that of the figures shown, and the word for it unless `same` is None."""
    if found is None:
        return [NOTHING] * (2 if same is None else 3)
    interval = f"each ≥{FAR}×" if found.apart else NOTHING
    if found.low is not None and found.high is not None and not found.exact and not found.doubted:
        interval = f"{units.change(found.low)}–{units.change(found.high)}"
    cells = [NOTHING, NOTHING] if found.floored else [units.change(found.ratio), interval]
    return cells if same is None else [*cells, verdict_cell(word(found, same, row.is_cost))]


def verdict_cell(verdict: str) -> Cell:
    """The word for a ratio; that of a cost is neither good nor bad."""
    return Cell(verdict, _TONES.get(verdict, ""))


OwnCells = dict[str, dict[tuple[str, Point], list[str]]]  # by column, and by mode and point, a cell for each result


def own_cells(found: Sequence[Row]) -> OwnCells:
    """What a kind tells of each case besides its figures, such as whether it meets an SLO; only what holds something."""
    own: OwnCells = {}
    for row in found if any(not it.is_cost for it in found) else ():
        for number, series in enumerate(row.found):
            if series is None:
                continue
            for name, show in part_of(series.result.kind, "report", "COMPARED_CELLS", {}).items():
                cells = own.setdefault(name, {})
                cells.setdefault((row.key.mode, row.key.point), [NOTHING] * len(row.found))
                cells[row.key.mode, row.key.point][number] = show(series.result, series.case)
    empty = {NOTHING}
    return {name: cells for name, cells in own.items() if {it for row in cells.values() for it in row} != empty}


def with_own_rows(
    lines: Sequence[tuple[str, ...]], found: Sequence[Row], own: OwnCells, keys: int
) -> tuple[tuple[str, ...], ...]:
    """The rows of two results, below those of each point what a kind tells of it besides its figures."""
    every: list[tuple[str, ...]] = []
    for number, (line, row) in enumerate(zip(lines, found, strict=True)):
        every.append(line)
        following = found[number + 1].key if number + 1 < len(found) else None
        if following is None or (following.mode, following.point) != (row.key.mode, row.key.point):
            for name, cells_of in own.items():
                cells = cells_of[row.key.mode, row.key.point]
                if any(cell != NOTHING for cell in cells):
                    told = (*line[: keys - 1], name, *cells)
                    every.append((*told, *[NOTHING] * (len(line) - len(told))))
    return tuple(every)


def tail_of(series: Series, name: str) -> float | None:
    """A percentile beside a median of the time that an inference, a loop, a chain or a part of one takes."""
    metric, statistic = series.key.figure
    stats = series.case.stats(metric)
    is_time = series.key.metric.group is Group.TIME and not is_rate(series.key.mode, metric)
    return percentile(stats, name) if stats is not None and statistic == USUAL and is_time else None


Show = Callable[[Metric, float], str]


def figure_format(found: Sequence[Row], is_short: bool = False) -> tuple[str, Show]:
    """The unit of all figures where they share one, and what prints a figure: with its own unit, maybe a short one, where they do not."""
    units_of = {it.key.metric.unit for it in found}
    values = [value for it in found for value in it.values if value]
    if len(units_of) == 1 and (unit := units_of.pop()).scale is not None:
        name, cell = unit.column(values)
        return name, lambda _, value: cell(value)
    return "", lambda metric, value: (metric.unit._replace(spelled="") if is_short else metric.unit).text(value)


def figure_cell(metric: Metric, value: float | None, show: Show) -> str:
    return NOTHING if value is None else show(metric, value)


def figure_text(key: Key) -> str:
    """A figure in a table: the metric, and the statistic unless it is the usual one."""
    statistic = key.figure.statistic
    return key.metric.title if statistic in ("", key.metric.usual) else f"{key.metric.title} {statistic}"
