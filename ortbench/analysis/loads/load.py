"""What load points come to: where more callers stop to bring more, and which rates keep what is asked of latency. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.loads.levels import CONCURRENCY, RATE, At, at, is_measured, load_cases, measured, rate_of
from ortbench.model.result import Case, Result
from ortbench.model.schema import Knee, LoadSetup, SloRate

WORTH = 0.05  # by what share a level must bring more runs/s than those below it to be worth its callers


def knee_of(cases: Sequence[Case]) -> Knee | None:
    """The last load point that brings at least 5 % more runs/s than those below it, and its share of the most.

    Args:
        cases: of one mode, of closed loops, measured, the fewest callers first.

    Returns:
        None with fewer than two.
    """
    if len(cases) < 2:
        return None
    knee, most = cases[0], rate_of(cases[0])
    for case in cases[1:]:
        if rate_of(case) >= most * (1 + WORTH):
            knee = case
        most = max(most, rate_of(case))
    return {"concurrency": int(at(knee).value), "share_of_peak": rate_of(knee) / most if most else 1.0}


def knees(result: Result) -> dict[str, Knee | None]:
    """The knee of each mode that has load points of closed loops, as a result has it; see `knee_of`."""
    modes = dict.fromkeys(case.mode for case in load_cases(result) if CONCURRENCY in case.point)
    return {mode: knee_of(measured(result, CONCURRENCY, mode)) for mode in modes}


def most(cases: Sequence[Case]) -> Case | None:
    """The load point with most runs/s; None without any."""
    return max(cases, key=rate_of, default=None)


def best_level(result: Result) -> Case | None:
    """The load point of closed loops with most runs/s, of any mode."""
    return most(measured(result, CONCURRENCY))


def asked_of(result: Result) -> dict[str, int] | None:
    """The SLO of a load: the most that each statistic of the latency may be, ns; None without one."""
    if result.slo is not None:
        return result.slo["asked"]
    setup: LoadSetup = result.part
    return setup["slo"]


def kept(result: Result) -> dict[str, SloRate]:
    """The highest rate that keeps the SLO, by mode, of those for which one was looked for and found."""
    found = {} if result.slo is None else result.slo["found"]
    return {mode: rate for mode, rate in found.items() if rate is not None}


def failed(result: Result) -> list[Case]:
    """The load points that failed, or that were not measured."""
    return [case for case in load_cases(result) if not is_measured(case)]


def has_rates(result: Result) -> bool:
    """Whether a load has open loops."""
    return any(RATE in case.point for case in load_cases(result))


def level_at(result: Result, mode: str, place: At) -> Case | None:
    """The case of a mode at a load point that was measured; None without."""
    found = result.case(mode, {place.kind: place.value})
    return found if found is not None and is_measured(found) else None


def places(result: Result) -> list[tuple[str, At]]:
    """The modes and load points of all that was measured, closed loops before open ones."""
    return [(case.mode, at(case)) for kind in (CONCURRENCY, RATE) for case in measured(result, kind)]
