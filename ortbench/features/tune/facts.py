"""The facts of a search for the best settings: what there was no time for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.advice import Weight
from ortbench.facts.common import Fact
from ortbench.facts.sentences import Sentence

_COST, _ANSWER = Weight.COST, Weight.ANSWER


def search_facts(
    untried: Sequence[str], *, is_compared: bool, has_memory: bool, one_process: str, next_: str
) -> list[Fact]:
    """What a search did not come to, the last with the command that has time for it.

    Args:
        untried: configurations.
        is_compared: whether a configuration was measured beside the first one.
        has_memory: whether memory was measured.
        one_process: the option that left no time for several processes; empty where there were several.
    """
    found = []
    if untried:
        verdict = "untried" if is_compared else "no-conclusion"
        found.append(Fact("search", verdict, "", {"configurations": list(untried)}))
    if not has_memory:
        found.append(Fact("search", "no-memory"))
    if one_process:
        found.append(Fact("search", "one-process", "", {"option": one_process}))
    return [*found[:-1], *(it._replace(next=next_) for it in found[-1:])]


# fmt: off
SENTENCES = {
    ("search", "untried"): Sentence("Time was up (--max-time) before these were tried: {configurations}.", "give more time: --max-time", _COST, "unclear", "tune"),
    ("search", "no-conclusion"): Sentence("No conclusion: time was up (--max-time) before another configuration than the first was compared: {configurations}.", "give more time: --max-time", _ANSWER, "unclear", "tune"),
    ("search", "no-memory"): Sentence("Time was up (--max-time) before memory was measured.", "give more time: --max-time", _COST, "unclear", "tune"),
    ("search", "one-process"): Sentence("All figures are of one process: {option} leaves no time for several, whose figures can differ by more than the intervals.", "give more time with that option", _COST, "unclear", "tune"),
}
