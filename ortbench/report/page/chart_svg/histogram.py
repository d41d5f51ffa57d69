"""Rows of histograms, with lines at the median and at the p95, and rows of dots, each on one axis of time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR
from ortbench.report.page.chart_data.model import DotRows, Histograms, Samples, look_of
from ortbench.report.page.chart_data.samples import edge_of
from ortbench.report.page.chart_svg.sheet import (
    ACCENT,
    INK,
    MUTED,
    RULE,
    SMALL,
    Legend,
    Sheet,
    add_dots,
    duration_axis,
    is_narrow,
    point_mark,
    shortened,
    styled,
    text_width,
    upright_mark,
)

_MEDIAN: dict[str, Any] = {"linewidth": 2}
_P95: dict[str, Any] = {"linewidth": 1.4, "dashes": (3, 2)}
_FEW = 40  # so few samples are shown as dots, not as a histogram
_BIN = 3.0  # px, the narrowest bin of a histogram


def histograms(chart: Histograms, width: int) -> Sheet:
    """A histogram for each mode, all on one axis; where samples are few, the samples."""
    narrow = is_narrow(width)
    row, tall = (78, 40) if narrow else (64, 42)
    left = 1 if narrow else max(text_width(it.mode, weight="bold") for it in chart.rows) + 18
    right = 22 if narrow else 190
    entries = [("median", upright_mark(**_MEDIAN))]
    if any(it.stats.n >= SAMPLES_FOR["p95"] for it in chart.rows):
        entries.append(("p95", upright_mark(**_P95)))
    legend = Legend(entries, width)
    top, height = legend.height, row * len(chart.rows)
    sheet = Sheet(width, top + height + 26)
    legend.draw(sheet)
    low, high = min(it.stats.min for it in chart.rows), max(edge_of(it.stats) for it in chart.rows)
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(ylim=(height, 0))
    duration_axis(axes, low, high, narrow)
    columns = (width - 92, width - 2)
    if not narrow:
        for x, name in zip(columns, ("median", "p95"), strict=True):
            sheet.text(x, 12, name, ha="right", fontsize=SMALL, color=MUTED)
    for number, it in enumerate(chart.rows):
        base = row * (number + 1) - 4
        median = units.duration(it.stats.median)
        p95 = units.duration(it.stats.p95) if it.stats.n >= SAMPLES_FOR["p95"] else "–"
        if narrow:
            sheet.text(left, top + base - tall - 12, it.mode, weight="bold")
            sheet.text(width - 1, top + base - tall - 12, f"{median}, p95 {p95}", ha="right", fontsize=SMALL)
        else:
            sheet.text(left - 18, top + base - 10, it.mode, weight="bold", ha="right")
            for x, text in zip(columns, (median, p95), strict=True):
                sheet.text(x, top + base - 10, text, ha="right", weight="bold" if text is median else "normal")
        _distribution(sheet, axes, it, base, tall)
        beyond = int(np.count_nonzero(it.ns > high))
        if beyond:
            said = f"{beyond} more, to {units.duration(it.stats.max)} ▸"
            above = top + base - tall + (9 if narrow else -7)
            sheet.text(width - right, above, said, ha="right", fontsize=SMALL, color=MUTED)
    return sheet


def _distribution(sheet: Sheet, axes: Axes, samples: Samples, base: float, tall: float) -> None:
    stats = samples.stats
    low, high = axes.get_xlim()
    if samples.ns.size <= _FEW:
        dots = add_dots(axes, np.column_stack([samples.ns, np.full(samples.ns.size, base - tall / 2)]), size=6)
        sheet.tip(dots, f"{samples.mode}: {stats.n} samples")
    else:
        edges = _bins(axes, samples)
        counts = np.histogram(samples.ns, edges)[0]
        heights = base - tall * counts / max(counts.max(), 1)
        patch = axes.stairs(heights, edges, baseline=base, fill=True, color=ACCENT, alpha=0.75, linewidth=0)
        sheet.tip(patch, f"{samples.mode}: {stats.n} samples")
    axes.plot([low, high], [base, base], color=RULE, linewidth=1)
    axes.plot([stats.median] * 2, [base + 1, base - tall - 4], color=INK, **_MEDIAN)
    if stats.n >= SAMPLES_FOR["p95"]:
        axes.plot([stats.p95] * 2, [base + 1, base - tall - 4], color=INK, **_P95)


def _bins(axes: Axes, samples: Samples) -> NDArray[np.float64]:
    """Edges of a histogram's bins: of equal width on the axis, more with more samples, none narrower than a few pixels."""
    ends = axes.transData.transform([(float(samples.stats.min), 0), (min(samples.stats.max, axes.get_xlim()[1]), 0)])
    (left, _), (right, _) = ends
    count = int(max(4, min(3 * samples.ns.size**0.5, (right - left) / _BIN)))
    at = np.linspace(left, max(right, left + 4 * _BIN), count + 1)
    edges: NDArray[np.float64] = axes.transData.inverted().transform(np.column_stack([at, np.zeros_like(at)]))[:, 0]
    edges[0] = min(edges[0], samples.stats.min)
    return edges


_APART = 11  # px, so that modes which take equally long do not hide each other


def dots(chart: DotRows, width: int) -> Sheet:
    """A row for each name with a mark for each mode."""
    narrow = is_narrow(width)
    styles = {
        mode: {**styled(look_of(mode)), "linestyle": "none", "markersize": 10} for _, it in chart.rows for mode, _ in it
    }
    modes = list(styles)
    legend = Legend([(mode, point_mark(**style)) for mode, style in styles.items()], width)
    top, row = legend.height, _APART * len(modes) + (38 if narrow else 18)
    room = width - 10 if narrow else width * 0.32
    names = [shortened(" ".join(name.split()), room) for name, _ in chart.rows]
    left = 8 if narrow else max(map(text_width, names)) + 20
    height = row * len(names)
    sheet = Sheet(width, top + height + 26)
    legend.draw(sheet)
    axes = sheet.axes(left, top, width - left - 22, height)
    axes.set(ylim=(height, 0))
    times = [max(ns, 1) for _, found in chart.rows for _, ns in found]
    duration_axis(axes, min(times), max(times), narrow)
    if axes.get_xscale() == "linear":
        axes.set_xlim(left=0)
    for number, (name, (_, found)) in enumerate(zip(names, chart.rows, strict=True)):
        first = row * number + (32 if narrow else 14)
        if narrow:
            sheet.text(1, top + first - 14, name)
        else:
            sheet.text(left - 20, top + row * (number + 0.5) + 5, name, ha="right")
        axes.axhline(row * (number + 1), color=RULE, linewidth=1)
        for mode, ns in found:
            (point,) = axes.plot(max(ns, 1), first + _APART * modes.index(mode), **styles[mode])
            sheet.tip(point, f"{mode}: {units.duration(ns)}")
    return sheet
