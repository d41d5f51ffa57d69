"""What becomes of runs/s and latency with more callers, and of latency with more requests a second; mode by mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortbench.analysis.findings.load_advice import slo_text
from ortbench.analysis.loads.levels import (
    CONCURRENCY,
    RATE,
    Interval,
    at,
    figure,
    interval,
    is_full,
    latency_of,
    measured,
    modes_of,
    rate_of,
    rate_text,
)
from ortbench.analysis.loads.load import asked_of, kept, knee_of
from ortbench.core import units
from ortbench.model.modes import THROUGHPUT
from ortbench.model.result import LOAD, Case, Result
from ortbench.model.schema import SloRate
from ortbench.report.model import NOTHING, Column, Kind, Table, columns

_TAILS = ("p99", "p95", "p50", "mean")  # what a line of latencies can be of, the usual one first


@dataclass(frozen=True)
class Point:
    """A load point: `x` callers or requests a second, its throughput and where they lie, its latencies in ns.

    Attributes:
        tail: of the statistic that the picture shows.
        full: the queue grew all the time, so that the latency says how long the level was.
    """

    x: float
    throughput: float
    inside: Interval | None
    median: float
    tail: float
    full: bool


@dataclass(frozen=True)
class Line:
    """The levels of a mode, the lowest first, of the result of a number.

    Attributes:
        knee: the number of callers at the knee, or None.
        kept: the highest rate that keeps the SLO, or None.
    """

    name: str
    mode: str
    number: int
    points: tuple[Point, ...]
    knee: float | None
    kept: SloRate | None


@dataclass(frozen=True)
class Loads:
    """What both pictures are made of; `slo` is in words, `slo_ns` of `stat`, the statistic that is shown, or None."""

    lines: tuple[Line, ...]
    stat: str
    slo: str
    slo_ns: int | None

    def cells(self, heads: tuple[Column, ...], of_rate: bool) -> Table:
        """What is shown, in numbers."""
        every = [point for line in self.lines for point in line.points]
        unit, scale = units.time_unit(max(point.tail for point in every))
        rows = tuple(
            (
                line.name,
                f"{rate_text(point.x)}/s" if of_rate else f"{point.x:g}",
                units.rate(point.throughput),
                NOTHING if point.inside is None else "–".join(map(units.rate, point.inside)),
                units.time(point.median, scale),
                units.time(point.tail, scale),
            )
            for line in self.lines
            for point in line.points
        )
        times = columns(Kind.TIME, "p50", self.stat if self.stat != "p50" else "p50 ")
        return Table((*heads, *columns(Kind.NUMBER, "inf/s", "95% CI"), *times), rows, unit)


class ByCallers(Loads):
    """Runs/s and latency against callers."""

    title = "Latency and runs/s against callers"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        return (
            f"Above lines of runs per second over the number of callers, below lines of the {self.stat} of latency, one for "
            "each mode; a ring marks the knee."
        )

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        return "; ".join(map(_by_callers, self.lines)) + "."

    def table(self) -> Table:
        """What it shows, in numbers."""
        return self.cells((Column("mode", Kind.NAME), Column("callers")), of_rate=False)


class ByRate(Loads):
    """Latency against requests a second."""

    title = "Latency against rate"

    @property
    def label(self) -> str:
        """What it is, for who does not see it."""
        return (
            f"Lines of the {self.stat} of latency, and thin ones of its median, over requests per second, one for each mode; "
            "open marks are of queues that grew all the time."
        )

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        return "; ".join(_by_rate(line, self.stat, self.slo) for line in self.lines) + "."

    def table(self) -> Table:
        """What it shows, in numbers."""
        return self.cells((Column("mode", Kind.NAME), Column("rate")), of_rate=True)


def _by_callers(line: Line) -> str:
    best = max(line.points, key=lambda point: point.throughput)
    knee = "" if line.knee is None else f", the knee at {line.knee:g}"
    return f"{line.name}: at most {units.rate(best.throughput)} runs/s, with {best.x:g} callers{knee}"


def _by_rate(line: Line, stat: str, slo: str) -> str:
    first, *_, last = (*line.points, line.points[-1])
    ends = f"{stat} {units.duration(first.tail)} at {rate_text(first.x)} a second"
    if last is not first:
        ends += f", {units.duration(last.tail)} at {rate_text(last.x)}"
    limit = "" if line.kept is None else f"; {slo} up to {units.rate(line.kept['rate'])} a second"
    return f"{line.name}: {ends}{limit}"


def by_callers(results: Sequence[Result], names: Sequence[str]) -> ByCallers | None:
    """Closed loops of results; None where no mode has two levels."""
    found = _loads(results, names, CONCURRENCY)
    return None if found is None else ByCallers(*found)


def by_rate(results: Sequence[Result], names: Sequence[str]) -> ByRate | None:
    """Open loops of results; None where no mode has two levels. See `by_callers`."""
    found = _loads(results, names, RATE)
    return None if found is None else ByRate(*found)


def _loads(
    results: Sequence[Result], names: Sequence[str], kind: str
) -> tuple[tuple[Line, ...], str, str, int | None] | None:
    asked = [asked_of(result) or {} for result in results if result.kind == LOAD]
    limits = asked[0] if asked and all(it == asked[0] for it in asked) else {}
    stat = next((name for name in _TAILS if name in limits), _TAILS[0])
    lines = [
        _line(result, mode, f"{name}: {mode}" if len(results) > 1 else mode, number, levels, stat)
        for number, (name, result) in enumerate(zip(names, results, strict=True))
        for mode in modes_of(result)
        if len(levels := measured(result, kind, mode)) > 1
    ]
    return (tuple(lines), stat, slo_text(limits), limits.get(stat)) if lines else None


def _line(result: Result, mode: str, name: str, number: int, levels: Sequence[Case], stat: str) -> Line:
    knee = knee_of(levels) if at(levels[0]).kind == CONCURRENCY else None
    points = tuple(
        Point(
            at(level).value,
            rate_of(level),
            interval(level, THROUGHPUT),
            latency_of(level).median,
            figure(level, stat),
            is_full(level),
        )
        for level in levels
    )
    return Line(name, mode, number, points, knee and knee["concurrency"], kept(result).get(mode))
