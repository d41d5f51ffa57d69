"""Charts of figures of a load over clients and rate, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortbench.analysis.load_points import INFERENCES, P50, figure, interval, is_full, latency_of, rate_of
from ortbench.core import units
from ortbench.core.units import request_rate
from ortbench.features.load.analysis import (
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
from ortbench.features.load.model import KIND, SloRate
from ortbench.features.page.report import chart_model as model
from ortbench.model.modes import LATENCY, THROUGHPUT
from ortbench.model.result import Case, Result
from ortbench.report.model import Column, Kind, Table, columns, interval_text

_TAILS = ("p99", "p95", "p50", "mean")  # what a line of latencies can be of, the usual one first


class _Curve(NamedTuple):
    """The load points of a mode of a result, the lowest first; `knee` is the number of clients there, `found` the rate that meets the SLO."""

    name: str
    look: model.Look
    points: Sequence[Case]
    knee: float | None
    found: SloRate | None

    def rings(self, stat: str) -> tuple[model.Ring, ...]:
        tip = f"{self.name}: the knee, {self.knee:g} clients" if self.knee else ""
        at_knee = (case for case in self.points if _point_value(case) == self.knee)
        return tuple(model.Ring(_point_value(case), _height(case, stat), tip) for case in at_knee)

    def line(self, stat: str) -> model.Line:
        """Of throughput with its intervals, or of a statistic of the latency, with open marks where the queue grew all the time."""
        points = tuple((_point_value(case), _height(case, stat)) for case in self.points)
        if stat == THROUGHPUT:
            ends = ((case, interval(case, THROUGHPUT)) for case in self.points)
            intervals = tuple((_point_value(case), *inside) for case, inside in ends if inside is not None)
            best = max(self.points, key=rate_of)
            tip = f"{self.name}: at most {units.rate(rate_of(best))} {INFERENCES}, {load_point_of(best).phrase}"
            return model.Line(self.name, self.look, points, tip, intervals=intervals, rings=self.rings(stat))
        outer = (self.points[0], self.points[-1])
        first, last = (f"{units.duration(figure(case, stat))} {load_point_of(case).phrase}" for case in outer)
        tip = f"{self.name}: {stat} {first} to {last}"
        hollow = tuple(point for point, case in zip(points, self.points, strict=True) if is_full(case))
        return model.Line(self.name, self.look, points, tip, hollow=hollow, rings=self.rings(stat))


def _point_value(case: Case) -> float:
    return load_point_of(case).value


def _height(case: Case, stat: str) -> float:
    return rate_of(case) if stat == THROUGHPUT else max(figure(case, stat), 1)


def _curves(results: Sequence[Result], names: Sequence[str], kind: str) -> list[_Curve]:
    """Those of modes that have two load points."""
    found = []
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        for mode in modes_of(result):
            if len(points := measured_cases(result, kind, mode)) > 1:
                knee = knee_of(result, mode) if kind == CONCURRENCY else None
                called = f"{name}: {mode}" if len(results) > 1 else mode
                look = model.look_of(mode, number)
                found.append(_Curve(called, look, points, knee and knee["concurrency"], slo_rates(result).get(mode)))
    return found


def _slo_of(results: Sequence[Result]) -> dict[str, int]:
    """The SLO that all loads have."""
    asked = [slo_limits(result) or {} for result in results if result.kind == KIND.key]
    return asked[0] if asked and all(it == asked[0] for it in asked) else {}


def _statistic(curves: Sequence[_Curve], slo: dict[str, int]) -> str:
    """What is shown of the latency: what the SLO is of, if all load points have it."""
    wanted = [*(name for name in _TAILS if name in slo), "p99", "p95"]
    return next((name for name in wanted if all(has_figure(case, name) for it in curves for case in it.points)), P50)


def _table(curves: Sequence[_Curve], stat: str, heads: tuple[Column, ...]) -> Table:
    every = [(it.name, case) for it in curves for case in it.points]
    unit, scale = units.time_unit(max(figure(case, stat) for _, case in every))
    tails = [] if stat == P50 else [stat]
    rows = [
        (
            name,
            load_point_of(case).label,
            units.rate(rate_of(case)),
            interval_text(interval(case, THROUGHPUT), units.rate),
            units.time(latency_of(case).median, scale),
            *(units.time(figure(case, it), scale) for it in tails),
        )
        for name, case in every
    ]
    of_rates, times = columns(Kind.NUMBER, INFERENCES, "95% CI"), columns(Kind.TIME, LATENCY, *tails)
    return Table((*heads, *of_rates, *times), tuple(rows), unit)


def _limits(slo: dict[str, int], stat: str) -> tuple[model.Limit, ...]:
    return (model.Limit(slo[stat], f"SLO: {slo_text(slo)}"),) if stat in slo else ()


def by_clients(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """Inferences per second and latency against clients; None where no mode has two load points."""
    if not (curves := _curves(results, names, CONCURRENCY)):
        return None
    slo = _slo_of(results)
    stat = _statistic(curves, slo)
    counts = sorted({_point_value(case) for it in curves for case in it.points})
    ticks = tuple((count, f"{count:g}") for count in counts)
    rates, tails = (tuple(it.line(of) for it in curves) for of in (THROUGHPUT, stat))
    above = model.Panel(rates, model.Axis("sizes", ticks=ticks), "{:g}".format, INFERENCES)
    axis = model.Axis("sizes", "clients", ticks)
    below = model.Panel(tails, axis, name=f"{stat} of latency", limits=_limits(slo, stat))
    return model.Chart(
        f"Latency and {INFERENCES} against clients",
        f"Above lines of inferences per second over the number of clients, below lines of the {stat} of latency, one for each mode; a "
        "ring marks the knee.",
        _table(curves, stat, (Column("mode", Kind.NAME), Column("clients"))),
        model.LineChart((above, below), height=200, ring="knee"),
    )


def by_rate(results: Sequence[Result], names: Sequence[str]) -> model.Chart | None:
    """Latency against requests a second; None where no mode has two load points."""
    if not (curves := _curves(results, names, RATE)):
        return None
    slo = _slo_of(results)
    stat = _statistic(curves, slo)
    lines, uprights = [], []
    for curve in curves:
        if stat != P50:
            medians = tuple((_point_value(case), max(latency_of(case).median, 1)) for case in curve.points)
            lines.append(model.Line("p50", curve.look._replace(marker="", thin=True), medians))
        lines.append(curve.line(stat))
        if curve.found is not None:  # the highest rate that meets the SLO
            rate, beyond = curve.found["rate"], curve.found["violated_from"]
            tip = f"{curve.name}: {slo_text(slo)} up to {request_rate(rate)}"
            uprights.append(model.Upright(rate, curve.look.colour, tip, None if beyond is None else (rate, beyond)))
    axis, name = model.Axis("rates", "requests/s"), f"{stat} of latency"
    panel = model.Panel(tuple(lines), axis, name=name, limits=_limits(slo, stat), uprights=tuple(uprights))
    return model.Chart(
        "Latency against rate",
        f"Lines of the {stat} of latency, and thin ones of its median, over requests per second, one for each mode; at open marks "
        "the queue grew all the time.",
        _table(curves, stat, (Column("mode", Kind.NAME), Column("rate"))),
        model.LineChart((panel,), height=290, hollow="saturated"),
    )


CHARTS_OF_SEVERAL = {"by_clients": by_clients, "by_rate": by_rate}
