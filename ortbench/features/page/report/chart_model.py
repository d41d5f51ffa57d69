"""What a chart is: one of three drawings of plain data, with a caption and its figures as a table.

`ortbench.features.page.report.drawings` draws them. Times are in ns, colours are names of its palette.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ortbench.core.stats import Stats
from ortbench.model.kinds import kind_of
from ortbench.model.modes import LATENCY, is_rate, mode_of
from ortbench.model.result import Case, Result
from ortbench.report.model import Table


class Look(NamedTuple):
    """How a line and its points look: `marker` as Matplotlib calls it, `dash` the number of a pattern."""

    colour: str
    marker: str = ""
    dash: int = 0
    thin: bool = False
    hollow: bool = False


def look_of(mode: str, dash: int = 0) -> Look:
    marker, colour = mode_of(mode).mark
    return Look(colour, marker, dash)


class Fill(NamedTuple):
    """How a part of a bar looks, and what it is called in the legend; `hatch` as Matplotlib writes it."""

    name: str
    colour: str
    hatch: str = ""
    hollow: bool = False


class Part(NamedTuple):
    """A part of a bar: how long it takes, what a pointer is told, and what stands above it: both, or `said` alone where there is no room."""

    fill: Fill
    ns: float
    tip: str
    name: str = ""
    said: str = ""


class Bar(NamedTuple):
    """One bar: its name, its parts, what stands behind it, and what is marked on it, with what a pointer is told of that."""

    name: str
    parts: tuple[Part, ...]
    said: str
    mark_ns: float | None = None
    tip: str = ""

    @property
    def end_ns(self) -> float:
        return max(self.mark_ns or 0, sum(part.ns for part in self.parts))


@dataclass(frozen=True)
class StackedBars:
    bars: tuple[Bar, ...]  # at least one
    fills: tuple[Fill, ...]  # of all parts, in the order of the legend
    mark: str = ""  # what the marks are called, where there are some
    rest: str = ""  # what is left out


class Ring(NamedTuple):
    """What stands out of a line."""

    x: float
    y: float
    tip: str


@dataclass(frozen=True)
class Line:
    name: str  # in the legend; lines of one name look alike
    look: Look
    points: tuple[tuple[float, float], ...]  # from left to right; nan where there is none
    tip: str = ""  # what a pointer is told
    joined: bool = True  # the points are; else each stands by itself
    band: tuple[tuple[float, float], ...] = ()  # the ends of what is filled around each point; or none
    intervals: tuple[tuple[float, float, float], ...] = ()  # upright bars: x, and both ends
    rings: tuple[Ring, ...] = ()  # around some of its points
    hollow: tuple[tuple[float, float], ...] = ()  # points whose mark is open
    end: str = ""  # what stands behind the last point


class Upright(NamedTuple):
    """An upright line, with where it may lie and what a pointer is told."""

    x: float
    colour: str
    tip: str
    span: tuple[float, float] | None = None


class Limit(NamedTuple):
    """A level line; its name is in the legend."""

    y: float
    name: str
    dashed: bool = True


class Axis(NamedTuple):
    """What is below: sizes as far apart as their ratios say, places side by side, whole numbers and rates from 0 on, or times.

    `ticks` are those of sizes and places, with their texts.
    """

    kind: Literal["sizes", "places", "whole", "rates", "times"]
    name: str = ""
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Panel:
    lines: tuple[Line, ...]  # any number
    axis: Axis  # below them
    show: Callable[[float], str] | None = None  # what prints a value; None of times, ns
    name: str = ""  # what stands above on the left
    said: str = ""  # what stands above on the right; then the name is a heading
    # from where to where values are shown; by default from 0, or on a logarithmic scale where they are far apart
    span: tuple[float, float] | None = None
    limits: tuple[Limit, ...] = ()  # across
    uprights: tuple[Upright, ...] = ()  # across
    dots: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))  # points without a line
    beyond: tuple[float, ...] = ()  # where dots are that lie above the panel


@dataclass(frozen=True)
class LineChart:
    """Panels below each other, and what their marks are called in the legend."""

    panels: tuple[Panel, ...]
    height: int = 260  # px of a panel
    band: str = ""
    ring: str = ""
    hollow: str = ""
    dots: str = ""
    beyond: str = ""


class Samples(NamedTuple):
    """The samples of a mode: durations, ns, and when each began, s since the first of all modes; empty where that is not known."""

    mode: str
    ns: NDArray[np.int64]
    seconds: NDArray[np.float64]
    stats: Stats


@dataclass(frozen=True)
class Histograms:
    """A histogram for each mode, all on one axis."""

    rows: tuple[Samples, ...]


Drawing = StackedBars | LineChart | Histograms


@dataclass(frozen=True)
class Chart:
    title: str
    caption: str  # what is drawn, which is read to who does not see it
    table: Table  # what it shows, in numbers
    drawing: Drawing  # what is drawn


# What is shown: modes that are ok; the page's table has the others too


def what_is_timed(results: Sequence[Result]) -> str:
    """What one sample of a latency is: an inference, a loop or a chain; of results of several kinds any of them."""
    return " or ".join(sorted({kind_of(result.kind).work for result in results}))


def measured_cases(result: Result) -> Iterator[tuple[Case, Stats]]:
    """The modes that are ok and have been measured, and the statistics of their latency."""
    for case in result.cases:
        total = case.stats(LATENCY)
        if result.case(case.mode) is case and total is not None:
            yield case, total


def timed_cases(result: Result) -> Iterator[tuple[Case, Stats]]:
    """Those of `measured_cases` whose latency says how long an inference takes, and not how often one is done."""
    return ((case, total) for case, total in measured_cases(result) if not is_rate(case.mode, LATENCY))
