"""What a search for settings writes down: configurations, and what a race found of each."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ortbench.core.errors import one_line
from ortbench.model.modes import CPU_TIME, LATENCY

P99 = "p99"  # of the latency under load
GOALS, LOAD_GOALS = (LATENCY, CPU_TIME), (P99, CPU_TIME)

Configuration = tuple[tuple[str, str], ...]  # setting and value of each that is not where the search began
FIRST: Configuration = ()


class Ratio(TypedDict):
    """The median of pairs of blocks of two configurations, and where it lies; None where there were too few."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int


class Tried(TypedDict):
    """What a race found of a configuration, against the first of the race."""

    settings: list[list[str]]
    ratios: dict[str, Ratio]  # by goal
    left: list[str]  # the goals for which it was not dropped
    memory: int | None  # resident set of its worker, bytes
    failed: str | None  # why it was not measured
    violates: NotRequired[bool]  # the SLO, for certain


def configuration(tried: Tried) -> Configuration:
    return tuple((name, value) for name, value in tried["settings"])


def failed_try(of: Configuration, why: BaseException | str) -> Tried:
    """What a race has of a configuration that could not be measured."""
    return Tried(settings=[list(it) for it in of], ratios={}, left=[], memory=None, failed=one_line(why))
