"""Whether memory grows with inferences, from readings of it. Pure.

**What is estimated**: the slope of a straight line through the readings that follow the transient, by least squares of means of
neighbouring readings. Readings resemble their neighbours (an allocator keeps pages for a while, an arena grows in steps), so fewer of
them are independent: n (1 - r) / (1 + r), with the lag-1 correlation r of the residuals (Santer et al., J. Geophysical Research 105
(2000) 7337), which is less biased with (1 + 4 r) / n more (Kendall, Biometrika 41 (1954) 403). The transient ends where what
follows has the narrowest interval (White, Simulation 69 (1997) 323).

**What is said**: growth only where it is more than memory goes down by itself, surely above 0, no slower in the last third than in the
third before, and not in one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from ortbench.analysis.comparable import Traits
from ortbench.analysis.intervals import PARTS
from ortbench.analysis.naming import natural
from ortbench.core.stats import FEWEST, t_quantile
from ortbench.core.units import digits, size
from ortbench.features.soak.model import SETTINGS, Soak
from ortbench.model.modes import DEVICE_GROWTH, HOST_GROWTH
from ortbench.model.result import Case, Result
from ortbench.model.settings import setting_pairs

NONE, GROWS, STEADY, UNCLEAR = "none", "grows", "steady", "unclear"
TOLERANCE = 512 * 1024  # bytes: a thread that wakes up, its stack and the heap it allocates from take as much, once
_FEW = 3  # handles or threads that a process may come to have besides
PER = 1000  # inferences
_FEWEST = 3 * FEWEST  # readings
_MOST = 240  # means of readings that are looked at: what one look takes does not grow
_BATCHES = 24  # of them that a line is laid through
_STARTS = (1 / 12, 1 / 6, 1 / 3, 1 / 2, 2 / 3)  # where the transient may end
_NARROWER = 0.7  # times an interval, from where on a later start is taken ...
_CLOSER = 0.33  # ... if readings lie so many times as far from its line
_SLOWER = 0.8  # below this share of the slope before, growth slows down
_ONE_STEP = 0.6  # of the growth, from which on it is one step
_SOME = 1 / 8  # of the tolerance, from which on it is said when growth came
_REST = 1 / 20  # of growth, which may have come later than that
_FALLS = 1.5  # times the deepest fall, up to which a rise is one of the same ups and downs
_QUIET = 0.02  # of the memory: with more ups and downs than that, no growth cannot be told from a little
_KEYS = {
    "private": (HOST_GROWTH, "private memory"),
    "resident": (HOST_GROWTH, "resident memory"),
    "device": (DEVICE_GROWTH, "device memory"),
    "handles": ("handle_growth", "open handles"),
    "threads": ("thread_growth", "threads"),
}
HELD = {HOST_GROWTH: "host_held", DEVICE_GROWTH: "device_held"}  # the metrics of what there is in the second half

Readings = Sequence[tuple[float, float]]  # inferences, rising, and what there was after them


class Growth(NamedTuple):
    """What readings tell: the slope after the transient and its 95 % interval, by `PER` inferences."""

    verdict: str  # one of the four above
    slope: float
    ci95: tuple[float, float]
    grew: float = 0  # from the first reading to the last ones
    until: int = 0  # inferences after which it is `STEADY`; of `NONE` those in which nearly all of what it grew came


def growth(readings: Readings, tolerance: float = TOLERANCE) -> Growth | None:
    """What readings tell of growth; None of too few. Growth by no more than `tolerance`, over all of them, is none."""
    if len(readings) < _FEWEST or readings[-1][0] <= readings[0][0]:
        return None
    points = _means(readings, _MOST)
    n, first = len(points), readings[0]
    count = readings[-1][0] - first[0]
    start, fit = _after_transient(points)
    enough = max(tolerance, _FALLS * _deepest_fall(points[round(n * start) :]))
    middle, tail = (_fit(points[n * at // 3 : n * (at + 1) // 3]) for at in (1, 2))
    end = median(y for _, y in points[-max(3, n // _BATCHES) :])
    grew = end - first[1]

    def inferences_until(bound: float) -> int:
        """Inferences from which on there was no more than that below what there is in the end."""
        at = max((at for at, (_, y) in enumerate(points, 1) if end - y > bound), default=0)
        return round(points[min(at, n - 1)][0])

    until = inferences_until(enough)

    def conclude(verdict: str, of: _Fit = fit) -> Growth:
        high = max(of.high, tolerance / count)  # less than that cannot be told from none
        ends = of.low * PER, high * PER
        settled = {STEADY: until, NONE: inferences_until(_REST * grew) if grew > _SOME * tolerance else 0}
        return Growth(verdict, of.slope * PER, ends, grew, settled.get(verdict, 0))

    if fit.low > 0 and fit.slope * count * (1 - start) > enough:
        if tail.high < min(middle.slope * _SLOWER, grew / count):
            return conclude(UNCLEAR, tail)
        if _largest_step(points) > _ONE_STEP:
            return conclude(UNCLEAR)
        return conclude(GROWS)
    if grew > enough and until > points[n * 2 // 3][0]:
        return conclude(UNCLEAR, tail)
    if fit.high * count > max(2 * enough, _QUIET * readings[-1][1]):
        return conclude(UNCLEAR)
    if (
        grew > tolerance and inferences_until(_REST * grew) > points[n * 2 // 3][0]
    ):  # no less than it goes down again, and no less than a leak
        return conclude(UNCLEAR, tail)
    return conclude(STEADY if grew > enough else NONE)


@dataclass(frozen=True)
class Trend:
    """Something that was read throughout a soak: inferences, and how much of it there was after them."""

    metric: str
    title: str
    points: Sequence[tuple[float, float]]

    @property
    def is_memory(self) -> bool:
        """Else it is counted."""
        return self.metric in (HOST_GROWTH, DEVICE_GROWTH)

    @cached_property
    def growth(self) -> Growth | None:
        """Whether it grows; None of too few readings."""
        return growth(self.points, TOLERANCE if self.is_memory else _FEW)

    @property
    def verdict(self) -> str:
        return UNCLEAR if self.growth is None else self.growth.verdict

    def show(self, value: float) -> str:
        return size(value) if self.is_memory else digits(value)

    @property
    def text(self) -> str:
        grows = "" if self.growth is None else f"grows by {self.show(self.growth.slope)} per 1,000 inferences"
        return {GROWS: grows, STEADY: "steady", NONE: "no growth", UNCLEAR: "cannot tell yet"}[self.verdict]


def trends_of(soak: Soak) -> list[Trend]:
    """What was read throughout, the host's memory first: private memory where the system tells it, else the resident set."""
    found: dict[str, Trend] = {}
    for key, (metric, title) in _KEYS.items():
        points = [(it["inferences"], it[key]) for it in soak["readings"]]  # type: ignore[literal-required]
        if points and metric not in found and all(held is not None for _, held in points):
            found[metric] = Trend(metric, title, points)
    return list(found.values())


