"""What runs draw, in results side by side: by how much it differs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ortbench.analysis.compare import BETWEEN_RUNS, EVERYTHING, Selection, Spread
from ortbench.modes import ALL_MODES
from ortbench.result import Result
from ortbench.schema import Energy


@dataclass(frozen=True)
class EnergyRow:
    """What runs of a mode draw in all results, J (None where one does not know), and each one's change; the spreads' figures
    are joules.

    `since_first` and `since_last` are against the first and the previous result: see `ortbench.analysis.compare.Row`.
    """

    mode: str
    joules: tuple[float | None, ...]
    since_first: tuple[Spread | None, ...]
    since_last: tuple[Spread | None, ...]


def joules_of(found: Energy | None) -> float | None:
    """What a run draws, J; None where it is not known."""
    return None if found is None else found.get("joules")


def energy_rows(results: Sequence[Result], only: Selection = EVERYTHING) -> list[EnergyRow]:
    """All modes of which at least one result knows what runs draw; none where only other phases are wanted."""
    found = []
    for mode in (only.modes or ALL_MODES) if not only.phases else ():
        known = [case.energy if (case := result.case(mode)) else None for result in results]
        joules = tuple(map(joules_of, known))
        if any(it is not None for it in joules):
            first = [None, *(change(known[0], it) for it in known[1:])]
            last = [None, *(change(one, other) for one, other in pairwise(known))]
            found.append(EnergyRow(mode, joules, tuple(first), tuple(last)))
    return found


def change(base: Energy | None, other: Energy | None) -> Spread | None:
    """By how much a run draws more or less than in an earlier result.

    The ratio lies between the ends of the two intervals, and by what runs differ that none of them sees. It has no interval
    where one of them has none above 0, or where they were read in different ways.

    Returns:
        None if one of them is not known.
    """
    one, two = joules_of(base), joules_of(other)
    if base is None or other is None or one is None or two is None or one <= 0:
        return None
    a, b = base["ci95"], other["ci95"]
    if a is None or b is None or a[0] <= 0 or b[0] <= 0 or base["how"] != other["how"]:
        return Spread(one, two, two / one, None, None, paired=False)
    between = 1 + BETWEEN_RUNS
    return Spread(one, two, two / one, b[0] / a[1] / between, b[1] / a[0] * between, paired=False)
