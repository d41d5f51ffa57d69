from __future__ import annotations

from typing import NotRequired, TypedDict


class Arena(TypedDict):
    """An EP's arena: what it held, and what of it was in use, at most."""

    ep: str
    held: int
    in_use: int


class NodeMemory(TypedDict):
    """A node: what its kernel ``allocated`` and did not free, None where the EP's allocator does not tell, the bytes of its
    outputs, and those of its weights."""

    name: str
    op: str
    ep: str
    allocated: int | None
    output: int
    weights: int


class CaseMemory(TypedDict):
    """How it is known what a mode takes of memory, in a worker of its own after the measurement.

    ``failed``: why there are no figures, else null. ``device``: how that of the device is known; null where the EP computes in
    host memory. ``host``: how that of the host is known. ``arenas``: those of EPs whose allocators tell, bytes, and
    ``arenas_how`` that is known, or why there are none. ``nodes``: with ``--measure-nodes``, those that hold most.
    """

    failed: str | None
    device: str | None
    host: str | None
    arenas: list[Arena]
    arenas_how: str
    nodes: NotRequired[list[NodeMemory]]


CasePart = CaseMemory


def lacking(reason: str) -> CaseMemory:
    return {"failed": reason, "device": None, "host": None, "arenas": [], "arenas_how": reason}


class Weighed(TypedDict):
    """``memory``: what ortbench ``bound`` of the device's memory, None where there is none, and at most ``pinned``; the resident set
    ``before`` the session, with it (``session``) and at most (``peak``; ``restarted``: since the session was made)."""

    bound: int | None
    pinned: int
    before: int | None
    session: int | None
    peak: int | None
    restarted: bool


class WeighedArenas(TypedDict):
    """``arenas``: of each EP that tells, by an ONNX Runtime of this version; where they were asked for, the nodes that hold most."""

    arenas: list[Arena]
    version: str
    nodes: list[NodeMemory] | None
