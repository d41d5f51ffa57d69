"""Results side by side: by how much they differ, and in a word whether that is real. Pure.

Two results of one run have rounds in common and are compared pair by pair. Results of different runs are not: machines
drift by more from run to run than a run's own interval says, so their ratio is given with the noise that each run saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ortbench.analysis.enough import PARTS, lack
from ortbench.analysis.pairs import block_medians, blocks, shared, timed_phase
from ortbench.analysis.sequential import median_ratio
from ortbench.modes import ALL_MODES, COSTS, PHASE_NAMES, STEP, WHOLE_CHAIN, WHOLE_LOOP, stage_phase
from ortbench.result import Case, Result

FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot tell"
LESS, MORE = "less", "more"  # of what a run costs besides its time


def _by_numpy(function: str, *more: float) -> Callable[[Sequence[int]], float]:
    """One of NumPy's functions, which is loaded when it is wanted: who only needs a `Spread` has better to do."""

    def statistic(samples: Sequence[int]) -> float:
        import numpy as np

        return float(getattr(np, function)(samples, *more))

    return statistic


STATISTICS = {
    "median": _by_numpy("median"),
    "mean": _by_numpy("mean"),
    "min": _by_numpy("min"),
    "max": _by_numpy("max"),
    "p90": _by_numpy("quantile", 0.9),
    "p95": _by_numpy("quantile", 0.95),
    "p99": _by_numpy("quantile", 0.99),
}

BETWEEN_RUNS = 0.02  # what two runs differ by that neither can see; measured: reports/gate
_ALPHA = 0.025  # for each end of the 95 % interval of paired blocks


@dataclass(frozen=True)
class Spread:
    """Two figures, their ratio `value_ns` / `base_ns`, and where it may lie: None where that is not known.

    `paired` says whether it rests on pairs of blocks of one run.
    """

    base_ns: float
    value_ns: float
    ratio: float
    low: float | None
    high: float | None
    paired: bool


def stored_ratio(base: Case, case: Case, phase: str, stat: str = "median") -> Spread | None:
    """A case against the same case of an earlier run, with the noise that both runs saw.

    Each run is cut into `PARTS` of consecutive blocks. A short run could have landed where any of them did, so the ratio lies between the least part of one run over the greatest of the other, and the reverse; and runs differ by
    up to `BETWEEN_RUNS` more, which no run sees in itself.

    Returns:
        None if one of them has no such phase; no interval if one has fewer blocks than parts.
    """
    sides = []
    for it in (base, case):
        taken = blocks(it, phase)
        samples = [sample for _, block in taken for sample in block]
        if not samples:
            return None
        sides.append((STATISTICS[stat](samples), _segments(taken, stat)))
    (base_ns, base_parts), (value_ns, parts) = sides
    ratio = max(value_ns, 1) / max(base_ns, 1)
    if not base_parts or not parts:
        return Spread(base_ns, value_ns, ratio, None, None, paired=False)
    low = max(min(parts), 1) / max(1, *base_parts) / (1 + BETWEEN_RUNS)
    high = max(1, *parts) / max(min(base_parts), 1) * (1 + BETWEEN_RUNS)
    # A percentile of a whole run can lie beyond that of each of its parts.
    return Spread(base_ns, value_ns, ratio, min(low, ratio), max(high, ratio), paired=False)


def _segments(taken: Sequence[tuple[int, list[int]]], stat: str) -> list[float]:
    """The statistic of consecutive parts of a run; none if it has too few blocks."""
    if len(taken) < PARTS:
        return []
    bounds = [round(len(taken) * number / PARTS) for number in range(PARTS + 1)]
    parts = [[x for _, block in taken[a:b] for x in block] for a, b in pairwise(bounds)]
    return [STATISTICS[stat](part) for part in parts]


def ratio(one: Result, other: Result, mode: str, phase: str) -> Spread | None:
    """The medians of a phase of two results, and their ratio: by pairs where both are of one run."""
    base, case = one.case(mode), other.case(mode)
    if base is None or case is None or base.median(phase) is None or case.median(phase) is None:
        return None
    run_id = one.setup.get("run_id")
    if run_id is None or run_id != other.setup.get("run_id"):
        return stored_ratio(base, case, phase)
    b, a = shared(block_medians(base, phase), block_medians(case, phase))
    if not a:
        return None
    found = median_ratio([max(x, 1) / max(y, 1) for x, y in zip(a, b, strict=True)], _ALPHA)
    base_ns, value_ns = base.median(phase), case.median(phase)
    assert base_ns is not None
    assert value_ns is not None
    return Spread(base_ns, value_ns, found.ratio, found.low, found.high, paired=True)


