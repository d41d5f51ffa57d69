"""Figures of results as series: a figure of a mode at a point, and the blocks that it rests on. Pure.

Comparisons, gates of stored results and exports read results through them, whatever kind a result is of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, TypeVar

from ortbench.analysis.intervals import PARTS, blocks, timed_phase
from ortbench.analysis.load_points import CPU, FEWEST_BLOCKS, INFERENCES, block_figures, interval
from ortbench.analysis.noise import slowed_by_waits
from ortbench.core import units
from ortbench.core.stats import Stats, Value
from ortbench.model.kinds import RATE, RUN, View, kind_of
from ortbench.model.metric_names import AxisValue, MetricName
from ortbench.model.metrics import FAMILIES, LATENCY, NAME, USUAL, Figure, Group, Metric, in_order, known_or_plain
from ortbench.model.modes import ALL_MODES, DEVICE_MEMORY, HOST_MEMORY
from ortbench.model.result import OK, Case, Result

T = TypeVar("T")
Point = tuple[tuple[str, AxisValue], ...]
Blocks = list[tuple[int, list[int | float]]]  # rounds and samples
# Figures of inferences one after the other that follow from a statistic of their latency, whose blocks tell how far they may be off.
_FROM_LATENCY = {"throughput": "mean", "item_throughput": "mean", "item_time": "median"}


def _by_numpy(function: str, *more: float) -> Callable[[Sequence[float]], float]:
    """One of NumPy's functions, which is loaded when it is wanted."""

    def statistic(samples: Sequence[float]) -> float:
        import numpy as np

        return float(getattr(np, function)(samples, *more))

    return statistic


PERCENTILES = {"p90": 0.9, "p95": 0.95, "p99": 0.99}
STATISTICS = {
    "median": _by_numpy("median"),
    "mean": _by_numpy("mean"),
    "min": _by_numpy("min"),
    "max": _by_numpy("max"),
    **{name: _by_numpy("quantile", part) for name, part in PERCENTILES.items()},
}


RESAMPLED = {"median": 0.5, "mean": None, **PERCENTILES}  # what resamples of rounds tell of, and which quantile it is


class Key(NamedTuple):
    mode: str
    point: Point
    figure: Figure

    @property
    def metric(self) -> Metric:
        return known_or_plain(self.figure.metric)


@dataclass(frozen=True)
class Series:
    """A figure of a case and what it rests on."""

    key: Key  # what it is of
    case: Case  # that has it
    value: float  # the figure, in its metric's unit
    result: Result  # that the case is of

    @property
    def rests_on(self) -> Figure:
        """The figure of samples that its noise is known by."""
        statistic = None if self.case.load_blocks is not None else _FROM_LATENCY.get(self.key.figure.metric)
        return Figure(LATENCY, statistic) if statistic else self.key.figure

    @property
    def has_load_blocks(self) -> bool:
        """Whether it is of a load point, of whose blocks its metric has figures."""
        metrics = (LATENCY, "throughput", *CPU)
        return self.case.load_blocks is not None and self.key.figure.metric in metrics

    def text(self, value: float) -> str:
        """Such a figure with its unit."""
        counts = self.key.figure.metric == "throughput" and self.has_load_blocks
        return f"{units.rate(value)} {INFERENCES}" if counts else self.key.metric.unit.text(value)

    @cached_property
    def blocks(self) -> Blocks:
        """The samples of each block, in the order in which they were taken; none where it rests on no samples that are kept."""
        return blocks(self.case, self.rests_on.metric)

    @cached_property
    def parts(self) -> list[float]:
        """The figure that it rests on in each of some consecutive parts of the run; none of too few blocks."""
        if self.has_load_blocks:
            ordered = [self.by_round[it] for it in sorted(self.by_round)]
            return [fmean(it) for it in _split(ordered, PARTS)] if len(ordered) >= FEWEST_BLOCKS else []
        if len(self.blocks) < PARTS:
            return []
        statistic = STATISTICS[self.rests_on.statistic]
        return [statistic([it for _, block in part for it in block]) for part in _split(self.blocks, PARTS)]

    @cached_property
    def slowdown(self) -> float:
        """How many times as long waits for a CPU can have made what it rests on."""
        if self.key._replace(figure=self.rests_on).metric.group is not Group.TIME:
            return 1.0
        return slowed_by_waits(self.result, self.case, self.rests_on == Figure(LATENCY, USUAL))

    @cached_property
    def by_round(self) -> dict[int, float]:
        """The figure of each block of a load point, by its round."""
        return block_figures(self.case, block_figure_of(self.key.figure)) if self.has_load_blocks else {}

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Its 95 % interval, where it was recorded; that of a load point's blocks."""
        if self.has_load_blocks:
            return interval(self.case, block_figure_of(self.key.figure))
        found = self.case.metrics.get(self.key.figure.metric)
        if isinstance(found, Stats):
            return found.ci95 if self.key.figure.statistic == "median" else None
        return found.ci95 if isinstance(found, Value) else None


def _split(items: Sequence[T], parts: int) -> list[Sequence[T]]:
    """Consecutive parts, at most as many as there are items."""
    count = min(parts, len(items))
    bounds = [round(len(items) * it / count) for it in range(count + 1)]
    return [items[a:b] for a, b in pairwise(bounds)]


class Selection(NamedTuple):
    """Which modes and metrics are wanted; empty for the usual ones."""

    modes: tuple[str, ...] = ()
    metrics: tuple[MetricName, ...] = ()

    def figures(self, case: Case) -> list[Figure]:
        named = (it for it in self.metrics if it.mode in (None, case.mode) and is_of(it, case.point))
        return [Figure(it.metric, it.statistic) for it in named]


