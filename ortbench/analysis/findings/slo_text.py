"""SLOs and rates in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortbench.analysis.loads.levels import are_enough, at, holds, rate_text
from ortbench.core.safe_text import listed
from ortbench.core.units import duration, rate
from ortbench.model.result import Case
from ortbench.model.schema import SloRate
from ortbench.model.slo import SAMPLES_NEEDED


def slo_text(asked: Mapping[str, int]) -> str:
    """An SLO in words: ``p99 ≤ 20 ms``."""
    return " and ".join(f"{stat} ≤ {limit_text(ns)}" for stat, ns in asked.items())


def limit_text(ns: int) -> str:
    """A duration without noughts that say nothing."""
    number, unit = duration(ns).split(" ")
    return f"{float(number):g} {unit}"


def found_text(found: SloRate | None) -> str:
    """Up to which rate an SLO is met, and where that of the next run lies."""
    if found is None:
        return "at none of the rates tried"
    low, high = map(rate, found["next95"])
    return f"up to {rate(found['rate'])} requests/s (95% prediction interval {low} to {high})"


def tries_text(found: SloRate | None, asked: Mapping[str, int]) -> str:
    """What the tries of the rate that was found say: how many met the SLO, and what all of them have together."""
    if found is None:
        return ""
    pooled = ", ".join(f"{stat} {duration(ns)}" for stat, ns in found["latency"].items() if stat in asked)
    if found["tries"] == 1:
        return f"the one try at this rate has {pooled}"
    return f"{found['met']} of {found['tries']} tries at this rate met it, all of them together have {pooled}"


def too_few(levels: Sequence[Case], asked: Mapping[str, int]) -> str:
    """At which rates there were too few requests for the statistics of an SLO."""
    if not levels:
        return ""
    needed = max(SAMPLES_NEEDED.get(stat, 1) for stat in asked)
    return f"too few requests at {rates_text(levels)} requests/s, {listed([*asked])} needs {needed}"


def keeps(level: Case, asked: Mapping[str, int]) -> bool | None:
    """Whether a load point meets an SLO; None where it has too few requests to tell."""
    check = level.checks.get("slo")
    if check is None:
        return holds(level, asked) if are_enough(level, asked) else None
    return {"passed": True, "failed": False}.get(check["verdict"])


def rates_text(levels: Sequence[Case]) -> str:
    """Rates in words: ``10, 20 and 30``."""
    return listed([rate_text(at(level).value) for level in levels])
