"""The nodes that ran in profiled runs, which nodes of the graph they are, and the key ``nodes`` of a result. Pure.

The times are host-side and slowed by profiling. On an EP that works asynchronously a node's time is that of its launch,
and the waiting shows in the next Memcpy node to the host.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean
from typing import TypedDict, TypeVar

from ortbench.analysis.placement import FROM_HOST, TO_HOST, Copy, Layout, Node, layout, position
from ortbench.core.eps import CPU_EP
from ortbench.model.schema import (
    CountedCopies,
    Crossing,
    EpTime,
    InnerCopies,
    Island,
    IslandNode,
    MemcpyNode,
    NodeReference,
    Nodes,
    OperatorTime,
    ProfiledNode,
)

TOO_MANY = "an inference runs too many nodes for a timeline"


@dataclass(frozen=True)
class Timed:
    """What one node did in the profiled runs."""

    # name, op, ep: as in `ortbench.analysis.placement.Node`
    name: str
    op: str
    ep: str
    number: int  # ONNX Runtime's index of it: nodes that it made have higher ones, in the order in which it made them
    inside: int | None  # the index of the node in whose branch or body it ran, or None
    ns: tuple[int, ...]  # its time in each run, without that of the nodes inside it; 0 where it took no part
    bytes: int  # of its outputs in one run
    # reads, gives: types of its inputs and outputs, such as ``float[8,4]``; ONNX Runtime leaves weights out that it has
    # packed
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    count: float = 1  # how often it ran in an inference: in a loop more than once

    @property
    def is_copy(self) -> bool:
        return self.op in (TO_HOST, FROM_HOST)

    @property
    def is_compiled(self) -> bool:
        """Whether it stands for a graph that its EP compiled: ONNX Runtime begins the name of those with the EP's."""
        return self.name.startswith(f"{self.ep}_")


def copy_counts(timed: Sequence[Timed]) -> CountedCopies:
    """How many Memcpy nodes ran, and what they copied in a run."""
    ways = {op: [node.bytes for node in timed if node.op == op] for op in (TO_HOST, FROM_HOST)}
    number = sum(map(len, ways.values()))
    if not number:
        return {"memcpy_nodes": 0}
    to_host, from_host = (_crossing(found) for found in ways.values())
    return {"memcpy_nodes": number, "memcpy": {"to_host": to_host, "from_host": from_host}}


def _crossing(sizes: Sequence[int]) -> Crossing:
    # ONNX Runtime records 0 where it cannot tell, as of sequences.
    return {"nodes": len(sizes), "bytes": sum(sizes) if all(sizes) else None}


def same_nodes(graph: Sequence[Node], timed: Sequence[Timed]) -> dict[int, int]:
    """Which node of a graph each profiled one is, by index; those of which it is not certain are left out."""
    candidates: dict[tuple[int | None, str, str | None], list[int]] = defaultdict(list)
    for index, there in enumerate(graph):
        candidates[there.inside, there.name, there.op].append(index)
        candidates[there.inside, there.name, None].append(index)
    found: dict[int, int] = {}
    unclear: dict[int, list[int]] = {}
    for index, node in enumerate(timed):  # a node comes before those inside it
        inside = None if node.inside is None else found.get(node.inside, -1)
        # Where ONNX Runtime has fused nodes, the new one has the name of one of them.
        names = [
            (inside, node.name, node.op),
            (inside, node.name, None),
            (inside, node.name.removeprefix("fused "), None),
        ]
        fitting = next((candidates[name] for name in names if name in candidates), [])
        if len(fitting) == 1:
            found[index] = fitting[0]
        elif fitting:
            unclear[index] = fitting
    found |= _without_names(graph, timed, found)
    taken = {(graph[index].inside, graph[index].branch) for index in found.values()}
    for index, fitting in unclear.items():  # nodes of two branches can have one name: then it is of the branch that ran
        of_taken = [it for it in fitting if (graph[it].inside, graph[it].branch) in taken]
        if len(of_taken) == 1:
            found[index] = of_taken[0]
    return found


