"""What levels of load come to: where more callers stop to bring more, and which rates keep what is asked of latency. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.levels import (
    CONCURRENCY,
    RATE,
    At,
    at,
    by_statistic,
    is_measured,
    latency_of,
    measured,
    modes_of,
    rate_of,
)
from ortbench.result import Result
from ortbench.schema import Knee, Level, SloRate

WORTH = 0.05  # by what share a level must bring more runs/s than those below it to be worth its callers


def knee_of(levels: Sequence[Level]) -> Knee | None:
    """The last level that brings at least 5 % more runs/s than those below it, and its share of the most.

    Args:
        levels: of one mode, of closed loops, measured, the fewest callers first.

    Returns:
        None with fewer than two levels.
    """
    if len(levels) < 2:
        return None
    knee, most = levels[0], rate_of(levels[0])
    for level in levels[1:]:
        if rate_of(level) >= most * (1 + WORTH):
            knee = level
        most = max(most, rate_of(level))
    return {"concurrency": knee["concurrency"], "share_of_peak": rate_of(knee) / most if most else 1.0}


def knees(levels: Sequence[Level]) -> dict[str, Knee | None]:
    """The knee of each mode that has levels of closed loops, as a result has it; see `knee_of`."""
    of_callers = [level for level in levels if "concurrency" in level]
    found: dict[str, Knee | None] = {}
    for mode in dict.fromkeys(level["mode"] for level in of_callers):
        own = [level for level in of_callers if level["mode"] == mode and is_measured(level)]
        found[mode] = knee_of(sorted(own, key=lambda it: it["concurrency"]))
    return found


def most(levels: Sequence[Level]) -> Level | None:
    """The level with most runs/s; None without any."""
    return max(levels, key=rate_of, default=None)


def best_level(result: Result) -> Level | None:
    """The level of closed loops with most runs/s, of any mode."""
    return most(measured(result, CONCURRENCY))


def asked_of(result: Result) -> dict[str, int] | None:
    """The SLO of a load: the most that each statistic of the latency may be, ns; None without one."""
    if result.slo is not None:
        return result.slo["asked"]
    return None if result.load is None else result.load["slo"]


def holds(level: Level, asked: dict[str, int]) -> bool:
    """Whether the latency of a level that was measured keeps an SLO, by its figures."""
    known = by_statistic(latency_of(level))
    return all(known[stat] <= most_ns for stat, most_ns in asked.items())


def kept(result: Result) -> dict[str, SloRate]:
    """The highest rate that keeps the SLO, by mode, of those for which one was looked for and found."""
    found = {} if result.slo is None else result.slo["found"]
    return {mode: rate for mode, rate in found.items() if rate is not None}


def failed(result: Result) -> list[Level]:
    """The levels that failed, or that were not measured."""
    return [level for level in result.levels if not is_measured(level)]


def has_rates(result: Result) -> bool:
    """Whether a load has levels of open loops."""
    return any(at(level).kind == RATE for level in result.levels)


def level_at(result: Result, mode: str, place: At) -> Level | None:
    """The level of a mode at a place that was measured; None without."""
    found = (it for it in result.levels if it["mode"] == mode and at(it) == place and is_measured(it))
    return next(found, None)


def places(result: Result) -> list[tuple[str, At]]:
    """The modes and places of all levels that were measured, closed loops before open ones."""
    return [
        (mode, at(level))
        for kind in (CONCURRENCY, RATE)
        for mode in modes_of(result)
        for level in measured(result, kind, mode)
    ]
