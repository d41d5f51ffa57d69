"""The pictures of a report as SVG, by Matplotlib.

Every picture is drawn in CSS pixels at two widths, for a screen and for a phone, so that its text keeps its size on both.
Matplotlib is the field's own library; its SVG needs no script, so a page opens in mail previews, in the artifact viewers
of CI systems and under any content security policy, and it prints. Drawn with `Figure`, without pyplot and its state.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

from ortbench import units
from ortbench.figures import (
    COPIES,
    DOWNLOAD,
    INFERENCE,
    PER_RUN,
    UPLOAD,
    WHOLE,
    Bandwidth,
    Bar,
    Copy,
    Drift,
    Figure,
    Samples,
    Split,
    Spread,
    Totals,
)
from ortbench.plan import CPU, CPU_PINNED, DEVICE, DEVICE_PINNED, HOST_ACCESSIBLE, RESIDENT, is_rate
from ortbench.schedule import TOTAL
from ortbench.svg import inline
from ortbench.table import DERIVED, SAMPLES_FOR

# Colours in light and dark mode, from Okabe and Ito's palette, which the colour-blind can tell apart too; hatching,
# shape or a label says the same again. The light ones double as placeholders in the SVG, so no two may be the same.
PALETTE = {
    "ink": ("#1a1f24", "#e8ebee"),
    "muted": ("#57606a", "#a0a9b2"),
    "rule": ("#d8dee4", "#30363d"),
    "paper": ("#ffffff", "#14181c"),
    "upload": ("#0072b2", "#56b4e9"),
    "inference": ("#7a8794", "#7d8a97"),
    "download": ("#d55e00", "#e69f00"),
    "copies": ("#a64d8a", "#cc79a7"),
    "accent": ("#00795f", "#3cc2a0"),
}
INK, MUTED, RULE, PAPER, ACCENT = (PALETTE[name][0] for name in ("ink", "muted", "rule", "paper", "accent"))
_COLOURS = {name: PALETTE[name][0] for name in (UPLOAD, INFERENCE, DOWNLOAD, COPIES)}
_COLOURS |= dict.fromkeys((PER_RUN, WHOLE), PALETTE["inference"][0])
_HATCHES = {UPLOAD: "////", DOWNLOAD: "\\\\\\\\", COPIES: "xxxx", PER_RUN: "...."}
_SHAPES = {
    CPU: ("o", INK),
    DEVICE: ("s", _COLOURS[UPLOAD]),
    RESIDENT: ("^", ACCENT),
    HOST_ACCESSIBLE: ("D", _COLOURS[DOWNLOAD]),
    CPU_PINNED: ("v", INK),
    DEVICE_PINNED: ("P", _COLOURS[UPLOAD]),
}

WIDE, NARROW = 820, 350  # px
_TEXT, _SMALL = 13.0, 12.0  # px
_MEASURE = TextToPath()
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "text.parse_math": False,  # a $ in a name is a $
    "path.simplify": False,
    "font.size": _SMALL,
    "text.color": INK,
    "hatch.linewidth": 1.0,
    "axes.linewidth": 1.0,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 1.0,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
}


def draw(figure: Figure, width: int, salt: str) -> str:
    """One picture as an `svg` element.

    Args:
        figure: what it shows.
        width: `WIDE` or `NARROW`.
        salt: sets the picture's ids apart from those of every other one of the page.
    """
    with warnings.catch_warnings(), mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc is for the user's own figures
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": salt})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's own typeface may have it
        match figure:
            case Split():
                sheet = _split(figure, width)
            case Spread():
                sheet = _spread(figure, width)
            case Drift():
                sheet = _drift(figure, width)
            case Bandwidth():
                sheet = _bandwidth(figure, width)
            case Totals():
                sheet = _totals(figure, width)
        return sheet.svg()


class _Sheet:
    """A picture in the making. Places are in px from its top left corner."""

    def __init__(self, width: int, height: float) -> None:
        self.width, self.height = width, height
        self.canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, facecolor="none")
        self._tips: dict[str, str] = {}
        self._page = self.axes(0, 0, width, height)
        self._page.set(xlim=(0, width), ylim=(height, 0))
        self._page.set_axis_off()
        self._page.set_zorder(1)  # names and figures above the lines of other axes

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at a place of the sheet."""
        whole = (self.width, self.height)
        box = (left / whole[0], 1 - (top + height) / whole[1], width / whole[0], height / whole[1])
        return self.canvas.add_axes(box, label=f"{left} {top}")

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """A line of text that stands on y."""
        self._page.text(x, y, text, **{"fontsize": _TEXT, "va": "baseline", **style})

    def add(self, patch: Patch) -> None:
        """A shape in px."""
        self._page.add_patch(patch)

    def line(self, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
        """A line in px, or a mark where it is a point and has a marker."""
        self._page.plot(x, y, **style)

    def tip(self, artist: Artist, text: str) -> None:
        """What a pointer over a mark shows."""
        name = f"tip-{len(self._tips)}"
        artist.set_gid(name)
        self._tips[name] = text

    def svg(self) -> str:
        """The picture."""
        FigureCanvasSVG(self.canvas)
        written = io.StringIO()
        self.canvas.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return inline(written.getvalue(), {light: name for name, (light, _) in PALETTE.items()}, self._tips)


def _is_narrow(width: int) -> bool:
    return width < (WIDE + NARROW) / 2


def _width(text: str, size: float = _TEXT, weight: str = "normal") -> float:
    """How wide a text is, px; in Matplotlib's own typeface, which is wider than most."""
    found: float = _MEASURE.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)[0]
    return found


