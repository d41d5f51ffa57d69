"""Stacked bars in rows on one scale of time, with labels above their parts and marks through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ortbench.core.safe_text import visible
from ortbench.report.page.chart_data.model import Bar, Fill, StackedBars
from ortbench.report.page.chart_svg.sheet import (
    COLOURS,
    INK,
    MUTED,
    PAPER,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    labels_apart,
    patch_mark,
    shortened,
    text_width,
    time_axis,
    upright_mark,
)

_BAR = 20  # px, height of a bar
_LABEL = 20  # px, height of the labels above one
_FOOT, _REST = 24, 22  # px, the axis, and a line below it
_GAP = 10  # px, between labels


def bars(chart: StackedBars, width: int) -> Sheet:
    """A bar for each name, the longest as wide as there is room."""
    narrow, bold = is_narrow(width), "bold" if chart.mark else "normal"
    marks = [(chart.mark, upright_mark(linewidth=2))] if chart.mark else []
    legend = Legend([*((fill.name, patch_mark(**_paint(fill))) for fill in chart.fills), *marks], width)
    room = width - 10 if narrow else width * 0.45
    names = [shortened(visible(it.name), room) for it in chart.bars]
    label = _LABEL if any(part.name for it in chart.bars for part in it.parts) else 0
    row = label + (_BAR + 28 if narrow else _BAR + 10) + (8 if label else 0)
    left = 6 if narrow else max(text_width(name, weight=bold) for name in names) + 18
    right = max(text_width(it.said, weight="bold") for it in chart.bars) + 12
    top, height = legend.height, row * len(names)
    sheet = Sheet(width, top + height + _FOOT + (_REST if chart.rest else 0))
    legend.draw(sheet)
    longest = max(1, *(it.end_ns for it in chart.bars))
    axes, scale = sheet.axes(left, top, width - left - right, height), (width - left - right) / longest
    axes.set(xlim=(0, longest), ylim=(height, 0))
    time_axis(axes, longest, narrow)
    for number, (name, it) in enumerate(zip(names, chart.bars, strict=True), 1):
        base = row * number - 6
        if narrow:
            sheet.text(1, top + base - _BAR - 6 - label, name, weight=bold)
        else:
            sheet.text(left - 18, top + base - 5, name, weight=bold, ha="right")
        sheet.text(left + it.end_ns * scale + 8, top + base - 5, it.said, weight="bold")
        at = 0.0
        for part in it.parts:
            (patch,) = axes.barh(base - _BAR / 2, part.ns, _BAR, at, **_paint(part.fill))
            sheet.tip(patch, part.tip)
            at += part.ns
        if it.mark_ns is not None:
            (line,) = axes.plot([it.mark_ns] * 2, [base + 4, base - _BAR - 4], color=INK, linewidth=2, clip_on=False)
            sheet.tip(line, it.tip)
        _label(sheet, it, left, top + base - _BAR - 8, scale)
    if chart.rest:
        sheet.text(1, sheet.height - 6, chart.rest, fontsize=SMALL, color=MUTED)
    return sheet


def _paint(fill: Fill) -> dict[str, Any]:
    """Colour and hatching both say what a part is; only what was measured is filled."""
    face, edge = (PAPER, COLOURS[fill.colour]) if fill.hollow else (COLOURS[fill.colour], PAPER)
    return {"facecolor": face, "edgecolor": edge, "linewidth": 1.2 if fill.hollow else 1.0, "hatch": fill.hatch or None}


class _Label(NamedTuple):
    """What may stand above a part of a bar: how long that takes, where its middle is, px, and what is said."""

    ns: float
    centre: float
    short: str
    long: str

    def text(self, is_long: bool) -> str:
        return self.long if is_long else self.short


def _label(sheet: Sheet, bar: Bar, left: float, y: float, scale: float) -> None:
    """Names and times above the parts of a bar, the times alone where there is no room: of all that fit side by side, the longest."""
    end, room = 0.0, sheet.width - left
    labels: list[_Label] = []  # in the order of the bar
    for part in bar.parts:
        long = f"{shortened(visible(part.name), room / 3)} {part.said}".strip()
        labels.append(_Label(part.ns, (end + part.ns / 2) * scale, part.said, long))
        end += part.ns
    is_long = _fit([label.long for label in labels], room)
    kept = sorted(range(len(labels)), key=lambda number: -labels[number].ns)
    while not _fit([labels[number].text(is_long) for number in kept], room):
        kept.pop()
    shown = [labels[number] for number in sorted(kept)]
    texts = [label.text(is_long) for label in shown]
    widths = [text_width(text, SMALL) for text in texts]
    for x, text in zip(labels_apart([label.centre for label in shown], widths, room), texts, strict=True):
        sheet.text(left + x, y, text, ha="center", fontsize=SMALL, color=MUTED)


def _fit(texts: Sequence[str], room: float) -> bool:
    return sum(text_width(text, SMALL) + _GAP for text in texts) <= room + _GAP
