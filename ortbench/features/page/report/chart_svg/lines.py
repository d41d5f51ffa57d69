"""Panels of lines below each other: with bands, intervals, rings and limits, over sizes, numbers or times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf, isfinite
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter, NullLocator

from ortbench.features.page.report.chart_data.model import Axis, Limit, Line, LineChart, Panel
from ortbench.features.page.report.chart_svg import sheet as paper

_LEFT, _RIGHT = 68, 14  # px
_ABOVE, _BELOW, _NAME = 26, 28, 18  # px, of a panel: what stands above it, its axis, the axis' name
_MARKED = 24  # so many points have a mark each; of more there are about as many marks on a line
_RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 17,
    "markerfacecolor": "none",
    "markeredgecolor": paper.INK,
    "markeredgewidth": 1.4,
    "linestyle": "none",
    "clip_on": False,
}
_BEYOND: dict[str, Any] = {"marker": "^", "color": paper.COLOURS["d2h"], "markersize": 7, "markeredgewidth": 0}
_DASHED: dict[str, Any] = {"linewidth": 1.3, "linestyle": (0, (4, 3))}


def lines(chart: LineChart) -> paper.Sheet:
    legend = paper.Legend(_entries(chart))
    ends = max((paper.text_width(it.end, paper.SMALL) for panel in chart.panels for it in panel.lines), default=0)
    above = [_ABOVE if panel.name else 0 for panel in chart.panels]
    below = [_BELOW + (_NAME if panel.axis.name else 0) for panel in chart.panels]
    apart = chart.panels[0].axis.kind == "times"  # one axis, below the last panel, is for all
    below = [
        12 if apart and panel is not chart.panels[-1] else it for panel, it in zip(chart.panels, below, strict=True)
    ]
    sheet = paper.Sheet(legend.height + chart.height * len(above) + sum(above) + sum(below))
    legend.draw(sheet)
    top, across = legend.height, paper.WIDTH - _LEFT - _RIGHT - ends
    for panel, over, under in zip(chart.panels, above, below, strict=True):
        top += over
        axes = sheet.axes(_LEFT, top, across, chart.height)
        _values(axes, panel)
        _below(axes, panel, across, named=not apart or panel is chart.panels[-1])
        _panel(sheet, axes, panel)
        _above(sheet, panel, top - 8)
        top += chart.height + under
        if panel.axis.name:
            sheet.text(
                _LEFT + across / 2, top - 10, panel.axis.name, ha="center", fontsize=paper.SMALL, color=paper.MUTED
            )
    return sheet


def _entries(chart: LineChart) -> Iterator[tuple[str, paper.Sample]]:
    every = list(chain.from_iterable(panel.lines for panel in chart.panels))
    named = {it.name: it.look for it in sorted(every, key=lambda it: it.look.thin)}
    limits = {it.name: it for panel in chart.panels for it in panel.limits}
    if any(panel.dots.size for panel in chart.panels):
        yield chart.dots, paper.point_mark(marker="o", color=paper.ACCENT, markersize=5, markeredgewidth=0)
    yield from ((name, paper.line_mark(look)) for name, look in named.items())
    bands = [it for it in every if it.band]
    if bands:
        yield chart.band, paper.patch_mark(facecolor=paper.COLOURS[bands[0].look.colour], alpha=0.3, linewidth=0)
    if any(it.rings for it in every):
        yield chart.ring, paper.point_mark(**{**_RING, "markersize": 13})
    if any(it.hollow for it in every):
        style = {"marker": "o", "markerfacecolor": paper.PAPER, "markeredgecolor": paper.INK, "markersize": 8}
        yield chart.hollow, paper.point_mark(**style)
    yield from ((name, paper.level_mark(**_level(it))) for name, it in limits.items())
    if any(panel.beyond for panel in chart.panels):
        yield chart.beyond, paper.point_mark(**_BEYOND)


def _level(it: Limit) -> dict[str, Any]:
    return {"color": paper.INK, **_DASHED} if it.dashed else {"color": paper.INK, "linewidth": 1}


# What is in a panel


def _panel(sheet: paper.Sheet, axes: Axes, panel: Panel) -> None:
    for it in panel.limits:
        axes.axhline(it.y, zorder=1.5, **_level(it))
    for upright in panel.uprights:
        colour = paper.COLOURS[upright.colour]
        if upright.span is not None:
            axes.axvspan(*upright.span, color=colour, alpha=0.15, linewidth=0)
        sheet.tip(axes.axvline(upright.x, color=colour, **_DASHED), upright.tip)
    for line in panel.lines:
        _line(sheet, axes, line)
    _name_ends(axes, panel.lines)
    if panel.dots.size:
        paper.add_dots(axes, panel.dots, size=5 if len(panel.dots) < 250 else 3.4)
    if panel.beyond:
        low, high = axes.get_ylim()
        axes.plot(panel.beyond, [high - (high - low) * 0.05] * len(panel.beyond), linestyle="none", **_BEYOND)


def _line(sheet: paper.Sheet, axes: Axes, line: Line) -> None:
    style, count = paper.line_style(line.look), len(line.points)
    colour = style["color"]
    x, y = [at for at, _ in line.points], [value for _, value in line.points]
    if line.band:
        low, high = zip(*line.band, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.3, linewidth=0)
    for at, low_end, high_end in line.intervals:
        axes.plot([at] * 2, [low_end, high_end], color=colour, linewidth=1.4)
    style |= {"markevery": max(1, count // _MARKED)}
    style |= {} if line.joined else {"linestyle": "none"}
    style |= {"alpha": 0.6} if line.look.thin else {}
    (drawn,) = axes.plot(x, y, **style)
    if line.tip:
        sheet.tip(drawn, line.tip)
    if line.hollow:
        axes.plot(
            *zip(*line.hollow, strict=True), **paper.line_style(line.look._replace(hollow=True)) | {"linestyle": "none"}
        )
    for ring in line.rings:
        (around,) = axes.plot([ring.x], [ring.y], **_RING)
        sheet.tip(around, ring.tip)


def _name_ends(axes: Axes, lines: Sequence[Line]) -> None:
    """What lines are of, once each behind their ends, none upon another."""
    ends: dict[str, tuple[float, float]] = {}
    for line in lines:
        if line.end:
            ends.setdefault(line.end, [point for point in line.points if isfinite(point[1])][-1])
    floor = -inf
    style: dict[str, Any] = {"va": "center", "fontsize": paper.SMALL, "color": paper.MUTED, "annotation_clip": False}
    for text, place in sorted(ends.items(), key=lambda it: it[1][1]):
        height = axes.transData.transform(place)[1] * 72 / axes.figure.dpi  # in points
        lift = max(0.0, floor - height)
        floor = height + lift + paper.SMALL * 1.15
        axes.annotate(text, place, (10, lift), textcoords="offset points", **style)


def _above(sheet: paper.Sheet, panel: Panel, y: float) -> None:
    """The panel's name, and what is said of it."""
    if panel.said:
        sheet.text(1, y, panel.name, weight="bold")
        sheet.text(paper.WIDTH - _RIGHT, y, panel.said, ha="right", fontsize=paper.SMALL, color=paper.MUTED)
    else:
        sheet.text(0, y, panel.name, fontsize=paper.SMALL, color=paper.MUTED)