def _shortened(text: str, width: float) -> str:
    """A text that fits a width, its middle left out if need be."""
    if _width(text) <= width:
        return text
    for kept in range(len(text) - 1, 2, -1):
        short = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if _width(short) <= width:
            return short
    return "…"


# Legends


Sample = Callable[[_Sheet, float, float], None]  # draws what is explained: from x on, 22 px wide, y is its middle


def _patch(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.add(Rectangle((x, y - 6), 22, 12, **style))


def _upright(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.line([x + 11] * 2, [y - 8, y + 8], **{"color": INK, **style})


def _level(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.line([x, x + 22], [y, y], **{"color": INK, "linewidth": 1, **style})


def _mark(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.line([x + 11], [y], **{"linestyle": "none", **style})


class _Legend:
    """What the marks of a picture mean, above it, in as many lines as it takes.

    Args:
        entries: what each is called, and how it looks.
        width: of the picture, px.

    Attributes:
        height: where the next thing may begin, px.
    """

    def __init__(self, entries: Sequence[tuple[str, Sample]], width: float) -> None:
        self._placed: list[tuple[float, float, str, Sample]] = []
        x, y = 0.0, 8.0
        for name, sample in entries:
            needed = 28 + _width(name, _SMALL)
            if x and x + needed > width:
                x, y = 0.0, y + 20
            self._placed.append((x, y, name, sample))
            x += needed + 20
        self.height = y + 16

    def draw(self, sheet: _Sheet) -> None:
        """Put it on a sheet."""
        for x, y, name, sample in self._placed:
            sample(sheet, x, y)
            sheet.text(x + 28, y + 4, name, color=MUTED, fontsize=_SMALL)


# The bars


_BAR = 20  # px, height of a bar
_ORDER = [
    *((kind, False) for kind in (UPLOAD, INFERENCE, DOWNLOAD, PER_RUN, WHOLE)),
    *((kind, True) for kind in (COPIES, INFERENCE)),
]


def _split(figure: Split, width: int) -> _Sheet:
    narrow = _is_narrow(width)
    kinds = sorted({(it.kind, it.derived) for bar in figure.bars for it in bar.segments}, key=_ORDER.index)
    entries = [(_kind_name(kind, derived), _patch(**_paint(kind, derived))) for kind, derived in kinds]
    legend = _Legend([*entries, ("whole inference, median", _upright(linewidth=2))], width)
    top, row = legend.height, 74 if narrow else 58
    whole = [units.duration(bar.total_ns) for bar in figure.bars]
    left = 6 if narrow else max(_width(bar.mode, weight="bold") for bar in figure.bars) + 18
    right = max(_width(text, weight="bold") for text in whole) + 12
    sheet = _Sheet(width, top + row * len(figure.bars) + 24)
    legend.draw(sheet)
    longest = max(1, *(max(bar.total_ns, sum(it.ns for it in bar.segments)) for bar in figure.bars))
    axes = sheet.axes(left, top, width - left - right, row * len(figure.bars))
    axes.set(xlim=(0, longest), ylim=(row * len(figure.bars), 0))
    _time_axis(axes, longest, narrow)
    for number, (bar, said) in enumerate(zip(figure.bars, whole, strict=True)):
        base = top + row * (number + 1) - 6  # where the bar ends, px from the top
        if narrow:
            sheet.text(1, base - _BAR - 26, bar.mode, weight="bold")
        else:
            sheet.text(left - 18, base - 5, bar.mode, weight="bold", ha="right")
        scale = (width - left - right) / longest
        _bar(sheet, axes, bar, base - top, left, top, scale)
        end = max(bar.total_ns, sum(segment.ns for segment in bar.segments))
        sheet.text(left + end * scale + 8, base - 5, said, weight="bold")
    return sheet


def _bar(sheet: _Sheet, axes: Axes, bar: Bar, base: float, left: float, top: float, scale: float) -> None:
    at = 0
    centres, texts = [], []
    for segment in bar.segments:
        (patch,) = axes.barh(base - _BAR / 2, segment.ns, _BAR, at, **_paint(segment.kind, segment.derived))
        value = f"{DERIVED if segment.derived else ''}{units.duration(segment.ns)}"
        sheet.tip(patch, f"{bar.mode}: {_kind_name(segment.kind, segment.derived)}, {value}")
        centres.append((at + segment.ns / 2) * scale)
        texts.append(f"{segment.kind} {value}" if segment.kind != WHOLE else WHOLE)
        at += segment.ns
    (line,) = axes.plot([bar.total_ns] * 2, [base + 4, base - _BAR - 4], color=INK, linewidth=2, clip_on=False)
    what = "time per inference" if is_rate(bar.mode, TOTAL) else "whole inference"
    sheet.tip(line, f"{bar.mode}: {what}, median {units.duration(bar.total_ns)}")
    widths = [_width(text, _SMALL) for text in texts]
    for x, text in zip(_apart(centres, widths, sheet.width - left), texts, strict=True):
        sheet.text(left + x, top + base - _BAR - 8, text, ha="center", fontsize=_SMALL, color=MUTED)


def _apart(centres: Sequence[float], widths: Sequence[float], room: float) -> list[float]:
    """Centres of labels as near to the wanted ones as they can be side by side, between 0 and `room`."""
    found: list[float] = []
    edge = 0.0
    for centre, width in zip(centres, widths, strict=True):
        found.append(max(centre, edge + width / 2))
        edge = found[-1] + width / 2 + 10
    edge = room
    for number in range(len(found) - 1, -1, -1):
        found[number] = min(found[number], edge - widths[number] / 2)
        edge = found[number] - widths[number] / 2 - 10
    return found


def _kind_name(kind: str, derived: bool) -> str:
    name = "copies, both directions" if kind == COPIES else kind
    return f"{DERIVED} {name} (derived)" if derived else name


def _paint(kind: str, derived: bool) -> dict[str, Any]:
    """How a part of a bar looks: colour and hatching both say what it is; only measured phases are filled."""
    colour = _COLOURS[kind]
    if derived:
        return {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2, "hatch": _HATCHES.get(kind, "--")}
    if kind in (PER_RUN, WHOLE):
        return {"facecolor": PAPER, "edgecolor": colour, "linewidth": 1.2, "hatch": _HATCHES.get(kind)}
    return {"facecolor": colour, "edgecolor": PAPER, "linewidth": 1.0, "hatch": _HATCHES.get(kind)}


def _time_axis(axes: Axes, longest: float, narrow: bool) -> None:
    """Ticks along the bottom in the unit that suits, with lines through the picture, and no other axis."""
    axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(_times_to(longest))
    axes.xaxis.grid(True)
    axes.yaxis.set_major_locator(NullLocator())


def _times_to(longest: float, ns_each: float = 1.0) -> FuncFormatter:
    """Ticks in the unit that suits the longest time, ns; values are in units of `ns_each` ns."""
    unit, scale = units.time_unit(longest)
    return FuncFormatter(lambda value, _: f"{value * ns_each / scale:g} {unit}" if value else "0")


# The samples


_MEDIAN: dict[str, Any] = {"linewidth": 2}
_P95: dict[str, Any] = {"linewidth": 1.4, "dashes": (3, 2)}
_LOG_FROM = 20  # from which ratio of the longest to the shortest time on a logarithmic scale is used
_FEW = 40  # so few samples are shown as dots, not as a histogram
_BIN = 3.0  # px, the narrowest bin of a histogram
_MANY = 500  # samples of a mode above which a band stands for them, with the slowest as dots
_PARTS = {True: 100, False: 200}  # of that band
_SLOWEST = 100


def _edge(samples: Samples) -> float:
    """Up to which duration (ns) samples are drawn to scale: few of a long tail must not squeeze all others."""
    stats = samples.stats
    if stats.n < SAMPLES_FOR["p95"]:
        return float(stats.max_ns)
    return float(min(stats.max_ns, stats.p95_ns + 2 * (stats.p95_ns - stats.median_ns)))


def _dots(axes: Axes, x: ArrayLike, y: ArrayLike, colour: str, size: float = 3.4, alpha: float = 0.6) -> Patch:
    """Dots as one path of strokes without length and round ends, which takes a fifth of the bytes that markers take."""
    places = np.column_stack([x, y]).astype(float)
    codes = np.tile([Path.MOVETO, Path.LINETO], len(places))
    style = {"edgecolor": colour, "linewidth": size, "alpha": alpha, "capstyle": "round", "fill": False}
    patch = PathPatch(Path(places.repeat(2, axis=0), codes), **style)
    return axes.add_patch(patch)


def _spread(figure: Spread, width: int) -> _Sheet:
    narrow = _is_narrow(width)
    row, tall = (78, 40) if narrow else (64, 42)
    left = 1 if narrow else max(_width(it.mode, weight="bold") for it in figure.modes) + 18
    right = 22 if narrow else 190
    entries = [("median", _upright(**_MEDIAN))]
    if any(it.stats.n >= SAMPLES_FOR["p95"] for it in figure.modes):
        entries.append(("p95", _upright(**_P95)))
    legend = _Legend(entries, width)
    top, height = legend.height, row * len(figure.modes)
    sheet = _Sheet(width, top + height + 26)
    legend.draw(sheet)
    low, high = min(it.stats.min_ns for it in figure.modes), max(map(_edge, figure.modes))
    axes = sheet.axes(left, top, width - left - right, height)
    axes.set(ylim=(height, 0))
    _duration_axis(axes, low, high, narrow)
    columns = (width - 92, width - 2)
    if not narrow:
        for x, name in zip(columns, ("median", "p95"), strict=True):
            sheet.text(x, 12, name, ha="right", fontsize=_SMALL, color=MUTED)
    for number, it in enumerate(figure.modes):
        base = row * (number + 1) - 4
        median = units.duration(it.stats.median_ns)
        p95 = units.duration(it.stats.p95_ns) if it.stats.n >= SAMPLES_FOR["p95"] else "–"
        if narrow:
            sheet.text(left, top + base - tall - 12, it.mode, weight="bold")
            sheet.text(width - 1, top + base - tall - 12, f"{median}, p95 {p95}", ha="right", fontsize=_SMALL)
        else:
            sheet.text(left - 18, top + base - 10, it.mode, weight="bold", ha="right")
            for x, text in zip(columns, (median, p95), strict=True):
                sheet.text(x, top + base - 10, text, ha="right", weight="bold" if text is median else "normal")
        _distribution(sheet, axes, it, base, tall)
        beyond = int(np.count_nonzero(it.ns > high))
        if beyond:
            said = f"{beyond} more, to {units.duration(it.stats.max_ns)} ▸"
            above = top + base - tall + (9 if narrow else -7)
            sheet.text(width - right, above, said, ha="right", fontsize=_SMALL, color=MUTED)
    return sheet


def _distribution(sheet: _Sheet, axes: Axes, samples: Samples, base: float, tall: float) -> None:
    stats = samples.stats
    low, high = axes.get_xlim()
    if samples.ns.size <= _FEW:
        dots = _dots(axes, samples.ns, np.full(samples.ns.size, base - tall / 2), ACCENT, size=6)
        sheet.tip(dots, f"{samples.mode}: {stats.n} samples")
    else:
        edges = _bins(axes, samples)
        counts = np.histogram(samples.ns, edges)[0]
        heights = base - tall * counts / max(counts.max(), 1)
        patch = axes.stairs(heights, edges, baseline=base, fill=True, color=ACCENT, alpha=0.75, linewidth=0)
        sheet.tip(patch, f"{samples.mode}: {stats.n} samples")
    axes.plot([low, high], [base, base], color=RULE, linewidth=1)
    axes.plot([stats.median_ns] * 2, [base + 1, base - tall - 4], color=INK, **_MEDIAN)
    if stats.n >= SAMPLES_FOR["p95"]:
        axes.plot([stats.p95_ns] * 2, [base + 1, base - tall - 4], color=INK, **_P95)


def _bins(axes: Axes, samples: Samples) -> NDArray[np.float64]:
    """Edges of a histogram's bins: of equal width on the axis, more with more samples, none narrower than a few pixels."""
    ends = axes.transData.transform(
        [(float(samples.stats.min_ns), 0), (min(samples.stats.max_ns, axes.get_xlim()[1]), 0)]
    )
    (left, _), (right, _) = ends
    count = int(max(4, min(3 * samples.ns.size**0.5, (right - left) / _BIN)))
    at = np.linspace(left, max(right, left + 4 * _BIN), count + 1)
    edges: NDArray[np.float64] = axes.transData.inverted().transform(np.column_stack([at, np.zeros_like(at)]))[:, 0]
    edges[0] = min(edges[0], samples.stats.min_ns)
    return edges


def _duration_axis(axes: Axes, low: float, high: float, narrow: bool) -> None:
    """From the shortest to the longest, logarithmic where that is far."""
    if high > _LOG_FROM * low > 0:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.1, high * 1.1)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if narrow or high > 500 * low else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ns, _: plain(units.duration(ns))))
        axes.xaxis.grid(True)
        axes.yaxis.set_major_locator(NullLocator())
        return
    room = max(high - low, high / 50, 1) / 40
    axes.set_xlim(low - room, high + room)
    _time_axis(axes, high, narrow)


def plain(text: str) -> str:
    """A figure with its unit, without noughts that say nothing: 10 ms for 10.0 ms."""
    number, unit = text.split(" ")
    return f"{float(number):g} {unit}" if number[0].isdigit() else text


_PANEL = 84  # px, height of a mode's panel
_BAND: dict[str, Any] = {"facecolor": ACCENT, "alpha": 0.35, "linewidth": 0}
_BEYOND: dict[str, Any] = {"marker": "^", "color": _COLOURS[DOWNLOAD], "markersize": 7, "markeredgewidth": 0}


def _drift(figure: Drift, width: int) -> _Sheet:
    narrow = _is_narrow(width)
    left, right, row = 66, 22 if narrow else 12, _PANEL + 34
    legend = _drift_legend(figure, width)
    sheet = _Sheet(width, legend.height + row * len(figure.modes) + 18)
    legend.draw(sheet)
    # All panels reach equally far above and below their medians, so that what hits all modes looks alike in all.
    medians = [max(it.stats.median_ns, 1) for it in figure.modes]
    lowest = min(it.stats.min_ns / median for it, median in zip(figure.modes, medians, strict=True))
    highest = max(_edge(it) / median for it, median in zip(figure.modes, medians, strict=True))
    room = max(highest - lowest, 0.02) / 16
    end = max(float(it.seconds.max()) for it in figure.modes)
    for number, (it, median) in enumerate(zip(figure.modes, medians, strict=True)):
        top = legend.height + row * number + 24
        sheet.text(1, top - 8, it.mode, weight="bold")
        said = f"median {units.duration(median)}, slowest {units.duration(it.stats.max_ns)}"
        sheet.text(width - right, top - 8, said, ha="right", fontsize=_SMALL, color=MUTED)
        axes = sheet.axes(left, top, width - left - right, _PANEL)
        axes.set_xlim(-end / 80, end * (1 + 1 / 80))
        axes.set_ylim((lowest - room) * median, (highest + room) * median)
        _panel(sheet, axes, it, narrow)
        last = number == len(figure.modes) - 1
        axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(_times_to(end * 1e9, 1e9) if last else NullFormatter())
        axes.xaxis.grid(True)
        axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10], prune="lower"))
        axes.yaxis.set_major_formatter(_times_to(median))
    return sheet