def verdicts(soak: Soak) -> list[tuple[str, str]]:
    """What grows, or does not, and the verdict in words: of memory, and of what is counted where it grows."""
    return [(it.title, it.text) for it in trends_of(soak) if it.is_memory or it.verdict == GROWS]


class _Fit(NamedTuple):
    """A slope by inference, with its 95 % interval."""

    slope: float
    low: float
    high: float
    scatter: float  # how far points lie from the line


def _groups(points: Readings, most: int) -> list[Readings]:
    count = min(most, len(points))
    return [points[a:b] for a, b in pairwise(len(points) * at // count for at in range(count + 1))]


def _means(points: Readings, most: int) -> list[tuple[float, float]]:
    return [(fmean(x for x, _ in it), fmean(y for _, y in it)) for it in _groups(points, most)]


def _fit(points: Readings) -> _Fit:
    points = _means(points, _BATCHES)
    n, mean_x, mean_y = len(points), fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = math.fsum((x - mean_x) ** 2 for x, _ in points)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    off = [y - mean_y - slope * (x - mean_x) for x, y in points]
    squares = math.fsum(it * it for it in off)
    if squares <= 1e-18 * mean_y * mean_y * n:  # rounding
        return _Fit(slope, slope, slope, 0)
    r = math.fsum(a * b for a, b in pairwise(off)) / squares
    r = min(max(r + (1 + 4 * r) / n, 0), 0.99)
    free = max(n * (1 - r) / (1 + r) - 2, 3)
    half = t_quantile(int(free)) * math.sqrt(squares / free / spread)
    return _Fit(slope, slope - half, slope + half, math.sqrt(squares / n))


def _deepest_fall(points: Readings) -> float:
    """By how much memory goes down again at most, which no leak does."""
    deepest, highest = 0.0, -math.inf
    for _, y in points:
        highest = max(highest, y)
        deepest = max(deepest, highest - y)
    return deepest


def _after_transient(points: Readings) -> tuple[float, _Fit]:
    """Where the line begins, as a share of the readings, and the line; later only where that tells more and scatters less."""
    start, fit = 0.0, _fit(points)
    for at in _STARTS:
        other = _fit(points[round(len(points) * at) :])
        if other.high - other.low < _NARROWER * (fit.high - fit.low) and other.scatter < _CLOSER * fit.scatter:
            start, fit = at, other
    return start, fit


def _largest_step(points: Readings) -> float:
    """The share of the growth in the last two thirds that came between two of a dozen neighbours."""
    means = [y for _, y in _means(points[len(points) // 3 :], 12)]
    whole = means[-1] - means[0]
    return max(b - a for a, b in pairwise(means)) / whole if whole > 0 else 1.0


def put_figures(case: Case, soak: Soak) -> None:
    for trend in trends_of(soak):
        if trend.growth is not None:
            case.set_metric(trend.metric, trend.growth.slope, trend.growth.ci95, derived=True)
        if trend.is_memory:
            case.set_metric(HELD[trend.metric], *_held_at_end(trend.points), derived=True)


def _held_at_end(points: Readings) -> tuple[float, tuple[float, float]]:
    """The median of the second half of the readings, and where it may lie by the spread of consecutive parts, as neighbours are alike."""
    half = points[len(points) // 2 :]
    middle, parts = (median(y for _, y in half), [median(y for _, y in it) for it in _groups(half, PARTS)])
    reach = t_quantile(len(parts) - 1) * stdev(parts) if parts[1:] else 0.0
    return middle, (max(middle - reach, 1.0), middle + reach)


_EACH = 20  # inferences of a shape on average, from which on surely none of the shapes that come at random is missing


def identity(result: Result, own: Traits) -> Traits:
    """Of a stream its shapes, unless so few inferences were run that some may not have come."""
    counts = [it["n"] for it in result.part["shapes"]]
    if not counts:
        return own
    if sum(counts) < _EACH * len(counts):
        return {key: value for key, value in own.items() if key != "shapes"}
    return {**own, "shapes": sorted(_shape_names(result), key=natural)}


def changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    return [*setting_pairs(SETTINGS, one.part, other.part), ("shapes", _shape_names(one), _shape_names(other))]


def _shape_names(result: Result) -> list[str]:
    return [it["name"] for it in result.part["shapes"]]
