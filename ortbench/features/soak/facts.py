"""The facts of soaks: whether memory, handles and threads grow. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.advice import Weight, again
from ortbench.facts import Fact, Quantity, Values, bytes_of
from ortbench.facts.sentences import Sentence
from ortbench.features.soak.analysis import GROWS, STEADY, UNCLEAR, Trend, trends_of
from ortbench.features.soak.model import Soak
from ortbench.model.result import Result

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight
_TIMES_LONGER = 4  # times as long as a soak that cannot tell


def kind_facts(result: Result) -> Iterator[Fact]:
    """A fact for memory, and for what is counted where it grows."""
    soak: Soak = result.part
    for trend in trends_of(soak):
        if not trend.is_memory and trend.verdict != GROWS:
            continue
        unit = "B" if trend.is_memory else "1"
        (_, first), (count, last) = trend.points[0], trend.points[-1]
        values: Values = {
            "what": trend.title, "start": Quantity(first, unit), "end": Quantity(last, unit), "inferences": f"{count:,.0f}",
        }  # fmt: skip
        if (found := trend.growth) is not None:
            values |= {
                "each": Quantity(found.slope, unit, found.ci95), "least": Quantity(found.ci95[1], unit), "until": f"{found.until:,}",
            }  # fmt: skip
        verdict = "open" if trend.growth is None or trend.verdict == UNCLEAR else trend.verdict
        yield Fact("growth", verdict, result.cases[0].mode, values, _next(result, trend))


def _next(result: Result, trend: Trend) -> str:
    """Soak longer, or try smaller arenas where shapes make them grow."""
    stopped = result.stopped
    if trend.verdict == UNCLEAR and stopped is not None and stopped["reason"] in ("iterations", "duration"):
        return again(result, f"--{stopped['reason']}", f"{_TIMES_LONGER * stopped['value']:g}")
    if trend.verdict not in (GROWS, STEADY) or not trend.is_memory or not result.part["shapes"]:
        return ""
    return "" if any("--try" in word for word in result.command) else again(result, "--try", "arena")


def several_facts(result: Result, name: str) -> list[Fact]:
    """What a soak beside others ends with."""
    found = []
    mode = next((case.mode for case in result.cases), "")
    for trend in trends_of(result.part):
        if trend.is_memory and trend.growth is not None and trend.verdict == GROWS:
            each = Quantity(trend.growth.slope, "B", trend.growth.ci95)
            values: Values = {
                "configuration": name,
                "what": trend.title,
                "end": bytes_of(trend.points[-1][1]),
                "each": each,
            }
            found.append(Fact("ends-with", "grows", mode, values))
    return found


# fmt: off
SENTENCES = {
    ("growth", "open"): Sentence("Cannot tell yet whether {what} grows ({start} to {end}).", "soak longer", _ANSWER, "unclear", "soak"),
    ("check-growth", "known"): Sentence("{what}: {growth}, must be at most {most} per 1,000.", "soak longer, or mend the leak", _ANSWER, "", "soak"),
    ("check-growth", "open"): Sentence("{what}: {growth}, must be at most {most} per 1,000; a longer --duration tells more.", "soak longer", _ANSWER, "unclear", "soak"),
    ("growth", "none"): Sentence("No growth of {what} found: it is less than {least} per 1,000 inferences.", "nothing", _ANSWER, "good", "soak"),
    ("growth", "steady"): Sentence("Steady: {what} grew from {start} to {end} in the first {until} inferences and not since.", "nothing", _ANSWER, "good", "soak"),
    ("growth", "grows"): Sentence("Growth: {what} grows by {each:ci} per 1,000 inferences, from {start} to {end}.", "try smaller arenas: --try arena; report a leak to the EP's authors", _ANSWER, "bad", "soak", figure=("Growth per 1,000", "each")),
    ("ends-with", "grows"): Sentence("{configuration} ends with {end} of {what} and grows by {each:ci} per 1,000 inferences.", "try smaller arenas: --try arena", _ANSWER, "bad", "soak"),
}
