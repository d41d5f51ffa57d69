"""How a sweep's figures follow the size: items a second and the time of a call, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ortbench.analysis.sweep import differing_dims
from ortbench.core import units
from ortbench.model.modes import ALL_MODES, ITEM_THROUGHPUT, LATENCY, is_rate
from ortbench.model.result import Case, Point, Result
from ortbench.model.slo import Slo, slo_of
from ortbench.report.model import NOTHING, Column, Kind, Table, columns


@dataclass(frozen=True)
class Curve:
    """A mode: by shape, from left to right, the figure and its 95 % interval, None where there is none; and which shape is
    the best. Of a grid it is `of` a size of the dimensions that are not on the axis."""

    mode: str
    values: tuple[tuple[float, float, float] | None, ...]
    best: int | None
    of: str = ""

    @property
    def name(self) -> str:
        """What tells it apart from the others."""
        return f"{self.mode}, {self.of}" if self.of else self.mode


@dataclass(frozen=True)
class Sizes:
    """Curves over the shapes of a sweep.

    Attributes:
        rates: they are of items a second; else of times, ns.
        shapes: what each is called on the axis.
        sizes: of the dimension that is swept, of a grid of that which has the items; None where shapes stand side by side.
        axis: what the axis is called.
        curves: one a mode, of a grid one for each size of the other dimensions.
        slo: whose statistic it shows, and whose limit is a line, of times.
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
        if self.rates:
            return "Items a second by shape"
        return "Time of a call by shape" if self._statistic is None else f"{self._statistic} of calls by shape"

    @property
    def _statistic(self) -> str | None:
        """What the times are, where they are no medians."""
        return None if self.slo is None or self.slo.is_median else self.slo.statistic

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        what = "items a second" if self.rates else f"the {self._statistic or 'median'} time of a call"
        marked = "; the best shape of each mode has a ring" if any(it.best is not None for it in self.curves) else ""
        limit = "; a level line is the limit that is to be kept" if self.slo is not None else ""
        return f"Lines of {what} over the shapes of a sweep, {self._one_for}{marked}{limit}."

    @property
    def _one_for(self) -> str:
        of_grid = any(it.of for it in self.curves)
        return "one for each mode and size of the other dimensions" if of_grid else "one for each mode"

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        return f"{'; '.join(filter(None, map(self._in_words, self.curves)))}."

    def _in_words(self, curve: Curve) -> str:
        there = [(name, it[0]) for name, it in zip(self.shapes, curve.values, strict=True) if it is not None]
        (first, low), (last, high) = there[0], there[-1]
        said = f"{curve.name}: {self.shown(low)} with {first}" + (
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
        return Table((Column("shape", Kind.NAME), *columns(Kind.NUMBER, *(it.name for it in self.curves))), rows)


def rates_by_size(result: Result) -> Sizes | None:
    """Items a second; None of what is no sweep, or one whose shapes all have as many items."""
    counts = {it.items["count"] for it in result.shapes if it.items is not None}
    return _picture(result, rates=True, slo=None) if len(counts) > 1 else None


def times_by_size(result: Result) -> Sizes | None:
    """The time of a call: what an SLO is of, where there is one and runs enough to tell; None of what is no sweep."""
    slo = slo_of(result.sweep)
    found = None if slo is None else _picture(result, rates=False, slo=slo)
    return found or _picture(result, rates=False, slo=None)


def _picture(result: Result, rates: bool, slo: Slo | None) -> Sizes | None:
    axis = _axis(result)
    modes = [mode for mode in ALL_MODES if rates or not is_rate(mode, LATENCY)]
    made = (_curve(result, mode, of, numbers, rates, slo) for mode in modes for of, numbers in axis.lines)
    curves = [curve for curve in made if any(it is not None for it in curve.values)]
    return Sizes(rates, axis.names, axis.sizes, axis.name, tuple(curves), slo) if curves else None


def _curve(result: Result, mode: str, of: str, numbers: Sequence[int | None], rates: bool, slo: Slo | None) -> Curve:
    best = result.best and result.best["modes"].get(mode)
    shown = [None if at is None else result.shapes[at] for at in numbers]
    values = tuple(None if it is None else _value(it, result.case(mode, it.point), rates, slo) for it in shown)
    ring = (at for at, it in enumerate(shown) if best and it is not None and it.name == best["shape"])
    return Curve(mode, values, next(ring, None), of)


class _Axis(NamedTuple):
    """What is below: the names of places from left to right, their sizes where they have one each, what it is called; and
    the lines over it, each with what it is of and the number of the shape at each place."""

    names: tuple[str, ...]
    sizes: tuple[int, ...] | None
    name: str
    lines: tuple[tuple[str, tuple[int | None, ...]], ...]


def _axis(result: Result) -> _Axis:
    shapes, dims = result.shapes, differing_dims(result.shapes)
    by_items = next((it.items["dim"] for it in shapes if it.items is not None), None)
    dim = by_items if by_items in dims else next(iter(dims), None)
    lines: dict[str, dict[int, int]] = {}
    for number, shape in enumerate(shapes):
        of = " ".join(f"{name}={shape.shape.get(name)}" for name in dims if name != dim)
        lines.setdefault(of, {})[shape.shape.get(dim or "", 0)] = number
    sizes = sorted({size for line in lines.values() for size in line})
    if dim is None or 0 in sizes or sum(map(len, lines.values())) < len(shapes):
        return _Axis(tuple(it.name for it in shapes), None, "shape", (("", tuple(range(len(shapes)))),))
    found = tuple((of, tuple(line.get(size) for size in sizes)) for of, line in lines.items())
    return _Axis(tuple(map(str, sizes)), tuple(sizes), dim, found)


def _value(shape: Point, case: Case | None, rates: bool, slo: Slo | None) -> tuple[float, float, float] | None:
    stats = None if case is None else case.stats(LATENCY)
    if case is None or stats is None:
        return None
    if not rates and slo is not None and not slo.is_median:
        found = slo.value_ns(stats)
        return None if found is None else (float(found),) * 3
    if not rates:
        return float(stats.median), float(stats.ci95[0]), float(stats.ci95[1])
    per_s = case.value(ITEM_THROUGHPUT)
    if per_s is None or shape.items is None:
        return None
    low, high = (shape.items["count"] * 1e9 / max(ns, 1) for ns in reversed(stats.ci95))
    return per_s, low, high
