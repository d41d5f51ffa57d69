"""What profiled runs say of the nodes of a graph: the key ``nodes`` of a result. Pure.

The times are host-side and slowed by profiling. On an EP that works asynchronously a node's time is that of its launch,
and the waiting shows in the next Memcpy node to the host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TypedDict, TypeVar

from ortbench.analysis.nodes.islands import TO_HOST, Layout, Node, layout, position
from ortbench.analysis.nodes.node_times import Timed, same_nodes
from ortbench.core.ep_names import CPU_EP
from ortbench.model.schema import (
    EpTime,
    InnerCopies,
    Island,
    IslandNode,
    MemcpyNode,
    NodeReference,
    Nodes,
    OperatorTime,
)

COMPILED = "compiled graph"  # in place of the name that an EP made up for one


class _Cost(TypedDict):
    ns: int
    share: float


def summary(
    run_ns: Sequence[int], timed: Sequence[Timed], graph: Sequence[Node] | None, problem: str | None = None
) -> Nodes:
    """The key ``nodes`` of a result, from how long each run took and its nodes, each before those inside it.

    `graph` has the same nodes with their tensors; without it `problem` says why, if nodes on the CPU or Memcpy nodes
    ran.
    """
    total = round(median(run_ns))

    def cost(members: Sequence[Timed]) -> _Cost:
        ns = _in_a_run(members)
        return {"ns": ns, "share": round(ns / total, 4) if total else 0.0}

    by_operator: dict[tuple[str, str | None], list[Timed]] = defaultdict(list)
    by_ep: dict[str | None, list[Timed]] = defaultdict(list)
    for node in timed:
        ep = None if node.is_copy else node.ep
        by_operator[COMPILED if node.is_compiled else node.op, ep].append(node)
        by_ep[ep].append(node)
    operators: list[OperatorTime] = [
        {"op": op, "ep": ep, "nodes": len(members), **cost(members)} for (op, ep), members in by_operator.items()
    ]
    eps: list[EpTime] = [{"ep": ep, "nodes": len(members), **cost(members)} for ep, members in by_ep.items()]
    inside = [sum(times) for times in zip(*(node.ns for node in timed), strict=True)] or [0] * len(run_ns)
    return {
        "runs": len(run_ns),
        "run_ns": total,
        "outside_ns": round(median(run - nodes for run, nodes in zip(run_ns, inside, strict=True))),
        "operators": _by_time(operators),
        "eps": _by_time(eps),
        **_inner_copies(graph, timed, total, problem),
    }


def outline(graph: Sequence[Node] | None, timed: Sequence[Timed], problem: str | None = None) -> InnerCopies:
    """``memcpy``, ``islands`` and ``problem`` of `summary` without times, for a model that is only looked at."""
    return _inner_copies(graph, timed, None, problem)


def _in_a_run(members: Sequence[Timed]) -> int:
    """What nodes take together in a run, the median over the runs."""
    return round(median(map(sum, zip(*(node.ns for node in members), strict=True)))) if members else 0


_Row = TypeVar("_Row", OperatorTime, EpTime, MemcpyNode)


def _by_time(rows: Iterable[_Row]) -> list[_Row]:
    return sorted(rows, key=lambda row: -(row["ns"] or 0))


def _inner_copies(
    graph: Sequence[Node] | None, timed: Sequence[Timed], total: int | None, problem: str | None
) -> InnerCopies:
    """The copies and islands; without `latency`, the time of a run in ns, they have no times."""
    if graph is None:
        ran = [_copy_row(node.name, node.op, node, total) for node in timed if node.is_copy]
        return {"memcpy": _by_time(ran), "islands": [], "problem": problem}
    same = same_nodes(graph, timed)
    there = {index: timed[here] for here, index in same.items()}
    others = [node for here, node in enumerate(timed) if here not in same]
    found = layout(graph)
    rows = _island_rows(graph, found, there, others, total)
    order = sorted(range(len(rows)), key=lambda number: -(rows[number]["ns"] or 0))
    islands = [rows[number] for number in order]
    place = {number: position for position, number in enumerate(order)}
    memcpy = [
        _copy_row(
            graph[copy.node].name,
            graph[copy.node].op,
            there.get(copy.node),
            total,
            copy.tensor,
            [_reference(graph[index]) for index in copy.forced_by],
            None if copy.island is None else place[copy.island],
        )
        for copy in found.copies
    ]
    memcpy += [_copy_row(node.name, node.op, node, total) for node in others if node.is_copy]
    last = len(rows)
    memcpy.sort(key=lambda row: (last if row["island"] is None else row["island"], row["direction"] == "from host"))
    return {"memcpy": _by_time(memcpy), "islands": islands, "problem": problem}


def _copy_row(
    name: str,
    op: str,
    node: Timed | None,
    total: int | None,
    tensor: str | None = None,
    forced_by: list[NodeReference] | None = None,
    island: int | None = None,
) -> MemcpyNode:
    """A Memcpy node; which tensor it copies and who forces it only who knows the graph can say."""
    return {
        "name": name or None,
        "direction": "to host" if op == TO_HOST else "from host",
        "tensor": tensor,
        "type": node.reads[0] if node is not None and node.reads else None,
        "bytes": None if node is None else node.bytes,
        "ns": None if node is None or total is None else _in_a_run([node]),
        "forced_by": forced_by or None,
        "island": island,
    }


def _reference(node: Node) -> NodeReference:
    return {"name": node.name, "op": node.op, "ep": node.ep}


def _island_rows(
    graph: Sequence[Node], found: Layout, there: Mapping[int, Timed], others: Sequence[Timed], total: int | None
) -> list[Island]:
    """The islands of a graph, of which `there` has the nodes that ran; without the time of a run, ns, they have no
    times."""
    members = [[there[index] for index in island if index in there] for island in found.islands]
    strays = [node for node in others if node.ep == CPU_EP and not node.is_copy]
    if len(members) == 1:  # nodes that ONNX Runtime made of others on the CPU can only be of the one island
        members[0] += strays
    return [_island_row(graph, found, number, there, members[number], total) for number in range(len(found.islands))]


def _island_row(
    graph: Sequence[Node],
    found: Layout,
    number: int,
    there: Mapping[int, Timed],
    members: Sequence[Timed],
    total: int | None,
) -> Island:
    own = [copy for copy in found.copies if copy.island == number]
    moved = [there[copy.node] for copy in own if copy.node in there]
    nodes: list[IslandNode] = []
    for index in found.islands[number]:
        node = there.get(index)
        reads = None if node is None else list(node.reads)
        ns = None if node is None or total is None else _in_a_run([node])
        nodes.append({"name": graph[index].name, "op": graph[index].op, "reads": reads, "ns": ns})
    timed = total is not None
    ns = _in_a_run([*members, *moved])
    return {
        "nodes": nodes,
        "position": position(graph, found.islands[number]),
        "node_ns": _in_a_run(members) if timed else None,
        "to_host": sum(copy.to_host for copy in own),
        "from_host": sum(not copy.to_host for copy in own),
        "bytes": sum(node.bytes for node in moved) if len(moved) == len(own) else None,
        "memcpy_ns": _in_a_run(moved) if timed else None,
        "ns": ns if timed else None,
        "share": round(ns / total, 4) if total else None,
    }
