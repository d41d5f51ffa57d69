"""The pictures of a chain: a bar for each mode, cut into stages, and a bar for what each link costs through the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from ortbench import units
from ortbench.characters import visible
from ortbench.report.page.charts.sheet import (
    ACCENT,
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
from ortbench.report.page.pictures.parts import COPIES, DOWNLOAD, INFERENCE, UPLOAD
from ortbench.report.page.pictures.stages import LinkCosts, Stages, StageTimes

_BAR = 20  # px, height of a bar
_GAP = 10  # px, between labels
# Each stage has a colour and a hatching of its own, as far as there are some: labels and tips say which it is.
_PAINTS = [COLOURS[UPLOAD], COLOURS[DOWNLOAD], ACCENT, COLOURS[COPIES], COLOURS[INFERENCE]]
_HATCHES = [None, "////", "\\\\\\\\", "xxxx", "||||"]
_LONGEST = 24  # characters' worth of a name, in a legend
_MOST = 12  # links that have a bar


def stage_times(picture: StageTimes, width: int) -> Sheet:
    """The bars of all modes, on one scale, with marks where whole chains end."""
    narrow = is_narrow(width)
    room = text_width("n" * _LONGEST)
    paints = {name: _paint(number) for number, name in enumerate(picture.names)}
    entries = [(shortened(visible(name), room), patch_mark(**paint)) for name, paint in paints.items()]
    legend = Legend([*entries, ("whole chain, median", upright_mark(linewidth=2))], width)
    top, row = legend.height, 74 if narrow else 58
    whole = [units.duration(it.total_ns) for it in picture.modes]
    left = 6 if narrow else max(text_width(it.mode, weight="bold") for it in picture.modes) + 18
    right = max(text_width(text, weight="bold") for text in whole) + 12
    height = row * len(picture.modes)
    sheet = Sheet(width, top + height + 24)
    legend.draw(sheet)
    longest = max(1, *(_end(it) for it in picture.modes))
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(xlim=(0, longest), ylim=(height, 0))
    time_axis(axes, longest, narrow)
    scale = (width - left - right) / longest
    for number, (it, said) in enumerate(zip(picture.modes, whole, strict=True)):
        base = top + row * (number + 1) - 6  # where the bar ends, px from the top
        if narrow:
            sheet.text(1, base - _BAR - 26, it.mode, weight="bold")
        else:
            sheet.text(left - 18, base - 5, it.mode, weight="bold", ha="right")
        _bar(sheet, axes, it, base - top, paints)
        _labels(sheet, it, left, base, scale)
        sheet.text(left + _end(it) * scale + 8, base - 5, said, weight="bold")
    return sheet


def _end(it: Stages) -> int:
    return max(it.total_ns, sum(ns for _, ns in it.ns))


def _bar(sheet: Sheet, axes: Axes, it: Stages, base: float, paints: dict[str, dict[str, Any]]) -> None:
    at = 0
    for name, ns in it.ns:
        (patch,) = axes.barh(base - _BAR / 2, ns, _BAR, at, **paints[name])
        sheet.tip(patch, f"{it.mode}: {name}, {units.duration(ns)}")
        at += ns
    (line,) = axes.plot([it.total_ns] * 2, [base + 4, base - _BAR - 4], color=INK, linewidth=2, clip_on=False)
    sheet.tip(line, f"{it.mode}: whole chain, median {units.duration(it.total_ns)}")


class _Label(NamedTuple):
    """What may stand above a stage's part of a bar: how long it takes, ns, where its middle is, px, and what is said."""

    ns: int
    centre: float
    short: str
    long: str

    def text(self, is_long: bool) -> str:
        return self.long if is_long else self.short


def _labels(sheet: Sheet, it: Stages, left: float, base: float, scale: float) -> None:
    """The times of the stages above their parts of the bar: of all that fit side by side, the longest first."""
    end, room = 0, sheet.width - left
    labels: list[_Label] = []  # in the order of the bar
    for name, ns in it.ns:
        time = units.duration(ns)
        labels.append(_Label(ns, (end + ns / 2) * scale, time, f"{shortened(visible(name), room / 3)} {time}"))
        end += ns
    is_long = _fit([label.long for label in labels], room)
    kept = sorted(range(len(labels)), key=lambda number: -labels[number].ns)
    while not _fit([labels[number].text(is_long) for number in kept], room):
        kept.pop()
    shown = [labels[number] for number in sorted(kept)]
    texts = [label.text(is_long) for label in shown]
    widths = [text_width(text, SMALL) for text in texts]
    for x, text in zip(labels_apart([label.centre for label in shown], widths, room), texts, strict=True):
        sheet.text(left + x, base - _BAR - 8, text, ha="center", fontsize=SMALL, color=MUTED)


def _fit(texts: Sequence[str], room: float) -> bool:
    return sum(text_width(text, SMALL) + _GAP for text in texts) <= room + _GAP


def _paint(number: int) -> dict[str, Any]:
    """How a stage looks: neighbours differ in colour, and those of one colour in hatching."""
    colour, hatch = _PAINTS[number % len(_PAINTS)], _HATCHES[number // len(_PAINTS) % len(_HATCHES)]
    return {"facecolor": colour, "edgecolor": PAPER, "linewidth": 1.0, "hatch": hatch}


def link_costs(picture: LinkCosts, width: int) -> Sheet:
    """A bar for each link, filled where it stays on the device, which saves what it stands for."""
    narrow = is_narrow(width)
    kinds: dict[bool, dict[str, Any]] = {
        True: {"facecolor": ACCENT, "edgecolor": PAPER, "linewidth": 1.0},
        False: {"facecolor": PAPER, "edgecolor": COLOURS[COPIES], "linewidth": 1.2, "hatch": "xxxx"},
    }
    called = {True: "saved, since it stays on the device", False: "copied in every mode"}
    there = [stays for stays in kinds if any(it.stays == stays for it in picture.links)]
    legend = Legend([(called[stays], patch_mark(**kinds[stays])) for stays in there], width)
    links = picture.links[:_MOST]
    top, row = legend.height, 48 if narrow else 30
    names = [shortened(visible(it.name), width - 10 if narrow else width * 0.45) for it in links]
    said = [units.duration(it.ns) for it in links]
    left = 6 if narrow else max(map(text_width, names)) + 18
    right = max(text_width(text, weight="bold") for text in said) + 12
    height = row * len(links)
    more = len(picture.links) - len(links)
    sheet = Sheet(width, top + height + (46 if more else 24))
    legend.draw(sheet)
    longest = max(1, *(it.ns for it in links))
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(xlim=(0, longest), ylim=(height, 0))
    time_axis(axes, longest, narrow)
    for number, (it, name, time) in enumerate(zip(links, names, said, strict=True)):
        base = row * (number + 1) - 5
        if narrow:
            sheet.text(1, top + base - _BAR - 6, name)
        else:
            sheet.text(left - 18, top + base - 5, name, ha="right")
        (patch,) = axes.barh(base - _BAR / 2, it.ns, _BAR, 0, **kinds[it.stays])
        sheet.tip(patch, f"{it.name}: {time}, {called[it.stays]}")
        sheet.text(left + it.ns * (width - left - right) / longest + 8, top + base - 5, time, weight="bold")
    if more:
        sheet.text(1, top + height + 40, f"and {more} more, in the table", fontsize=SMALL, color=MUTED)
    return sheet
