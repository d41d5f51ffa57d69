"""The one function that says what an interval says: all kinds of results, checks and facts ask it; and that of a quotient. Pure."""

from __future__ import annotations

import math
from typing import Literal

from ortbench.core.stats import Ratio

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
