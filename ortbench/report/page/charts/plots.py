"""The pictures of a report as SVG, by Matplotlib.

Every picture is drawn in CSS pixels at two widths, for a screen and for a phone, so that its text keeps its size on both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from ortbench.report.page.charts import bandwidth, load, over_time, samples, sizes, split, stages, steps, totals
from ortbench.report.page.charts.sheet import PAPER, STYLE, WIDE, Sheet
from ortbench.report.page.pictures.bandwidth import Bandwidth
from ortbench.report.page.pictures.gallery import Picture
from ortbench.report.page.pictures.load import ByCallers, ByRate
from ortbench.report.page.pictures.over_time import OverTime
from ortbench.report.page.pictures.samples import Drift, Spread
from ortbench.report.page.pictures.sizes import Sizes
from ortbench.report.page.pictures.split import Split
from ortbench.report.page.pictures.stages import LinkCosts, StageTimes
from ortbench.report.page.pictures.steps import StepTimes
from ortbench.report.page.pictures.totals import Totals

_MARGIN = 16  # px


def draw(picture: Picture, width: int, salt: str) -> str:
    """One picture as an `svg` element.

    Args:
        picture: what it shows.
        width: `ortbench.report.page.charts.sheet.WIDE` or `ortbench.report.page.charts.sheet.NARROW`, px.
        salt: sets the picture's ids apart from those of every other one of the page.
    """
    with _styled({"svg.hashsalt": salt}):
        return _sheet(picture, width).svg()


def figure(picture: Picture) -> Canvas:
    """One picture as a Matplotlib figure on white, as wide as a screen's; it belongs to nobody's pyplot."""
    with _styled({}):
        canvas = _sheet(picture, WIDE).canvas
    canvas.set_facecolor(PAPER)
    _widen(canvas)
    return canvas


def _widen(canvas: Canvas) -> None:
    """Add a margin: on a page what is written beyond the edge is shown, elsewhere it would be cut off."""
    width, height = canvas.get_size_inches() * 72
    canvas.set_size_inches((width + 2 * _MARGIN) / 72, (height + 2 * _MARGIN) / 72)
    for axes in canvas.axes:
        x, y, wide, high = axes.get_position(original=True).bounds
        whole = (width + 2 * _MARGIN, height + 2 * _MARGIN)
        place = ((x * width + _MARGIN) / whole[0], (y * height + _MARGIN) / whole[1])
        axes.set_position((*place, wide * width / whole[0], high * height / whole[1]))


@contextmanager
def _styled(more: dict[Any, str]) -> Iterator[None]:
    with warnings.catch_warnings(), mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc is for the user's own figures
        mpl.rcParams.update({**STYLE, **more})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's own typeface may have it
        yield


def _sheet(picture: Picture, width: int) -> Sheet:
    match picture:
        case Split():
            return split.split(picture, width)
        case StepTimes():
            return steps.step_times(picture, width)
        case Sizes():
            return sizes.sizes(picture, width)
        case StageTimes():
            return stages.stage_times(picture, width)
        case LinkCosts():
            return stages.link_costs(picture, width)
        case ByCallers():
            return load.by_callers(picture, width)
        case ByRate():
            return load.by_rate(picture, width)
        case Spread():
            return samples.spread(picture, width)
        case Drift():
            return samples.drift(picture, width)
        case Bandwidth():
            return bandwidth.bandwidth(picture, width)
        case Totals():
            return totals.totals(picture, width)
        case OverTime():
            return over_time.over_time(picture, width)