def _drift_legend(figure: Drift, width: int) -> _Legend:
    entries = [("one inference", _mark(marker="o", color=ACCENT, markersize=5, markeredgewidth=0))]
    if any(it.ns.size > _MANY for it in figure.modes):
        entries = [
            (f"the {_SLOWEST} slowest", entries[0][1]),
            ("the middle 90 % of many", _patch(**_BAND)),
            ("their median", _level(color=ACCENT, linewidth=1.4)),
        ]
    entries.append(("median of all", _level()))
    if any(_edge(it) < it.stats.max_ns for it in figure.modes):
        entries.append(("above the panel", _mark(**_BEYOND)))
    return _Legend(entries, width)


def _panel(sheet: _Sheet, axes: Axes, samples: Samples, narrow: bool) -> None:
    ns, seconds, stats = samples.ns, samples.seconds, samples.stats
    top = axes.get_ylim()[1]
    axes.axhline(stats.median_ns, color=INK, linewidth=1)
    if ns.size > _MANY:
        parts = [np.arange(ns.size)[part] for part in _slices(ns.size, _PARTS[narrow])]
        middle = [float(seconds[part].mean()) for part in parts]
        low, centre, high = np.array([np.quantile(ns[part], (0.05, 0.5, 0.95)) for part in parts]).T
        axes.fill_between(middle, low, high, **_BAND)
        axes.plot(middle, centre, color=ACCENT, linewidth=1.4)
        shown = np.sort(np.argsort(ns, kind="stable")[-_SLOWEST:])
        ns, seconds = ns[shown], seconds[shown]
    inside = ns <= top
    _dots(axes, seconds[inside], ns[inside], ACCENT, size=5 if inside.size < _MANY / 2 else 3.4)
    if inside.all():
        return
    beyond = seconds[~inside]
    edge = np.full(beyond.size, top - (top - axes.get_ylim()[0]) * 0.05)
    axes.plot(beyond, edge, linestyle="none", **_BEYOND)


