"""Charts of figures over the shapes of a sweep, mode by mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import NamedTuple

from ortbench.analysis.items import differing_dims
from ortbench.core import units
from ortbench.core.stats import Value
from ortbench.features.page.report import chart_model as model
from ortbench.features.sweep.analysis import best_by_mode, how_known, slo_of
from ortbench.model.metric_names import Slo
from ortbench.model.modes import ALL_MODES, ITEM_THROUGHPUT, LATENCY, is_rate
from ortbench.model.result import Case, Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns

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


class _Positions(NamedTuple):
    """What is below: the names of places from left to right, their sizes where they have one each, what they are called together;
    and the lines over them, each with what it is of and the number of the shape at each place."""

    names: tuple[str, ...]
    sizes: tuple[int, ...] | None
    name: str
    lines: tuple[tuple[str, tuple[int | None, ...]], ...]

    @property
    def axis(self) -> model.Axis:
        at = range(len(self.names)) if self.sizes is None else self.sizes
        ticks = tuple((float(position), name) for position, name in zip(at, self.names, strict=True))
        return model.Axis("places" if self.sizes is None else "sizes", self.name, ticks)


def rates_by_size(result: Result) -> model.Chart | None:
    """Items a second; None of what is no sweep, or one whose shapes all have as many items."""
    counts = {it.items["count"] for it in result.shapes if it.items is not None}
    return _chart(result, rates=True, slo=None) if len(counts) > 1 else None


def times_by_size(result: Result) -> model.Chart | None:
    """The time of a call: what an SLO is of, where there is one and runs enough to tell; None of what is no sweep."""
    slo = slo_of(result)
    found = None if slo is None else _chart(result, rates=False, slo=slo)
    return found or _chart(result, rates=False, slo=None)


def _chart(result: Result, rates: bool, slo: Slo | None) -> model.Chart | None:
    positions = _positions(result)
    modes = [mode for mode in ALL_MODES if rates or not is_rate(mode, LATENCY)]
    made = (_shape_curve(result, mode, of, numbers, rates, slo) for mode in modes for of, numbers in positions.lines)
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
    rows = tuple(
        (name, *(NOTHING if (value := curve.values[at]) is None else show(value[0]) for curve in curves))
        for at, name in enumerate(positions.names)
    )
    lines = tuple(_line(it, positions, show) for it in curves)
    limits = () if slo is None else (model.Limit(slo.limit_ns, f"limit ({slo})"),)
    return model.Chart(
        title,
        f"Lines of {what} over the shapes of a sweep, one for {each}.",
        Table((Column("shape", Kind.NAME), *columns(Kind.NUMBER, *(it.name for it in curves))), rows),
        model.LineChart(
            (model.Panel(lines, positions.axis, units.rate if rates else None, limits=limits),), ring=marks
        ),
    )


def _line(curve: _ShapeCurve, positions: _Positions, show: Callable[[float], str]) -> model.Line:
    at = [x for x, _ in positions.axis.ticks]
    there = [(x, it) for x, it in zip(at, curve.values, strict=True) if it is not None]
    rings: tuple[model.Ring, ...] = ()
    if curve.best is not None and (best := curve.values[curve.best]) is not None:
        tip = f"{curve.name}, best: {positions.names[curve.best]}, {show(best[0])}"
        rings = (model.Ring(at[curve.best], best[0], tip),)
    return model.Line(
        curve.mode,
        model.look_of(curve.mode),
        tuple((x, nan if it is None else it[0]) for x, it in zip(at, curve.values, strict=True)),
        f"{curve.name}: {show(there[0][1][0])} to {show(there[-1][1][0])}",
        # Sets of inputs stand side by side: nothing lies between them that a line could be of, nor where a shape has failed.
        joined=positions.sizes is not None,
        intervals=tuple((x, low, high) for x, (_, low, high) in there),
        rings=rings,
        end=curve.of,
    )


def _shape_curve(
    result: Result, mode: str, of: str, numbers: Sequence[int | None], rates: bool, slo: Slo | None
) -> _ShapeCurve:
    best = best_by_mode(result).get(mode)
    decided = best["shape"] if best is not None and how_known(result, mode) == "known" else None
    shown = [None if at is None else result.shapes[at] for at in numbers]
    values = tuple(None if it is None else _value(result.case(mode, it.point), rates, slo) for it in shown)
    ring = (at for at, it in enumerate(shown) if it is not None and it.name == decided)
    return _ShapeCurve(mode, values, next(ring, None), of)


def _positions(result: Result) -> _Positions:
    shapes, dims = result.shapes, differing_dims(result.shapes)
    by_items = next((it.items["dim"] for it in shapes if it.items is not None), None)
    dim = by_items if by_items in dims else next(iter(dims), None)
    lines: dict[str, dict[int, int]] = {}
    for number, shape in enumerate(shapes):
        of = " ".join(f"{name}={shape.shape.get(name)}" for name in dims if name != dim)
        lines.setdefault(of, {})[shape.shape.get(dim or "", 0)] = number
    sizes = sorted({size for line in lines.values() for size in line})
    if dim is None or 0 in sizes or sum(map(len, lines.values())) < len(shapes):
        return _Positions(tuple(it.name for it in shapes), None, "shape", (("", tuple(range(len(shapes)))),))
    found = tuple((of, tuple(line.get(size) for size in sizes)) for of, line in lines.items())
    return _Positions(tuple(map(str, sizes)), tuple(sizes), dim, found)


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


CHARTS = {"rates_by_size": rates_by_size, "times_by_size": times_by_size}
