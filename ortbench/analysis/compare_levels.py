"""Loads side by side, level by level: by how much runs/s and latencies differ, with where the ratios may lie. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ortbench.analysis.compare import BETWEEN_RUNS, Spread
from ortbench.analysis.levels import (
    CONCURRENCY,
    FEWEST_BLOCKS,
    RATE,
    RUNS_PER_S,
    At,
    block_figures,
    figure,
    interval,
    is_full,
    quotient,
)
from ortbench.analysis.load import level_at, places
from ortbench.analysis.sequential import median_ratio
from ortbench.result import Result
from ortbench.schema import Level

# What is held against each other of a level, what matters most first: where callers set the pace how much they get done, else
# how long it takes.
COMPARED = {CONCURRENCY: (RUNS_PER_S, "p50", "p99"), RATE: ("p99", "p50")}
_ALPHA = 0.025  # for each end of the 95 % interval of paired blocks


@dataclass(frozen=True)
class LevelRow:
    """A figure of a level of all results.

    Attributes:
        mode, at, stat: what it is of.
        values: runs/s or ns; None where a result has no such level.
        since_first, since_last: against the first and the previous result, as a `Spread` whose ratio is above 1 where it is
            slower, of runs/s too; None for the first one and where there is nothing to compare.
    """

    mode: str
    at: At
    stat: str
    values: tuple[float | None, ...]
    since_first: tuple[Spread | None, ...]
    since_last: tuple[Spread | None, ...]


def are_loads(results: Sequence[Result]) -> bool:
    """Whether all results are of loads."""
    return all(result.load is not None for result in results)


def level_rows(results: Sequence[Result], modes: Sequence[str] = ()) -> list[LevelRow]:
    """The figures of all levels that at least one result has, mode by mode: of more than two results what matters most of each.

    Args:
        results: at least two, of loads.
        modes: these; empty for all.
    """
    every = dict.fromkeys(place for result in results for place in places(result) if not modes or place[0] in modes)
    order = list(dict.fromkeys(mode for mode, _ in every))
    listed = sorted(every, key=lambda it: (order.index(it[0]), it[1].kind, it[1].value))
    count = None if len(results) == 2 else 1
    return [_row(results, mode, place, stat) for mode, place in listed for stat in COMPARED[place.kind][:count]]


def _row(results: Sequence[Result], mode: str, place: At, stat: str) -> LevelRow:
    levels = [level_at(result, mode, place) for result in results]
    values = tuple(None if level is None else figure(level, stat) for level in levels)
    first = [
        None,
        *(
            _between(results[0], result, levels[0], level, stat)
            for result, level in zip(results[1:], levels[1:], strict=True)
        ),
    ]
    pairs = zip(pairwise(results), pairwise(levels), strict=True)
    last = [None, *(_between(*of, *held, stat) for of, held in pairs)]
    return LevelRow(mode, place, stat, values, tuple(first), tuple(last))


def _between(one: Result, other: Result, base: Level | None, level: Level | None, stat: str) -> Spread | None:
    if base is None or level is None or is_full(base) or is_full(level):  # how long a level lasted is no figure of it
        return None
    run_id = one.setup.get("run_id")
    is_same_run = run_id is not None and run_id == other.setup.get("run_id")
    return (is_same_run and paired_spread(base, level, stat)) or level_spread(base, level, stat)


def level_spread(base: Level, level: Level, stat: str) -> Spread:
    """A level against the same level of an earlier run, with the noise that both recorded.

    Each has its interval (`ortbench.analysis.levels.interval`); runs differ by up to `BETWEEN_RUNS` more, which neither sees in
    itself. A ratio above 1 is slower: that of runs/s is the other way round.

    Returns:
        No interval where a level has none.
    """
    inside = interval(base, stat), interval(level, stat)
    values = figure(base, stat), figure(level, stat)
    if stat == RUNS_PER_S:
        found = quotient(values[0], values[1], inside[0], inside[1])
    else:
        found = quotient(values[1], values[0], inside[1], inside[0])
    if found.ci95 is None:
        return Spread(*values, found.ratio, None, None, paired=False)
    low, high = found.ci95
    return Spread(*values, found.ratio, low / (1 + BETWEEN_RUNS), high * (1 + BETWEEN_RUNS), paired=False)


def paired_spread(base: Level, level: Level, stat: str) -> Spread | None:
    """Two sides of one run, by blocks of the same rounds; None where these are too few for an interval."""
    ratios = paired_ratios(base, level, stat)
    if not ratios:
        return None
    found = median_ratio(list(ratios.values()), _ALPHA)
    if found.low is None:
        return None
    return Spread(figure(base, stat), figure(level, stat), found.ratio, found.low, found.high, paired=True)


def paired_ratios(base: Level, level: Level, stat: str) -> dict[int, float]:
    """By round the ratio of two blocks of it, above 1 where the level is slower than its base."""
    old, new = block_figures(base, stat), block_figures(level, stat)
    ratios = {number: max(new[number], 1e-9) / max(old[number], 1e-9) for number in sorted(old.keys() & new.keys())}
    return {number: 1 / it for number, it in ratios.items()} if stat == RUNS_PER_S else ratios


def untold(found: Sequence[LevelRow]) -> str | None:
    """Why ratios have no interval, in a sentence; None where all have one."""
    spreads = [spread for row in found for spread in (*row.since_first, *row.since_last) if spread is not None]
    if all(spread.low is not None for spread in spreads):
        return None
    return f"a latency has an interval where its level has at least {FEWEST_BLOCKS} blocks in both results: give a longer --duration"
