"""The facts of soaks: whether memory, handles and threads grow. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.findings.program import again
from ortbench.analysis.growth import GROWS, STEADY, UNCLEAR, Grown, grown
from ortbench.facts.fact import Fact, Quantity, Values
from ortbench.model.result import Result
from ortbench.model.schema import Soak

_TIMES_LONGER = 4  # times as long as a soak that cannot tell


def soak_facts(result: Result) -> Iterator[Fact]:
    """A fact for memory, and for what is counted where it grows."""
    soak: Soak = result.part
    for it in grown(soak):
        if not it.is_memory and it.verdict != GROWS:
            continue
        unit = "B" if it.is_memory else "1"
        (_, first), (count, last) = it.points[0], it.points[-1]
        values: Values = {
            "what": it.title, "start": Quantity(first, unit), "end": Quantity(last, unit), "inferences": f"{count:,.0f}",
        }  # fmt: skip
        verdict = it.verdict
        if (found := it.growth) is not None:
            values |= {
                "each": Quantity(found.slope, unit, found.ci95), "least": Quantity(found.ci95[1], unit), "until": f"{found.until:,}",
            }  # fmt: skip
            verdict = found.why or verdict
        yield Fact(
            "growth", "few-readings" if found is None else verdict, result.cases[0].mode, values, _next(result, it)
        )


def _next(result: Result, it: Grown) -> str:
    """Soak longer, or try smaller arenas where shapes make them grow."""
    stopped = result.stopped
    if it.verdict == UNCLEAR and stopped is not None and stopped["reason"] in ("iterations", "duration"):
        return again(result, f"--{stopped['reason']}", f"{_TIMES_LONGER * stopped['value']:g}")
    if it.verdict not in (GROWS, STEADY) or not it.is_memory or not result.part["shapes"]:
        return ""
    return "" if any("--try" in word for word in result.command) else again(result, "--try", "arena")
