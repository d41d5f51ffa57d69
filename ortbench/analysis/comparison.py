"""The one function from two series to their ratio, its interval and what that says: compare, gates of stored results, configurations side
by side and tune call it. Pure.

A ratio is always that of the two figures beside it. Its interval, of two results of one run, is over the rounds that they have in
common (`ortbench.core.stats`). Results of different runs have none, and machines drift by more from run to run than resamples of
either run show. So their interval is by the spread between several runs of one configuration where there are some. Of one run each it
is by the spread of consecutive parts of either, in any of which a short run could have lain, by what waits for a CPU made longer, and by
what no run sees in itself: the spread between runs of the certificate of their machine, else `BETWEEN_RUNS`. `reports/coverage.md` says
how often that holds the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from ortbench.analysis.comparable import are_alike
from ortbench.analysis.intervals import (
    ABOVE,
    BELOW,
    MARGIN,
    PARTS,
    Interval,
    Verdict,
    are_apart,
    duration_s,
    quotient,
    reach,
    verdict_of,
)
from ortbench.analysis.intervals import SAME as AS_GREAT
from ortbench.analysis.load_points import is_full, paired_reach
from ortbench.analysis.noise import certificates, is_beyond_noise, join_noise, more_rounds, supports_better
from ortbench.analysis.outputs import doubt
from ortbench.analysis.series import (
    EVERYTHING,
    RESAMPLED,
    Key,
    Selection,
    Series,
    in_common,
    point_text,
    series,
    series_at,
    sizes_at,
    sort_keys,
    what_lacks,
)
from ortbench.core.stats import ratio_of, t_quantile
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import LATENCY, SIZE, Group
from ortbench.model.result import Result, are_one_run

FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot tell"
LESS, MORE = "less", "more"  # of what an inference costs besides its time
COSTS = (Group.HOST, Group.MEMORY, Group.ENERGY)

# Which others' use of the caches and the CPU makes more.
_OF_CPU = ("cpu_time", "step_cpu_time", "involuntary_switches")
BETWEEN_RUNS = 0.03  # what two runs differ by that neither can see, on a machine without a certificate; measured: reports/coverage.md
_DAY_S = 86_400
FAR = 10  # times that samples of two results are apart that need no interval
_FEWEST_FREEDOM = 2  # degrees of freedom of a spread between runs: of two runs alone it says next to nothing

NOISY: Literal["noise"] = "noise"
UNKNOWN: Literal["few-samples"] = "few-samples"


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
    floored: bool = False  # a figure counts as the least that ratios tell apart: the ratio is not that of the two

    @property
    def ends(self) -> Interval | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def verdict(self, same: float = MARGIN) -> Verdict | Literal["noise", "few-samples"]:
        """What it says beyond a share of `same`; `UNKNOWN` without an interval, `NOISY` where noise may have made the difference."""
        if self.apart:
            return ABOVE if self.ratio > 1 else BELOW
        if self.doubted:
            return NOISY
        return UNKNOWN if self.ends is None else verdict_of(self.ends, 1 + same)


class Spread(NamedTuple):
    """How much the figures of several runs of one configuration differ."""

    deviation: float  # standard, of logarithms
    freedom: int  # its degrees of freedom
    runs: int

    @property
    def reach(self) -> float:
        """How far a ratio of two runs reaches with 95 %, as a logarithm."""
        return t_quantile(self.freedom) * math.sqrt(2) * self.deviation


def spread_of(runs: Sequence[Sequence[float]], least: float) -> Spread | None:
    """The spread of the figures of runs, those of each configuration together; None of too few runs."""
    logs = [[math.log(max(it, least)) for it in figures] for figures in runs if figures[1:]]
    freedom = sum(len(it) - 1 for it in logs)
    if freedom < _FEWEST_FREEDOM:
        return None
    squares = sum((it - fmean(figures)) ** 2 for figures in logs for it in figures)
    return Spread(math.sqrt(squares / freedom), freedom, sum(map(len, logs)))


def compare_series(base: Series, other: Series, spread: Spread | None = None) -> RatioEstimate | None:
    """A figure against that of another result, maybe at another point; None where they cannot be compared.

    `spread` is that between runs of one configuration. What takes time says whether it is far apart and, in one run on a busy machine,
    whether noise may have made the difference.
    """
    if grows(base, other):
        return None
    same_run = are_one_run(base.result, other.result)
    if same_run and base.blocks and other.blocks and not base.has_load_blocks:
        found = _by_rounds(base, other)
    else:
        found = (_by_load_blocks(base, other) if same_run else None) or _apart(base, other, spread)
    if found is None:
        return None
    if base.key.metric.group not in COSTS and not 1 / FAR < found.ratio < FAR:
        found = found._replace(apart=_are_far_apart(base, other))
    is_floored = min(base.value, other.value) < base.key.metric.unit.least
    return found._replace(doubted=same_run and not _is_beyond_noise(base, other, found.ends), floored=is_floored)


def between_runs(results: Sequence[Result]) -> float:
    """What runs of different times differ by that none of them can see, as a share: by certificates less than `BETWEEN_RUNS` only where
    their runs were days apart, as minutes show a part of it."""
    found = certificates(results)
    least = 0.0 if all(it["span_s"] >= _DAY_S for it in found) else BETWEEN_RUNS
    return max((least, *(it["between_runs"] for it in found))) if found else BETWEEN_RUNS


def grows(*several: Series) -> bool:
    """Whether a queue grew in one of two load points, and with it the figure: it says how long the load point lasted."""
    return any(it.key.figure.metric in (LATENCY, "queue_delay") and is_full(it.case) for it in several)


def word(found: RatioEstimate, same: float, of_cost: bool = False) -> str:
    """Whether a difference is real: `SAME` within ± `same`, `FASTER` or `SLOWER` (of a cost `LESS` or `MORE`) for certain by more."""
    below, above = (LESS, MORE) if of_cost else (FASTER, SLOWER)
    words: dict[str, str] = {ABOVE: above, BELOW: below, AS_GREAT: SAME}
    return words.get(found.verdict(same), CANNOT_TELL)


def _ratio(base: Series, other: Series) -> float:
    """How many times as bad the second figure is."""
    ratio = _quotient(base.key, other.value, base.value)
    return 1 / ratio if base.key.metric.better == "higher" else ratio


def _quotient(key: Key, over: float, under: float) -> float:
    least = key.metric.unit.least
    return max(over, least) / max(under, least)


def _by_rounds(base: Series, other: Series) -> RatioEstimate | None:
    """Two of one run, with the interval that resamples of their common rounds give; None without any."""
    old, new = (dict(it.blocks) for it in (base, other))
    if old.keys().isdisjoint(new):
        return None
    ratio, statistic = _ratio(base, other), base.rests_on.statistic
    if statistic not in RESAMPLED:  # what is least or greatest is in a resample or is not, which says nothing of others
        return RatioEstimate(base.value, other.value, ratio, None, None, paired=True)
    key = base.key._replace(figure=base.rests_on)
    found = ratio_of(new, old, RESAMPLED[statistic], key.metric.unit.least, base.case.first_rounds)
    found = (found.inverse() if key.metric.better == "higher" else found).scaled_to(ratio)
    low, high = found.ci95 or (None, None)
    return RatioEstimate(base.value, other.value, ratio, low, high, paired=True)


def _by_load_blocks(base: Series, other: Series) -> RatioEstimate | None:
    """Two load points of one run by the figures of their blocks in the same rounds; None of others."""
    if not (base.has_load_blocks and other.has_load_blocks):
        return None
    ratio, old, new = _ratio(base, other), base.by_round, other.by_round
    ratios = {it: _quotient(base.key, new[it], old[it]) for it in old.keys() & new.keys()}
    half = paired_reach(ratios, base.case.first_rounds)
    return None if half is None else RatioEstimate(base.value, other.value, ratio, ratio / half, ratio * half, True)


def _is_beyond_noise(base: Series, other: Series, ends: Interval | None) -> bool:
    """Whether noise of the machine leaves what an interval of two of one run says of time."""
    is_time, timed = base.key.metric.group is Group.TIME, kind_of(other.result.kind).views[0].gated[0]
    if ends is None or ends[0] <= 1 <= ends[1] or not (is_time or base.key.figure.metric in _OF_CPU):
        return True
    both = replace(other.result, noise=join_noise([base.result.noise, other.result.noise]))
    least = max(ends[0], 1 / ends[1])
    if base.key.figure == timed:
        return supports_better(both, *((base.case, other.case) if ends[0] > 1 else (other.case, base.case)), least)
    return is_beyond_noise(both, (base.case, other.case), least, is_time)


def _are_far_apart(one: Series, other: Series) -> bool:
    """Whether every sample of one is a tenth of any of the other's at most: few of them tell that."""
    samples = ([ns for _, block in it.blocks for ns in block] for it in (one, other))
    low, high = sorted(samples, key=lambda it: min(it, default=0))
    return are_apart(low, high, FAR)