def _without_names(graph: Sequence[Node], timed: Sequence[Timed], found: Mapping[int, int]) -> dict[int, int]:
    """The same of nodes that have no name, such as those of a function's body: ONNX Runtime writes them in the order in which it
    runs them, and its profile calls them ``<operator>_<index>``."""
    there: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    ran: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for index, node in enumerate(graph):
        if not node.name:
            there[node.inside, node.op].append(index)
    for index, done in enumerate(timed):
        if index not in found and re.fullmatch(rf"{re.escape(done.op)}_\d+", done.name):
            ran[None if done.inside is None else found.get(done.inside, -1), done.op].append(index)
    alike = (key for key, indices in ran.items() if len(indices) == len(there[key]))
    return {a: b for key in alike for a, b in zip(ran[key], there[key], strict=True)}


def as_run(graph: Sequence[Node], timed: Sequence[Timed]) -> list[Node]:
    """The nodes of a graph that took part in the profiled runs, placed as these say."""
    ran = {there: timed[here].ep for here, there in same_nodes(graph, timed).items()}
    return _select_nodes([replace(node, ep=ran.get(index, node.ep)) for index, node in enumerate(graph)], ran)


def _select_nodes(graph: Sequence[Node], indices: Collection[int]) -> list[Node]:
    """Some nodes of a graph; with a node, those that it is inside are among them."""
    numbers = {index: number for number, index in enumerate(sorted(indices))}
    return [
        replace(graph[index], inside=None if (inside := graph[index].inside) is None else numbers[inside])
        for index in numbers
    ]


def named_copies(graph: Sequence[Node], timed: Sequence[Timed]) -> list[Node] | None:
    """A graph with predicted Memcpy nodes as it ran: these have their names, branches not taken are gone.

    None where the prediction does not hold: other Memcpy nodes ran, or they copied something else.
    """
    same = same_nodes(graph, timed)
    there = {index: timed[here] for here, index in same.items()}
    ran: dict[tuple[int | None, str], list[Timed]] = defaultdict(list)
    for copied in sorted((node for node in timed if node.is_copy), key=lambda node: node.number):
        ran[None if copied.inside is None else same.get(copied.inside, -1), copied.op].append(copied)
    wanted: dict[tuple[int | None, str], list[Copy]] = defaultdict(list)
    for copy in layout(graph).copies:
        inside = graph[copy.node].inside
        if inside is None or any(index in there for index in copy.forced_by):
            wanted[inside, graph[copy.node].op].append(copy)
    if {key: len(nodes) for key, nodes in ran.items()} != {key: len(them) for key, them in wanted.items()}:
        return None
    named = list(graph)
    for key, expected in wanted.items():
        for copy, copied in zip(expected, ran[key], strict=True):
            if not _matches_copy(copied, [there[index] for index in copy.forced_by if index in there]):
                return None
            named[copy.node] = replace(graph[copy.node], name=copied.name)
    outermost = [index for index, node in enumerate(graph) if node.inside is None]
    return _select_nodes(named, {*outermost, *there, *(copy.node for them in wanted.values() for copy in them)})


def _matches_copy(copied: Timed, nodes: Sequence[Timed]) -> bool:
    """Whether each of some nodes reads or gives a tensor of the type and shape that was copied."""
    return all(kind in (*node.reads, *node.gives) for node in nodes for kind in copied.reads[:1])


COMPILED = "compiled graph"  # in place of the name that an EP made up for one


