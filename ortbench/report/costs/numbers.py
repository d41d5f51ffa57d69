"""What a mode costs besides its time, one number each: memory and energy, for programs that keep a history of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ortbench.analysis.energy_change import joules_of
from ortbench.analysis.memory import figure
from ortbench.modes import MEMORY, MEMORY_SIDES
from ortbench.result import Case

ENERGY = "energy"


class Number(NamedTuple):
    """A number of which less is better.

    Attributes:
        name: as metrics of gates and comparisons call it: ``memory.device``, ``memory.host``, ``energy``.
        value: bytes, or J of a run.
        unit: of the two.
        ci95: its interval; None where it has none.
    """

    name: str
    value: float
    unit: Literal["B", "J"]
    ci95: Sequence[float] | None


def numbers_of(case: Case) -> list[Number]:
    """All that are known of a mode."""
    sizes = [(side, figure(case, side)) for side in MEMORY_SIDES]
    found = [Number(f"{MEMORY}.{side}", size, "B", None) for side, size in sizes if size is not None]
    joules = joules_of(case.energy)
    if case.energy is not None and joules is not None:
        found.append(Number(ENERGY, joules, "J", case.energy["ci95"]))
    return found
