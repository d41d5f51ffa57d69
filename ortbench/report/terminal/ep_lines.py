"""What lists of EPs and of models say of an EP: its memory and its modes."""

from __future__ import annotations

from collections.abc import Mapping

from ortbench.model.schema import Memory
from ortbench.report.terminal.console import Screen


def print_memory(screen: Screen, memory: Memory, label: str) -> None:
    default, shared = memory["default"] or "no DEFAULT", memory["host_accessible"] or "no HOST_ACCESSIBLE"
    in_host = f"{default}: all modes have their tensors in it, so copies are within host memory"
    screen.text(in_host if memory["kind"] == "host" else f"{default}; {shared}", label=label)


def print_modes(screen: Screen, modes: Mapping[str, str | None], label: str) -> None:
    """Those that can be measured, and why the others cannot, each reason once."""
    screen.text(", ".join(mode for mode, why in modes.items() if why is None), label=label)
    for one in dict.fromkeys(why for why in modes.values() if why is not None):
        names = ", ".join(mode for mode, why in modes.items() if why == one)
        screen.text(f"{names} unsupported: {one}", label=" " * len(label))
