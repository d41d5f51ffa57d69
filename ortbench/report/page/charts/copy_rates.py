"""The picture of a bandwidth curve, as an SVG file of its own, by Matplotlib.

Text stays text, and every colour of the palette has a second value for dark mode. Drawn with `Figure`, without pyplot and
its state.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ortbench.analysis.bandwidth import TITLES, gbps, measured, size_of
from ortbench.core import units
from ortbench.model.modes import D2H, DIRECTIONS, H2D, MEMORIES, ORDINARY
from ortbench.model.result import Result
from ortbench.report.page.charts.sheet import INK, MUTED, PALETTE, PAPER, RULE, plain
from ortbench.report.words import ep_line

_MARKERS = {H2D: "^", D2H: "v"}
# Its font cache and configuration folder are no business of a benchmark's user.
logging.getLogger("matplotlib").setLevel(logging.ERROR)


_SWEEP_SIZE = (820, 440)  # px
_SWEEP_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "svg.hashsalt": "ortbench",  # the same sweep gives the same bytes
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 12.0,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": RULE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


def bandwidth_svg(result: Result) -> str:
    """A bandwidth curve as an SVG file: rate against size on logarithmic scales, a line a direction and kind of host memory.

    Args:
        result: with at least one measured case.
    """
    with _styled():
        canvas = _drawn(result)
        FigureCanvasSVG(canvas)
        written = io.StringIO()
        canvas.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return _themed(written.getvalue())


def bandwidth_figure(result: Result) -> Canvas:
    """The same picture as a Matplotlib figure, which belongs to nobody's pyplot."""
    with _styled():
        return _drawn(result)


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc is for the user's own figures
        mpl.rcParams.update(_SWEEP_STYLE)
        yield


def _drawn(result: Result) -> Canvas:
    size = (_SWEEP_SIZE[0] / 72, _SWEEP_SIZE[1] / 72)
    canvas = Canvas(figsize=size, dpi=72, facecolor=PAPER, layout="constrained")
    axes = canvas.add_subplot()
    axes.set_title(f"Copies of {ep_line(result)}", loc="left", fontsize=13)
    axes.set(xscale="log", yscale="log", xlabel="bytes of one copy", ylabel="median rate")
    _rates(axes, result)
    axes.legend(frameon=False, loc="lower right")
    return canvas


def _rates(axes: Axes, result: Result) -> None:
    for memory in MEMORIES:
        for direction in DIRECTIONS:
            cases = measured(result, direction, memory)
            colour = PALETTE[direction][0]
            if cases:
                axes.plot(
                    [*map(size_of, cases)],
                    [gbps(case, direction) * 1e9 for case in cases],
                    linestyle="-" if memory == ORDINARY else "--",
                    marker=_MARKERS[direction],
                    color=colour,
                    markerfacecolor=colour if memory == ORDINARY else PAPER,
                    label=f"{direction.upper()}, {TITLES[memory]}",
                )
    sizes = sorted(set(map(size_of, measured(result))))
    axes.set_xticks(sizes, [plain(units.size(size)) for size in sizes])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{plain(units.size(rate))}/s"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(True)


def _themed(svg: str) -> str:
    """The picture with a second set of colours for dark mode; a style sheet outweighs Matplotlib's own styles."""
    rules = "".join(
        f'[style*="{paint}: {light}"]{{{paint}:{dark}!important}}'
        for light, dark in PALETTE.values()
        for paint in ("fill", "stroke")
    )
    head, defs, rest = svg.partition("<defs>")
    head = head.replace('pt"', '"')  # px, as text on a screen has it
    return f"{head}<style>@media (prefers-color-scheme: dark){{{rules}}}</style>\n {defs}{rest}"
