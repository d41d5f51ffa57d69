"""What ONNX Runtime's profile says of the memory of a mode. Pure.

Since 1.28 the profile has the arena's figures on every node event, where the EP's allocator tells them: ``mem_arena_held``
and ``mem_in_use_peak`` as they are behind the node, and what its kernel added: ``mem_requested_in_use_delta`` as it was asked
for, ``mem_in_use_delta`` as the arena rounds it up. From the second run on a memory pattern takes all at once, before any
node: so of several runs the most counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ortbench.core.eps import CPU_EP
from ortbench.features.memory.model import Arena, NodeMemory


def device_total(bound: int, arenas: Sequence[Arena], card: int | None, card_how: str) -> tuple[int | None, str]:
    """A device's memory, bytes, and how that is known: `card` is what the process held on it, `bound` what ortbench bound."""
    if card is not None:
        return card, card_how
    held = [max(it["held"], it["in_use"]) for it in arenas if it["ep"] != CPU_EP]
    if held:
        return bound + sum(held), "what ortbench bound and what the EP's arena held"
    return None, f"not known: {card_how}, and the EP's allocator neither"


Event = tuple[str, Mapping[str, Any]]  # a node's name, and what is recorded of one of its runs

MOST_NODES = 10


def arenas(sessions: Iterable[tuple[Sequence[Event], Sequence[Event]]]) -> list[Arena]:
    """By EP what its arenas held and had in use at most, bytes, as a sum of sessions; no EP whose allocator does not tell.

    Of each session the events of its runs, and those of others that show only whose allocators tell: one that nothing was asked of has
    nothing recorded.
    """
    found: dict[str, Arena] = {}
    for events, others in sessions:
        most: dict[str, tuple[int, int]] = {}
        for is_counted, (_, args) in [*((True, it) for it in events), *((False, it) for it in others)]:
            if "mem_arena_held" in args:
                ep = str(args.get("provider", ""))
                held, in_use = most.setdefault(ep, (0, 0))
                if is_counted:
                    most[ep] = max(held, int(args["mem_arena_held"])), max(in_use, int(args.get("mem_in_use_peak", 0)))
        for ep, (held, in_use) in most.items():
            arena = found.setdefault(ep, {"ep": ep, "held": 0, "in_use": 0})
            arena["held"] += held
            arena["in_use"] += in_use
    return list(found.values())


# What the functions here read of an event.
READ = (
    "provider", "op_name", "node_index", "output_size", "parameter_size",
    "mem_arena_held", "mem_in_use_peak", "mem_in_use_delta", "mem_requested_in_use_delta",
)  # fmt: skip


def heaviest(events: Iterable[Event]) -> list[NodeMemory]:
    """The nodes that hold most: by what they allocate where that is known, else by their outputs."""
    found: dict[tuple[str, str], NodeMemory] = {}
    for name, args in events:
        key = name, str(args.get("node_index"))
        node = found.setdefault(
            key,
            {"name": name, "op": str(args.get("op_name", "")), "ep": str(args.get("provider", "")), "allocated": None,
             "output": 0, "weights": 0},
        )  # fmt: skip
        node["output"] = max(node["output"], int(args.get("output_size", 0)))
        node["weights"] = max(node["weights"], int(args.get("parameter_size", 0)))
        if "mem_in_use_delta" in args:
            added = int(args.get("mem_requested_in_use_delta", 0)) or int(args["mem_in_use_delta"])
            node["allocated"] = max(node["allocated"] or 0, added)
    order = sorted(found.values(), key=_weight, reverse=True)
    return [node for node in order if _weight(node)][:MOST_NODES]


def _weight(node: NodeMemory) -> int:
    return node["output"] if node["allocated"] is None else node["allocated"]
