"""The knee of a mode: how many clients are worth it, where intervals and the machine leave no doubt. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.comparing.claims import FASTER, Claim, claim_between
from ortbench.analysis.comparing.verdict import ABOVE, at_most, quotient, verdict_of
from ortbench.analysis.noise import is_busy
from ortbench.analysis.point_blocks import interval, rate_of
from ortbench.core.stats import Value
from ortbench.features.load.analysis.points import (
    CONCURRENCY,
    load_cases,
    load_point_of,
    measured_cases,
    throughput_ratio,
)
from ortbench.features.load.model import Knee
from ortbench.model.modes import THROUGHPUT
from ortbench.model.result import Case, Result

WORTH = 0.05  # by what share a load point must bring more inf/s than those below it to be worth its clients


def bend_of(cases: Sequence[Case]) -> Case | None:
    """The last closed load point of a mode, fewest clients first, that is `WORTH` it, as measured; None for one."""
    if len(cases) < 2:
        return None
    bend, most = cases[0], rate_of(cases[0])
    for case in cases[1:]:
        if rate_of(case) >= most * (1 + WORTH):
            bend = case
        most = max(most, rate_of(case))
    return bend


def share_of_peak(cases: Sequence[Case], bend: Case) -> float:
    most = max(map(rate_of, cases))
    return rate_of(bend) / most if most else 1.0


def is_open(result: Result, cases: Sequence[Case], bend: Case) -> bool:
    """Whether noise of the machine may have made a bend, or by the intervals one with fewer clients may bring as much, or one with
    more `WORTH` them."""
    before = cases.index(bend) - 1
    fewer = [throughput_ratio(bend, it).ci95 for it in cases[: before + 1]]
    more = [throughput_ratio(it, bend).ci95 for it in cases[before + 2 :]]
    if any(verdict_of(it, 1.0) != ABOVE for it in fewer) or any(at_most(it, 1 + WORTH) is None for it in more):
        return True
    if before < 0 or not is_busy(result):
        return False
    return claim_over(result, cases[before], bend) != FASTER


def times_over(base: Case, case: Case) -> Value:
    """How many times as many inferences a load point completes as another."""
    found = quotient(rate_of(case), rate_of(base), interval(case, THROUGHPUT), interval(base, THROUGHPUT))
    return Value(found.ratio, found.ci95)


def claim_over(result: Result, base: Case, case: Case) -> Claim:
    """Whether a load point completes more than another."""
    return claim_between(result, base, case, times_over(base, case))


def knee_of(result: Result, mode: str) -> Knee | None:
    """The knee of a mode; None where there is none, or none can be told."""
    cases = measured_cases(result, CONCURRENCY, mode)
    bend = bend_of(cases)
    if bend is None or is_open(result, cases, bend):
        return None
    return {"concurrency": int(load_point_of(bend).value), "share_of_peak": share_of_peak(cases, bend)}


def knees(result: Result) -> dict[str, Knee | None]:
    """The knee of each mode that has load points of closed loops, as a result has it."""
    modes = dict.fromkeys(case.mode for case in load_cases(result) if CONCURRENCY in case.point)
    return {mode: knee_of(result, mode) for mode in modes}
