"""The picture of where the time of an inference goes: a bar for each mode, in parts."""

from __future__ import annotations

from typing import Any

from ortbench.core import units
from ortbench.model.modes import LATENCY, is_rate
from ortbench.report.model import DERIVED
from ortbench.report.page.charts.rows import BAR, LABEL, Row, Rows, make_rows
from ortbench.report.page.charts.sheet import COLOURS, PAPER, Legend, Sheet, kind_name, patch_mark, upright_mark
from ortbench.report.page.pictures.parts import COPIES, D2H, H2D, INFERENCE, PER_RUN, WHOLE
from ortbench.report.page.pictures.split import Bar, Split

_HATCHES = {H2D: "////", D2H: "\\\\\\\\", COPIES: "xxxx", PER_RUN: "||||"}
_ORDER = [
    *((kind, False) for kind in (H2D, INFERENCE, D2H, PER_RUN, WHOLE)),
    *((kind, True) for kind in (COPIES, INFERENCE)),
]


def split(picture: Split, width: int) -> Sheet:
    """The bars of all modes, on one scale, with marks where whole inferences end."""
    kinds = sorted({(it.kind, it.derived) for bar in picture.bars for it in bar.segments}, key=_ORDER.index)
    entries = [(kind_name(kind, derived), patch_mark(**_paint(kind, derived))) for kind, derived in kinds]
    legend = Legend([*entries, ("whole inference, median", upright_mark(linewidth=2))], width)
    named = [Row(bar.mode, _end(bar), units.duration(bar.latency_ns)) for bar in picture.bars]
    rows = make_rows(width, legend, named, label=LABEL, weight="bold")
    for bar, base in zip(picture.bars, rows, strict=True):
        _bar(rows, bar, base)
    return rows.sheet


def _end(bar: Bar) -> float:
    return max(bar.latency_ns, sum(it.ns for it in bar.segments))


def _bar(rows: Rows, bar: Bar, base: float) -> None:
    at = 0.0
    centres, texts = [], []
    for segment in bar.segments:
        (patch,) = rows.axes.barh(base - BAR / 2, segment.ns, BAR, at, **_paint(segment.kind, segment.derived))
        value = f"{DERIVED if segment.derived else ''}{units.duration(segment.ns)}"
        rows.sheet.tip(patch, f"{bar.mode}: {kind_name(segment.kind, segment.derived)}, {value}")
        centres.append((at + segment.ns / 2) * rows.scale)
        texts.append(f"{segment.kind} {value}" if segment.kind != WHOLE else WHOLE)
        at += segment.ns
    what = "time per inference" if is_rate(bar.mode, LATENCY) else "whole inference"
    rows.mark(base, bar.latency_ns, f"{bar.mode}: {what}, median {units.duration(bar.latency_ns)}")
    rows.labels(base, centres, texts)


def _paint(kind: str, derived: bool) -> dict[str, Any]:
    """How a part of a bar looks: colour and hatching both say what it is; only measured phases are filled."""
    colour = COLOURS[kind]
    if derived:
        return {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2, "hatch": _HATCHES.get(kind, "--")}
    if kind in (PER_RUN, WHOLE):
        return {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2, "hatch": _HATCHES.get(kind)}
    return {"facecolor": colour, "edgecolor": PAPER, "linewidth": 1.0, "hatch": _HATCHES.get(kind)}
