"""Results side by side: by how much their figures differ, and in a word whether that is real. Pure.

A ratio is always that of the two figures beside it. Its interval, of two results of one run, is over the rounds that they have in
common (`ortbench.core.resampling`). Results of different runs have none, and machines drift by more from run to run than
resamples of either run show: under load those call a model slower than itself in 9 of 100 comparisons (`reports/coverage.md`). So
their ratio is given with the noise that each run saw.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from ortbench.analysis.comparing import verdict
from ortbench.analysis.comparing.pairs import PARTS, are_apart, duration_s
from ortbench.analysis.comparing.series import (
    EVERYTHING,
    RESAMPLED,
    STATISTICS,
    Blocks,
    Key,
    Selection,
    Series,
    block_figure_of,
    in_common,
    ordered,
    point_text,
    series,
    series_at,
    sizes_at,
    value_of,
    what_lacks,
)
from ortbench.analysis.comparing.verdict import quotient, verdict_of
from ortbench.analysis.loads.levels import interval, is_full, paired_reach
from ortbench.analysis.noise import allows, is_beyond_noise, joined, more_rounds
from ortbench.analysis.outputs import doubt
from ortbench.core.resampling import ratio_of
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import LATENCY, SIZE, Group
from ortbench.model.result import Result

FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot tell"
LESS, MORE = "less", "more"  # of what an inference costs besides its time
COSTS = (Group.HOST, Group.MEMORY, Group.ENERGY)

# Which others' use of the caches and the CPU makes more.
_OF_CPU = ("cpu_time", "step_cpu_time", "involuntary_switches")
BETWEEN_RUNS = 0.02  # what two runs differ by that neither can see; measured: reports/gate
FAR = 10  # times that samples of two results are apart that need no interval


class RatioEstimate(NamedTuple):
    """Two figures and how many times as bad the second is: above 1 is slower, or more of a cost."""

    base: float
    value: float
    ratio: float  # of value to base; of base to value where more is better
    # low, high: where the ratio may lie; None where that is not known
    low: float | None
    high: float | None
    paired: bool = False  # both are of one run, and its interval is over the rounds of it
    exact: bool = False  # the figures are no samples, so that there is no noise in them
    doubted: bool = False  # noise of the machine may have made the difference
    apart: bool = False  # each sample is `FAR` times as long as any of the other's, or more: which noise does not make


def estimate(base: Series, other: Series, same_run: bool) -> RatioEstimate | None:
    """A figure against that of another result, maybe at another point; None where they cannot be compared.

    By the best that both have: rounds of the `same_run`, in which they alternated; else blocks of two runs; else intervals.
    """
    if grows(base, other):
        return None
    if base.has_load_blocks and other.has_load_blocks:
        return (_by_load_blocks(base, other) if same_run else None) or _by_intervals(base, other)
    if base.blocks and other.blocks:
        return _by_rounds(base, other) if same_run else stored(base, other)
    is_size = base.key.metric.unit is SIZE
    if is_size and same_run and base.ci95 is not None and other.ci95 is not None:
        found = quotient(other.value, base.value, other.ci95, base.ci95)
        return RatioEstimate(base.value, other.value, found.ratio, *(found.ci95 or (None, None)))
    if not is_size and base.ci95 is not None and other.ci95 is not None:
        return _by_ends(base, other)
    ratio = _worse(base.key, _quotient(base.key, other.value, base.value))
    if is_size:
        return RatioEstimate(base.value, other.value, ratio, ratio, ratio, exact=True)
    return RatioEstimate(base.value, other.value, ratio, None, None)


def between(base: Result, one: Series, result: Result, other: Series) -> RatioEstimate | None:
    """`estimate` of two results; of what takes time with whether it is far apart and, in one run on a busy machine, whether noise may
    have made the difference."""
    same_run = are_one_run(base, result)
    found = estimate(one, other, same_run)
    if found is not None and one.key.metric.group not in COSTS and not 1 / FAR < found.ratio < FAR:
        found = found._replace(apart=_are_far_apart(one, other))
    group, is_cpu_time = one.key.metric.group, one.key.figure.metric in _OF_CPU
    if (
        found is None
        or not same_run
        or found.low is None
        or found.high is None
        or not (group is Group.TIME or is_cpu_time)
    ):
        return found
    if found.low <= 1 <= found.high:
        return found
    both = replace(result, noise=joined([base.noise, result.noise]))
    least = max(found.low, 1 / found.high)
    (timed, *_) = kind_of(result.kind).views[0].gated
    if one.key.figure == timed:
        better, worse = (one.case, other.case) if found.low > 1 else (other.case, one.case)
        return found._replace(doubted=not allows(both, better, worse, least))
    return found._replace(doubted=not is_beyond_noise(both, (one.case, other.case), least, group is Group.TIME))


def _are_far_apart(one: Series, other: Series) -> bool:
    """Whether every sample of one is a tenth of any of the other's at most: few of them tell that."""
    sides = ([ns for _, block in it.blocks for ns in block] for it in (one, other))
    low, high = sorted(sides, key=lambda it: min(it, default=0))
    return are_apart(low, high, FAR)


