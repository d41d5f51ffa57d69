"""What charts are drawn on: a sheet in CSS pixels, its colours, typeface, legend and axes, and the SVG that becomes of it.

Matplotlib is the field's own library; its SVG needs no script, so a page opens in mail previews, in the artifact viewers
of CI systems and under any content security policy, and it prints. Drawn with `Figure`, without pyplot and its state.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from ortbench.core import units
from ortbench.core.safe_text import visible
from ortbench.features.page.report.chart_model import Look

# Colours in light and dark mode, from Okabe and Ito's palette, which the colour-blind can tell apart too; hatching,
# shape or a label says the same again. The light ones double as placeholders in the SVG, so no two may be the same.
PALETTE = {
    "ink": ("#1a1f24", "#e8ebee"),
    "muted": ("#57606a", "#a0a9b2"),
    "rule": ("#d8dee4", "#30363d"),
    "paper": ("#ffffff", "#14181c"),
    "h2d": ("#0072b2", "#56b4e9"),
    "inference": ("#7a8794", "#7d8a97"),
    "d2h": ("#d55e00", "#e69f00"),
    "copies": ("#a64d8a", "#cc79a7"),
    "accent": ("#00795f", "#3cc2a0"),
}
COLOURS = {name: light for name, (light, _) in PALETTE.items()}
_NAMES = {light: name for name, light in COLOURS.items()}
INK, MUTED, RULE, PAPER, ACCENT = (COLOURS[name] for name in ("ink", "muted", "rule", "paper", "accent"))

WIDTH = 820  # px
_TEXT, SMALL = 13.0, 12.0  # px
_MEASURE = TextToPath()
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "text.parse_math": False,  # a $ in a name is a $
    "path.simplify": False,
    "font.size": SMALL,
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


class Sheet:
    """A picture in the making. Places are in px from its top left corner."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.canvas = Canvas(figsize=(WIDTH / 72, height / 72), dpi=72, facecolor="none")
        self._tips: dict[str, str] = {}
        self.page = self.axes(0, 0, WIDTH, height)  # of all of it, in px
        self.page.set(xlim=(0, WIDTH), ylim=(height, 0))
        self.page.set_axis_off()
        self.page.set_zorder(1)  # names and figures above the lines of other axes

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        box = (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        return self.canvas.add_axes(box, label=f"{left} {top}")

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        self.page.text(x, y, visible(text), **{"fontsize": _TEXT, "va": "baseline", **style})

    def tip(self, artist: Artist, text: str) -> None:
        """What a pointer over a mark shows."""
        name = f"tip-{len(self._tips)}"
        artist.set_gid(name)
        self._tips[name] = visible(text)

    def svg(self) -> str:
        FigureCanvasSVG(self.canvas)
        written = io.StringIO()
        self.canvas.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return _inline_svg(written.getvalue(), self._tips)


def text_width(text: str, size: float = _TEXT, weight: str = "normal") -> float:
    """How wide a text is, px; in Matplotlib's own typeface, which is wider than most."""
    found: float = _MEASURE.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)[0]
    return found


def shorten(text: str, width: float) -> str:
    """A text that fits a width, its middle left out if need be."""
    if len(text) <= width and text_width(text) <= width:
        return text
    for kept in range(min(len(text) - 1, int(width)), 2, -1):  # no letter is narrower than a pixel
        short = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if text_width(short) <= width:
            return short
    return "…"


def labels_apart(centres: Sequence[float], widths: Sequence[float], room: float) -> list[float]:
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


Sample = Callable[[Sheet, float, float], object]  # draws what is explained: from x on, 22 px wide, y is its middle


