"""What a mode takes of memory: its figure of the device's and of the host's, and why there is none. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortbench.model.modes import MEMORY_SIDES

if TYPE_CHECKING:
    from ortbench.model.result import Case


DEVICE, HOST = MEMORY_SIDES
KEY = "memory"  # of a case, of which it is known


def figure(case: Case, side: str) -> int | None:
    """What a mode takes of the memory of `DEVICE` in all, or of `HOST` (the resident set at its peak), bytes, if known."""
    found = case.value(f"{side}_memory")
    return None if found is None else int(found)


def why_unknown(case: Case, side: str) -> str:
    """Why there is no `figure`, in words."""
    if KEY not in case.own:
        return "was not measured (--measure-memory)"
    memory = case.own[KEY]
    if memory["failed"] is not None:
        return f"could not be measured: {memory['failed']}"
    if side == DEVICE:
        return memory["device"] or "the EP computes in host memory"
    return "the system does not tell"


def computes_on_host(case: Case) -> bool:
    """Whether a mode that was measured takes nothing of a device's memory since its EP computes in the host's."""
    return KEY in case.own and case.own[KEY]["failed"] is None and case.own[KEY]["device"] is None
