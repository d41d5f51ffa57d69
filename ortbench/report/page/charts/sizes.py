"""The pictures of a sweep: a curve for each mode over the shapes, the best shape of each marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import nan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

from ortbench.core import units
from ortbench.report.page.charts.sheet import (
    INK,
    MUTED,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    level_mark,
    mode_shape,
    point_mark,
    text_width,
    upright_axis,
)
from ortbench.report.page.pictures.sizes import Curve, Sizes

_HEIGHT, _BELOW = {True: 220, False: 260}, 46  # px
_RING: dict[str, Any] = {"marker": "o", "markersize": 17, "markerfacecolor": "none", "markeredgecolor": INK, "linestyle": "none", "markeredgewidth": 1.4, "clip_on": False}  # fmt: skip
_LIMIT: dict[str, Any] = {"color": INK, "linestyle": (0, (4, 3)), "linewidth": 1.2}


def sizes(picture: Sizes, width: int) -> Sheet:
    """A line for each mode; an interval is an upright bar, the best shape has a ring, the limit of an SLO is a broken line."""
    narrow = is_narrow(width)
    modes = dict.fromkeys(it.mode for it in picture.curves)
    entries = [(mode, point_mark(**mode_shape(mode))) for mode in modes]
    if any(it.best is not None for it in picture.curves):
        entries.append(("best", point_mark(**{**_RING, "markersize": 12})))
    if picture.slo is not None:
        entries.append((f"limit ({picture.slo})", level_mark(**_LIMIT)))
    legend = Legend(entries, width)
    of_lines = max(text_width(it.of, SMALL) for it in picture.curves)  # of a grid, behind each line
    left, right, height = 66, (22 if narrow else 16) + of_lines, _HEIGHT[narrow]
    sheet = Sheet(width, legend.height + height + _BELOW)
    legend.draw(sheet)
    axes = sheet.axes(left, legend.height, width - left - right, height)
    places = list(range(len(picture.shapes))) if picture.sizes is None else list(picture.sizes)
    _size_axis(axes, places, picture, width - left - right)
    _value_axis(axes, picture)
    for curve in picture.curves:
        _line(sheet, axes, picture, curve, places)
    _name_lines(axes, picture, places)
    if picture.slo is not None:
        axes.axhline(picture.slo.limit_ns, **_LIMIT)
    sheet.text(
        left + (width - left - right) / 2,
        legend.height + height + 36,
        picture.axis,
        ha="center",
        fontsize=SMALL,
        color=MUTED,
    )
    return sheet


def _line(sheet: Sheet, axes: Axes, picture: Sizes, curve: Curve, places: Sequence[int]) -> None:
    style: dict[str, Any] = {**mode_shape(curve.mode), "markersize": 8}
    # Sets of inputs stand side by side: nothing lies between them that a line could be of, nor where a shape has failed.
    line = {"linewidth": 1.6} if picture.sizes is not None else {"linestyle": "none"}
    values = [nan if it is None else it[0] for it in curve.values]
    there = [(place, it) for place, it in zip(places, curve.values, strict=True) if it is not None]
    at, low, high = [place for place, _ in there], [it[1] for _, it in there], [it[2] for _, it in there]
    axes.vlines(at, low, high, color=style["color"], linewidth=1.4)
    (drawn,) = axes.plot(list(places), values, **style, **line)
    sheet.tip(drawn, f"{curve.name}: {picture.shown(there[0][1][0])} to {picture.shown(there[-1][1][0])}")
    if curve.best is not None and (best := curve.values[curve.best]) is not None:
        (ring,) = axes.plot([places[curve.best]], [best[0]], **_RING)
        sheet.tip(ring, f"{curve.name}, best: {picture.shapes[curve.best]}, {picture.shown(best[0])}")


def _name_lines(axes: Axes, picture: Sizes, places: Sequence[int]) -> None:
    """Of a grid, what its lines are of, once each behind their ends, none upon another."""
    ends: dict[str, tuple[int, float]] = {}
    for curve in picture.curves:
        last = max(at for at, it in enumerate(curve.values) if it is not None)
        ends.setdefault(curve.of, (places[last], (curve.values[last] or (0.0,))[0]))
    floor = -math.inf
    for of, (place, value) in sorted(ends.items(), key=lambda it: it[1][1]):
        height = axes.transData.transform((place, value))[1] * 72 / axes.figure.dpi  # in points
        lift = max(0.0, floor - height)
        floor = height + lift + SMALL * 1.15
        axes.annotate(
            of, (place, value), (10, lift), textcoords="offset points", va="center", fontsize=SMALL, color=MUTED, annotation_clip=False,
        )  # fmt: skip


def _size_axis(axes: Axes, places: Sequence[int], picture: Sizes, room: float) -> None:
    """Sizes as far apart as their ratios say; shapes that have no one size at equal distances."""
    if picture.sizes is not None and min(places) < max(places):
        axes.set_xscale("log", base=2)
        margin = (max(places) / min(places)) ** 0.03
        axes.set_xlim(min(places) / margin, max(places) * margin)
    else:
        axes.set_xlim(min(places) - 0.5, max(places) + 0.5)
    widest = max(text_width(name, SMALL) for name in picture.shapes) + 12
    every = -(-len(places) // max(1, int(room // widest)))  # as many names as there is room for
    axes.xaxis.set_major_locator(FixedLocator(list(places)[::every]))
    axes.xaxis.set_major_formatter(FixedFormatter(list(picture.shapes)[::every]))
    axes.xaxis.set_minor_locator(NullLocator())


def _value_axis(axes: Axes, picture: Sizes) -> None:
    """From nothing to the most; logarithmic where the least would lie on the floor."""
    values = [it for curve in picture.curves for it in curve.values if it is not None]
    low, high = min(it[1] for it in values), max(it[2] for it in values)
    if picture.slo is not None:
        low, high = min(low, picture.slo.limit_ns), max(high, picture.slo.limit_ns)
    shown = FuncFormatter(lambda value, _: units.rate(value)) if picture.rates else None
    upright_axis(axes, low, high, shown)
    axes.yaxis.grid(True)
