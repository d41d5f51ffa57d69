"""The picture of several results: the median of every mode of each."""

from __future__ import annotations

from ortbench.core import units
from ortbench.report.page.charts.sheet import (
    RULE,
    Legend,
    Sheet,
    duration_axis,
    is_narrow,
    mode_shape,
    point_mark,
    shortened,
    text_width,
)
from ortbench.report.page.pictures.totals import Totals

_LANE = 11  # px, so that modes which take equally long do not hide each other


def totals(picture: Totals, width: int) -> Sheet:
    """A row for each result with a mark for each mode."""
    narrow = is_narrow(width)
    modes = list(dict.fromkeys(mode for _, found in picture.rows for mode, _ in found))
    legend = Legend([(mode, point_mark(**mode_shape(mode))) for mode in modes], width)
    top, row = legend.height, _LANE * len(modes) + (38 if narrow else 18)
    room = width - 10 if narrow else width * 0.32
    names = [shortened(" ".join(name.split()), room) for name, _ in picture.rows]
    left = 8 if narrow else max(map(text_width, names)) + 20
    height = row * len(names)
    sheet = Sheet(width, top + height + 26)
    legend.draw(sheet)
    axes = sheet.axes(left, top, width - left - 22, height)
    axes.set(ylim=(height, 0))
    medians = [max(stats.median, 1) for _, found in picture.rows for _, stats in found]
    duration_axis(axes, min(medians), max(medians), narrow)
    if axes.get_xscale() == "linear":
        axes.set_xlim(left=0)
    for number, (name, (_, found)) in enumerate(zip(names, picture.rows, strict=True)):
        first = row * number + (32 if narrow else 14)
        if narrow:
            sheet.text(1, top + first - 14, name)
        else:
            sheet.text(left - 20, top + row * (number + 0.5) + 5, name, ha="right")
        axes.axhline(row * (number + 1), color=RULE, linewidth=1)
        for mode, stats in found:
            y = first + _LANE * modes.index(mode)
            (point,) = axes.plot(max(stats.median, 1), y, linestyle="none", **mode_shape(mode))
            sheet.tip(point, f"{mode}: {units.duration(stats.median)}")
    return sheet