def _slices(size: int, parts: int) -> list[slice]:
    bounds = [round(size * number / parts) for number in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


# The copies


_MARKERS = {UPLOAD: "^", DOWNLOAD: "v", COPIES: "D"}
_LINES: dict[str, dict[str, Any]] = {
    UPLOAD: {"color": _COLOURS[UPLOAD], "linewidth": 1.6},
    DOWNLOAD: {"color": _COLOURS[DOWNLOAD], "linewidth": 1.6, "dashes": (5, 2)},
}
_LABELLED = 3  # so many copies can have their label beside them


def _bandwidth(figure: Bandwidth, width: int) -> _Sheet:
    narrow = _is_narrow(width)
    kinds = dict.fromkeys(copy.kind for copy in figure.copies)
    entries = [(_kind_name(kind, kind == COPIES), _mark(**_marker(kind))) for kind in kinds]
    ways = [curve.kind for curve in figure.curves]
    entries += [(f"{way}, measured sweep", _level(**_LINES[way])) for way in ways]
    legend = _Legend(entries, width)
    left, right, top, tall = 72, 14, legend.height + 4, 250 if narrow else 320
    sheet = _Sheet(width, top + tall + 28)
    legend.draw(sheet)
    axes = sheet.axes(left, top, width - left - right, tall)
    axes.spines["left"].set_visible(True)
    points = [(copy.count, copy.ns) for copy in figure.copies] + [it for curve in figure.curves for it in curve.points]
    sizes, rates = [count for count, _ in points], [1e9 * count / ns for count, ns in points]
    axes.set(xscale="log", yscale="log", xlim=_around(sizes), ylim=_around(rates))
    for axis, suffix in ((axes.xaxis, ""), (axes.yaxis, "/s")):
        low, high = axis.get_view_interval()
        axis.set_major_locator(
            LogLocator(subs=(1.0,) if high > 200 * low else (1.0, 2.0, 5.0), numticks=5 if narrow else 9)
        )
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda x, _, suffix=suffix: f"{plain(units.size(x))}{suffix}"))
    for curve in figure.curves:
        counts, ns = np.array(curve.points, dtype=float).T
        axes.plot(counts, 1e9 * counts / ns, **_LINES[curve.kind])
    _equal_times(axes, _copies(sheet, axes, figure.copies))
    return sheet


