"""The pictures of a chain: a bar for each mode, cut into stages, and a bar for what each link costs through the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ortbench.core import units
from ortbench.core.safe_text import visible
from ortbench.report.page.charts.rows import BAR, LABEL, Row, Rows, make_rows
from ortbench.report.page.charts.sheet import (
    ACCENT,
    COLOURS,
    MUTED,
    PAPER,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    patch_mark,
    shortened,
    text_width,
    upright_mark,
)
from ortbench.report.page.pictures.parts import COPIES, D2H, H2D, INFERENCE
from ortbench.report.page.pictures.stages import LinkCosts, Stages, StageTimes

_GAP = 10  # px, between labels
# Each stage has a colour and a hatching of its own, as far as there are some: labels and tips say which it is.
_PAINTS = [COLOURS[H2D], COLOURS[D2H], ACCENT, COLOURS[COPIES], COLOURS[INFERENCE]]
_HATCHES = [None, "////", "\\\\\\\\", "xxxx", "||||"]
_LONGEST = 24  # characters' worth of a name, in a legend
_MOST = 12  # links that have a bar
_MORE = 22  # px, for how many have none


def stage_times(picture: StageTimes, width: int) -> Sheet:
    """The bars of all modes, on one scale, with marks where whole chains end."""
    room = text_width("n" * _LONGEST)
    paints = {name: _paint(number) for number, name in enumerate(picture.names)}
    entries = [(shortened(visible(name), room), patch_mark(**paint)) for name, paint in paints.items()]
    legend = Legend([*entries, ("whole chain, median", upright_mark(linewidth=2))], width)
    named = [Row(it.mode, _end(it), units.duration(it.latency_ns)) for it in picture.modes]
    rows = make_rows(width, legend, named, label=LABEL, weight="bold")
    for it, base in zip(picture.modes, rows, strict=True):
        _bar(rows, it, base, paints)
        _label(rows, it, base)
    return rows.sheet


def _end(it: Stages) -> float:
    return max(it.latency_ns, sum(ns for _, ns in it.ns))


def _bar(rows: Rows, it: Stages, base: float, paints: dict[str, dict[str, Any]]) -> None:
    at = 0.0
    for name, ns in it.ns:
        (patch,) = rows.axes.barh(base - BAR / 2, ns, BAR, at, **paints[name])
        rows.sheet.tip(patch, f"{it.mode}: {name}, {units.duration(ns)}")
        at += ns
    rows.mark(base, it.latency_ns, f"{it.mode}: whole chain, median {units.duration(it.latency_ns)}")


class _Label(NamedTuple):
    """What may stand above a stage's part of a bar: how long it takes, ns, where its middle is, px, and what is said."""

    ns: float
    centre: float
    short: str
    long: str

    def text(self, is_long: bool) -> str:
        return self.long if is_long else self.short


def _label(rows: Rows, it: Stages, base: float) -> None:
    """The times of the stages above their parts of the bar: of all that fit side by side, the longest first."""
    end, room = 0.0, rows.sheet.width - rows.left
    labels: list[_Label] = []  # in the order of the bar
    for name, ns in it.ns:
        time = units.duration(ns)
        labels.append(_Label(ns, (end + ns / 2) * rows.scale, time, f"{shortened(visible(name), room / 3)} {time}"))
        end += ns
    is_long = _fit([label.long for label in labels], room)
    kept = sorted(range(len(labels)), key=lambda number: -labels[number].ns)
    while not _fit([labels[number].text(is_long) for number in kept], room):
        kept.pop()
    shown = [labels[number] for number in sorted(kept)]
    rows.labels(base, [label.centre for label in shown], [label.text(is_long) for label in shown])


def _fit(texts: Sequence[str], room: float) -> bool:
    return sum(text_width(text, SMALL) + _GAP for text in texts) <= room + _GAP


def _paint(number: int) -> dict[str, Any]:
    """How a stage looks: neighbours differ in colour, and those of one colour in hatching."""
    colour, hatch = _PAINTS[number % len(_PAINTS)], _HATCHES[number // len(_PAINTS) % len(_HATCHES)]
    return {"facecolor": colour, "edgecolor": PAPER, "linewidth": 1.0, "hatch": hatch}


def link_costs(picture: LinkCosts, width: int) -> Sheet:
    """A bar for each link, filled where it stays on the device, which saves what it stands for."""
    kinds: dict[bool, dict[str, Any]] = {
        True: {"facecolor": ACCENT, "edgecolor": PAPER, "linewidth": 1.0},
        False: {"facecolor": PAPER, "edgecolor": COLOURS[COPIES], "linewidth": 1.2, "hatch": "xxxx"},
    }
    called = {True: "saved, since it stays on the device", False: "copied in every mode"}
    there = [stays for stays in kinds if any(it.stays == stays for it in picture.links)]
    legend = Legend([(called[stays], patch_mark(**kinds[stays])) for stays in there], width)
    links = picture.links[:_MOST]
    room = width - 10 if is_narrow(width) else width * 0.45
    more = len(picture.links) - len(links)
    named = [Row(shortened(visible(it.name), room), it.ns, units.duration(it.ns)) for it in links]
    rows = make_rows(width, legend, named, foot=_MORE if more else 0)
    for it, row, base in zip(links, named, rows, strict=True):
        (patch,) = rows.axes.barh(base - BAR / 2, it.ns, BAR, 0, **kinds[it.stays])
        rows.sheet.tip(patch, f"{it.name}: {row.said}, {called[it.stays]}")
    if more:
        rows.sheet.text(1, rows.sheet.height - 6, f"and {more} more, in the table", fontsize=SMALL, color=MUTED)
    return rows.sheet
