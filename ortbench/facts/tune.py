"""The facts of a search for the best settings: what there was no time for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.facts.fact import Fact


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