def grows(*of: Series) -> bool:
    """Whether a queue grew in one of two load points, and with it the figure: it says how long the load point lasted."""
    return any(it.key.figure.metric in (LATENCY, "queue_delay") and is_full(it.case) for it in of)


def _quotient(key: Key, over: float, under: float) -> float:
    least = key.metric.unit.least
    return max(over, least) / max(under, least)


def _worse(key: Key, ratio: float) -> float:
    """A ratio turned so that above 1 is worse."""
    return 1 / ratio if key.metric.better == "higher" else ratio


def _by_rounds(base: Series, other: Series) -> RatioEstimate | None:
    """Two of one run, with the interval that resamples of their common rounds give; None without any."""
    old, new = (dict(it.blocks) for it in (base, other))
    if old.keys().isdisjoint(new):
        return None
    ratio, statistic = _worse(base.key, _quotient(base.key, other.value, base.value)), base.rests_on.statistic
    if statistic not in RESAMPLED:  # what is least or greatest is in a resample or is not, which says nothing of others
        return RatioEstimate(base.value, other.value, ratio, None, None, paired=True)
    key = base.key._replace(figure=base.rests_on)
    found = ratio_of(new, old, RESAMPLED[statistic], key.metric.unit.least, base.case.first_rounds)
    found = (found.inverse() if key.metric.better == "higher" else found).at(ratio)
    low, high = found.ci95 or (None, None)
    return RatioEstimate(base.value, other.value, ratio, low, high, paired=True)


def _by_load_blocks(base: Series, other: Series) -> RatioEstimate | None:
    """Two load points of one run, by the figures of their blocks in the same rounds; None where those are too few."""
    old, new = base.by_round, other.by_round
    ratios = {it: _quotient(base.key, new[it], old[it]) for it in old.keys() & new.keys()}
    reach = paired_reach(ratios, base.case.first_rounds)
    ratio = _worse(base.key, _quotient(base.key, other.value, base.value))
    return None if reach is None else RatioEstimate(base.value, other.value, ratio, ratio / reach, ratio * reach, True)


def stored(base: Series, other: Series) -> RatioEstimate:
    """A figure against that of an earlier run, with the noise that both runs saw.

    Each run is cut into `PARTS` of consecutive blocks. A short run could have landed where any of them did, so the ratio lies
    between the least part of one run over the greatest of the other, and the reverse; and runs differ by up to `BETWEEN_RUNS`
    more, which no run sees in itself. There is no interval if one has fewer blocks than parts.
    """
    (was, were), (now, are) = (_with_parts(it.blocks, it.rests_on.statistic) for it in (base, other))
    key, by = base.key._replace(figure=base.rests_on), _share(base, other)
    ratio = _quotient(key, now, was)
    values = (was, now) if base.rests_on == base.key.figure else (base.value, other.value)
    if not were or not are:
        return RatioEstimate(*values, ratio * by, None, None)
    low = _quotient(key, min(are), max(were)) / (1 + BETWEEN_RUNS)
    high = _quotient(key, max(are), min(were)) * (1 + BETWEEN_RUNS)
    # A percentile of a whole run can lie beyond that of each of its parts.
    return RatioEstimate(*values, ratio * by, min(low, ratio) * by, max(high, ratio) * by)


def _share(base: Series, other: Series) -> float:
    """By how much a ratio of a figure that follows from latency is that of the latencies: inferences may have other items."""
    if base.rests_on == base.key.figure:
        return 1.0
    of_latency = (value_of(other.case, other.rests_on) or 1) / (value_of(base.case, base.rests_on) or 1)
    return _worse(base.key, _quotient(base.key, other.value, base.value)) / of_latency


def _with_parts(taken: Blocks, statistic: str) -> tuple[float, list[float]]:
    """The statistic of a run, and of consecutive parts of it; no parts if it has too few blocks."""
    of = STATISTICS[statistic]
    whole = of([x for _, block in taken for x in block])
    if len(taken) < PARTS:
        return whole, []
    bounds = [round(len(taken) * number / PARTS) for number in range(PARTS + 1)]
    return whole, [of([x for _, block in taken[a:b] for x in block]) for a, b in pairwise(bounds)]


def _by_intervals(base: Series, other: Series) -> RatioEstimate:
    """Two load points of different runs, each with the interval that its blocks give."""
    old, new = (interval(it.case, block_figure_of(it.key.figure)) for it in (base, other))
    turned = base.key.metric.better == "higher"
    found = quotient(base.value, other.value, old, new) if turned else quotient(other.value, base.value, new, old)
    if found.ci95 is None:
        return RatioEstimate(base.value, other.value, found.ratio, None, None)
    low, high = found.ci95[0] / (1 + BETWEEN_RUNS), found.ci95[1] * (1 + BETWEEN_RUNS)
    return RatioEstimate(base.value, other.value, found.ratio, low, high)