def word(found: Spread, same: float, of_cost: bool = False) -> str:
    """Whether a difference is real: `SAME` within ± `same` for certain, else `FASTER` or `SLOWER` (of a cost `LESS` or `MORE`)
    for certain."""
    below, above = (LESS, MORE) if of_cost else (FASTER, SLOWER)
    if found.low is None or found.high is None:
        return CANNOT_TELL
    if 1 / (1 + same) <= found.low and found.high <= 1 + same:
        return SAME
    if found.low > 1:
        return above
    return below if found.high < 1 else CANNOT_TELL


@dataclass(frozen=True)
class Row:
    """One mode and phase of all results: the medians in ns (None where one has none), and each one's change.

    `since_first` and `since_last` hold a `Spread` against the first and the previous result, None for the first one and
    where there is nothing to compare.
    """

    mode: str
    phase: str
    medians_ns: tuple[int | None, ...]
    since_first: tuple[Spread | None, ...]
    since_last: tuple[Spread | None, ...]


@dataclass(frozen=True)
class Selection:
    """Which modes and phases to compare; empty for all that there are."""

    modes: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()


EVERYTHING = Selection()


def parts(results: Sequence[Result]) -> tuple[str, ...]:
    """Of loops the whole one and its steps, of chains the whole one and every stage; of others, or of several kinds, nothing."""
    if all(result.loop is not None for result in results):
        return WHOLE_LOOP, STEP
    names = [[stage["name"] for stage in result.chain["stages"]] for result in results if result.chain is not None]
    every = dict.fromkeys(name for stages in names for name in stages)
    return (WHOLE_CHAIN, *map(stage_phase, every)) if len(names) == len(results) else ()


def rows(results: Sequence[Result], only: Selection = EVERYTHING) -> list[Row]:
    """All modes and phases that at least one result has, in their usual order; of loops and chains see `parts`.

    Args:
        results: at least two.
        only: these.
    """
    usual = parts(results) or PHASE_NAMES
    return _rows(results, only, [phase for phase in only.phases or usual if phase not in COSTS])


def cost_rows(results: Sequence[Result], only: Selection = EVERYTHING) -> list[Row]:
    """The same of what the host takes of runs besides their time."""
    return _rows(results, only, [phase for phase in only.phases or COSTS if phase in COSTS])


def _rows(results: Sequence[Result], only: Selection, phases: Sequence[str]) -> list[Row]:
    found = []
    for mode in only.modes or ALL_MODES:
        for phase in phases:
            medians = tuple(case.median(phase) if (case := result.case(mode)) else None for result in results)
            said_by_total = timed_phase(mode, phase) != phase and not only.phases
            if all(median is None for median in medians) or said_by_total:
                continue
            first = [None, *(ratio(results[0], result, mode, phase) for result in results[1:])]
            last = [None, *(ratio(a, b, mode, phase) for a, b in pairwise(results))]
            found.append(Row(mode, phase, medians, tuple(first), tuple(last)))
    return found


def lacks(results: Sequence[Result], names: Sequence[str], found: Sequence[Row]) -> list[str]:
    """What results have too few blocks of for an interval, in a sentence for each, and what gives them.

    Args:
        results: that were compared.
        names: of them.
        found: by `rows`.
    """
    fewest: dict[int, int] = {}
    for row in found:
        for number, (first, last) in enumerate(zip(row.since_first, row.since_last, strict=True)):
            for base, spread in ((0, first), (number - 1, last)):
                if spread is None or spread.low is not None:
                    continue
                for side in (base, number):
                    case = results[side].case(row.mode)
                    count = len(blocks(case, row.phase)) if case else 0
                    fewest[side] = min(count, fewest.get(side, count))
    runs = [result.setup.get("run_id") or number for number, result in enumerate(results)]
    sentences = (
        lack(names[side], results[side], count, runs.count(runs[side])) for side, count in sorted(fewest.items())
    )
    return [sentence for sentence in sentences if sentence is not None]
