"""Charts of figures over what was varied: of a load over clients and rate, of a sweep over its shapes, mode by mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import NamedTuple

from ortbench.analysis.loads import levels
from ortbench.analysis.loads.knees import knee_of
from ortbench.analysis.loads.levels import slo_text
from ortbench.analysis.sweep import differing_dims, is_noisy
from ortbench.core import units
from ortbench.core.stats import Value
from ortbench.features.page.report.chart_data import model
from ortbench.model.modes import ALL_MODES, ITEM_THROUGHPUT, LATENCY, THROUGHPUT, is_rate
from ortbench.model.result import LOAD, Case, Result
from ortbench.model.slo import Slo, slo_of
from ortbench.report.model import NOTHING, Column, Kind, Table, between, columns

_TAILS = ("p99", "p95", "p50", "mean")  # what a line of latencies can be of, the usual one first


class _Curve(NamedTuple):
    """The load points of a mode of the result of a number, the lowest first; `knee` is the number of clients there, or None."""

    name: str
    mode: str
    number: int
    result: Result
    points: Sequence[Case]
    knee: float | None

    @property
    def look(self) -> model.Look:
        return model.look_of(self.mode, self.number)


class _Load(NamedTuple):
    """What both charts are made of: the curves, the statistic that is shown, and the SLO in words and in ns of that."""

    curves: Sequence[_Curve]
    stat: str
    slo: str
    slo_ns: int | None

    @property
    def limits(self) -> tuple[model.Limit, ...]:
        return () if self.slo_ns is None else (model.Limit(self.slo_ns, f"SLO: {self.slo}"),)


def _load(results: Sequence[Result], names: Sequence[str], kind: str) -> _Load | None:
    """None where no mode has two load points."""
    asked = [levels.asked_of(result) or {} for result in results if result.kind == LOAD]
    limits = asked[0] if asked and all(it == asked[0] for it in asked) else {}
    curves = []
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        for mode in levels.modes_of(result):
            if len(points := levels.measured(result, kind, mode)) > 1:
                knee = knee_of(result, mode) if kind == levels.CONCURRENCY else None
                called = f"{name}: {mode}" if len(results) > 1 else mode
                curves.append(_Curve(called, mode, number, result, points, knee and knee["concurrency"]))
    points = [level for it in curves for level in it.points]
    wanted = [*(name for name in _TAILS if name in limits), "p99", "p95"]
    stat = next((name for name in wanted if all(levels.has_figure(level, name) for level in points)), levels.P50)
    return _Load(curves, stat, slo_text(limits), limits.get(stat)) if curves else None


def _place(level: Case) -> float:
    return levels.at(level).value


def _tail(level: Case, stat: str) -> float:
    return max(levels.figure(level, stat), 1)


def _tails(it: _Curve, stat: str) -> model.Line:
    """Latencies; open marks where the queue grew all the time."""
    points = [(_place(level), _tail(level, stat)) for level in it.points]
    ends = (
        f"{units.duration(levels.figure(level, stat))} at {levels.rate_text(_place(level))}"
        for level in (it.points[0], it.points[-1])
    )
    full = [point for point, level in zip(points, it.points, strict=True) if levels.is_full(level)]
    tip = f"{it.name}: {stat} {' to '.join(ends)}"
    return model.Line(it.name, it.look, tuple(points), tip, hollow=tuple(full), rings=_rings(it, points))


def _table(plotted: _Load, heads: tuple[Column, ...], of_rate: bool) -> Table:
    every = [(it.name, level) for it in plotted.curves for level in it.points]
    unit, scale = units.time_unit(max(levels.figure(level, plotted.stat) for _, level in every))
    rows = []
    for name, level in every:
        inside = levels.interval(level, THROUGHPUT)
        rows.append(
            (
                name,
                f"{levels.rate_text(_place(level))}/s" if of_rate else f"{_place(level):g}",
                units.rate(levels.rate_of(level)),
                between(inside, units.rate),
                units.time(levels.latency_of(level).median, scale),
                *([] if plotted.stat == levels.P50 else [units.time(levels.figure(level, plotted.stat), scale)]),
            )
        )
    times = columns(Kind.TIME, LATENCY, *([] if plotted.stat == levels.P50 else [plotted.stat]))
    return Table((*heads, *columns(Kind.NUMBER, levels.INFERENCES, "95% CI"), *times), tuple(rows), unit)


# By clients


def by_clients(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """Inferences per second and latency against clients; None where no mode has two load points."""
    plotted = _load(results, names, levels.CONCURRENCY)
    if plotted is None:
        return None
    counts = sorted({_place(level) for it in plotted.curves for level in it.points})
    ticks = tuple((count, f"{count:g}") for count in counts)
    rates = tuple(map(_rates, plotted.curves))
    tails = tuple(_tails(it, plotted.stat) for it in plotted.curves)
    unit = levels.INFERENCES
    return model.Chart(
        f"Latency and {unit} against clients",
        f"Above lines of inferences per second over the number of clients, below lines of the {plotted.stat} of latency, one for each mode; a "
        "ring marks the knee.",
        "; ".join(_most(it) + ("" if it.knee is None else f", the knee at {it.knee:g}") for it in plotted.curves) + ".",
        _table(plotted, (Column("mode", Kind.NAME), Column("clients")), of_rate=False),
        model.LineChart(
            (
                model.Panel(rates, model.Axis("sizes", ticks=ticks), "{:g}".format, unit),
                model.Panel(
                    tails,
                    model.Axis("sizes", "clients", ticks),
                    name=f"{plotted.stat} of latency",
                    limits=plotted.limits,
                ),
            ),
            height=200,
            ring="knee",
        ),
    )


def _rates(it: _Curve) -> model.Line:
    points = tuple((_place(level), levels.rate_of(level)) for level in it.points)
    inside = ((level, levels.interval(level, THROUGHPUT)) for level in it.points)
    intervals = tuple((_place(level), *ends) for level, ends in inside if ends is not None)
    return model.Line(it.name, it.look, points, _most(it), intervals=intervals, rings=_rings(it, points))


def _most(it: _Curve) -> str:
    best = max(it.points, key=levels.rate_of)
    return f"{it.name}: at most {units.rate(levels.rate_of(best))} {levels.INFERENCES}, with {_place(best):g} clients"


def _rings(it: _Curve, points: Sequence[tuple[float, float]]) -> tuple[model.Ring, ...]:
    return tuple(model.Ring(x, y, f"{it.name}: the knee, {x:g} clients") for x, y in points if x == it.knee)


# By rate


def by_rate(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """Latency against requests a second; None where no mode has two load points."""
    plotted = _load(results, names, levels.RATE)
    if plotted is None:
        return None
    lines = []
    for it in plotted.curves:
        if plotted.stat != levels.P50:
            medians = tuple((_place(level), max(levels.latency_of(level).median, 1)) for level in it.points)
            lines.append(model.Line("p50", it.look._replace(marker="", thin=True), medians))
        lines.append(_tails(it, plotted.stat))
    return model.Chart(
        "Latency against rate",
        f"Lines of the {plotted.stat} of latency, and thin ones of its median, over requests per second, one for each mode; at open marks "
        "the queue grew all the time.",
        "; ".join(_rate_in_words(it, plotted) for it in plotted.curves) + ".",
        _table(plotted, (Column("mode", Kind.NAME), Column("rate")), of_rate=True),
        model.LineChart(
            (
                model.Panel(
                    tuple(lines),
                    model.Axis("rates", "requests/s"),
                    name=f"{plotted.stat} of latency",
                    limits=plotted.limits,
                    uprights=tuple(up for it in plotted.curves if (up := _highest(it, plotted.slo)) is not None),
                ),
            ),
            height=290,
            hollow="saturated",
        ),
    )


def _highest(it: _Curve, slo: str) -> model.Upright | None:
    """Where the highest rate that keeps the SLO is."""
    found = levels.kept(it.result).get(it.mode)
    if found is None:
        return None
    tip = f"{it.name}: {slo} up to {levels.rate_text(found['rate'])} requests/s"
    beyond = found["violated_from"]
    return model.Upright(found["rate"], it.look.colour, tip, span=None if beyond is None else (found["rate"], beyond))


def _rate_in_words(it: _Curve, plotted: _Load) -> str:
    first, last = it.points[0], it.points[-1]
    ends = f"{plotted.stat} {units.duration(levels.figure(first, plotted.stat))} at {levels.rate_text(_place(first))} requests/s"
    ends += f", {units.duration(levels.figure(last, plotted.stat))} at {levels.rate_text(_place(last))}"
    found = levels.kept(it.result).get(it.mode)
    limit = "" if found is None else f"; {plotted.slo} up to {levels.rate_text(found['rate'])} requests/s"
    return f"{it.name}: {ends}{limit}"


# Sweeps


_Value = tuple[float, float, float]  # a figure, and its 95 % interval


class _ShapeCurve(NamedTuple):
    """A mode: by shape, from left to right, the figure, None where there is none; and which shape is the best. Of a grid it is
    `of` a size of the dimensions that are not on the axis."""

    mode: str
    values: tuple[_Value | None, ...]
    best: int | None
    of: str

    @property
    def name(self) -> str:
        """What tells it apart from the others."""
        return f"{self.mode}, {self.of}" if self.of else self.mode


class _Places(NamedTuple):
    """What is below: the names of places from left to right, their sizes where they have one each, what they are called together;
    and the lines over them, each with what it is of and the number of the shape at each place."""

    names: tuple[str, ...]
    sizes: tuple[int, ...] | None
    name: str
    lines: tuple[tuple[str, tuple[int | None, ...]], ...]

    @property
    def axis(self) -> model.Axis:
        at = range(len(self.names)) if self.sizes is None else self.sizes
        ticks = tuple((float(place), name) for place, name in zip(at, self.names, strict=True))
        return model.Axis("places" if self.sizes is None else "sizes", self.name, ticks)


def rates_by_size(result: Result) -> model.Chart | None:
    """Items a second; None of what is no sweep, or one whose shapes all have as many items."""
    counts = {it.items["count"] for it in result.shapes if it.items is not None}
    return _chart(result, rates=True, slo=None) if len(counts) > 1 else None


def times_by_size(result: Result) -> model.Chart | None:
    """The time of a call: what an SLO is of, where there is one and runs enough to tell; None of what is no sweep."""
    slo = slo_of(result.sweep)
    found = None if slo is None else _chart(result, rates=False, slo=slo)
    return found or _chart(result, rates=False, slo=None)


def _chart(result: Result, rates: bool, slo: Slo | None) -> model.Chart | None:
    places = _places(result)
    modes = [mode for mode in ALL_MODES if rates or not is_rate(mode, LATENCY)]
    made = (_shape_curve(result, mode, of, numbers, rates, slo) for mode in modes for of, numbers in places.lines)
    curves = [curve for curve in made if any(it is not None for it in curve.values)]
    if not curves:
        return None
    statistic = None if slo is None or slo.is_median else slo.statistic

    def show(value: float) -> str:
        return f"{units.rate(value)}/s" if rates else units.duration(value)

    title = "Items/s by shape" if rates else f"{f'{statistic} of latency' if statistic else 'Latency'} by shape"
    what = "items/s" if rates else f"the {statistic or 'median'} latency"
    each = "each mode and size of the other dimensions" if any(it.of for it in curves) else "each mode"
    marks = "best" if slo is not None else "most items/s"
    marked = "; the best shape of each mode has a ring" if any(it.best is not None for it in curves) else ""
    limit = "; the horizontal line is the SLO" if slo is not None else ""
    rows = tuple(
        (name, *(NOTHING if (it := curve.values[at]) is None else show(it[0]) for curve in curves))
        for at, name in enumerate(places.names)
    )
    lines = tuple(_line(it, places, show) for it in curves)
    limits = () if slo is None else (model.Limit(slo.limit_ns, f"limit ({slo})"),)
    return model.Chart(
        title,
        f"Lines of {what} over the shapes of a sweep, one for {each}{marked}{limit}.",
        f"{'; '.join(_in_words(it, places, show, rates) for it in curves)}.",
        Table((Column("shape", Kind.NAME), *columns(Kind.NUMBER, *(it.name for it in curves))), rows),
        model.LineChart((model.Panel(lines, places.axis, units.rate if rates else None, limits=limits),), ring=marks),
    )


def _line(curve: _ShapeCurve, places: _Places, show: Callable[[float], str]) -> model.Line:
    at = [x for x, _ in places.axis.ticks]
    there = [(x, it) for x, it in zip(at, curve.values, strict=True) if it is not None]
    rings: tuple[model.Ring, ...] = ()
    if curve.best is not None and (best := curve.values[curve.best]) is not None:
        tip = f"{curve.name}, best: {places.names[curve.best]}, {show(best[0])}"
        rings = (model.Ring(at[curve.best], best[0], tip),)
    return model.Line(
        curve.mode,
        model.look_of(curve.mode),
        tuple((x, nan if it is None else it[0]) for x, it in zip(at, curve.values, strict=True)),
        f"{curve.name}: {show(there[0][1][0])} to {show(there[-1][1][0])}",
        # Sets of inputs stand side by side: nothing lies between them that a line could be of, nor where a shape has failed.
        joined=places.sizes is not None,
        intervals=tuple((x, low, high) for x, (_, low, high) in there),
        rings=rings,
        end=curve.of,
    )


def _in_words(curve: _ShapeCurve, places: _Places, show: Callable[[float], str], rates: bool) -> str:
    there = [(name, it[0]) for name, it in zip(places.names, curve.values, strict=True) if it is not None]
    if places.sizes is not None:
        there = [(f"{places.name}={name}", value) for name, value in there]
    (first, low), (last, high) = there[0], there[-1]
    said = f"{curve.name}: {show(low)} with {first}" + (f", {show(high)} with {last}" if len(there) > 1 else "")
    if rates and curve.best is not None and (best := curve.values[curve.best]) is not None:
        at = places.names[curve.best]
        said += f"; best {show(best[0])} with {at if places.sizes is None else f'{places.name}={at}'}"
    return said


def _shape_curve(
    result: Result, mode: str, of: str, numbers: Sequence[int | None], rates: bool, slo: Slo | None
) -> _ShapeCurve:
    # On a busy machine no shape is called the best, as in the table.
    best = None if is_noisy(result, mode) else result.best and result.best["modes"].get(mode)
    shown = [None if at is None else result.shapes[at] for at in numbers]
    values = tuple(None if it is None else _value(result.case(mode, it.point), rates, slo) for it in shown)
    ring = (at for at, it in enumerate(shown) if best and it is not None and it.name == best["shape"])
    return _ShapeCurve(mode, values, next(ring, None), of)


def _places(result: Result) -> _Places:
    shapes, dims = result.shapes, differing_dims(result.shapes)
    by_items = next((it.items["dim"] for it in shapes if it.items is not None), None)
    dim = by_items if by_items in dims else next(iter(dims), None)
    lines: dict[str, dict[int, int]] = {}
    for number, shape in enumerate(shapes):
        of = " ".join(f"{name}={shape.shape.get(name)}" for name in dims if name != dim)
        lines.setdefault(of, {})[shape.shape.get(dim or "", 0)] = number
    sizes = sorted({size for line in lines.values() for size in line})
    if dim is None or 0 in sizes or sum(map(len, lines.values())) < len(shapes):
        return _Places(tuple(it.name for it in shapes), None, "shape", (("", tuple(range(len(shapes)))),))
    found = tuple((of, tuple(line.get(size) for size in sizes)) for of, line in lines.items())
    return _Places(tuple(map(str, sizes)), tuple(sizes), dim, found)


def _value(case: Case | None, rates: bool, slo: Slo | None) -> _Value | None:
    stats = None if case is None else case.stats(LATENCY)
    if case is None or stats is None:
        return None
    if not rates and slo is not None and not slo.is_median:
        found = slo.value_ns(stats)
        return None if found is None else (float(found),) * 3
    if not rates:
        return float(stats.median), float(stats.ci95[0]), float(stats.ci95[1])
    rate = case.metrics.get(ITEM_THROUGHPUT)
    return (rate.value, *(rate.ci95 or (rate.value,) * 2)) if isinstance(rate, Value) else None
