"""The nodes that ran in profiled runs, and which nodes of the graph they are. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ortbench.analysis.nodes.islands import FROM_HOST, TO_HOST, Copy, Node, layout
from ortbench.model.schema import CountedCopies, Crossing


@dataclass(frozen=True)
class Timed:
    """What one node did in the profiled runs."""

    # name, op, ep: as in `ortbench.analysis.nodes.islands.Node`
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

    @property
    def is_copy(self) -> bool:
        """Whether it is a Memcpy node."""
        return self.op in (TO_HOST, FROM_HOST)

    @property
    def is_compiled(self) -> bool:
        """Whether it stands for a graph that its EP compiled: ONNX Runtime begins the name of those with the EP's."""
        return self.name.startswith(f"{self.ep}_")


def counted(timed: Sequence[Timed]) -> CountedCopies:
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
    taken = {(graph[index].inside, graph[index].branch) for index in found.values()}
    for index, fitting in unclear.items():  # nodes of two branches can have one name: then it is of the branch that ran
        of_taken = [it for it in fitting if (graph[it].inside, graph[it].branch) in taken]
        if len(of_taken) == 1:
            found[index] = of_taken[0]
    return found


def as_run(graph: Sequence[Node], timed: Sequence[Timed]) -> list[Node]:
    """The nodes of a graph that took part in the profiled runs, placed as these say."""
    ran = {there: timed[here].ep for here, there in same_nodes(graph, timed).items()}
    return _kept([replace(node, ep=ran.get(index, node.ep)) for index, node in enumerate(graph)], ran)


def _kept(graph: Sequence[Node], indices: Collection[int]) -> list[Node]:
    """Some nodes of a graph; with a node, those that it is inside are among them."""
    place = {index: number for number, index in enumerate(sorted(indices))}
    return [
        replace(graph[index], inside=None if (inside := graph[index].inside) is None else place[inside])
        for index in place
    ]


def named_copies(graph: Sequence[Node], timed: Sequence[Timed]) -> list[Node] | None:
    """A graph with predicted Memcpy nodes as it ran: these have the names of those that ran, branches not taken are
    gone.

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
    if {place: len(nodes) for place, nodes in ran.items()} != {place: len(them) for place, them in wanted.items()}:
        return None
    named = list(graph)
    for place, expected in wanted.items():
        for copy, copied in zip(expected, ran[place], strict=True):
            if not _fits(copied, [there[index] for index in copy.forced_by if index in there]):
                return None
            named[copy.node] = replace(graph[copy.node], name=copied.name)
    outermost = [index for index, node in enumerate(graph) if node.inside is None]
    return _kept(named, {*outermost, *there, *(copy.node for them in wanted.values() for copy in them)})


def _fits(copied: Timed, nodes: Sequence[Timed]) -> bool:
    """Whether each of some nodes reads or gives a tensor of the type and shape that was copied."""
    return all(kind in (*node.reads, *node.gives) for node in nodes for kind in copied.reads[:1])
