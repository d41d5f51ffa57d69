"""Bytes per second over bytes on logarithmic scales: marks with labels among lines, and diagonals of equal time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator
from matplotlib.transforms import Bbox

from ortbench.core import units
from ortbench.features.page.report.chart_data.model import Look, Mark, Scatter
from ortbench.features.page.report.chart_svg import sheet as paper

_LABELLED = 3  # so many marks can have their label beside them


def scatter(chart: Scatter, width: int) -> paper.Sheet:
    narrow, marks = paper.is_narrow(width), {it.name: it.look for it in chart.marks}
    entries = [(name, paper.point_mark(**_point(look))) for name, look in marks.items()]
    legend = paper.Legend([*entries, *((line.name, paper.line_mark(line.look)) for line in chart.lines)], width)
    head = 24 if chart.title else 0
    left, right, top, tall = 72, 14, head + legend.height + 4, 250 if narrow else 320
    sheet = paper.Sheet(width, top + tall + 28)
    sheet.text(1, 12, chart.title)
    legend.draw(sheet, head)
    axes = sheet.axes(left, top, width - left - right, tall)
    axes.spines["left"].set_visible(True)
    points = [(it.x, it.y) for it in chart.marks] + [point for line in chart.lines for point in line.points]
    sizes, rates = zip(*points, strict=True)
    axes.set(xscale="log", yscale="log", xlim=_around(sizes), ylim=_around(rates))
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        subs = (1.0,) if high > 200 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=5 if narrow else 9))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(paper.tick_formatter(lambda size: paper.without_noughts(units.size(size))))
    axes.yaxis.set_major_formatter(paper.tick_formatter(lambda rate: f"{paper.without_noughts(units.size(rate))}/s"))
    for line in chart.lines:
        counts, per_s = zip(*line.points, strict=True)
        axes.plot(counts, per_s, **paper.line_style(line.look))
    _equal_times(axes, _marks(sheet, axes, chart.marks))
    return sheet


def _point(look: Look) -> dict[str, Any]:
    """A mark without the rim that sets points on lines apart."""
    return {**paper.line_style(look), "linestyle": "none", "markeredgecolor": paper.COLOURS[look.colour]}


def _marks(sheet: paper.Sheet, axes: Axes, marks: Sequence[Mark]) -> list[Bbox]:
    """A mark for each, and its label where there are few. Gives the places that are taken, in px."""
    places = [(it.x, it.y) for it in marks]
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in axes.transData.transform(places or np.empty((0, 2)))]
    for it, place in zip(marks, places, strict=True):
        (point,) = axes.plot(*place, **_point(it.look))
        sheet.tip(point, it.tip)
        if len(marks) <= _LABELLED:
            _label(axes, it.text, place, _AROUND, taken)
    return taken


# Where a label may stand: how far from its point in px, and which of its sides is there. In this order they are tried.
_AROUND = [
    ((-9, 9), "right", "bottom"), ((-9, -9), "right", "top"), ((12, 0), "left", "center"), ((9, 9), "left", "bottom"),
    ((9, -9), "left", "top"), ((-12, 0), "right", "center"),
]  # fmt: skip
_BELOW = [((-4, -4), "right", "top")]


def _label(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    around: Sequence[tuple[tuple[int, int], str, str]],
    taken: list[Bbox],
    colour: str = paper.INK,
) -> None:
    """A label beside a point where it lies on nothing that is there, and no label where there is no such place."""
    lines = text.split("\n")
    width, height = max(paper.text_width(line, paper.SMALL) for line in lines), 16 * len(lines)
    x, y = axes.transData.transform(place)
    inside = axes.get_window_extent()
    for (right, up), ha, va in around:
        left = x + right - (width if ha == "right" else 0)
        bottom = y + up - {"top": height, "center": height / 2, "bottom": 0}[va]
        box = Bbox.from_bounds(left, bottom, width, height)
        if left >= inside.x0 and left + width <= inside.x1 and box.count_overlaps(taken) == 0:
            style = {"textcoords": "offset points", "ha": ha, "va": va, "color": colour}
            axes.annotate(text, place, (right, up), **style)  # type: ignore[arg-type]
            taken.append(box)
            return


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis with room around values for their labels, not less than a decade and a half apart."""
    low, high = np.log10(min(values)), np.log10(max(values))
    room = max(0.35, (1.5 - (high - low)) / 2)
    return float(10.0 ** (low - room)), float(10.0 ** (high + room))


def _equal_times(axes: Axes, taken: list[Bbox]) -> None:
    """Thin diagonals on which copies take equally long: 1 µs, 10 µs …; they are named where there is room."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    shortest, longest = np.log10(left / top * 1e9), np.log10(right / bottom * 1e9)
    for power in range(int(np.ceil(shortest)), int(np.floor(longest)) + 1):
        ns = 10.0**power
        axes.plot([left, right], [left / ns * 1e9, right / ns * 1e9], color=paper.RULE, linewidth=1, zorder=0.5)
        x = min(right, top * ns / 1e9)
        _label(axes, paper.without_noughts(units.duration(ns)), (x, x / ns * 1e9), _BELOW, taken, paper.MUTED)
