"""Drawings of charts: lines, stacked bars and histograms, as SVG for a page or a file, and as Matplotlib's own figure."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from math import inf, isfinite
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.safe_text import visible
from ortbench.core.stats import SAMPLES_FOR
from ortbench.features.page.report import sheet as paper
from ortbench.features.page.report.chart_model import (
    Axis,
    Bar,
    Drawing,
    Fill,
    Histograms,
    Limit,
    Line,
    LineChart,
    Panel,
    Samples,
    StackedBars,
)
from ortbench.features.page.report.charts import edge_of
from ortbench.features.page.report.sheet import MARGIN, PAPER, STYLE, Sheet, svg_document

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
        12 if apart and panel is not chart.panels[-1] else room for panel, room in zip(chart.panels, below, strict=True)
    ]
    sheet = paper.Sheet(legend.height + chart.height * len(above) + sum(above) + sum(below))
    legend.draw(sheet)
    top, across = legend.height, paper.WIDTH - _LEFT - _RIGHT - ends
    for panel, over, under in zip(chart.panels, above, below, strict=True):
        top += over
        axes = sheet.axes(_LEFT, top, across, chart.height)
        _values(axes, panel)
        _draw_below(axes, panel, across, named=not apart or panel is chart.panels[-1])
        _panel(sheet, axes, panel)
        y = top - 8
        if panel.said:
            sheet.text(1, y, panel.name, weight="bold")
            sheet.text(paper.WIDTH - _RIGHT, y, panel.said, ha="right", fontsize=paper.SMALL, color=paper.MUTED)
        else:
            sheet.text(0, y, panel.name, fontsize=paper.SMALL, color=paper.MUTED)
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
    yield from ((name, paper.limit_mark(**_limit_style(it))) for name, it in limits.items())
    if any(panel.beyond for panel in chart.panels):
        yield chart.beyond, paper.point_mark(**_BEYOND)


def _limit_style(limit: Limit) -> dict[str, Any]:
    return {"color": paper.INK, **_DASHED} if limit.dashed else {"color": paper.INK, "linewidth": 1}


def _panel(sheet: paper.Sheet, axes: Axes, panel: Panel) -> None:
    for limit in panel.limits:
        axes.axhline(limit.y, zorder=1.5, **_limit_style(limit))
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
    for text, point in sorted(ends.items(), key=lambda it: it[1][1]):
        height = axes.transData.transform(point)[1] * 72 / axes.figure.dpi  # in points
        lift = max(0.0, floor - height)
        floor = height + lift + paper.SMALL * 1.15
        axes.annotate(text, point, (10, lift), textcoords="offset points", **style)


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


def _draw_below(axes: Axes, panel: Panel, across: float, named: bool) -> None:
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
    points = [x for x, _ in axis.ticks]
    if axis.kind == "sizes" and points[0] < points[-1]:
        margin = max((points[-1] / points[0]) ** 0.03, 1.05)
        axes.set_xscale("log", base=2)
        axes.set_xlim(points[0] / margin, points[-1] * margin)
    else:
        axes.set_xlim(points[0] - 0.5, points[-1] + 0.5)
    widest = max(paper.text_width(name, paper.SMALL) for _, name in axis.ticks) + 12
    shown = axis.ticks[:: -(-len(points) // max(1, int(across // widest)))]
    axes.xaxis.set_major_locator(FixedLocator([x for x, _ in shown]))
    axes.xaxis.set_major_formatter(
        FixedFormatter([paper.without_noughts(name) if axis.kind == "sizes" else name for _, name in shown])
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


# Rows: bars and histograms


_BAR = 20  # px, height of a bar
_LABEL = 20  # px, height of the labels above one
_FOOT, _REST = 24, 22  # px, the axis, and a line below it
_GAP = 10  # px, between labels


def bars(chart: StackedBars) -> paper.Sheet:
    """A bar for each name, the longest as wide as there is room."""
    width, bold = paper.WIDTH, "bold" if chart.mark else "normal"
    marks = [(chart.mark, paper.upright_mark(linewidth=2))] if chart.mark else []
    legend = paper.Legend([*((fill.name, paper.patch_mark(**_paint(fill))) for fill in chart.fills), *marks])
    names = [paper.shorten(visible(it.name), width * 0.45) for it in chart.bars]
    label = _LABEL if any(part.name for it in chart.bars for part in it.parts) else 0
    row = label + _BAR + 10 + (8 if label else 0)
    left = max(paper.text_width(name, weight=bold) for name in names) + 18
    right = max(paper.text_width(it.said, weight="bold") for it in chart.bars) + 12
    top, height = legend.height, row * len(names)
    sheet = paper.Sheet(top + height + _FOOT + (_REST if chart.rest else 0))
    legend.draw(sheet)
    longest = max(1, *(it.end_ns for it in chart.bars))
    axes, scale = sheet.axes(left, top, width - left - right, height), (width - left - right) / longest
    axes.set(xlim=(0, longest), ylim=(height, 0))
    paper.time_axis(axes, longest)
    for number, (name, bar) in enumerate(zip(names, chart.bars, strict=True), 1):
        base = row * number - 6
        sheet.text(left - 18, top + base - 5, name, weight=bold, ha="right")
        sheet.text(left + bar.end_ns * scale + 8, top + base - 5, bar.said, weight="bold")
        at = 0.0
        for part in bar.parts:
            (patch,) = axes.barh(base - _BAR / 2, part.ns, _BAR, at, **_paint(part.fill))
            sheet.tip(patch, part.tip)
            at += part.ns
        if bar.mark_ns is not None:
            (line,) = axes.plot(
                [bar.mark_ns] * 2, [base + 4, base - _BAR - 4], color=paper.INK, linewidth=2, clip_on=False
            )
            sheet.tip(line, bar.tip)
        _label(sheet, bar, left, top + base - _BAR - 8, scale)
    if chart.rest:
        sheet.text(1, sheet.height - 6, chart.rest, fontsize=paper.SMALL, color=paper.MUTED)
    return sheet


def _paint(fill: Fill) -> dict[str, Any]:
    """Colour and hatching both say what a part is; only what was measured is filled."""
    face, edge = (paper.PAPER, paper.COLOURS[fill.colour]) if fill.hollow else (paper.COLOURS[fill.colour], paper.PAPER)
    return {"facecolor": face, "edgecolor": edge, "linewidth": 1.2 if fill.hollow else 1.0, "hatch": fill.hatch or None}


def _label(sheet: paper.Sheet, bar: Bar, left: float, y: float, scale: float) -> None:
    """Names and times above the parts of a bar, the times alone where there is no room: of all that fit side by side, the longest."""
    parts, room = bar.parts, paper.WIDTH - left
    long = [f"{paper.shorten(visible(part.name), room / 3)} {part.said}".strip() for part in parts]
    texts = long if _fit(long, room) else [part.said for part in parts]
    kept = sorted(range(len(parts)), key=lambda number: -parts[number].ns)
    while not _fit([texts[number] for number in kept], room):
        kept.pop()
    kept.sort()
    begins = [0.0, *accumulate(part.ns for part in parts)]
    centres = [(begins[number] + parts[number].ns / 2) * scale for number in kept]
    widths = [paper.text_width(texts[number], paper.SMALL) for number in kept]
    for x, number in zip(paper.labels_apart(centres, widths, room), kept, strict=True):
        sheet.text(left + x, y, texts[number], ha="center", fontsize=paper.SMALL, color=paper.MUTED)


def _fit(texts: Sequence[str], room: float) -> bool:
    return sum(paper.text_width(text, paper.SMALL) + _GAP for text in texts) <= room + _GAP


_MEDIAN: dict[str, Any] = {"linewidth": 2}
_P95: dict[str, Any] = {"linewidth": 1.4, "dashes": (3, 2)}
_FEW = 40  # so few samples are shown as dots, not as a histogram
_BIN = 3.0  # px, the narrowest bin of a histogram


def histograms(chart: Histograms) -> paper.Sheet:
    """A histogram for each mode, all on one axis; where samples are few, the samples."""
    width, row, tall, right = paper.WIDTH, 64, 42, 190
    names = [paper.shorten(visible(it.mode), width * 0.32) for it in chart.rows]
    left = max(paper.text_width(name, weight="bold") for name in names) + 18
    entries = [("median", paper.upright_mark(**_MEDIAN))]
    if any(it.stats.n >= SAMPLES_FOR["p95"] for it in chart.rows):
        entries.append(("p95", paper.upright_mark(**_P95)))
    legend = paper.Legend(entries)
    top, height = legend.height, row * len(chart.rows)
    sheet = paper.Sheet(top + height + 26)
    legend.draw(sheet)
    low, high = min(it.stats.min for it in chart.rows), max(edge_of(it.stats) for it in chart.rows)
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(ylim=(height, 0))
    paper.duration_axis(axes, low, high)
    columns = (width - 92, width - 2)
    for x, name in zip(columns, ("median", "p95"), strict=True):
        sheet.text(x, 12, name, ha="right", fontsize=paper.SMALL, color=paper.MUTED)
    for number, (name, samples) in enumerate(zip(names, chart.rows, strict=True)):
        base = row * (number + 1) - 4
        median = units.duration(samples.stats.median)
        p95 = units.duration(samples.stats.p95) if samples.stats.n >= SAMPLES_FOR["p95"] else "–"
        sheet.text(left - 18, top + base - 10, name, weight="bold", ha="right")
        for x, text in zip(columns, (median, p95), strict=True):
            sheet.text(x, top + base - 10, text, ha="right", weight="bold" if text is median else "normal")
        _distribution(sheet, axes, samples, base, tall)
        beyond = int(np.count_nonzero(samples.ns > high))
        if beyond:
            said = f"{beyond} more, to {units.duration(samples.stats.max)} ▸"
            sheet.text(width - right, top + base - tall - 7, said, ha="right", fontsize=paper.SMALL, color=paper.MUTED)
    return sheet


def _distribution(sheet: paper.Sheet, axes: Axes, samples: Samples, base: float, tall: float) -> None:
    stats = samples.stats
    low, high = axes.get_xlim()
    if samples.ns.size <= _FEW:
        dots = paper.add_dots(axes, np.column_stack([samples.ns, np.full(samples.ns.size, base - tall / 2)]), size=6)
        sheet.tip(dots, f"{samples.mode}: {stats.n} samples")
    else:
        edges = _bins(axes, samples)
        counts = np.histogram(samples.ns, edges)[0]
        heights = base - tall * counts / max(counts.max(), 1)
        patch = axes.stairs(heights, edges, baseline=base, fill=True, color=paper.ACCENT, alpha=0.75, linewidth=0)
        sheet.tip(patch, f"{samples.mode}: {stats.n} samples")
    axes.plot([low, high], [base, base], color=paper.RULE, linewidth=1)
    axes.plot([stats.median] * 2, [base + 1, base - tall - 4], color=paper.INK, **_MEDIAN)
    if stats.n >= SAMPLES_FOR["p95"]:
        axes.plot([stats.p95] * 2, [base + 1, base - tall - 4], color=paper.INK, **_P95)


def _bins(axes: Axes, samples: Samples) -> NDArray[np.float64]:
    """Edges of a histogram's bins: of equal width on the axis, more with more samples, none narrower than a few pixels."""
    ends = axes.transData.transform([(float(samples.stats.min), 0), (min(samples.stats.max, axes.get_xlim()[1]), 0)])
    (left, _), (right, _) = ends
    count = int(max(4, min(3 * samples.ns.size**0.5, (right - left) / _BIN)))
    at = np.linspace(left, max(right, left + 4 * _BIN), count + 1)
    edges: NDArray[np.float64] = axes.transData.inverted().transform(np.column_stack([at, np.zeros_like(at)]))[:, 0]
    edges[0] = min(edges[0], samples.stats.min)
    return edges