def faster(taken: Sequence[float], least: int = 1) -> list[int]:
    """The numbers of the faster half, or of the `least` that are needed, in order."""
    count = max(min(least, len(taken)), (len(taken) + 1) // 2)
    return sorted(sorted(range(len(taken)), key=taken.__getitem__)[:count])


class _Cost(TypedDict):
    ns: int
    share: float


def summary(
    run_ns: Sequence[int], timed: Sequence[Timed], graph: Sequence[Node] | None, problem: str | None = None
) -> Nodes:
    """The key ``nodes`` of a result, from how long each run took and its nodes, each before those inside it.

    The times are means over the faster half of the runs, so that the shares of all operators and of what is outside of nodes add up
    to 1: on a busy machine medians of single operators do not, as each run is held up in another node.

    `graph` has the same nodes with their tensors; without it `problem` says why, if it is wanted.
    """
    kept = faster(run_ns)
    timed = [replace(node, ns=tuple(node.ns[at] for at in kept)) for node in timed]
    total = round(fmean(run_ns[at] for at in kept))

    def cost(members: Sequence[Timed]) -> _Cost:
        ns = _in_a_run(members)
        return {"ns": ns, "share": round(ns / total, 6) if total else 0.0}

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
    return {
        "runs": len(run_ns),
        "run_ns": total,
        "outside_ns": total - _in_a_run(timed),
        "operators": _by_time(operators),
        "eps": _by_time(eps),
        **_inner_copies(graph, timed, total, problem),  # type: ignore[typeddict-item]  # what is not required is not there
    }


def outline(graph: Sequence[Node] | None, timed: Sequence[Timed], problem: str | None = None) -> InnerCopies:
    """``memcpy``, ``islands`` and ``problem`` of `summary` without times, for a model that is only looked at."""
    return _inner_copies(graph, timed, None, problem)


def _in_a_run(members: Sequence[Timed]) -> int:
    """What nodes take together in a run."""
    return round(sum(fmean(node.ns) for node in members))


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
    ranks = {number: position for position, number in enumerate(order)}
    memcpy: list[MemcpyNode] = [
        {
            **_copy_row(graph[copy.node].name, graph[copy.node].op, there.get(copy.node), total),
            "tensor": copy.tensor,
            "forced_by": [_reference(graph[index]) for index in copy.forced_by] or None,
            "island": None if copy.island is None else ranks[copy.island],
        }
        for copy in found.copies
    ]
    memcpy += [_copy_row(node.name, node.op, node, total) for node in others if node.is_copy]
    last = len(rows)
    memcpy.sort(key=lambda row: (last if row["island"] is None else row["island"], row["direction"] == "from host"))
    return {"memcpy": _by_time(memcpy), "islands": islands, "problem": problem}


def _copy_row(name: str, op: str, node: Timed | None, total: int | None) -> MemcpyNode:
    """A Memcpy node; which tensor it copies and who forces it only who knows the graph can say."""
    return {
        "name": name or None,
        "direction": "to host" if op == TO_HOST else "from host",
        "tensor": None,
        "type": node.reads[0] if node is not None and node.reads else None,
        "bytes": None if node is None else node.bytes,
        "ns": None if node is None else _ns([node], total),
        "forced_by": None,
        "island": None,
    }


def _ns(members: Sequence[Timed], total: int | None) -> int | None:
    """What nodes take together in a run; None where the time of a run is not known, as nothing was timed."""
    return None if total is None else _in_a_run(members)


def _reference(node: Node) -> NodeReference:
    return {"name": node.name, "op": node.op, "ep": node.ep}


def _island_rows(
    graph: Sequence[Node], found: Layout, there: Mapping[int, Timed], others: Sequence[Timed], total: int | None
) -> list[Island]:
    """The islands of a graph, of which `there` ran; without the time of a run, ns, they have no times."""
    strays = [node for node in others if node.ep == CPU_EP and not node.is_copy]
    rows: list[Island] = []
    for number, island in enumerate(found.islands):
        own = [copy for copy in found.copies if copy.island == number]
        moved = [there[copy.node] for copy in own if copy.node in there]
        members = [there[index] for index in island if index in there]
        if len(found.islands) == 1:  # nodes that ONNX Runtime made of others on the CPU can only be of the one island
            members += strays
        ns = _ns([*members, *moved], total)
        rows.append(
            {
                "nodes": [_island_node(graph[index], there.get(index), total) for index in island],
                "position": position(graph, island),
                "node_ns": _ns(members, total),
                "to_host": sum(copy.to_host for copy in own),
                "from_host": sum(not copy.to_host for copy in own),
                "bytes": sum(node.bytes for node in moved) if len(moved) == len(own) else None,
                "memcpy_ns": _ns(moved, total),
                "ns": ns,
                "share": round(ns / total, 6) if ns is not None and total else None,
            }
        )
    return rows


def _island_node(there: Node, ran: Timed | None, total: int | None) -> IslandNode:
    reads, ns = (None, None) if ran is None else (list(ran.reads), _ns([ran], total))
    return {"name": there.name, "op": there.op, "reads": reads, "ns": ns}


# Every node that ran: the key ``each`` of a result's ``nodes``


# Nodes that are numbered anew in every session, so that no name tells which is which.
REORDERING = ("ReorderInput", "ReorderOutput")
_PUT_IN = (TO_HOST, FROM_HOST, *REORDERING)
_MADE_CAST = "InsertedPrecisionFreeCast"
_BLOCKED = "_nchwc"  # ONNX Runtime calls a convolution in a blocked layout by its output and this
_UNSCALED = "_pre_q"  # and what comes before a QuantizeLinear that it put there
_CONVERTED = re.compile(r"_(mul|bn)_nchwc$")  # and one that was a Mul or a BatchNormalization by this
_FUSED, _PAD = "fused ", "Pad"
_COPY = re.compile(r"_token_\d+$")  # a node that it made anew in another layout by the old one's name and this
_MOVING = ("Transpose", "DequantizeLinear", "QuantizeLinear")  # of which it puts in some of its own
_BY_FUSION = re.compile(r"(/\w+Fusion/?)+$")  # and a fused node by one of its nodes and this


def is_put_in(op: str, name: str) -> bool:
    """Whether ONNX Runtime put a node in that the model has not."""
    return op in _PUT_IN or name.startswith(_MADE_CAST)


def is_compiled(node: ProfiledNode) -> bool:
    """Whether it stands for a graph that its EP compiled."""
    return node["name"].startswith(f"{node['ep']}_")


_NAMED = 3  # nodes of the model that stand for the one that was made of them


def operator(node: ProfiledNode) -> str:
    """The operator of a node; an EP makes up another name for every graph that it compiles."""
    return COMPILED if is_compiled(node) else node["op"]


def name_node(node: ProfiledNode) -> str:
    """The name of a node in the model, or of those that it was made of, of many the first and the last."""
    of, name = node["of"], node["name"]
    if is_compiled(node):
        return COMPILED
    if len(of) <= _NAMED:
        return " + ".join(of) or name
    return name if name in of else f"{of[0]} + … + {of[-1]}"


def first_name(node: ProfiledNode) -> str:
    """The name of the one of the model's nodes that a node was made of and is called by, or of the first, and how many more there are."""
    of = node["of"]
    if len(of) < 2 or is_compiled(node):
        return name_node(node)
    called = [it for it in of if node["name"].startswith(it)]
    return f"{max(called, key=len, default=of[0])} +{len(of) - 1}"


def each_node(
    timed: Sequence[Timed], graph: Sequence[Node] | None, model: Sequence[Node], rounds: Sequence[Sequence[int]]
) -> list[ProfiledNode]:
    """The nodes of profiled runs, which make up rounds; see `faster_of`.

    `graph` has the same nodes with their tensors, where that is known, and `model` is the graph of the model's file.
    """
    there = {} if graph is None else same_nodes(graph, timed)
    wired = [
        None if graph is None or at not in there or node.op in REORDERING else graph[there[at]]
        for at, node in enumerate(timed)
    ]
    made = made_of(timed, wired, model)
    return [
        {
            "name": node.name,
            "op": node.op,
            "ep": node.ep,
            "of": [it.name for it in made[at]] if node.inside is None else [node.name],
            "makes": [tensor for it in made[at] for tensor in it.outputs],
            "inputs": None if (edges := wired[at]) is None else list(edges.inputs),
            "outputs": None if edges is None else list(edges.outputs),
            "reads": list(node.reads),
            "gives": list(node.gives),
            "inside": node.inside,
            "count": node.count,
            "ns": by_round(node.ns, rounds),
        }
        for at, node in enumerate(timed)
    ]


def faster_of(run_ns: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """The numbers of the faster half of the runs of each round, by how many it has: single ones are recorded in whole µs, and some are
    held up."""
    starts = [0, *accumulate(sizes)]
    return [[start + it for it in faster(run_ns[start:end])] for start, end in pairwise(starts)]


def by_round(ns: Sequence[int], rounds: Sequence[Sequence[int]]) -> list[int]:
    """What a run, or a node in it, took in each round, the mean over some runs of it."""
    return [round(fmean(ns[at] for at in runs)) for runs in rounds]


def made_of(timed: Sequence[Timed], wired: Sequence[Node | None], model: Sequence[Node]) -> list[list[Node]]:
    """The model's nodes that each node was made of, in their order.

    A fused node stands for the nodes from where its output is made back to what other nodes give. A convolution in a blocked
    layout that takes an activation in keeps its name, and so stands for what is left behind it too.
    """
    givers = {tensor: at for at, node in enumerate(model) if node.inside is None for tensor in node.outputs}
    named = {node.name: at for at, node in enumerate(model) if node.inside is None}
    ends: list[list[str]] = []
    for node, edges in zip(timed, wired, strict=True):
        blocked = [node.name.removesuffix(_BLOCKED).removesuffix(_UNSCALED), _CONVERTED.sub("", node.name)]
        given = next((it for it in blocked if it != node.name and it in givers), None)
        if node.inside is not None or is_put_in(node.op, node.name):
            ends.append([])
        elif given is not None:
            ends.append([given])
        else:
            tensors = [] if edges is None else edges.outputs
            tensors = [it.removeprefix(f"{_MADE_CAST}_").removesuffix(_UNSCALED) for it in tensors]
            outputs = [it for it in tensors if it in givers]
            name = _BY_FUSION.sub("", node.name.removeprefix(_FUSED))
            at = named.get(name, None if node.op in _MOVING else named.get(_COPY.sub("", name)))
            ends.append(outputs or ([] if at is None else list(model[at].outputs)))
    theirs = {tensor for own in ends for tensor in own}
    taken: set[int] = set()
    found: list[list[int]] = []
    for node, own, edges in zip(timed, ends, wired, strict=True):
        mine: list[int] = []
        fed = set() if edges is None else {*edges.inputs}
        open_tensors = list(own)
        while open_tensors:
            at = givers[open_tensors.pop()]
            if at in taken:
                continue
            taken.add(at)
            mine.append(at)
            inputs = [it for it in model[at].inputs if it in givers and it not in theirs and it not in fed]
            # A convolution takes in what is behind it, and before it a Pad at most.
            if node.name.endswith(_BLOCKED) and model[at].op == node.op:
                inputs = [it for it in inputs if it != model[at].inputs[0] or model[givers[it]].op == _PAD]
            if _CONVERTED.sub("", node.name) in model[at].outputs:
                inputs = []
            open_tensors += inputs
        found.append(mine)
    both = zip(timed, wired, strict=True)
    if all(edges is not None or node.inside is not None or is_put_in(node.op, node.name) for node, edges in both):
        _take_in_what_is_behind(timed, model, givers, found)
    inner: dict[tuple[str, str], list[Node]] = defaultdict(list)
    for there in model:
        if there.inside is not None:
            inner[there.name, there.op].append(there)
    return [
        [model[at] for at in sorted(mine)] if node.inside is None else inner[node.name, node.op][:1]
        for node, mine in zip(timed, found, strict=True)
    ]


def _take_in_what_is_behind(
    timed: Sequence[Timed], model: Sequence[Node], givers: Mapping[str, int], found: Sequence[list[int]]
) -> None:
    """Give what no node was made of to the node in a blocked layout that it is behind."""
    taken_by = {at: number for number, mine in enumerate(found) for at in mine}
    for at, left in enumerate(model):
        number = taken_by.get(givers.get(next(iter(left.inputs), ""), -1))
        if left.inside is None and at not in taken_by and number is not None and timed[number].name.endswith(_BLOCKED):
            taken_by[at] = number
            found[number].append(at)
