"""Results side by side, figure by figure: by how much each differs from the first result and from the one before. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from ortbench.analysis.comparing.comparable import are_alike
from ortbench.analysis.comparing.pairs import PARTS, duration_s
from ortbench.analysis.comparing.ratio import COSTS, RatioEstimate, Spread, are_one_run, compare_series, spread_of
from ortbench.analysis.comparing.series import (
    EVERYTHING,
    Key,
    Selection,
    Series,
    in_common,
    ordered,
    point_text,
    series,
    series_at,
    sizes_at,
    what_lacks,
)
from ortbench.analysis.noise import more_rounds
from ortbench.analysis.outputs import doubt
from ortbench.model.result import Result


class Row(NamedTuple):
    """A figure of a mode at a point in all results, None where one has none, and its changes, None without another one."""

    key: Key
    found: tuple[Series | None, ...]
    since_first: tuple[RatioEstimate | None, ...]
    since_last: tuple[RatioEstimate | None, ...]
    spread: Spread | None = None  # between several runs of one configuration

    @property
    def values(self) -> tuple[float | None, ...]:
        return tuple(None if it is None else it.value for it in self.found)

    @property
    def is_cost(self) -> bool:
        """Whether it is no time that an inference takes."""
        return self.key.metric.group in COSTS


def rows(results: Sequence[Result], only: Selection = EVERYTHING) -> list[Row]:
    """Every figure that a result has, mode by mode: of two all that their kind compares, of more the most telling ones."""
    of = in_common(results, attrgetter("compared" if len(results) == 2 else "several"))
    every = [series(result, of, only) for result in results]
    keys = ordered(key for of_result in every for key in of_result)
    repeated = repeated_runs(results)
    found = [_row(results, key, [series_at(result, key) for result in results], repeated) for key in keys]
    return [row for row in found if only.metrics or not row.key.metric.often_zero or _is_there(row)]


def _is_there(row: Row) -> bool:
    """Whether a figure is above the least that ratios of it tell apart in one of the results."""
    return any(value is not None and value > row.key.metric.unit.least for value in row.values)


def not_shown(groups: Sequence[Sequence[Result]], only: Selection) -> str | None:
    """Why nothing is shown of a mode or a metric that was asked for, in groups of results that are compared; None where something is."""
    modes = dict.fromkeys(case.mode for results in groups for result in results for case in result.cases)
    for mode in only.modes:
        if mode not in modes:
            return f"--mode {mode}: not measured; there are {', '.join(modes)}"
    for metric in only.metrics:
        asked = only._replace(metrics=(metric,))
        if not any(in_both(results, rows(results, asked)) for results in groups):
            return f"--metric {metric.text}: {what_lacks(metric, groups[0])}"
    return None


def repeated_runs(results: Sequence[Result]) -> list[list[int]]:
    """The numbers of results that are runs of one configuration, of each that was run several times."""
    groups: list[list[int]] = []
    for number, result in enumerate(results):
        alike = (it for it in groups if are_alike(results[it[0]], result))
        if (group := next(alike, None)) is None:
            groups.append([number])
        elif not any(are_one_run(results[it], result) or results[it].created == result.created for it in group):
            group.append(number)
    return [it for it in groups if it[1:]]


def _row(results: Sequence[Result], key: Key, found: Sequence[Series | None], repeated: Sequence[Sequence[int]]) -> Row:
    figures = ([one.value for number in group if (one := found[number]) is not None] for group in repeated)
    spread = spread_of([*figures], key.metric.unit.least)
    doubtful = [doubt(result) is not None for result in results]

    def change(base: int, number: int) -> RatioEstimate | None:
        one, other = found[base], found[number]
        if one is None or other is None or base == number or doubtful[base] or doubtful[number]:
            return None
        if sizes_at(results[base], key.point) != sizes_at(results[number], key.point):
            return None
        return compare_series(one, other, spread)

    since_first = tuple(change(0, number) for number in range(len(found)))
    since_last = (*since_first[:2], *(change(number - 1, number) for number in range(2, len(found))))
    return Row(key, tuple(found), since_first, since_last, spread)


def in_both(results: Sequence[Result], found: Sequence[Row]) -> list[Row]:
    """The rows of two results without those of modes that one was not asked for; all of others."""
    alone = {it for own in modes_alone(results) for it in own}
    return [it for it in found if it.key.mode not in alone]


def modes_alone(results: Sequence[Result]) -> list[list[str]]:
    """Of two results that have modes in common those that only one was asked for, of each; of others none."""
    modes = [dict.fromkeys(case.mode for case in result.cases) for result in results]
    if len(modes) != 2 or modes[0].keys().isdisjoint(modes[1]):
        return [[] for _ in modes]
    return [[it for it in own if it not in other] for own, other in (modes, modes[::-1])]


def points_alone(results: Sequence[Result]) -> list[list[str]]:
    """The points of each of several results that not all have."""
    found = [dict.fromkeys(tuple(case.point.items()) for case in result.cases if case.point) for result in results]
    points = [{point: sizes_at(result, point) for point in own} for own, result in zip(found, results, strict=True)]
    return [
        [point_text(it) for it, sizes in own.items() if not all(other.get(it) == sizes for other in points)]
        for own in points
    ]


def lacking(results: Sequence[Result], found: Sequence[Row]) -> dict[int, tuple[int, str]] | None:
    """Of which results that were compared there are too few blocks, by their numbers: how many there are, and what gives more; None where
    load points have too few."""
    fewest: dict[int, int] = {}
    for row in found:
        for number, (first, last) in enumerate(zip(row.since_first, row.since_last, strict=True)):
            for base, ratio in ((0, first), (number - 1, last)):
                if ratio is None or ratio.low is not None or ratio.apart:
                    continue
                for side in (base, number):
                    it = row.found[side]
                    if it is not None and it.has_load_blocks:
                        return None
                    if it is not None and it.case.load_blocks is None and (it.blocks or not row.is_cost):
                        fewest[side] = min(len(it.blocks), fewest.get(side, len(it.blocks)))
    runs = [result.setup.get("run_id") or number for number, result in enumerate(results)]
    short = {side: count for side, count in sorted(fewest.items()) if count < PARTS}
    of: dict[int, tuple[int, str]] = {}
    for side, count in short.items():
        same_run = [it for it in short if runs[it] == runs[side]]  # which one command measures
        slowest = max(same_run, key=lambda it: duration_s(results[it], PARTS, runs.count(runs[it])))
        of[side] = count, more_rounds(results[slowest], PARTS, runs.count(runs[side]))
    return of
