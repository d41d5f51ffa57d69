"""Charts of figures of a load over clients and rate, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortbench.analysis.point_blocks import INFERENCES, P50, figure, interval, is_full, latency_of, rate_of
from ortbench.core import units
from ortbench.core.units import rate_asked
from ortbench.features.load.analysis.points import (
    CONCURRENCY,
    RATE,
    has_figure,
    knee_of,
    load_point_of,
    measured_cases,
    modes_of,
    slo_limits,
    slo_rates,
    slo_text,
)
from ortbench.features.load.model import KIND
from ortbench.features.page.report.chart_data import model
from ortbench.model.modes import LATENCY, THROUGHPUT
from ortbench.model.result import Case, Result
from ortbench.report.model import Column, Kind, Table, between, columns

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
    asked = [slo_limits(result) or {} for result in results if result.kind == KIND.key]
    limits = asked[0] if asked and all(it == asked[0] for it in asked) else {}
    curves = []
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        for mode in modes_of(result):
            if len(points := measured_cases(result, kind, mode)) > 1:
                knee = knee_of(result, mode) if kind == CONCURRENCY else None
                called = f"{name}: {mode}" if len(results) > 1 else mode
                curves.append(_Curve(called, mode, number, result, points, knee and knee["concurrency"]))
    points = [case for it in curves for case in it.points]
    wanted = [*(name for name in _TAILS if name in limits), "p99", "p95"]
    stat = next((name for name in wanted if all(has_figure(case, name) for case in points)), P50)
    return _Load(curves, stat, slo_text(limits), limits.get(stat)) if curves else None


def _place(case: Case) -> float:
    return load_point_of(case).value


def _tail(case: Case, stat: str) -> float:
    return max(figure(case, stat), 1)


def _tails(it: _Curve, stat: str) -> model.Line:
    """Latencies; open marks where the queue grew all the time."""
    points = [(_place(case), _tail(case, stat)) for case in it.points]
    ends = (
        f"{units.duration(figure(case, stat))} at {rate_asked(_place(case))}" for case in (it.points[0], it.points[-1])
    )
    full = [point for point, case in zip(points, it.points, strict=True) if is_full(case)]
    tip = f"{it.name}: {stat} {' to '.join(ends)}"
    return model.Line(it.name, it.look, tuple(points), tip, hollow=tuple(full), rings=_rings(it, points))


def _table(plotted: _Load, heads: tuple[Column, ...], of_rate: bool) -> Table:
    every = [(it.name, case) for it in plotted.curves for case in it.points]
    unit, scale = units.time_unit(max(figure(case, plotted.stat) for _, case in every))
    rows = []
    for name, case in every:
        inside = interval(case, THROUGHPUT)
        rows.append(
            (
                name,
                f"{rate_asked(_place(case))}/s" if of_rate else f"{_place(case):g}",
                units.rate(rate_of(case)),
                between(inside, units.rate),
                units.time(latency_of(case).median, scale),
                *([] if plotted.stat == P50 else [units.time(figure(case, plotted.stat), scale)]),
            )
        )
    times = columns(Kind.TIME, LATENCY, *([] if plotted.stat == P50 else [plotted.stat]))
    return Table((*heads, *columns(Kind.NUMBER, INFERENCES, "95% CI"), *times), tuple(rows), unit)


# By clients


def by_clients(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """Inferences per second and latency against clients; None where no mode has two load points."""
    plotted = _load(results, names, CONCURRENCY)
    if plotted is None:
        return None
    counts = sorted({_place(case) for it in plotted.curves for case in it.points})
    ticks = tuple((count, f"{count:g}") for count in counts)
    rates = tuple(map(_rates, plotted.curves))
    tails = tuple(_tails(it, plotted.stat) for it in plotted.curves)
    unit = INFERENCES
    return model.Chart(
        f"Latency and {unit} against clients",
        f"Above lines of inferences per second over the number of clients, below lines of the {plotted.stat} of latency, one for each mode; a "
        "ring marks the knee.",
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
    points = tuple((_place(case), rate_of(case)) for case in it.points)
    inside = ((case, interval(case, THROUGHPUT)) for case in it.points)
    intervals = tuple((_place(case), *ends) for case, ends in inside if ends is not None)
    return model.Line(it.name, it.look, points, _most(it), intervals=intervals, rings=_rings(it, points))


def _most(it: _Curve) -> str:
    best = max(it.points, key=rate_of)
    return f"{it.name}: at most {units.rate(rate_of(best))} {INFERENCES}, with {_place(best):g} clients"


def _rings(it: _Curve, points: Sequence[tuple[float, float]]) -> tuple[model.Ring, ...]:
    return tuple(model.Ring(x, y, f"{it.name}: the knee, {x:g} clients") for x, y in points if x == it.knee)


# By rate


def by_rate(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """Latency against requests a second; None where no mode has two load points."""
    plotted = _load(results, names, RATE)
    if plotted is None:
        return None
    lines = []
    for it in plotted.curves:
        if plotted.stat != P50:
            medians = tuple((_place(case), max(latency_of(case).median, 1)) for case in it.points)
            lines.append(model.Line("p50", it.look._replace(marker="", thin=True), medians))
        lines.append(_tails(it, plotted.stat))
    return model.Chart(
        "Latency against rate",
        f"Lines of the {plotted.stat} of latency, and thin ones of its median, over requests per second, one for each mode; at open marks "
        "the queue grew all the time.",
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
    found = slo_rates(it.result).get(it.mode)
    if found is None:
        return None
    tip = f"{it.name}: {slo} up to {rate_asked(found['rate'])} requests/s"
    beyond = found["violated_from"]
    return model.Upright(found["rate"], it.look.colour, tip, span=None if beyond is None else (found["rate"], beyond))


CHARTS_OF_SEVERAL = {"by_clients": by_clients, "by_rate": by_rate}
