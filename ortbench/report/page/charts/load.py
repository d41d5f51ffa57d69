"""The pictures of a load: runs/s and latency against callers, and latency against rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from ortbench.analysis.loads.levels import rate_text
from ortbench.core import units
from ortbench.report.page.charts.sheet import (
    INK,
    MUTED,
    PAPER,
    SMALL,
    Legend,
    Room,
    Sample,
    Sheet,
    is_narrow,
    level_mark,
    mode_shape,
    point_mark,
    upright_axis,
)
from ortbench.report.page.pictures.load import ByCallers, ByRate, Line, Loads, Point

_LEFT, _BELOW, _BETWEEN, _NAME = 66, 46, 44, 22  # px
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))  # one for each result, in turns
_RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 17,
    "markerfacecolor": "none",
    "markeredgecolor": INK,
    "linestyle": "none",
}
_ROOM = Room(1.4, 1.5, 1.12, 4)  # for what is written at points
_SLO: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "dashes": (6, 3)}


def by_callers(picture: ByCallers, width: int) -> Sheet:
    """Two pictures with the callers in common: runs/s above, latency below; rings mark the knees."""
    narrow = is_narrow(width)
    legend = Legend(_legend(picture, rings=True), width)
    height, right = 170 if narrow else 200, 22 if narrow else 14
    top = legend.height + _NAME
    below = top + height + _BETWEEN
    sheet = Sheet(width, below + height + _BELOW)
    legend.draw(sheet)
    across = width - _LEFT - right
    rates, times = sheet.axes(_LEFT, top, across, height), sheet.axes(_LEFT, below, across, height)
    counts = sorted({point.x for line in picture.lines for point in line.points})
    for axes in (rates, times):
        _callers_axis(axes, counts)
        axes.yaxis.grid(True)
    _rate_axis(rates, [point.throughput for line in picture.lines for point in line.points])
    _time_axis(times, [point.tail for line in picture.lines for point in line.points], picture.slo_ns)
    for line in picture.lines:
        _runs(sheet, rates, line)
        _tails(sheet, times, line, picture.stat)
    _limit(times, picture)
    sheet.text(0, top - 10, "inf/s", fontsize=SMALL, color=MUTED)
    sheet.text(0, below - 10, f"{picture.stat} of latency", fontsize=SMALL, color=MUTED)
    sheet.text(_LEFT + across / 2, below + height + 36, "callers", ha="center", fontsize=SMALL, color=MUTED)
    return sheet


def by_rate(picture: ByRate, width: int) -> Sheet:
    """Latency over requests a second; bands mark the highest rates that keep the SLO."""
    narrow = is_narrow(width)
    legend = Legend(_legend(picture, rings=False), width)
    height, right, top = 240 if narrow else 290, 22 if narrow else 14, legend.height + _NAME
    sheet = Sheet(width, top + height + _BELOW)
    legend.draw(sheet)
    across = width - _LEFT - right
    axes = sheet.axes(_LEFT, top, across, height)
    points = [point for line in picture.lines for point in line.points]
    ends = [line.kept["ci95"][1] for line in picture.lines if line.kept is not None]
    axes.set_xlim(0, max([point.x for point in points] + ends) * 1.05)
    axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
    _time_axis(axes, [it for point in points for it in (point.median, point.tail)], picture.slo_ns)
    axes.yaxis.grid(True)
    for line in picture.lines:
        _band(sheet, axes, line, picture.slo)
        if picture.stat != "p50":
            colour = mode_shape(line.mode)["color"]
            axes.plot(
                [it.x for it in line.points],
                [max(it.median, 1) for it in line.points],
                color=colour,
                linewidth=0.9,
                alpha=0.6,
            )
        _tails(sheet, axes, line, picture.stat)
    _limit(axes, picture)
    sheet.text(0, top - 10, f"{picture.stat} of latency", fontsize=SMALL, color=MUTED)
    sheet.text(_LEFT + across / 2, top + height + 36, "requests a second", ha="center", fontsize=SMALL, color=MUTED)
    return sheet


def _legend(picture: Loads, rings: bool) -> list[tuple[str, Sample]]:
    found: list[tuple[str, Sample]] = [(line.name, _line_mark(line)) for line in picture.lines]
    if rings and any(line.knee is not None for line in picture.lines):
        found.append(("knee", point_mark(**{**_RING, "markersize": 13})))
    if not rings and picture.stat != "p50":
        found.append(("p50", level_mark(color=MUTED, linewidth=0.9)))
    if not rings and any(point.full for line in picture.lines for point in line.points):
        open_mark = {"marker": "o", "markerfacecolor": PAPER, "markeredgecolor": INK, "markersize": 8}
        found.append(("queue grows", point_mark(**open_mark)))
    if picture.slo_ns is not None:
        found.append((f"SLO: {picture.slo}", level_mark(**_SLO)))
    return found


def _line_mark(line: Line) -> Sample:
    shape = mode_shape(line.mode)

    def draw(sheet: Sheet, x: float, y: float) -> None:
        level_mark(color=shape["color"], linewidth=1.6, linestyle=_dash(line))(sheet, x, y)
        point_mark(**{**shape, "markersize": 7})(sheet, x, y)

    return draw


def _dash(line: Line) -> Any:
    return _DASHES[line.number % len(_DASHES)]


def _style(line: Line) -> dict[str, Any]:
    return {**mode_shape(line.mode), "markersize": 7, "linewidth": 1.6, "linestyle": _dash(line)}


def _runs(sheet: Sheet, axes: Axes, line: Line) -> None:
    """Runs/s with their intervals, and a ring at the knee."""
    colour = mode_shape(line.mode)["color"]
    for point in line.points:
        if point.inside is not None:
            axes.plot([point.x] * 2, point.inside, color=colour, linewidth=1.2)
    (drawn,) = axes.plot([it.x for it in line.points], [it.throughput for it in line.points], **_style(line))
    most = max(line.points, key=lambda it: it.throughput)
    sheet.tip(drawn, f"{line.name}: at most {units.rate(most.throughput)} runs/s, with {most.x:g} callers")
    _ring(sheet, axes, line, [(it.x, it.throughput) for it in line.points])


def _tails(sheet: Sheet, axes: Axes, line: Line, stat: str) -> None:
    """Latencies; open marks where the queue grew all the time."""
    places = [(it.x, max(it.tail, 1)) for it in line.points]
    (drawn,) = axes.plot([x for x, _ in places], [y for _, y in places], **_style(line))
    first, last = line.points[0], line.points[-1]
    sheet.tip(drawn, f"{line.name}: {stat} {_at(first)} to {_at(last)}")
    full = [place for place, it in zip(places, line.points, strict=True) if it.full]
    if full:
        shape = {
            **_style(line),
            "linestyle": "none",
            "markerfacecolor": PAPER,
            "markeredgecolor": mode_shape(line.mode)["color"],
        }
        axes.plot([x for x, _ in full], [y for _, y in full], **shape)
    _ring(sheet, axes, line, places)


def _at(point: Point) -> str:
    return f"{units.duration(point.tail)} at {rate_text(point.x)}"


def _ring(sheet: Sheet, axes: Axes, line: Line, places: Sequence[tuple[float, float]]) -> None:
    for x, y in places:
        if x == line.knee:
            (ring,) = axes.plot([x], [y], clip_on=False, **_RING)
            sheet.tip(ring, f"{line.name}: the knee, {x:g} callers")


def _band(sheet: Sheet, axes: Axes, line: Line, slo: str) -> None:
    """Where the highest rate that keeps the SLO is."""
    if line.kept is None:
        return
    colour = mode_shape(line.mode)["color"]
    low, high = line.kept["ci95"]
    axes.axvspan(low, high, color=colour, alpha=0.15, linewidth=0)
    mark = axes.axvline(line.kept["rate"], color=colour, linewidth=1.2, linestyle=(0, (1, 1.5)))
    sheet.tip(mark, f"{line.name}: {slo} up to {units.rate(line.kept['rate'])} a second")


def _limit(axes: Axes, picture: Loads) -> None:
    if picture.slo_ns is not None:
        axes.axhline(picture.slo_ns, zorder=1.5, **_SLO)


# Axes


def _callers_axis(axes: Axes, counts: Sequence[float]) -> None:
    """The numbers of callers that there are, each twice as many as far apart as the last."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(counts[0] / 1.15, counts[-1] * 1.15)
    axes.xaxis.set_major_locator(FixedLocator(list(counts)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:g}"))


def _rate_axis(axes: Axes, rates: Sequence[float]) -> None:
    axes.set_ylim(0, max(rates) * 1.12 or 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))


def _time_axis(axes: Axes, values: Sequence[float], slo_ns: int | None) -> None:
    """From nothing to the longest; logarithmic where the shortest would lie on the floor. The SLO is within it."""
    known = [max(value, 1) for value in values] + ([slo_ns] if slo_ns is not None else [])
    upright_axis(axes, min(known), max(known), room=_ROOM)
