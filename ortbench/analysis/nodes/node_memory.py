"""What ONNX Runtime's profile says of memory: of each EP's arena, and of the nodes. Pure.

Since 1.28 the profile has the arena's figures on every node event, where the EP's allocator tells them: ``mem_arena_held``
and ``mem_in_use_peak`` as they are behind the node, and what its kernel added: ``mem_requested_in_use_delta`` as it was asked
for, ``mem_in_use_delta`` as the arena rounds it up. From the second run on a memory pattern takes all at once, before any
node: so of several runs the most counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortbench.model.schema import Arena, NodeMemory

Event = tuple[str, Mapping[str, Any]]  # a node's name, and what is recorded of one of its runs

MOST_NODES = 10


def arenas(events: Iterable[Event], others: Iterable[Event] = ()) -> list[Arena]:
    """By EP what its arena held and had in use at most, bytes; no EP whose allocator does not tell.

    Runs of `others` show only whose allocators tell: one that nothing was asked of has nothing recorded.
    """
    found: dict[str, Arena] = {
        ep: {"ep": ep, "held": 0, "in_use": 0}
        for ep in (str(args.get("provider", "")) for _, args in others if "mem_arena_held" in args)
    }
    for _, args in events:
        if "mem_arena_held" in args:
            ep = str(args.get("provider", ""))
            it = found.setdefault(ep, {"ep": ep, "held": 0, "in_use": 0})
            it["held"] = max(it["held"], int(args["mem_arena_held"]))
            it["in_use"] = max(it["in_use"], int(args.get("mem_in_use_peak", 0)))
    return list(found.values())


def together(sessions: Iterable[Sequence[Arena]]) -> list[Arena]:
    """The arenas of several sessions, each of which has its own, by EP."""
    found: dict[str, Arena] = {}
    for arena in (it for session in sessions for it in session):
        known = found.setdefault(arena["ep"], {"ep": arena["ep"], "held": 0, "in_use": 0})
        known["held"] += arena["held"]
        known["in_use"] += arena["in_use"]
    return list(found.values())


def heaviest(events: Iterable[Event], most: int = MOST_NODES) -> list[NodeMemory]:
    """The nodes that hold most: by what they allocate where that is known, else by their outputs."""
    found: dict[tuple[str, str], NodeMemory] = {}
    for name, args in events:
        key = name, str(args.get("node_index"))
        it = found.setdefault(
            key,
            {"name": name, "op": str(args.get("op_name", "")), "ep": str(args.get("provider", "")), "allocated": None,
             "output": 0, "weights": 0},
        )  # fmt: skip
        it["output"] = max(it["output"], int(args.get("output_size", 0)))
        it["weights"] = max(it["weights"], int(args.get("parameter_size", 0)))
        if "mem_in_use_delta" in args:
            added = int(args.get("mem_requested_in_use_delta", 0)) or int(args["mem_in_use_delta"])
            it["allocated"] = max(it["allocated"] or 0, added)
    order = sorted(found.values(), key=_weight, reverse=True)
    return [it for it in order if _weight(it)][:most]


def _weight(node: NodeMemory) -> int:
    return node["output"] if node["allocated"] is None else node["allocated"]
