"""Rows on one scale of time: stacked bars with labels above their parts and marks through them, and histograms with lines at the median and at the p95."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.safe_text import visible
from ortbench.core.stats import SAMPLES_FOR
from ortbench.features.page.report.chart_data.model import Bar, Fill, Histograms, Samples, StackedBars
from ortbench.features.page.report.chart_data.samples import edge_of
from ortbench.features.page.report.chart_svg import sheet as paper

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
    for number, (name, it) in enumerate(zip(names, chart.bars, strict=True), 1):
        base = row * number - 6
        sheet.text(left - 18, top + base - 5, name, weight=bold, ha="right")
        sheet.text(left + it.end_ns * scale + 8, top + base - 5, it.said, weight="bold")
        at = 0.0
        for part in it.parts:
            (patch,) = axes.barh(base - _BAR / 2, part.ns, _BAR, at, **_paint(part.fill))
            sheet.tip(patch, part.tip)
            at += part.ns
        if it.mark_ns is not None:
            (line,) = axes.plot(
                [it.mark_ns] * 2, [base + 4, base - _BAR - 4], color=paper.INK, linewidth=2, clip_on=False
            )
            sheet.tip(line, it.tip)
        _label(sheet, it, left, top + base - _BAR - 8, scale)
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


# Histograms


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
    for number, (name, it) in enumerate(zip(names, chart.rows, strict=True)):
        base = row * (number + 1) - 4
        median = units.duration(it.stats.median)
        p95 = units.duration(it.stats.p95) if it.stats.n >= SAMPLES_FOR["p95"] else "–"
        sheet.text(left - 18, top + base - 10, name, weight="bold", ha="right")
        for x, text in zip(columns, (median, p95), strict=True):
            sheet.text(x, top + base - 10, text, ha="right", weight="bold" if text is median else "normal")
        _distribution(sheet, axes, it, base, tall)
        beyond = int(np.count_nonzero(it.ns > high))
        if beyond:
            said = f"{beyond} more, to {units.duration(it.stats.max)} ▸"
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
