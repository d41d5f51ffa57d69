"""The picture of where the time of an inference goes: a bar for each mode, in parts."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from ortbench import units
from ortbench.modes import TOTAL, is_rate
from ortbench.report.model import DERIVED
from ortbench.report.page.charts.sheet import (
    COLOURS,
    INK,
    MUTED,
    PAPER,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    kind_name,
    labels_apart,
    patch_mark,
    text_width,
    time_axis,
    upright_mark,
)
from ortbench.report.page.pictures.parts import COPIES, DOWNLOAD, INFERENCE, PER_RUN, UPLOAD, WHOLE
from ortbench.report.page.pictures.split import Bar, Split

_HATCHES = {UPLOAD: "////", DOWNLOAD: "\\\\\\\\", COPIES: "xxxx", PER_RUN: "||||"}
_BAR = 20  # px, height of a bar
_ORDER = [
    *((kind, False) for kind in (UPLOAD, INFERENCE, DOWNLOAD, PER_RUN, WHOLE)),
    *((kind, True) for kind in (COPIES, INFERENCE)),
]


def split(picture: Split, width: int) -> Sheet:
    """The bars of all modes, on one scale, with marks where whole inferences end."""
    narrow = is_narrow(width)
    kinds = sorted({(it.kind, it.derived) for bar in picture.bars for it in bar.segments}, key=_ORDER.index)
    entries = [(kind_name(kind, derived), patch_mark(**_paint(kind, derived))) for kind, derived in kinds]
    legend = Legend([*entries, ("whole inference, median", upright_mark(linewidth=2))], width)
    top, row = legend.height, 74 if narrow else 58
    whole = [units.duration(bar.total_ns) for bar in picture.bars]
    left = 6 if narrow else max(text_width(bar.mode, weight="bold") for bar in picture.bars) + 18
    right = max(text_width(text, weight="bold") for text in whole) + 12
    sheet = Sheet(width, top + row * len(picture.bars) + 24)
    legend.draw(sheet)
    longest = max(1, *(max(bar.total_ns, sum(it.ns for it in bar.segments)) for bar in picture.bars))
    axes = sheet.axes(left, top, width - left - right, row * len(picture.bars))
    axes.set(xlim=(0, longest), ylim=(row * len(picture.bars), 0))
    time_axis(axes, longest, narrow)
    for number, (bar, said) in enumerate(zip(picture.bars, whole, strict=True)):
        base = top + row * (number + 1) - 6  # where the bar ends, px from the top
        if narrow:
            sheet.text(1, base - _BAR - 26, bar.mode, weight="bold")
        else:
            sheet.text(left - 18, base - 5, bar.mode, weight="bold", ha="right")
        scale = (width - left - right) / longest
        _bar(sheet, axes, bar, base - top, left, top, scale)
        end = max(bar.total_ns, sum(segment.ns for segment in bar.segments))
        sheet.text(left + end * scale + 8, base - 5, said, weight="bold")
    return sheet


def _bar(sheet: Sheet, axes: Axes, bar: Bar, base: float, left: float, top: float, scale: float) -> None:
    at = 0
    centres, texts = [], []
    for segment in bar.segments:
        (patch,) = axes.barh(base - _BAR / 2, segment.ns, _BAR, at, **_paint(segment.kind, segment.derived))
        value = f"{DERIVED if segment.derived else ''}{units.duration(segment.ns)}"
        sheet.tip(patch, f"{bar.mode}: {kind_name(segment.kind, segment.derived)}, {value}")
        centres.append((at + segment.ns / 2) * scale)
        texts.append(f"{segment.kind} {value}" if segment.kind != WHOLE else WHOLE)
        at += segment.ns
    (line,) = axes.plot([bar.total_ns] * 2, [base + 4, base - _BAR - 4], color=INK, linewidth=2, clip_on=False)
    what = "time per inference" if is_rate(bar.mode, TOTAL) else "whole inference"
    sheet.tip(line, f"{bar.mode}: {what}, median {units.duration(bar.total_ns)}")
    widths = [text_width(text, SMALL) for text in texts]
    for x, text in zip(labels_apart(centres, widths, sheet.width - left), texts, strict=True):
        sheet.text(left + x, top + base - _BAR - 8, text, ha="center", fontsize=SMALL, color=MUTED)


def _paint(kind: str, derived: bool) -> dict[str, Any]:
    """How a part of a bar looks: colour and hatching both say what it is; only measured phases are filled."""
    colour = COLOURS[kind]
    if derived:
        return {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2, "hatch": _HATCHES.get(kind, "--")}
    if kind in (PER_RUN, WHOLE):
        return {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2, "hatch": _HATCHES.get(kind)}
    return {"facecolor": colour, "edgecolor": PAPER, "linewidth": 1.0, "hatch": _HATCHES.get(kind)}
