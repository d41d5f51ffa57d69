"""The pictures of a report as SVG, by Matplotlib.

Every picture is drawn in CSS pixels at two widths, for a screen and for a phone, so that its text keeps its size on both.
"""

from __future__ import annotations

import warnings

import matplotlib as mpl

from ortbench.report.page.charts import bandwidth, load, samples, sizes, split, stages, steps, totals
from ortbench.report.page.charts.sheet import STYLE
from ortbench.report.page.pictures.bandwidth import Bandwidth
from ortbench.report.page.pictures.gallery import Picture
from ortbench.report.page.pictures.load import ByCallers, ByRate
from ortbench.report.page.pictures.samples import Drift, Spread
from ortbench.report.page.pictures.sizes import Sizes
from ortbench.report.page.pictures.split import Split
from ortbench.report.page.pictures.stages import LinkCosts, StageTimes
from ortbench.report.page.pictures.steps import StepTimes
from ortbench.report.page.pictures.totals import Totals


def draw(picture: Picture, width: int, salt: str) -> str:
    """One picture as an `svg` element.

    Args:
        picture: what it shows.
        width: `ortbench.report.page.charts.sheet.WIDE` or `ortbench.report.page.charts.sheet.NARROW`, px.
        salt: sets the picture's ids apart from those of every other one of the page.
    """
    with warnings.catch_warnings(), mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc is for the user's own figures
        mpl.rcParams.update({**STYLE, "svg.hashsalt": salt})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's own typeface may have it
        match picture:
            case Split():
                sheet = split.split(picture, width)
            case StepTimes():
                sheet = steps.step_times(picture, width)
            case Sizes():
                sheet = sizes.sizes(picture, width)
            case StageTimes():
                sheet = stages.stage_times(picture, width)
            case LinkCosts():
                sheet = stages.link_costs(picture, width)
            case ByCallers():
                sheet = load.by_callers(picture, width)
            case ByRate():
                sheet = load.by_rate(picture, width)
            case Spread():
                sheet = samples.spread(picture, width)
            case Drift():
                sheet = samples.drift(picture, width)
            case Bandwidth():
                sheet = bandwidth.bandwidth(picture, width)
            case Totals():
                sheet = totals.totals(picture, width)
        return sheet.svg()
