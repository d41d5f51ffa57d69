"""The one function that says what an interval says: all kinds of results, checks and facts ask it. Pure."""

from __future__ import annotations

import math
from typing import Literal

Verdict = Literal["above", "below", "same", "open"]
ABOVE: Verdict = "above"
BELOW: Verdict = "below"
SAME: Verdict = "same"
OPEN: Verdict = "open"

MARGIN = 0.02  # up to which a difference is none, as in tables unless --equivalence-margin says otherwise
Ends = tuple[float | None, float | None]


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


def at_most(ends: Ends | None, limit: float) -> bool | None:
    """Whether a figure is at most a limit for certain, or above it; None where that is open."""
    return {ABOVE: False, SAME: True}.get(verdict_of(ends, limit, -math.inf))
