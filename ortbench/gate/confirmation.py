"""A regression is one when other processes show it too. Pure.

Where the system puts a process and its memory can make it slower for as long as it lives, on a busy machine by half and
more, and every block of it says so: no number of rounds tells that from a regression. So a gate that would fail is held
once more with fresh workers, which are put elsewhere, and fails if they come to the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ortbench.core import units
from ortbench.gate.limits import FAILED, UNCLEAR, Check


def confirmed(
    checks: Sequence[Check], regressions: Collection[str], again: Sequence[Check], why_not: str | None = None
) -> list[Check]:
    """The checks of a gate after it was held once more, or `why_not`: a regression that did not show again cannot be
    told.

    `regressions` has the names of the first checks that found one.
    """
    others = {check.name: check for check in again}
    return [
        _confirmed(check, others.get(check.name), why_not) if check.name in regressions else check for check in checks
    ]


def _confirmed(check: Check, again: Check | None, why_not: str | None) -> Check:
    if again is None or (again.ratio is None and again.verdict != FAILED):
        reason = why_not or "it was not measured"
        return replace(
            check, verdict=UNCLEAR, text=f"{check.text}; with fresh workers {reason}, so it is not confirmed"
        )
    found = "too" if again.ratio is None else f"×{units.ratio(again.ratio, 3)}"
    if again.low is not None and again.high is not None:
        found += f" ({units.ratio(again.low, 3)} to {units.ratio(again.high, 3)}, {again.rounds} rounds)"
    if again.verdict == FAILED:
        return replace(check, text=f"{check.text}; with fresh workers {found}")
    return replace(check, verdict=UNCLEAR, text=f"{check.text}; with fresh workers {found}, so it is not confirmed")
