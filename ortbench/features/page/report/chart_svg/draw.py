"""Charts as SVG, by Matplotlib. Places are in CSS pixels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from ortbench.features.page.report.chart_data.model import Drawing, Histograms, LineChart
from ortbench.features.page.report.chart_svg.lines import lines
from ortbench.features.page.report.chart_svg.rows import bars, histograms
from ortbench.features.page.report.chart_svg.sheet import MARGIN, PALETTE, PAPER, STYLE, Sheet, svg_document


def draw(drawing: Drawing, salt: str) -> str:
    """A drawing as an `svg` element of a page; `salt` sets its ids apart from those of every other one there."""
    with _chart_style({"svg.hashsalt": salt}):
        return _sheet(drawing).svg()


def svg_file(drawing: Drawing) -> str:
    """A drawing as an SVG file of its own, light or dark as the reader has it."""
    return svg_document(draw(drawing, "ortbench"), PALETTE)


def figure(drawing: Drawing) -> Canvas:
    """A drawing as a Matplotlib figure on white; it belongs to nobody's pyplot."""
    with _chart_style({}):
        canvas = _sheet(drawing).canvas
    canvas.set_facecolor(PAPER)
    _widen(canvas)
    return canvas


def _widen(canvas: Canvas) -> None:
    width, height = canvas.get_size_inches() * 72
    canvas.set_size_inches((width + 2 * MARGIN) / 72, (height + 2 * MARGIN) / 72)
    for axes in canvas.axes:
        x, y, wide, high = axes.get_position(original=True).bounds
        whole = (width + 2 * MARGIN, height + 2 * MARGIN)
        place = ((x * width + MARGIN) / whole[0], (y * height + MARGIN) / whole[1])
        axes.set_position((*place, wide * width / whole[0], high * height / whole[1]))


@contextmanager
def _chart_style(more: dict[Any, str]) -> Iterator[None]:
    with warnings.catch_warnings(), mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc is for the user's own figures
        mpl.rcParams.update({**STYLE, **more})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's own typeface may have it
        yield


def _sheet(drawing: Drawing) -> Sheet:
    match drawing:
        case LineChart():
            return lines(drawing)
        case Histograms():
            return histograms(drawing)
        case _:
            return bars(drawing)