EVERYTHING = Selection()


def is_of(name: MetricName, point: Mapping[str, AxisValue]) -> bool:
    """Whether a metric is of a point: throughput only of a rate that is named, since it is what the load asked for."""
    asked_for = name.metric == "throughput" and RATE.name in point
    return name.matches_point(point) and (not asked_for or RATE.name in dict(name.point))


def value_of(case: Case, figure: Figure) -> float | None:
    """A figure of a case: a statistic of its samples, or one number; None where it has none."""
    found = case.speedup if figure.metric == "speedup" else case.metrics.get(figure.metric)
    if figure.statistic:
        return float(getattr(found, figure.statistic)) if isinstance(found, Stats) else None
    return found.value if isinstance(found, Value) else None


def series(result: Result, of: Callable[[View], Iterable[Figure]], only: Selection = EVERYTHING) -> dict[Key, Series]:
    """The series of a result, by what they are of: those of a kind's view, or of the metrics that are named."""
    found, kind = {}, kind_of(result.kind)
    for case in _compared_cases(result):
        if only.modes and case.mode not in only.modes:
            continue
        figures = only.figures(case) if only.metrics else _usual(case, of(kind.view(case.point)))
        for figure in figures:
            value = value_of(case, figure)
            if value is not None:
                key = Key(case.mode, tuple(case.point.items()), figure)
                found[key] = Series(key, case, value, result)
    return found


def _compared_cases(result: Result) -> list[Case]:
    """The cases with figures; of a load without those of one client alone, beside which load points are seen."""
    return [it for it in result.cases if it.status == OK and (it.point or not kind_of(result.kind).axes)]


def in_common(results: Sequence[Result], of: Callable[[View], Iterable[Figure]]) -> Callable[[View], Iterable[Figure]]:
    """Which figures of a view are wanted of results: of several kinds those of single inferences, since all have a latency."""
    return of if len({it.kind for it in results}) == 1 else lambda _: of(RUN.views[0])


def series_at(result: Result, key: Key) -> Series | None:
    """The series of a result that a key names, whether its kind shows it or not; None where it has none."""
    if kind_of(result.kind).axes and not key.point:
        return None
    case = result.case(key.mode, dict(key.point))
    value = None if case is None else value_of(case, key.figure)
    return None if case is None or value is None else Series(key, case, value, result)


def _usual(case: Case, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Figures of which the case has the metric, of families each one; none that says the same as another one."""
    for figure in figures:
        family, _, name = figure.metric.partition(".")
        if family in FAMILIES and name == NAME:
            yield from (figure._replace(metric=key) for key in case.metrics if key.startswith(f"{family}."))
        elif figure.metric == "inference" and timed_phase(case.mode, figure.metric, case.whole) != figure.metric:
            continue  # it is all there is to the mode, and so its latency
        elif figure.metric != "item_throughput" or case.value(figure.metric) != case.value("throughput"):
            yield figure


def block_figure_of(figure: Figure) -> str:
    """What blocks of load points call a figure: latency by its statistic, others by their metric."""
    return figure.statistic if figure.metric == LATENCY else figure.metric


def sort_keys(keys: Iterable[Key]) -> list[Key]:
    """Keys by mode in the usual order, then by point, then as they come."""
    order = list(ALL_MODES)
    ranks = {key: (order.index(key.mode) if key.mode in order else len(order), _sort_key(key.point)) for key in keys}
    return sorted(ranks, key=lambda it: ranks[it])


def _sort_key(point: Point) -> list[tuple[str, bool, float, str]]:
    return [(axis, isinstance(it, str), *((0.0, it) if isinstance(it, str) else (float(it), ""))) for axis, it in point]


def what_lacks(metric: MetricName, results: Sequence[Result]) -> str:
    """Why results have no figures of a metric in common, and which metrics they have."""
    both = "both" if len(results) == 2 else "all"
    of_modes = [_compared_cases(result) for result in results]
    cases = [[it for it in own if metric.mode in (None, it.mode)] for own in of_modes]
    if metric.mode and not all(cases):
        modes = set.intersection(*({it.mode for it in own} for own in of_modes))
        return f"{metric.mode} was not measured in {both} results; there are {_join_names(it for it in ALL_MODES if it in modes)}"
    points = [dict.fromkeys(tuple(it.point.items()) for it in own) for own in cases]
    if metric.point and not any(metric.matches_point(dict(it)) for it in set.intersection(*map(set, points))):
        shared = (point_text(it) for it in points[0] if it and all(it in own for own in points))
        return f"no such point was measured in {both}; there are {_join_names(shared)}"
    keys = [dict.fromkeys(key for it in own if metric.matches_point(it.point) for key in it.metrics) for own in cases]
    there = [key for key in keys[0] if all(key in own for own in keys)]
    family, dot, _ = metric.metric.partition(".")
    if dot and family in FAMILIES:
        named = (key.partition(".")[2] for key in there if key.startswith(f"{family}."))
        return f"there is no such {family} in {both}; there are {_join_names(sorted(named))}"
    how = " (--measure-memory)" if metric.metric in (DEVICE_MEMORY, HOST_MEMORY) else ""
    return f"not measured in {both} results{how}; there are {_join_names(in_order(there))}"


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def sizes_at(result: Result, point: Point) -> Mapping[str, int]:
    """The sizes of the dimensions at a point of a sweep, which a set of real inputs gives; none elsewhere."""
    return next((it.shape for it in result.shapes if it.point == dict(point)), {})


def point_text(point: Point) -> str:
    """A point in a table or a name: ``batch=8, sequence=128``."""
    return ", ".join(f"{axis}={it:g}" if isinstance(it, float) else f"{axis}={it}" for axis, it in point)
