"""The pictures of all samples: how they are distributed, and how they went over the run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR
from ortbench.report.page.charts.sheet import (
    ACCENT,
    COLOURS,
    INK,
    MUTED,
    RULE,
    SMALL,
    Legend,
    Sheet,
    duration_axis,
    is_narrow,
    level_mark,
    patch_mark,
    point_mark,
    text_width,
    times_to,
    upright_mark,
)
from ortbench.report.page.pictures.parts import D2H
from ortbench.report.page.pictures.samples import Drift, Samples, Spread

_MEDIAN: dict[str, Any] = {"linewidth": 2}
_P95: dict[str, Any] = {"linewidth": 1.4, "dashes": (3, 2)}
_FEW = 40  # so few samples are shown as dots, not as a histogram
_BIN = 3.0  # px, the narrowest bin of a histogram
_MANY = 500  # samples of a mode above which a band stands for them, with the slowest as dots
_PARTS = {True: 100, False: 200}  # of that band
_SLOWEST = 100


def _edge(samples: Samples) -> float:
    """Up to which duration (ns) samples are drawn to scale: few of a long tail must not squeeze all others."""
    stats = samples.stats
    if stats.n < SAMPLES_FOR["p95"]:
        return float(stats.max)
    return float(min(stats.max, stats.p95 + 2 * (stats.p95 - stats.median)))


def _dots(axes: Axes, x: ArrayLike, y: ArrayLike, colour: str, size: float = 3.4, alpha: float = 0.6) -> Patch:
    """Dots as one path of strokes without length and round ends, which takes a fifth of the bytes that markers take."""
    places = np.column_stack([x, y]).astype(float)
    codes = np.tile([Path.MOVETO, Path.LINETO], len(places))
    style = {"edgecolor": colour, "linewidth": size, "alpha": alpha, "capstyle": "round", "fill": False}
    patch = PathPatch(Path(places.repeat(2, axis=0), codes), **style)
    return axes.add_patch(patch)


def spread(picture: Spread, width: int) -> Sheet:
    """A histogram for each mode, all on one axis."""
    narrow = is_narrow(width)
    row, tall = (78, 40) if narrow else (64, 42)
    left = 1 if narrow else max(text_width(it.mode, weight="bold") for it in picture.modes) + 18
    right = 22 if narrow else 190
    entries = [("median", upright_mark(**_MEDIAN))]
    if any(it.stats.n >= SAMPLES_FOR["p95"] for it in picture.modes):
        entries.append(("p95", upright_mark(**_P95)))
    legend = Legend(entries, width)
    top, height = legend.height, row * len(picture.modes)
    sheet = Sheet(width, top + height + 26)
    legend.draw(sheet)
    low, high = min(it.stats.min for it in picture.modes), max(map(_edge, picture.modes))
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(ylim=(height, 0))
    duration_axis(axes, low, high, narrow)
    columns = (width - 92, width - 2)
    if not narrow:
        for x, name in zip(columns, ("median", "p95"), strict=True):
            sheet.text(x, 12, name, ha="right", fontsize=SMALL, color=MUTED)
    for number, it in enumerate(picture.modes):
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
        dots = _dots(axes, samples.ns, np.full(samples.ns.size, base - tall / 2), ACCENT, size=6)
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


_PANEL = 84  # px, height of a mode's panel
_BAND: dict[str, Any] = {"facecolor": ACCENT, "alpha": 0.35, "linewidth": 0}
_BEYOND: dict[str, Any] = {"marker": "^", "color": COLOURS[D2H], "markersize": 7, "markeredgewidth": 0}


def drift(picture: Drift, width: int) -> Sheet:
    """A panel for each mode, all on one axis of time."""
    narrow = is_narrow(width)
    left, right, row = 66, 22 if narrow else 12, _PANEL + 34
    legend = _drift_legend(picture, width)
    sheet = Sheet(width, legend.height + row * len(picture.modes) + 18)
    legend.draw(sheet)
    # All panels reach equally far above and below their medians, so that what hits all modes looks alike in all.
    medians = [max(it.stats.median, 1) for it in picture.modes]
    lowest = min(it.stats.min / median for it, median in zip(picture.modes, medians, strict=True))
    highest = max(_edge(it) / median for it, median in zip(picture.modes, medians, strict=True))
    room = max(highest - lowest, 0.02) / 16
    end = max(float(it.seconds.max()) for it in picture.modes)
    for number, (it, median) in enumerate(zip(picture.modes, medians, strict=True)):
        top = legend.height + row * number + 24
        sheet.text(1, top - 8, it.mode, weight="bold")
        said = f"{units.duration(median)}, slowest {units.duration(it.stats.max)}"
        # On a phone the longest names of modes leave no place for the word.
        end_at, said = (width - 1, said) if narrow else (width - right, f"median {said}")
        sheet.text(end_at, top - 8, said, ha="right", fontsize=SMALL, color=MUTED)
        axes = sheet.axes(left, top, width - left - right, _PANEL)
        axes.set_xlim(-end / 80, end * (1 + 1 / 80))
        axes.set_ylim((lowest - room) * median, (highest + room) * median)
        _panel(sheet, axes, it, narrow)
        last = number == len(picture.modes) - 1
        axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(times_to(end * 1e9, 1e9) if last else NullFormatter())
        axes.xaxis.grid(True)
        axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10], prune="lower"))
        axes.yaxis.set_major_formatter(times_to(median))
    return sheet


def _drift_legend(picture: Drift, width: int) -> Legend:
    entries = [(f"one {picture.one}", point_mark(marker="o", color=ACCENT, markersize=5, markeredgewidth=0))]
    if any(it.ns.size > _MANY for it in picture.modes):
        entries = [
            (f"the {_SLOWEST} slowest", entries[0][1]),
            ("the middle 90 % of many", patch_mark(**_BAND)),
            ("their median", level_mark(color=ACCENT, linewidth=1.4)),
        ]
    entries.append(("median of all", level_mark()))
    if any(_edge(it) < it.stats.max for it in picture.modes):
        entries.append(("above the panel", point_mark(**_BEYOND)))
    return Legend(entries, width)


def _panel(sheet: Sheet, axes: Axes, samples: Samples, narrow: bool) -> None:
    ns, seconds, stats = samples.ns, samples.seconds, samples.stats
    top = axes.get_ylim()[1]
    axes.axhline(stats.median, color=INK, linewidth=1)
    if ns.size > _MANY:
        parts = [np.arange(ns.size)[part] for part in _slices(ns.size, _PARTS[narrow])]
        middle = [float(seconds[part].mean()) for part in parts]
        low, centre, high = np.array([np.quantile(ns[part], (0.05, 0.5, 0.95)) for part in parts]).T
        axes.fill_between(middle, low, high, **_BAND)
        axes.plot(middle, centre, color=ACCENT, linewidth=1.4)
        shown = np.sort(np.argsort(ns, kind="stable")[-_SLOWEST:])
        ns, seconds = ns[shown], seconds[shown]
    inside = ns <= top
    _dots(axes, seconds[inside], ns[inside], ACCENT, size=5 if inside.size < _MANY / 2 else 3.4)
    if inside.all():
        return
    beyond = seconds[~inside]
    edge = np.full(beyond.size, top - (top - axes.get_ylim()[0]) * 0.05)
    axes.plot(beyond, edge, linestyle="none", **_BEYOND)


def _slices(size: int, parts: int) -> list[slice]:
    bounds = [round(size * number / parts) for number in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]
