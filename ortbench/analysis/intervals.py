"""Blocks of the same round, the interval of their ratio, and what an interval says: of all blocks, or of pairs as they arrive. Pure.

What a default run measures at least follows from that (`ortbench.measure.schedule`), so that its result can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple

from ortbench.core.stats import Blocks, Ratio, Value, of_processes
from ortbench.core.stats import ratio_of as ratio_of_blocks
from ortbench.model.modes import COSTS, LATENCY, STAGE, mode_of, stage_in

if TYPE_CHECKING:
    from ortbench.model.result import Case, Result


_FEW = 3  # samples of each side that tell what is far apart


def by_round(case: Case, phase: str) -> Blocks:
    """The samples of every block of a phase, ns, by its round; of blocks whose samples are not kept the median."""
    if (kept := (case.block_medians or {}).get(phase)) is not None:
        return {number: [ns] for (number, *_), ns in zip(case.blocks[phase], kept, strict=True)}
    return dict(blocks(case, phase))


def by_process(case: Case, phase: str) -> list[list[float]]:
    """The samples of a phase, ns, of each process that it was measured in; empty of one."""
    taken = by_round(case, phase) if case.first_rounds else {}
    return [[ns for number in own for ns in taken[number]] for own in of_processes(taken, case.first_rounds)]


def are_apart(short: Sequence[float], long: Sequence[float], times: float) -> bool:
    """Whether each of some samples is so many times as long as any of others, or more: few of them tell that, which need no rounds."""
    return min(len(short), len(long)) >= _FEW and times * max(short) <= min(long)


def ratio_of_medians(over: tuple[Case, str], under: tuple[Case, str]) -> Ratio | None:
    """How many times as great the median of a phase of a case is as another, as both are printed; None without a common round.

    The interval is by the rounds that both have, or by the processes (`ortbench.core.stats`). Where one of them went on in
    processes without the other, it reaches as far around either ratio: of the rounds that both have, and of the medians as printed.
    """
    these, those = by_round(*over), by_round(*under)
    one, other = (case.median(phase) for case, phase in (over, under))
    if one is None or other is None or these.keys().isdisjoint(those):
        return None
    shared = ratio_of_blocks(these, those, processes=over[0].first_rounds)
    printed = shared.scaled_to(max(one, 1) / max(other, 1))
    if these.keys() == those.keys() or shared.ci95 is None or printed.ci95 is None:
        return printed
    return printed._replace(ci95=(min(shared.ci95[0], printed.ci95[0]), max(shared.ci95[1], printed.ci95[1])))


def blocks(case: Case, phase: str) -> list[tuple[int, list[int | float]]]:
    """The round and the samples (ns) of every block of a phase, in the order they were taken; ``stage.NAME`` is one too."""
    stage = stage_in(phase)
    if stage is not None:
        names = list(case.stages)
        if stage not in names:
            return []
        every = slice(names.index(stage), None, len(names))
        return [(number, samples[every]) for number, samples in blocks(case, STAGE)]
    return [(number, samples) for number, _, samples in taken_blocks(case, timed_phase(case.mode, phase, case.whole))]


def taken_blocks(case: Case, phase: str) -> Iterator[tuple[int, int, list[int | float]]]:
    """The round of each block of a phase, when it began (ns), and its samples."""
    at = 0
    for number, size, start_ns in case.blocks.get(phase, []):
        yield number, start_ns, case.samples[phase][at : at + size]
        at += size


def block_spans(case: Case, phase: str) -> Iterator[tuple[int, int, float]]:
    """The round of each block of a phase, when it began and when its last sample ended, ns."""
    for number, start_ns, samples in taken_blocks(case, phase):
        yield number, start_ns, start_ns + sum(samples) * case.inferences(phase)


def timed_phase(mode: str, phase: str, whole: str = LATENCY) -> str:
    """Under which phase samples were taken: what is all there is to a mode, a loop or a chain is timed as its latency."""
    if whole != LATENCY:
        return LATENCY if phase == whole else phase
    return mode_of(mode).timed_as(phase)


def ratio_of(base: Case, case: Case) -> Value | None:
    """How many times as fast as `base` a case is, by their medians; None without a common round."""
    found = ratio_of_medians((base, LATENCY), (case, LATENCY))
    if found is None:
        return None
    return Value(
        round(found.ratio, 4), None if found.ci95 is None else (round(found.ci95[0], 4), round(found.ci95[1], 4))
    )


ENDED_BY_TIME = ("duration", "agreement", "processes")  # a measurement that --duration makes longer
PARTS = 8  # of consecutive blocks into which each of two runs is cut: their spread is its noise
PAIRS = 9  # of blocks of one run, which decide a gate's limit where all of them say the same
ROUNDS = max(PARTS, PAIRS)  # that a run has at least, unless it was told to measure less


def duration_s(result: Result, rounds: int, together: int) -> int:
    """What `--duration` so many rounds take, whole seconds: by the time that those took which there are, and a quarter more."""
    begun: list[int] = []
    ended: list[float] = []
    counts = [0]
    lanes = 0
    for case in result.cases:
        lanes += bool(case.blocks)
        for phase, taken in case.blocks.items():
            if phase in COSTS:  # taken in blocks of another
                continue
            counts.append(len(taken))
            for _, start_ns, end_ns in block_spans(case, phase):
                begun.append(start_ns)
                ended.append(end_ns)
    if not begun:
        return 1
    round_s = (max(ended) - min(begun)) / 1e9 / lanes / together / max(counts)
    return max(1, math.ceil(round_s * rounds * 1.25))


Verdict = Literal["above", "below", "same", "open"]
ABOVE: Verdict = "above"
BELOW: Verdict = "below"
SAME: Verdict = "same"
OPEN: Verdict = "open"

MARGIN = 0.02  # up to which a difference is none, as in tables unless --equivalence-margin says otherwise
Ends = tuple[float | None, float | None]
Interval = tuple[float, float]


def verdict_of(ends: Ends | None, most: float = 1 + MARGIN, least: float | None = None) -> Verdict:
    """Where a figure is for certain, that lies between two ends: above the `most` that counts as the same, below the `least`, by default as
    far from 1, or between both; open where the ends do not exclude the alternative, as without an end."""
    least = 1 / most if least is None else least
    low, high = ends or (None, None)
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if low > most:
        return ABOVE
    if high < least:
        return BELOW
    return SAME if least <= low and high <= most else OPEN


def quotient(value: float, base: float, value_in: Interval | None, base_in: Interval | None) -> Ratio:
    """`value` / `base` of two that were measured apart, and where it lies with 95 %; no interval where one of them has none.

    By the method of variance estimates recovery on logarithms (Zou and Donner, Statistics in Medicine 27 (2008) 1693), which
    needs no more of each than its own interval.
    """
    ratio = max(value, 1e-9) / max(base, 1e-9)
    if value_in is None or base_in is None:
        return Ratio(ratio, None)
    up, down = reach(value, value_in), reach(base, base_in)
    return Ratio(ratio, (ratio * math.exp(-math.hypot(up[0], down[1])), ratio * math.exp(math.hypot(up[1], down[0]))))


def reach(value: float, inside: Interval) -> tuple[float, float]:
    """How far an interval reaches below and above its figure, as logarithms."""
    below, above = (math.log(max(end, 1e-9) / max(value, 1e-9)) for end in inside)
    return max(-below, 0.0), max(above, 0.0)


def at_most(ends: Ends | None, limit: float) -> bool | None:
    """Whether a figure is at most a limit for certain, or above it; None where that is open."""
    return {ABOVE: False, SAME: True}.get(verdict_of(ends, limit, -math.inf))


def upper_rate(events: int, count: int, confidence: float) -> float:
    """The upper end of Clopper and Pearson's one-sided interval of a rate (Biometrika 26 (1934) 404); 1 where nothing was tried."""
    from scipy import special  # few commands need it

    return 1.0 if events >= count else float(special.betaincinv(events + 1, count - events, confidence))


