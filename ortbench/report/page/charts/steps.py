"""The picture of a loop: how long each of its steps takes."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ortbench.core import units
from ortbench.report.page.charts.sheet import (
    MUTED,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    mode_shape,
    point_mark,
    upright_axis,
)
from ortbench.report.page.pictures.steps import Steps, StepTimes

_HEIGHT, _BELOW = {True: 220, False: 260}, 46  # px
_MARKED = 24  # so many steps have a mark each; of more there are about as many marks on a line


def step_times(picture: StepTimes, width: int) -> Sheet:
    """A line for each mode; where the first step has a shape of its own, its time is a point that no line leads to."""
    narrow = is_narrow(width)
    legend = Legend([(it.mode, point_mark(**mode_shape(it.mode))) for it in picture.modes], width)
    left, right, height = 66, 22 if narrow else 12, _HEIGHT[narrow]
    sheet = Sheet(width, legend.height + height + _BELOW)
    legend.draw(sheet)
    axes = sheet.axes(left, legend.height, width - left - right, height)
    count = max(len(it.ns) for it in picture.modes)
    room = max(count - 1, 1) / 40
    axes.set_xlim(-room, max(count - 1, 1) + room)
    times = [max(ns, 1) for it in picture.modes for ns in it.ns]
    upright_axis(axes, min(times), max(times))
    axes.xaxis.set_major_locator(MaxNLocator(5 if narrow else 10, integer=True))
    axes.yaxis.grid(True)
    for it in picture.modes:
        _line(sheet, axes, it, picture.first_apart)
    sheet.text(
        left + (width - left - right) / 2, legend.height + height + 36, "step", ha="center", fontsize=SMALL, color=MUTED
    )
    return sheet


def _line(sheet: Sheet, axes: Axes, steps: Steps, first_apart: bool) -> None:
    shape = mode_shape(steps.mode)
    style: dict[str, Any] = {**shape, "markersize": 7, "linewidth": 1.6, "markevery": max(1, len(steps.ns) // _MARKED)}
    begins = 1 if first_apart and len(steps.ns) > 1 else 0
    if begins:
        (point,) = axes.plot([0], [max(steps.ns[0], 1)], **{**style, "linestyle": "none"})
        sheet.tip(point, f"{steps.mode}, first step: {units.duration(steps.ns[0])}")
    later = steps.ns[begins:]
    (line,) = axes.plot(range(begins, len(steps.ns)), [max(ns, 1) for ns in later], **style)
    sheet.tip(line, f"{steps.mode}: {units.duration(later[0])} to {units.duration(later[-1])}")