def _marker(kind: str) -> dict[str, Any]:
    colour = _COLOURS[kind]
    return {
        "marker": _MARKERS[kind],
        "color": PAPER if kind == COPIES else colour,
        "markeredgecolor": colour,
        "markersize": 8,
    }


def _copies(sheet: _Sheet, axes: Axes, copies: Sequence[Copy]) -> list[Bbox]:
    """A mark for each copy, and its label where there are few. Gives the places that are taken, in px."""
    places = [(copy.count, 1e9 * copy.rate) for copy in copies]
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in axes.transData.transform(places or np.empty((0, 2)))]
    for copy, place in zip(copies, places, strict=True):
        (point,) = axes.plot(*place, linestyle="none", **_marker(copy.kind))
        sheet.tip(point, copy.in_words)
        if len(copies) <= _LABELLED:
            mark = DERIVED if copy.kind == COPIES else ""
            _label(axes, f"{copy.name}\n{mark}{units.digits(copy.rate)} GB/s", place, _AROUND, taken)
    return taken


# Where a label may stand: how far from its point in px, and which of its sides is there. In this order they are tried.
_AROUND = [
    ((-9, 9), "right", "bottom"), ((-9, -9), "right", "top"), ((12, 0), "left", "center"), ((9, 9), "left", "bottom"),
    ((9, -9), "left", "top"), ((-12, 0), "right", "center"),
]  # fmt: skip
_BELOW = [((-4, -4), "right", "top")]


