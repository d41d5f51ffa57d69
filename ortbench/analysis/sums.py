"""Parts that do not add up to the whole: the remainder as a part of its own, and why. Pure."""

from __future__ import annotations

from statistics import median

from ortbench.core.stats import Stats, median_interval
from ortbench.model.modes import LATENCY, STAGE, STEP, is_rate, mode_of
from ortbench.model.result import Case

REMAINDER = "remainder"
_TITLES = {"h2d": "H2D", "inference": "inference", "d2h": "D2H"}


def put_remainder(case: Case, parts: int) -> None:
    """Put into a case what of its latency is in none of its parts: of loops and chains of so many parts measured, one by one, else
    by the medians of phases, which are timed in blocks of their own."""
    if (left := _between(case, parts)) is not None:
        case.put(
            REMAINDER, median(left), median_interval(left, [size for _, size, _ in case.blocks[LATENCY]]), derived=True
        )
    elif (phases := _phases(case)) and (latency := case.median(LATENCY)) is not None:
        case.put(REMAINDER, latency - sum(it.median for it in phases.values()), derived=True)


_APART = 0.1  # of the latency: a sum that is farther from it says nothing of what it consists of


def adds_up(case: Case) -> bool:
    """Whether phases, which are timed by themselves, each with a synchronization, add up to the latency about as it is."""
    if not _phases(case):
        return True
    latency = case.median(LATENCY) or 0
    return abs(sum(case.median(name) or 0 for name in _TITLES) - latency) <= _APART * latency


def _between(case: Case, parts: int) -> list[int] | None:
    """Of each loop or chain what is in none of its parts, ns; None where they were not timed."""
    whole = case.samples.get(LATENCY, [])
    taken = case.samples.get(STEP) or case.samples.get(STAGE)
    if not taken or not whole or len(taken) != len(whole) * parts:
        return None
    return [round(ns - sum(taken[at * parts : (at + 1) * parts])) for at, ns in enumerate(whole)]


def _phases(case: Case) -> dict[str, Stats]:
    """The phases that a latency consists of, where they are timed by themselves; none where one was not."""
    if not mode_of(case.mode).times_copies or is_rate(case.mode, LATENCY):
        return {}
    found = {name: case.stats(name) for name in _TITLES if not case.copies_nothing(name)}
    return {name: it for name, it in found.items() if it is not None} if None not in found.values() else {}
