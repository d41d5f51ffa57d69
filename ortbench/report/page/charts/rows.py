"""Bars in rows on one scale of time: what is before each, what is behind it, and where each lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes

from ortbench.report.page.charts.sheet import (
    INK,
    MUTED,
    SMALL,
    Legend,
    Sheet,
    is_narrow,
    labels_apart,
    text_width,
    time_axis,
)

BAR = 20  # px, height of a bar
LABEL = 20  # px, height of the labels above one
_FOOT = 24  # px, the axis


class Row(NamedTuple):
    """What a bar is of, how far it reaches, ns, and what stands behind it."""

    name: str
    end_ns: float
    said: str


@dataclass(frozen=True)
class Rows:
    """Where they lie.

    Attributes:
        sheet: with the legend, names and texts.
        axes: on which bars are drawn, at `bases`; ns to the right, px to the bottom.
        left, top: of the axes on the sheet, px.
        scale: px per ns.
        bases: where each bar ends at the bottom, px on the axes.
    """

    sheet: Sheet
    axes: Axes
    left: float
    top: float
    scale: float
    bases: tuple[float, ...]

    def __iter__(self) -> Iterator[float]:
        return iter(self.bases)

    def mark(self, base: float, ns: float, tip: str) -> None:
        """An upright line through a bar, with what a pointer is told of it."""
        (line,) = self.axes.plot([ns] * 2, [base + 4, base - BAR - 4], color=INK, linewidth=2, clip_on=False)
        self.sheet.tip(line, tip)

    def labels(self, base: float, centres: Sequence[float], texts: Sequence[str]) -> None:
        """Texts above a bar, each as near to where it belongs, px, as the others let it."""
        widths = [text_width(text, SMALL) for text in texts]
        for x, text in zip(labels_apart(centres, widths, self.sheet.width - self.left), texts, strict=True):
            at = self.top + base - BAR - 8
            self.sheet.text(self.left + x, at, text, ha="center", fontsize=SMALL, color=MUTED)


def make_rows(
    width: int, legend: Legend, rows: Sequence[Row], label: int = 0, weight: str = "normal", foot: int = 0
) -> Rows:
    """A sheet with all but the bars.

    Args:
        width: of the sheet, px.
        legend: above them.
        rows: at least one.
        label: px to leave for labels above each bar.
        weight: of the names.
        foot: px to leave below the axis.
    """
    narrow = is_narrow(width)
    row = label + (BAR + 28 if narrow else BAR + 10) + (8 if label else 0)
    left = 6 if narrow else max(text_width(it.name, weight=weight) for it in rows) + 18
    right = max(text_width(it.said, weight="bold") for it in rows) + 12
    top, height = legend.height, row * len(rows)
    sheet = Sheet(width, top + height + _FOOT + foot)
    legend.draw(sheet)
    longest = max(1, *(it.end_ns for it in rows))
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(xlim=(0, longest), ylim=(height, 0))
    time_axis(axes, longest, narrow)
    made = Rows(
        sheet, axes, left, top, (width - left - right) / longest, tuple(row * n - 6 for n in range(1, len(rows) + 1))
    )
    for it, base in zip(rows, made, strict=True):
        if narrow:
            sheet.text(1, top + base - BAR - 6 - label, it.name, weight=weight)
        else:
            sheet.text(left - 18, top + base - 5, it.name, weight=weight, ha="right")
        sheet.text(left + it.end_ns * made.scale + 8, top + base - 5, it.said, weight="bold")
    return made
