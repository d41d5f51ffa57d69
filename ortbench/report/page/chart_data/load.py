"""Charts of a load: inferences per second and latency against clients, and latency against rate, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortbench.analysis.findings.load_advice import slo_text
from ortbench.analysis.loads.levels import (
    CONCURRENCY,
    RATE,
    asked_of,
    figure,
    interval,
    is_full,
    kept,
    knee_of,
    latency_of,
    measured,
    modes_of,
    rate_of,
    rate_text,
)
from ortbench.analysis.loads.levels import at as level_at
from ortbench.core import units
from ortbench.model.modes import THROUGHPUT
from ortbench.model.result import LOAD, Case, Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns
from ortbench.report.page.chart_data.model import (
    Axis,
    Chart,
    Limit,
    Line,
    LineChart,
    Look,
    Panel,
    Ring,
    Upright,
    look_of,
)

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
    def look(self) -> Look:
        return look_of(self.mode, self.number)


class _Load(NamedTuple):
    """What both charts are made of: the curves, the statistic that is shown, and the SLO in words and in ns of that."""

    curves: Sequence[_Curve]
    stat: str
    slo: str
    slo_ns: int | None

    @property
    def limits(self) -> tuple[Limit, ...]:
        return () if self.slo_ns is None else (Limit(self.slo_ns, f"SLO: {self.slo}"),)


def _load(results: Sequence[Result], names: Sequence[str], kind: str) -> _Load | None:
    """None where no mode has two load points."""
    asked = [asked_of(result) or {} for result in results if result.kind == LOAD]
    limits = asked[0] if asked and all(it == asked[0] for it in asked) else {}
    stat = next((name for name in _TAILS if name in limits), _TAILS[0])
    curves = []
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        for mode in modes_of(result):
            if len(points := measured(result, kind, mode)) > 1:
                knee = knee_of(points) if kind == CONCURRENCY else None
                called = f"{name}: {mode}" if len(results) > 1 else mode
                curves.append(_Curve(called, mode, number, result, points, knee and knee["concurrency"]))
    return _Load(curves, stat, slo_text(limits), limits.get(stat)) if curves else None


def _place(level: Case) -> float:
    return level_at(level).value


def _tail(level: Case, stat: str) -> float:
    return max(figure(level, stat), 1)


def _tails(it: _Curve, stat: str, rings: Sequence[Ring] = ()) -> Line:
    """Latencies; open marks where the queue grew all the time."""
    points = [(_place(level), _tail(level, stat)) for level in it.points]
    ends = (
        f"{units.duration(figure(level, stat))} at {rate_text(_place(level))}"
        for level in (it.points[0], it.points[-1])
    )
    full = [point for point, level in zip(points, it.points, strict=True) if is_full(level)]
    tip = f"{it.name}: {stat} {' to '.join(ends)}"
    return Line(it.name, it.look, tuple(points), tip, hollow=tuple(full), rings=tuple(rings))


def _table(plotted: _Load, heads: tuple[Column, ...], of_rate: bool) -> Table:
    every = [(it.name, level) for it in plotted.curves for level in it.points]
    unit, scale = units.time_unit(max(figure(level, plotted.stat) for _, level in every))
    rows = []
    for name, level in every:
        inside = interval(level, THROUGHPUT)
        rows.append(
            (
                name,
                f"{rate_text(_place(level))}/s" if of_rate else f"{_place(level):g}",
                units.rate(rate_of(level)),
                NOTHING if inside is None else "–".join(map(units.rate, inside)),
                units.time(latency_of(level).median, scale),
                units.time(figure(level, plotted.stat), scale),
            )
        )
    times = columns(Kind.TIME, "p50", plotted.stat if plotted.stat != "p50" else "p50 ")
    return Table((*heads, *columns(Kind.NUMBER, "inf/s", "95% CI"), *times), tuple(rows), unit)


# By clients


def by_clients(results: Sequence[Result], names: Sequence[str]) -> Chart | None:
    """Inferences per second and latency against clients; None where no mode has two load points."""
    plotted = _load(results, names, CONCURRENCY)
    if plotted is None:
        return None
    counts = sorted({_place(level) for it in plotted.curves for level in it.points})
    ticks = tuple((count, f"{count:g}") for count in counts)
    rates = tuple(map(_rates, plotted.curves))
    tails = tuple(_tails(it, plotted.stat, _rings(it, plotted.stat)) for it in plotted.curves)
    return Chart(
        "Latency and runs/s against callers",
        f"Above lines of runs per second over the number of callers, below lines of the {plotted.stat} of latency, one for each mode; a "
        "ring marks the knee.",
        "; ".join(map(_clients_in_words, plotted.curves)) + ".",
        _table(plotted, (Column("mode", Kind.NAME), Column("callers")), of_rate=False),
        LineChart(
            (
                Panel(rates, Axis("sizes", ticks=ticks), "{:g}".format, "inf/s"),
                Panel(tails, Axis("sizes", "callers", ticks), name=f"{plotted.stat} of latency", limits=plotted.limits),
            ),
            height=200,
            ring="knee",
        ),
    )


def _rates(it: _Curve) -> Line:
    points = tuple((_place(level), rate_of(level)) for level in it.points)
    inside = ((level, interval(level, THROUGHPUT)) for level in it.points)
    intervals = tuple((_place(level), *ends) for level, ends in inside if ends is not None)
    rings = tuple(_ring(it, x, y) for x, y in points if x == it.knee)
    return Line(it.name, it.look, points, _most(it), intervals=intervals, rings=rings)


def _most(it: _Curve) -> str:
    best = max(it.points, key=rate_of)
    return f"{it.name}: at most {units.rate(rate_of(best))} runs/s, with {_place(best):g} callers"


def _rings(it: _Curve, stat: str) -> list[Ring]:
    return [_ring(it, _place(level), _tail(level, stat)) for level in it.points if _place(level) == it.knee]


def _ring(it: _Curve, x: float, y: float) -> Ring:
    return Ring(x, y, f"{it.name}: the knee, {x:g} callers")


def _clients_in_words(it: _Curve) -> str:
    return _most(it) + ("" if it.knee is None else f", the knee at {it.knee:g}")


# By rate


def by_rate(results: Sequence[Result], names: Sequence[str]) -> Chart | None:
    """Latency against requests a second; None where no mode has two load points."""
    plotted = _load(results, names, RATE)
    if plotted is None:
        return None
    lines = []
    for it in plotted.curves:
        if plotted.stat != "p50":
            medians = tuple((_place(level), max(latency_of(level).median, 1)) for level in it.points)
            lines.append(Line("p50", it.look._replace(marker="", thin=True), medians))
        lines.append(_tails(it, plotted.stat))
    return Chart(
        "Latency against rate",
        f"Lines of the {plotted.stat} of latency, and thin ones of its median, over requests per second, one for each mode; open marks are "
        "of queues that grew all the time.",
        "; ".join(_rate_in_words(it, plotted) for it in plotted.curves) + ".",
        _table(plotted, (Column("mode", Kind.NAME), Column("rate")), of_rate=True),
        LineChart(
            (
                Panel(
                    tuple(lines),
                    Axis("rates", "requests a second"),
                    name=f"{plotted.stat} of latency",
                    limits=plotted.limits,
                    uprights=tuple(up for it in plotted.curves if (up := _highest(it, plotted.slo)) is not None),
                ),
            ),
            height=290,
            hollow="queue grows",
        ),
    )


def _highest(it: _Curve, slo: str) -> Upright | None:
    """Where the highest rate that keeps the SLO is."""
    found = kept(it.result).get(it.mode)
    if found is None:
        return None
    low, high = found["ci95"]
    tip = f"{it.name}: {slo} up to {units.rate(found['rate'])} a second"
    return Upright(found["rate"], it.look.colour, tip, span=(low, high))


def _rate_in_words(it: _Curve, plotted: _Load) -> str:
    first, last = it.points[0], it.points[-1]
    ends = f"{plotted.stat} {units.duration(figure(first, plotted.stat))} at {rate_text(_place(first))} a second"
    ends += f", {units.duration(figure(last, plotted.stat))} at {rate_text(_place(last))}"
    found = kept(it.result).get(it.mode)
    limit = "" if found is None else f"; {plotted.slo} up to {units.rate(found['rate'])} a second"
    return f"{it.name}: {ends}{limit}"