def patch_mark(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.page.add_patch(Rectangle((x, y - 6), 22, 12, **style))


def upright_mark(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.page.plot([x + 11] * 2, [y - 8, y + 8], **{"color": INK, **style})


def limit_mark(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.page.plot([x, x + 22], [y, y], **{"color": INK, "linewidth": 1, **style})


def point_mark(**style: Any) -> Sample:
    return lambda sheet, x, y: sheet.page.plot([x + 11], [y], **{"linestyle": "none", **style})


_LONGEST = 36  # letters' worth of a name in a legend


class Legend:
    """What the marks of a chart mean, above it, in as many lines as it takes; the next thing may begin at `height`, px."""

    def __init__(self, entries: Iterable[tuple[str, Sample]]) -> None:
        self._placed: list[tuple[float, float, str, Sample]] = []
        x, y = 0.0, 8.0
        for whole, sample in entries:
            name = shorten(visible(whole), text_width("n" * _LONGEST))
            needed = 28 + text_width(name, SMALL)
            if x and x + needed > WIDTH:
                x, y = 0.0, y + 20
            self._placed.append((x, y, name, sample))
            x += needed + 20
        self.height = y + 16

    def draw(self, sheet: Sheet) -> None:
        for x, y, name, sample in self._placed:
            sample(sheet, x, y)
            sheet.text(x + 28, y + 4, name, color=MUTED, fontsize=SMALL)


_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))


def line_style(look: Look) -> dict[str, Any]:
    colour = COLOURS[look.colour]
    line = {"color": colour, "linestyle": _DASHES[look.dash % len(_DASHES)], "linewidth": 0.9 if look.thin else 1.6}
    face = {"markerfacecolor": PAPER, "markeredgecolor": colour} if look.hollow else {"markeredgecolor": PAPER}
    return {**line, **face, "marker": look.marker or "none", "markersize": 8, "clip_on": False}


def line_mark(look: Look) -> Sample:
    style = line_style(look)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        limit_mark(**{**style, "marker": "none"})(sheet, x, y)
        if look.marker:
            point_mark(**style)(sheet, x, y)

    return draw


def add_dots(axes: Axes, points: NDArray[np.float64], size: float) -> Patch:
    """Dots as one path of strokes without length and round ends, which takes a fifth of the bytes that markers take."""
    codes = np.tile([Path.MOVETO, Path.LINETO], len(points))
    style = {"edgecolor": ACCENT, "linewidth": size, "alpha": 0.6, "capstyle": "round", "fill": False}
    patch = PathPatch(Path(points.astype(float).repeat(2, axis=0), codes), **style)
    return axes.add_patch(patch)


FAR = 20  # from which ratio of the longest to the shortest time on a logarithmic scale is used


def time_axis(axes: Axes, longest: float) -> None:
    """Ticks along the bottom in the unit that suits, with lines through the picture, and no other axis."""
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(times_to(longest))
    axes.xaxis.grid(True)
    axes.yaxis.set_major_locator(NullLocator())


def times_to(longest: float) -> FuncFormatter:
    """Ticks in the unit that suits the longest time, ns."""
    unit, scale = units.time_unit(longest)
    return FuncFormatter(lambda value, _: f"{value / scale:g} {unit}" if value else "0")


# What an upright axis leaves beside the values, on a logarithmic scale and on one from nothing.
_BESIDE, _OVER = 1.35, 1.12


def upright_axis(axes: Axes, low: float, high: float, show: Callable[[float], str] | None) -> None:
    """From nothing to the highest; logarithmic where the lowest would lie on the floor. `show` writes a tick; None: as a time, ns."""
    if high > FAR * low > 0:
        axes.set_yscale("log")
        axes.set_ylim(low / _BESIDE, high * _BESIDE)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 500 * low else (1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(tick_formatter(show or units.duration))
    else:
        axes.set_ylim(0, high * _OVER or 1)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(times_to(high) if show is None else tick_formatter(show))
    axes.yaxis.set_minor_locator(NullLocator())


def tick_formatter(show: Callable[[float], str]) -> FuncFormatter:
    return FuncFormatter(lambda value, _: without_noughts(show(value)))


def duration_axis(axes: Axes, low: float, high: float) -> None:
    """From the shortest to the longest, logarithmic where that is far."""
    if high > FAR * low > 0:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.1, high * 1.1)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 500 * low else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(tick_formatter(units.duration))
        axes.xaxis.grid(True)
        axes.yaxis.set_major_locator(NullLocator())
    else:
        room = max(high - low, high / 50, 1) / 40
        axes.set_xlim(low - room, high + room)
        time_axis(axes, high)
    # What would be written beyond the sheet's edge is left out.
    left, right = axes.get_xlim()
    ticks = [tick for tick in axes.xaxis.get_major_locator().tick_values(left, right) if left <= tick <= right]
    texts = axes.xaxis.get_major_formatter().format_ticks(ticks)
    kept = [tick for tick, text in zip(ticks, texts, strict=True) if _has_room(axes, tick, text)]
    if len(kept) < len(ticks):
        axes.xaxis.set_major_locator(FixedLocator(kept))


def _has_room(axes: Axes, tick: float, text: str) -> bool:
    at, half = axes.transData.transform((tick, 0))[0], text_width(text, SMALL) / 2
    return bool(at - half > -2 and at + half < axes.figure.bbox.width + 2)


_NOUGHTS = re.compile(r"\.0+(?!\d)|(\.\d*?[1-9])0+(?!\d)")


def without_noughts(text: str) -> str:
    """A figure without noughts that say nothing: 10 ms for 10.0 ms."""
    return _NOUGHTS.sub(r"\1", text)


# Matplotlib's SVG made fit for the inside of a page


_FRACTION = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_DOT = re.compile(r"M (\S+ \S+) L \1(?= |$)")
_NUMBERS = ("d", "x", "y", "width", "height", "transform", "points", "font-size", "stroke-width", "stroke-dasharray")
_PAINTS = ("fill", "stroke")
_FONT = "system-ui, sans-serif"
MARGIN = 16  # px, of a picture by itself: on a page what is written beyond the edge is shown, elsewhere it would be cut


def _inline_svg(text: str, tips: Mapping[str, str]) -> str:
    """The `svg` element of a page from what Matplotlib wrote. A colour of the palette gets the classes ``fill-<name>`` and
    ``stroke-<name>``; a pointer over the group of an id shows its tip."""
    root = ElementTree.fromstring(text)
    _, _, width, height = root.attrib["viewBox"].split()
    _clean_element(root, tips)
    root.attrib = {
        "viewBox": f"0 0 {width} {height}",
        "width": width,
        "height": height,
        "font-family": _FONT,
        "stroke-linejoin": "round",
    }
    return ElementTree.tostring(root, encoding="unicode")


def svg_document(svg: str) -> str:
    """An `svg` element of a page as a file of its own, on paper, with the second of each pair of colours for dark mode."""
    rules = "".join(f".{paint}-{name}{{{paint}:{dark}}}" for name, (_, dark) in PALETTE.items() for paint in _PAINTS)
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    root = ElementTree.fromstring(svg)
    wide, high = (float(root.attrib[name]) + 2 * MARGIN for name in ("width", "height"))
    at = f"{-MARGIN} {-MARGIN} {wide:g} {high:g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{at}" width="{wide:g}" height="{high:g}" font-family="{_FONT}">'
    paper = f'<rect x="{-MARGIN}" y="{-MARGIN}" width="100%" height="100%" class="fill-paper" fill="{PAPER}" />'
    return f"{head}{style}{paper}{svg.partition('>')[2]}\n"


def _clean_element(element: Element, tips: Mapping[str, str]) -> None:
    element.tag = element.tag.rpartition("}")[2]
    element.tail = None
    children: list[Element] = []
    for child in element:
        _clean_element(child, tips)
        if child.tag in ("metadata", "style") or (child.tag in ("g", "defs") and len(child) == 0):
            continue
        children += [*child] if child.tag == "g" and not child.attrib and child[0].tag != "title" else [child]
    element[:] = children
    if children or not (element.text or "").strip():
        element.text = None
    tip = tips.get(element.attrib.get("id", ""))
    given = {name.rpartition("}")[2]: value for name, value in element.attrib.items() if name != "style"}
    if element.tag == "g":
        given.pop("id", None)
    if given.get("transform", "").startswith("rotate(-0 "):
        del given["transform"]
    declared = element.attrib.get("style", "").split(";")
    given |= dict(part.strip().split(": ", 1) for part in declared if ": " in part)
    given.pop("font-family", None)  # the page chooses the typeface
    classes = [f"{name}-{_NAMES[given[name]]}" for name in _PAINTS if given.get(name) in _NAMES]
    if classes:
        given["class"] = " ".join(classes)
    element.attrib = {name: _round_numbers(value) if name in _NUMBERS else value for name, value in given.items()}
    if tip is not None:
        title = Element("title")
        title.text = tip
        element.insert(0, title)


def _round_numbers(text: str) -> str:
    """Numbers to a tenth of a pixel, no line breaks, dots in a short form: the same picture in a third of the bytes."""
    text = _FRACTION.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)
    return _DOT.sub(r"M\1h0", " ".join(text.split()))