def _by_ends(base: Series, other: Series) -> RatioEstimate:
    """Two figures with intervals of their own: the ratio lies between the ends of the two, and by what runs differ that none of
    them sees. It has no interval where one of them reaches 0, or where they were measured in different ways."""
    assert base.ci95 is not None
    assert other.ci95 is not None
    (a, b), (c, d) = base.ci95, other.ci95
    ratio = _worse(base.key, _quotient(base.key, other.value, base.value))
    if a <= 0 or c <= 0 or _how(base) != _how(other):
        return RatioEstimate(base.value, other.value, ratio, None, None)
    low, high = sorted(_worse(base.key, end) for end in (c / b, d / a))
    return RatioEstimate(base.value, other.value, ratio, low / (1 + BETWEEN_RUNS), high * (1 + BETWEEN_RUNS))


def _how(it: Series) -> str | None:
    """In which of several ways a figure was measured."""
    energy = it.key.metric.group is Group.ENERGY and it.case.energy
    return energy.get("how") if energy else None


def word(found: RatioEstimate, same: float, of_cost: bool = False) -> str:
    """Whether a difference is real: `SAME` within ± `same`, `FASTER` or `SLOWER` (of a cost `LESS` or `MORE`) for certain by more."""
    below, above = (LESS, MORE) if of_cost else (FASTER, SLOWER)
    if found.apart:
        return above if found.ratio > 1 else below
    if found.low is None or found.high is None or found.doubted:
        return CANNOT_TELL
    said = verdict_of((found.low, found.high), 1 + same)
    return {verdict.ABOVE: above, verdict.BELOW: below, verdict.SAME: SAME, verdict.OPEN: CANNOT_TELL}[said]


class Row(NamedTuple):
    """A figure of a mode at a point in all results, None where one has none, and its changes, None without another one."""

    key: Key
    found: tuple[Series | None, ...]
    since_first: tuple[RatioEstimate | None, ...]
    since_last: tuple[RatioEstimate | None, ...]

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
    found = [_row(results, key, [series_at(result, key) for result in results]) for key in keys]
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


def _row(results: Sequence[Result], key: Key, found: Sequence[Series | None]) -> Row:
    doubtful = [doubt(result) is not None for result in results]

    def change(base: int, number: int) -> RatioEstimate | None:
        one, other = found[base], found[number]
        if one is None or other is None or base == number or doubtful[base] or doubtful[number]:
            return None
        if sizes_at(results[base], key.point) != sizes_at(results[number], key.point):
            return None
        return between(results[base], one, results[number], other)

    since_first = tuple(change(0, number) for number in range(len(found)))
    since_last = (*since_first[:2], *(change(number - 1, number) for number in range(2, len(found))))
    return Row(key, tuple(found), since_first, since_last)


def in_both(results: Sequence[Result], found: Sequence[Row]) -> list[Row]:
    """The rows of two results without those of modes that one was not asked for; all of others."""
    alone = {it for own in _modes_alone(results) for it in own}
    return [it for it in found if it.key.mode not in alone]


def _modes_alone(results: Sequence[Result]) -> list[list[str]]:
    """Of two results that have modes in common those that only one was asked for, of each; of others none."""
    modes = [dict.fromkeys(case.mode for case in result.cases) for result in results]
    if len(modes) != 2 or modes[0].keys().isdisjoint(modes[1]):
        return [[] for _ in modes]
    return [[it for it in own if it not in other] for own, other in (modes, modes[::-1])]


def only_in(results: Sequence[Result], names: Sequence[str], of: Collection[str] = ()) -> list[str]:
    """The modes, `of` some or all, that only one of two results was asked for, and the points that not all have, in sentences."""
    alone = [[it for it in own if not of or it in of] for own in _modes_alone(results)]
    said = [f"only {name} has: {', '.join(own)}" for name, own in zip(names, alone, strict=True) if own]
    found = [dict.fromkeys(tuple(case.point.items()) for case in result.cases if case.point) for result in results]
    points = [{point: sizes_at(result, point) for point in own} for own, result in zip(found, results, strict=True)]
    more = [
        [point_text(it) for it, sizes in own.items() if not all(other.get(it) == sizes for other in points)]
        for own in points
    ]
    return said + [f"only in {name}: {'; '.join(own)}" for name, own in zip(names, more, strict=True) if own]


def are_one_run(one: Result, other: Result) -> bool:
    """Whether the blocks of two results alternated."""
    run_id = one.setup.get("run_id")
    return run_id is not None and run_id == other.setup.get("run_id")


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