def draw(drawing: Drawing, salt: str) -> str:
    """A drawing as an `svg` element of a page; `salt` sets its ids apart from those of every other one there."""
    with _chart_style({"svg.hashsalt": salt}):
        return _sheet(drawing).svg()


def svg_file(drawing: Drawing) -> str:
    """A drawing as an SVG file of its own, light or dark as the reader has it."""
    return svg_document(draw(drawing, "ortbench"))


def figure(drawing: Drawing) -> Canvas:
    """A drawing as a Matplotlib figure on white; it belongs to nobody's pyplot."""
    with _chart_style({}):
        canvas = _sheet(drawing).canvas
    canvas.set_facecolor(PAPER)
    width, height = canvas.get_size_inches() * 72
    canvas.set_size_inches((width + 2 * MARGIN) / 72, (height + 2 * MARGIN) / 72)
    for axes in canvas.axes:
        x, y, wide, high = axes.get_position(original=True).bounds
        whole = (width + 2 * MARGIN, height + 2 * MARGIN)
        corner = ((x * width + MARGIN) / whole[0], (y * height + MARGIN) / whole[1])
        axes.set_position((*corner, wide * width / whole[0], high * height / whole[1]))
    return canvas


@contextmanager
def _chart_style(more: dict[Any, str]) -> Iterator[None]:
    with warnings.catch_warnings(), mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc is for the user's own figures
        mpl.rcParams.update({**STYLE, **more})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's own typeface may have it
        yield


def _sheet(drawing: Drawing) -> Sheet:
    match drawing:
        case LineChart():
            return lines(drawing)
        case Histograms():
            return histograms(drawing)
        case _:
            return bars(drawing)