# Axes


def _values(axes: Axes, panel: Panel) -> None:
    """From nothing to the most, or from where to where the panel says; limits are within it."""
    if panel.span is not None:
        low, high = panel.span
        axes.set_ylim(low, high)
        few = panel.axis.kind == "times"
        # Three digits of a value that `show` writes are too few for half a step between large ones.
        steps = [1, 2, 5, 10] if panel.show else [1, 2, 2.5, 5, 10]
        axes.yaxis.set_major_locator(MaxNLocator(3 if few else 5, steps=steps, prune="lower" if few else None))
        axes.yaxis.set_major_formatter(paper.times_to(high) if panel.show is None else paper.tick_formatter(panel.show))
    else:
        values = [value for line in panel.lines for _, value in line.points if isfinite(value)]
        values += [end for line in panel.lines for _, *ends in line.intervals for end in ends]
        values += [it.y for it in panel.limits]
        paper.upright_axis(axes, min(values), max(values), panel.show)
    if panel.axis.kind == "times":
        axes.xaxis.grid(True)
    else:
        axes.yaxis.grid(True)


def _below(axes: Axes, panel: Panel, across: float, named: bool) -> None:
    """The axis below; `named`: with its ticks' texts."""
    axis, steps = axes.xaxis, [1, 2, 2.5, 5, 10]
    match panel.axis.kind:
        case "sizes" | "places":
            _ticks(axes, panel.axis, across)
        case "whole":
            end = max(max((x for line in panel.lines for x, _ in line.points), default=0), 1)
            axes.set_xlim(-end / 40, end * (1 + 1 / 40))
            axis.set_major_locator(MaxNLocator(10, integer=True))
        case "rates":
            ends = [end for it in panel.uprights for end in it.span or ()]
            axes.set_xlim(0, max([x for line in panel.lines for x, _ in line.points] + ends) * 1.05)
            axis.set_major_locator(MaxNLocator(8, steps=steps))
            axis.set_major_formatter(paper.tick_formatter("{:g}".format))
        case "times":
            end = panel.axis.ticks[-1][0]
            axes.set_xlim(-end / 80, end * (1 + 1 / 80))
            axis.set_major_locator(MaxNLocator(8, steps=steps))
            axis.set_major_formatter(paper.times_to(end) if named else NullFormatter())


def _ticks(axes: Axes, axis: Axis, across: float) -> None:
    """Sizes as far apart as their ratios say, places at equal distances; as many names as there is room for."""
    places = [x for x, _ in axis.ticks]
    if axis.kind == "sizes" and places[0] < places[-1]:
        margin = max((places[-1] / places[0]) ** 0.03, 1.05)
        axes.set_xscale("log", base=2)
        axes.set_xlim(places[0] / margin, places[-1] * margin)
    else:
        axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    widest = max(paper.text_width(name, paper.SMALL) for _, name in axis.ticks) + 12
    shown = axis.ticks[:: -(-len(places) // max(1, int(across // widest)))]
    axes.xaxis.set_major_locator(FixedLocator([x for x, _ in shown]))
    axes.xaxis.set_major_formatter(
        FixedFormatter([paper.without_noughts(name) if axis.kind == "sizes" else name for _, name in shown])
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