# A verdict from pairs that arrive one by one
#
# Two contenders alternate: each round gives a block of both, in random order, and so one ratio. Whether it lies above
# or below a number is all that is used: the sign test, which asks nothing of the noise. Bursts of load, outliers,
# two clusters of times change neither its error rate nor the meaning of what it tests, the median ratio; a fair order
# makes both signs equally likely for equal contenders, whatever the machine did before.
#
# A test that is repeated after every round must pay for it. Here it is a wager against the hypothesis "at most half of the
# ratios lie above": the likelihood ratio of the signs, averaged over all chances p from 1/2 to 1 that they might have
# instead, is a supermartingale under it, and by Ville's inequality (Étude critique de la notion de collectif, 1939) it
# ever exceeds 1/alpha with probability at most alpha. Averaging over alternatives is Robbins' method of mixtures (Annals
# of Mathematical Statistics 41 (1970) 1397); its use for quantiles, as an interval that holds at all times at once, is
# Howard and Ramdas', Bernoulli 28 (2022) 1704.


class MedianRatio(NamedTuple):
    """The median ratio and where it lies: `low` and `high` are None while there are too few rounds to say."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int


def median_ratio(ratios: Sequence[float], alpha: float) -> MedianRatio:
    """The median of paired ratios with an interval that may be looked at after every round.

    Args:
        ratios: one of each round, above zero, n >= 1, in any order. The median of an even number of them lies halfway in
            logarithms, so that the inverse ratios have the inverse median.
        alpha: the chance, for each end on its own, that this end is ever on the wrong side of the true median.

    Raises:
        ValueError: no ratios.
    """
    if not ratios:
        raise ValueError("a median ratio needs at least one round")
    ordered = sorted(ratios)
    n = len(ordered)
    middle = ordered[n // 2] if n % 2 else math.sqrt(ordered[n // 2 - 1] * ordered[n // 2])
    against = most_against(n, alpha)
    if against is None:
        return MedianRatio(middle, None, None, n)
    return MedianRatio(middle, ordered[against], ordered[n - 1 - against], n)


@lru_cache
def fewest(alpha: float) -> int:
    """How many rounds give an interval, at least: those that prove something at level alpha where all signs are the same."""
    return next(n for n in count(1) if most_against(n, alpha) is not None)


_MOST_EXACT = 200  # throws; the normal approximation of more is within 0.01 %


@lru_cache(maxsize=100_000)
def most_against(n: int, alpha: float) -> int | None:
    """How many of n signs may be against a direction that is still proved at level alpha; None: n is too few."""
    if log_wager(n, 0) < math.log(1 / alpha):
        return None
    low, high = 0, n // 2  # proved at low, not at high: half of the signs prove nothing
    while high - low > 1:
        middle = (low + high) // 2
        if log_wager(n - middle, middle) >= math.log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def log_wager(above: int, below: int) -> float:
    """The logarithm of what one unit has become that was wagered on signs being above more often than below; `above` >=
    `below`.

    It is the integral of p^above (1 - p)^below over p from 1/2 to 1, times 2, over (1/2)^(above + below).
    """
    n = above + below
    beta = math.lgamma(above + 1) + math.lgamma(below + 1) - math.lgamma(n + 2)
    # P(p > 1/2) of a Beta(above + 1, below + 1) is the chance of at most `above` heads in n + 1 throws.
    if n > _MOST_EXACT:
        share = NormalDist().cdf((above - below) / math.sqrt(n + 1))
    else:
        share = 1 - sum(math.comb(n + 1, k) for k in range(below + 1)) / 2 ** (n + 1)
    return (n + 1) * math.log(2) + beta + math.log(share)
