"""What a mode takes of memory: its figure of the device's and of the host's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.ep_names import CPU_EP
from ortbench.model.modes import MEMORY_SIDES
from ortbench.model.result import Case, Result

if TYPE_CHECKING:
    from ortbench.model.schema import Arena, CaseMemory

DEVICE, HOST = MEMORY_SIDES


def device_total(bound: int, arenas: Sequence[Arena], card: int | None, card_how: str) -> tuple[int | None, str]:
    """A device's memory in all, bytes, and how that is known: `card` is what the process held on it, `bound` what
    ortbench bound."""
    if card is not None:
        return card, card_how
    held = [max(it["held"], it["in_use"]) for it in arenas if it["ep"] != CPU_EP]
    if held:
        return bound + sum(held), "what ortbench bound and what the EP's arena held"
    return None, f"not known: {card_how}, and the EP's allocator neither"


def failed(reason: str) -> CaseMemory:
    """Where there are no figures."""
    return {"failed": reason, "device": None, "host": None, "arenas": [], "arenas_how": reason}


def figure(case: Case, side: str) -> int | None:
    """What a mode takes of the memory of `DEVICE` in all, or of `HOST` (the resident set at its peak), bytes; None
    where not known."""
    found = case.value(f"{side}_memory")
    return None if found is None else int(found)


def is_weighed(result: Result) -> bool:
    """Whether memory was measured of any mode."""
    return any(case.memory is not None for case in result.at_point())


def why_unknown(case: Case, side: str) -> str:
    """Why there is no `figure`, in words."""
    memory = case.memory
    if memory is None:
        return "was not measured (--memory)"
    if memory["failed"] is not None:
        return f"could not be measured: {memory['failed']}"
    if side == DEVICE:
        return memory["device"] or "the EP computes in host memory"
    return "the system does not tell"


def computes_on_host(case: Case) -> bool:
    """Whether a mode that was measured takes nothing of a device's memory since its EP computes in the host's."""
    return case.memory is not None and case.memory["failed"] is None and case.memory["device"] is None


def ratio(value: int, base: int) -> float:
    """One figure over another; one without a byte counts as one byte."""
    return max(value, 1) / max(base, 1)