def _apart(base: Series, other: Series, spread: Spread | None) -> RatioEstimate:
    """Two that were measured at different times, or each in its own way."""
    ratio = _ratio(base, other)
    if base.key.metric.unit is SIZE:
        if base.ci95 is None and other.ci95 is None:
            return RatioEstimate(base.value, other.value, ratio, ratio, ratio, exact=True)
        ends = quotient(other.value, base.value, other.ci95, base.ci95).ci95
        return RatioEstimate(base.value, other.value, ratio, *(ends or (None, None)))
    reaches = [(spread.reach, spread.reach)] if spread is not None else _reaches(base, other)
    if reaches is None:
        return RatioEstimate(base.value, other.value, ratio, None, None)
    down, up = (math.exp(math.hypot(*ends)) for ends in zip(*reaches, strict=True))
    return RatioEstimate(base.value, other.value, ratio, ratio / down, ratio * up)


def _reaches(base: Series, other: Series) -> list[tuple[float, float]] | None:
    """How far below and above the ratio reaches for each reason, as logarithms; None where something is not known."""
    found = [(math.log1p(between_runs([base.result, other.result])),) * 2]
    for one in (base, other):
        if parts := one.parts:
            least = one.key._replace(figure=one.rests_on).metric.unit.least
            half = t_quantile(len(parts) - 1) * stdev(math.log(max(it, least)) for it in parts)
            found.append((half, half))
        elif one.blocks or one.ci95 is None or one.ci95[0] <= 0 or _method(base) != _method(other):
            return None
        else:
            # Above is worse, and the base is what is divided by.
            ends = reach(one.value, one.ci95)
            turned = (one.key.metric.better == "higher") != (one is base)
            found.append(ends[::-1] if turned else ends)
        found.append((math.log(one.slowdown),) * 2)
    return found


def _method(series: Series) -> str | None:
    """In which of several ways a figure was measured, as far as its case says so under the name of its group."""
    how: str | None = series.case.own.get(series.key.metric.group.title, {}).get("how")
    return how


# Results side by side, figure by figure


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
    keys = sort_keys(key for of_result in every for key in of_result)
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
                for at in (base, number):
                    one = row.found[at]
                    if one is not None and one.has_load_blocks:
                        return None
                    if one is not None and one.case.load_blocks is None and (one.blocks or not row.is_cost):
                        fewest[at] = min(len(one.blocks), fewest.get(at, len(one.blocks)))
    runs = [result.setup.get("run_id") or number for number, result in enumerate(results)]
    short = {at: count for at, count in sorted(fewest.items()) if count < PARTS}
    of: dict[int, tuple[int, str]] = {}
    for at, count in short.items():
        same_run = [it for it in short if runs[it] == runs[at]]  # which one command measures
        slowest = max(same_run, key=lambda it: duration_s(results[it], PARTS, runs.count(runs[it])))
        of[at] = count, more_rounds(results[slowest], PARTS, runs.count(runs[at]))
    return of
