"""The picture of a series over time: medians in the band of their intervals, levels and the steps between them."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ortbench.analysis.comparing.history import Figure
from ortbench.core import units
from ortbench.model.metrics import TIME
from ortbench.report.history import day
from ortbench.report.page.charts.sheet import (
    ACCENT,
    COLOURS,
    INK,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    labels_apart,
    level_mark,
    patch_mark,
    point_mark,
    text_width,
    times_to,
    upright_mark,
)
from ortbench.report.page.pictures.over_time import OverTime
from ortbench.report.page.pictures.parts import H2D

_HEIGHT, _ABOVE, _BELOW = {True: 200, False: 220}, 18, 44  # px
_LEFT, _RIGHT = 70, 24  # px
_ROOM = 0.03  # of the highest value that the axis shows above and below at least
_LINE: dict[str, Any] = {"color": COLOURS[H2D], "linewidth": 1.4, "marker": "o", "markersize": 4, "clip_on": False}
_DENSE: dict[str, Any] = {**_LINE, "linewidth": 1.0, "markersize": 2.5}
_MANY = 120  # results, from which on points and lines are small
_BAND: dict[str, Any] = {"color": COLOURS[H2D], "alpha": 0.22, "linewidth": 0}
_LEVEL: dict[str, Any] = {"color": INK, "linewidth": 1.4}
_STEP: dict[str, Any] = {"color": ACCENT, "linewidth": 1.4, "linestyle": (0, (4, 3))}


def over_time(picture: OverTime, width: int) -> Sheet:
    """A point for each result; what a pointer over a step shows is its size."""
    narrow = is_narrow(width)
    legend = Legend(_entries(picture), width)
    height, top = _HEIGHT[narrow], legend.height + (_ABOVE if picture.series.steps else 0)
    sheet = Sheet(width, top + height + _BELOW)
    legend.draw(sheet)
    axes = sheet.axes(_LEFT, top, width - _LEFT - _RIGHT, height)
    figures = picture.series.figures
    _axes(axes, picture, narrow)
    times: list[Any] = [it.run.at for it in figures]
    low, high = zip(*map(_ends, figures), strict=True)
    axes.fill_between(times, low, high, **_BAND)
    (line,) = axes.plot(times, [it.value for it in figures], **(_DENSE if len(figures) > _MANY else _LINE))
    sheet.tip(line, f"{picture.show(figures[0].value)} to {picture.show(figures[-1].value)}")
    if picture.series.steps:
        for level, middle in picture.levels:
            ends: list[Any] = [level[0].run.at, level[-1].run.at]
            (drawn,) = axes.plot(ends, [middle] * 2, **_LEVEL)
            sheet.tip(drawn, f"{picture.show(middle)} from {day(level[0].run.at)} to {day(level[-1].run.at)}")
    for step in picture.series.steps:
        at: Any = figures[step.at].run.at
        tipped = axes.axvline(at, **_STEP)
        sheet.tip(tipped, picture.step_in_words(step))
    _sizes(sheet, axes, picture, top - 5)
    return sheet


def _sizes(sheet: Sheet, axes: Axes, picture: OverTime, y: float) -> None:
    """How great each step is, above it, or as near as there is room; nothing where there are too many."""
    steps = picture.series.steps
    at = [date2num(picture.series.figures[step.at].run.at) for step in steps]  # type: ignore[no-untyped-call]
    centres = [float(axes.transData.transform((x, 0))[0]) for x in at]
    texts = [f"×{units.ratio(step.size.ratio)}" for step in steps]
    widths = [text_width(text, SMALL) for text in texts]
    if sum(widths) + 10 * len(widths) > sheet.width:
        return
    for text, centre in zip(texts, labels_apart(centres, widths, sheet.width), strict=True):
        sheet.text(centre, y, text, ha="center", fontsize=SMALL)


def _entries(picture: OverTime) -> list[Any]:
    line = {key: value for key, value in _LINE.items() if key != "linewidth"}
    entries = [("median", point_mark(**line)), ("95 % interval", patch_mark(**_BAND))]
    if picture.series.steps:
        entries += [("level", level_mark(**_LEVEL)), ("step", upright_mark(**_STEP))]
    return entries


def _ends(figure: Figure) -> tuple[float, float]:
    """Where a figure may lie; itself where it has no interval."""
    return figure.ci95 or (figure.value, figure.value)


def _axes(axes: Axes, picture: OverTime, narrow: bool) -> None:
    """Days along the bottom; times from below the least to above the most, so that a step of some percent is seen."""
    figures = picture.series.figures
    low, high = min(_ends(it)[0] for it in figures), max(_ends(it)[1] for it in figures)
    room = max((high - low) / 12, high * _ROOM, 1e-9)
    axes.set_ylim(max(low - room, 0), high + room)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    is_time = picture.series.key.metric.unit is TIME
    axes.yaxis.set_major_formatter(times_to(high) if is_time else FuncFormatter(lambda value, _: picture.show(value)))
    axes.yaxis.grid(True)
    locator = AutoDateLocator(minticks=2, maxticks=4 if narrow else 8)  # type: ignore[no-untyped-call]
    axes.xaxis_date()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