def _label(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    around: Sequence[tuple[tuple[int, int], str, str]],
    taken: list[Bbox],
    colour: str = INK,
) -> None:
    """A label beside a point where it lies on nothing that is there, and no label where there is no such place."""
    lines = text.split("\n")
    width, height = max(_width(line, _SMALL) for line in lines), 16 * len(lines)
    x, y = axes.transData.transform(place)
    inside = axes.get_window_extent()
    for (right, up), ha, va in around:
        left = x + right - (width if ha == "right" else 0)
        bottom = y + up - {"top": height, "center": height / 2, "bottom": 0}[va]
        box = Bbox.from_bounds(left, bottom, width, height)
        if left >= inside.x0 and left + width <= inside.x1 and box.count_overlaps(taken) == 0:
            style = {"textcoords": "offset points", "ha": ha, "va": va, "color": colour}
            axes.annotate(text, place, (right, up), **style)  # type: ignore[arg-type]
            taken.append(box)
            return


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis with room around values for their labels, not less than a decade and a half apart."""
    low, high = np.log10(min(values)), np.log10(max(values))
    room = max(0.35, (1.5 - (high - low)) / 2)
    return float(10.0 ** (low - room)), float(10.0 ** (high + room))


def _equal_times(axes: Axes, taken: list[Bbox]) -> None:
    """Thin diagonals on which copies take equally long: 1 µs, 10 µs …; they are named where there is room."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    shortest, longest = np.log10(left / top * 1e9), np.log10(right / bottom * 1e9)
    for power in range(int(np.ceil(shortest)), int(np.floor(longest)) + 1):
        ns = 10.0**power
        axes.plot([left, right], [left / ns * 1e9, right / ns * 1e9], color=RULE, linewidth=1, zorder=0.5)
        x = min(right, top * ns / 1e9)
        _label(axes, plain(units.duration(ns)), (x, x / ns * 1e9), _BELOW, taken, MUTED)


