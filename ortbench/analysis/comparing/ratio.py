"""The one function from two series to their ratio, its interval and what that says: compare, gates of stored results, configurations side
by side and tune call it. Pure.

A ratio is always that of the two figures beside it. Its interval, of two results of one run, is over the rounds that they have in
common (`ortbench.core.stats`). Results of different runs have none, and machines drift by more from run to run than resamples of
either run show. So their interval is by the spread between several runs of one configuration where there are some. Of one run each it
is by the spread of consecutive parts of either, in any of which a short run could have lain, by what waits for a CPU made longer, and by
`BETWEEN_RUNS`, which no run sees in itself. `reports/coverage.md` says how often that holds the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from ortbench.analysis.comparing.pairs import are_apart
from ortbench.analysis.comparing.series import RESAMPLED, Key, Series
from ortbench.analysis.comparing.verdict import ABOVE, BELOW, MARGIN, Interval, Verdict, quotient, reach, verdict_of
from ortbench.analysis.comparing.verdict import SAME as AS_GREAT
from ortbench.analysis.noise import is_beyond_noise, join_noise, supports_better
from ortbench.analysis.point_blocks import is_full, paired_reach
from ortbench.core.stats import ratio_of, t_quantile
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import LATENCY, SIZE, Group
from ortbench.model.result import Result

FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot tell"
LESS, MORE = "less", "more"  # of what an inference costs besides its time
COSTS = (Group.HOST, Group.MEMORY, Group.ENERGY)

# Which others' use of the caches and the CPU makes more.
_OF_CPU = ("cpu_time", "step_cpu_time", "involuntary_switches")
BETWEEN_RUNS = 0.03  # what two runs differ by that neither can see; measured: reports/coverage.md
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
        found = (_by_intervals_of_one_run(base, other) if same_run else None) or _apart(base, other, spread)
    if found is None:
        return None
    if base.key.metric.group not in COSTS and not 1 / FAR < found.ratio < FAR:
        found = found._replace(apart=_are_far_apart(base, other))
    return found._replace(doubted=same_run and not _is_beyond_noise(base, other, found.ends))


def are_one_run(one: Result, other: Result) -> bool:
    """Whether the blocks of two results alternated."""
    run_id = one.setup.get("run_id")
    return run_id is not None and run_id == other.setup.get("run_id")


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
    return _worse(base.key, _quotient(base.key, other.value, base.value))


def _quotient(key: Key, over: float, under: float) -> float:
    least = key.metric.unit.least
    return max(over, least) / max(under, least)


def _worse(key: Key, ratio: float) -> float:
    """A ratio turned so that above 1 is worse."""
    return 1 / ratio if key.metric.better == "higher" else ratio


# In turns


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


def _by_intervals_of_one_run(base: Series, other: Series) -> RatioEstimate | None:
    """Two load points of one run by the figures of their blocks in the same rounds, sizes by their intervals; None of others."""
    ratio = _ratio(base, other)
    if base.has_load_blocks and other.has_load_blocks:
        old, new = base.by_round, other.by_round
        ratios = {it: _quotient(base.key, new[it], old[it]) for it in old.keys() & new.keys()}
        half = paired_reach(ratios, base.case.first_rounds)
        return None if half is None else RatioEstimate(base.value, other.value, ratio, ratio / half, ratio * half, True)
    if base.key.metric.unit is SIZE and base.ci95 is not None and other.ci95 is not None:
        found = quotient(other.value, base.value, other.ci95, base.ci95)
        return RatioEstimate(base.value, other.value, found.ratio, *(found.ci95 or (None, None)))
    return None


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


# At different times


def _apart(base: Series, other: Series, spread: Spread | None) -> RatioEstimate:
    """Two that were measured at different times, or each in its own way."""
    ratio = _ratio(base, other)
    if base.key.metric.unit is SIZE:
        return RatioEstimate(base.value, other.value, ratio, ratio, ratio, exact=True)
    reaches = [(spread.reach, spread.reach)] if spread is not None else _reaches(base, other)
    if reaches is None:
        return RatioEstimate(base.value, other.value, ratio, None, None)
    down, up = (math.exp(math.hypot(*ends)) for ends in zip(*reaches, strict=True))
    return RatioEstimate(base.value, other.value, ratio, ratio / down, ratio * up)


def _reaches(base: Series, other: Series) -> list[tuple[float, float]] | None:
    """How far below and above the ratio reaches for each reason, as logarithms; None where something is not known."""
    found = [(math.log1p(BETWEEN_RUNS),) * 2]
    for series in (base, other):
        if parts := series.parts:
            least = series.key._replace(figure=series.rests_on).metric.unit.least
            half = t_quantile(len(parts) - 1) * stdev(math.log(max(it, least)) for it in parts)
            found.append((half, half))
        elif series.blocks or series.ci95 is None or series.ci95[0] <= 0 or _method(base) != _method(other):
            return None
        else:
            # Above is worse, and the base is what is divided by.
            ends = reach(series.value, series.ci95)
            turned = (series.key.metric.better == "higher") != (series is base)
            found.append(ends[::-1] if turned else ends)
        found.append((math.log(series.slowed),) * 2)
    return found


def _method(series: Series) -> str | None:
    """In which of several ways a figure was measured, as far as its case says so under the name of its group."""
    how: str | None = series.case.own.get(series.key.metric.group.title, {}).get("how")
    return how
