"""The picture of copies beside what the link can do: rates over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import Bbox

from ortbench.core import units
from ortbench.report.model import DERIVED
from ortbench.report.page.charts.sheet import (
    COLOURS,
    INK,
    MUTED,
    PAPER,
    RULE,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    kind_name,
    level_mark,
    plain,
    point_mark,
    text_width,
)
from ortbench.report.page.pictures.bandwidth import Bandwidth, Copy
from ortbench.report.page.pictures.parts import COPIES, D2H, H2D

_MARKERS = {H2D: "^", D2H: "v", COPIES: "D"}
_LINES: dict[str, dict[str, Any]] = {
    H2D: {"color": COLOURS[H2D], "linewidth": 1.6},
    D2H: {"color": COLOURS[D2H], "linewidth": 1.6, "dashes": (5, 2)},
}
_LABELLED = 3  # so many copies can have their label beside them


def bandwidth(picture: Bandwidth, width: int) -> Sheet:
    """Copies as marks among the curves of a sweep, on logarithmic axes."""
    narrow = is_narrow(width)
    kinds = dict.fromkeys(copy.kind for copy in picture.copies)
    entries = [(kind_name(kind, kind == COPIES), point_mark(**_marker(kind))) for kind in kinds]
    ways = [curve.kind for curve in picture.curves]
    entries += [(f"{way}, measured sweep", level_mark(**_LINES[way])) for way in ways]
    legend = Legend(entries, width)
    left, right, top, tall = 72, 14, legend.height + 4, 250 if narrow else 320
    sheet = Sheet(width, top + tall + 28)
    legend.draw(sheet)
    axes = sheet.axes(left, top, width - left - right, tall)
    axes.spines["left"].set_visible(True)
    points = [(copy.count, copy.ns) for copy in picture.copies] + [
        it for curve in picture.curves for it in curve.points
    ]
    sizes, rates = [count for count, _ in points], [1e9 * count / ns for count, ns in points]
    axes.set(xscale="log", yscale="log", xlim=_around(sizes), ylim=_around(rates))
    for axis, suffix in ((axes.xaxis, ""), (axes.yaxis, "/s")):
        low, high = axis.get_view_interval()
        axis.set_major_locator(
            LogLocator(subs=(1.0,) if high > 200 * low else (1.0, 2.0, 5.0), numticks=5 if narrow else 9)
        )
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda x, _, suffix=suffix: f"{plain(units.size(x))}{suffix}"))
    for curve in picture.curves:
        counts, ns = np.array(curve.points, dtype=float).T
        axes.plot(counts, 1e9 * counts / ns, **_LINES[curve.kind])
    _equal_times(axes, _copies(sheet, axes, picture.copies))
    return sheet


def _marker(kind: str) -> dict[str, Any]:
    colour = COLOURS[kind]
    return {
        "marker": _MARKERS[kind],
        "color": PAPER if kind == COPIES else colour,
        "markeredgecolor": colour,
        "markersize": 8,
    }


def _copies(sheet: Sheet, axes: Axes, copies: Sequence[Copy]) -> list[Bbox]:
    """A mark for each copy, and its label where there are few. Gives the places that are taken, in px."""
    places = [(copy.count, 1e9 * copy.rate) for copy in copies]
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in axes.transData.transform(places or np.empty((0, 2)))]
    for copy, place in zip(copies, places, strict=True):
        (point,) = axes.plot(*place, linestyle="none", **_marker(copy.kind))
        sheet.tip(point, copy.in_words)
        if len(copies) <= _LABELLED:
            mark = DERIVED if copy.kind == COPIES else ""
            _label(axes, f"{copy.name}\n{mark}{units.digits(copy.rate)} GB/s", place, _AROUND, taken)
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
    colour: str = INK,
) -> None:
    """A label beside a point where it lies on nothing that is there, and no label where there is no such place."""
    lines = text.split("\n")
    width, height = max(text_width(line, SMALL) for line in lines), 16 * len(lines)
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
        axes.plot([left, right], [left / ns * 1e9, right / ns * 1e9], color=RULE, linewidth=1, zorder=0.5)
        x = min(right, top * ns / 1e9)
        _label(axes, plain(units.duration(ns)), (x, x / ns * 1e9), _BELOW, taken, MUTED)