# Several results


_LANE = 11  # px, so that modes which take equally long do not hide each other


def _totals(figure: Totals, width: int) -> _Sheet:
    narrow = _is_narrow(width)
    modes = list(dict.fromkeys(mode for _, found in figure.rows for mode, _ in found))
    legend = _Legend([(mode, _mark(**_shape(mode))) for mode in modes], width)
    top, row = legend.height, _LANE * len(modes) + (38 if narrow else 18)
    room = width - 10 if narrow else width * 0.32
    names = [_shortened(" ".join(name.split()), room) for name, _ in figure.rows]
    left = 8 if narrow else max(map(_width, names)) + 20
    height = row * len(names)
    sheet = _Sheet(width, top + height + 26)
    legend.draw(sheet)
    axes = sheet.axes(left, top, width - left - 22, height)
    axes.set(ylim=(height, 0))
    medians = [max(stats.median_ns, 1) for _, found in figure.rows for _, stats in found]
    _duration_axis(axes, min(medians), max(medians), narrow)
    if axes.get_xscale() == "linear":
        axes.set_xlim(left=0)
    for number, (name, (_, found)) in enumerate(zip(names, figure.rows, strict=True)):
        first = row * number + (32 if narrow else 14)
        if narrow:
            sheet.text(1, top + first - 14, name)
        else:
            sheet.text(left - 20, top + row * (number + 0.5) + 5, name, ha="right")
        axes.axhline(row * (number + 1), color=RULE, linewidth=1)
        for mode, stats in found:
            y = first + _LANE * modes.index(mode)
            (point,) = axes.plot(max(stats.median_ns, 1), y, linestyle="none", **_shape(mode))
            sheet.tip(point, f"{mode}: {units.duration(stats.median_ns)}")
    return sheet


def _shape(mode: str) -> dict[str, Any]:
    marker, colour = _SHAPES.get(mode, ("o", MUTED))
    return {"marker": marker, "color": colour, "markeredgecolor": PAPER, "markersize": 10, "clip_on": False}
