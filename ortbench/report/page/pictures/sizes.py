"""How a sweep's figures follow the size: items a second and the time of a call, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortbench import units
from ortbench.modes import ALL_MODES, TOTAL, is_rate
from ortbench.report.model import NOTHING, Column, Kind, Table, columns
from ortbench.result import Point, Result
from ortbench.slo import Slo, slo_of


@dataclass(frozen=True)
class Curve:
    """A mode: by shape, from left to right, the figure and its 95 % interval, None where there is none; and which shape is
    the best."""

    mode: str
    values: tuple[tuple[float, float, float] | None, ...]
    best: int | None


@dataclass(frozen=True)
class Sizes:
    """Curves over the shapes of a sweep.

    Attributes:
        rates: they are of items a second; else of times, ns.
        shapes: what each is called on the axis.
        sizes: of the dimension that is swept, where there is but one; else shapes stand side by side.
        axis: what the axis is called.
        curves: one a mode.
        slo: whose limit is a line, of times.
    """

    rates: bool
    shapes: tuple[str, ...]
    sizes: tuple[int, ...] | None
    axis: str
    curves: tuple[Curve, ...]
    slo: Slo | None = None

    @property
    def title(self) -> str:
        """Of the picture."""
        return "Items a second by shape" if self.rates else "Time of a call by shape"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        what = "items a second" if self.rates else "the median time of a call"
        marked = "; the best shape of each mode has a ring" if any(it.best is not None for it in self.curves) else ""
        limit = "; a level line is the limit that is to be kept" if self.slo is not None else ""
        return f"Lines of {what} over the shapes of a sweep, one for each mode{marked}{limit}."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        return f"{'; '.join(filter(None, map(self._in_words, self.curves)))}."

    def _in_words(self, curve: Curve) -> str:
        there = [(name, it[0]) for name, it in zip(self.shapes, curve.values, strict=True) if it is not None]
        (first, low), (last, high) = there[0], there[-1]
        said = f"{curve.mode}: {self.shown(low)} with {first}" + (
            f", {self.shown(high)} with {last}" if len(there) > 1 else ""
        )
        if self.rates and curve.best is not None and (best := curve.values[curve.best]) is not None:
            said += f"; best {self.shown(best[0])} with {self.shapes[curve.best]}"
        return said

    def shown(self, value: float) -> str:
        """A figure with its unit."""
        return f"{units.rate(value)}/s" if self.rates else units.duration(value)

    def table(self) -> Table:
        """What it shows, in numbers."""
        rows = tuple(
            (name, *(NOTHING if (it := curve.values[at]) is None else self.shown(it[0]) for curve in self.curves))
            for at, name in enumerate(self.shapes)
        )
        return Table((Column("shape", Kind.NAME), *columns(Kind.NUMBER, *(it.mode for it in self.curves))), rows)


def rates_by_size(result: Result) -> Sizes | None:
    """Items a second; None of what is no sweep, or one whose shapes all have as many items."""
    counts = {point.items["count"] for point in result.points or [] if point.items is not None}
    return _curves(result, rates=True) if len(counts) > 1 else None


def times_by_size(result: Result) -> Sizes | None:
    """The time of a call; None of what is no sweep."""
    return _curves(result, rates=False)


def _curves(result: Result, rates: bool) -> Sizes | None:
    points = result.points or []
    sizes, axis = _axis(result, points)
    order = range(len(points)) if sizes is None else sorted(range(len(points)), key=lambda at: sizes[at])
    curves = []
    for mode in ALL_MODES:
        if not rates and is_rate(mode, TOTAL):
            continue
        values = tuple(_value(points[at], mode, rates) for at in order)
        if any(it is not None for it in values):
            best = result.best and result.best["modes"].get(mode)
            curves.append(Curve(mode, values, None if best is None else [*order].index(best["point"])))
    if not curves:
        return None
    names = tuple(points[at].name if sizes is None else str(sizes[at]) for at in order)
    slo = slo_of(result.sweep)
    ordered = None if sizes is None else tuple(sizes[at] for at in order)
    return Sizes(rates, names, ordered, axis, tuple(curves), None if rates else slo)


def _axis(result: Result, points: Sequence[Point]) -> tuple[list[int] | None, str]:
    """The sizes of the one dimension that is swept, and what it is called; None where there are several or none."""
    dims = [] if result.sweep is None else result.sweep["dims"]
    if len(dims) != 1:
        return None, "shape"
    sizes = [point.shape.get(dims[0], 0) for point in points]
    return (sizes, dims[0]) if all(sizes) and len(set(sizes)) == len(sizes) else (None, "shape")


def _value(point: Point, mode: str, rates: bool) -> tuple[float, float, float] | None:
    case = point.case(mode)
    stats = None if case is None else case.phases[TOTAL]
    if case is None or stats is None:
        return None
    if not rates:
        return float(stats.median_ns), float(stats.ci95_ns[0]), float(stats.ci95_ns[1])
    if case.throughput is None or point.items is None:
        return None
    low, high = (point.items["count"] * 1e9 / max(ns, 1) for ns in reversed(stats.ci95_ns))
    return case.throughput["items_per_s"], low, high
