"""The fact that a gate ends with. Pure."""

from __future__ import annotations

from ortbench.facts.fact import Fact


def gate_fact(verdict: str, *, is_broken: bool, is_lacking: bool, not_confirmed: str, is_stored: bool) -> Fact:
    """What a gate came to.

    Args:
        verdict: of all checks: ``passed``, ``failed`` or ``cannot tell``.
        is_broken: whether something could not be measured.
        is_lacking: whether no check that cannot be told has an interval.
        not_confirmed: why a regression could not be measured once more.
        is_stored: whether its result is of an earlier run and a live gate could tell more.
    """
    if is_broken:
        return Fact("gate", "broken")
    if verdict != "cannot tell":
        return Fact("gate", verdict)
    if not_confirmed:
        return Fact("gate", "not-confirmed", "", {"why": not_confirmed})
    return Fact("gate", "lacking" if is_lacking else "noisy-stored" if is_stored else "noisy")
