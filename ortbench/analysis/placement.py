"""What ran where, which nodes have ONNX Runtime copy tensors inside a graph, and what is said of them. Pure.

ONNX Runtime puts a Memcpy node wherever a tensor passes from a node on another EP to one on the CPU or back. An island
is what hangs together on the CPU: nodes there that pass tensors on to each other or that read the same copy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ortbench.core.eps import CPU_EP
from ortbench.core.units import size
from ortbench.model.kinds import kind_of
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Result, work_of
from ortbench.model.schema import InnerCopies, Island, NodeReference

TO_HOST, FROM_HOST = "MemcpyToHost", "MemcpyFromHost"


@dataclass(frozen=True)
class Node:
    """A node of a graph, or of a branch or a body inside it."""

    name: str  # as ONNX Runtime has it
    op: str  # its operator
    ep: str | None  # where it is placed; None where that is not known. It does not matter for Memcpy nodes.
    # inputs, outputs: tensors, by names that are unique in the model. The results of its branches or bodies are among
    # the inputs, and what it feeds them among the outputs.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inside: int | None = None  # the index of the node whose branch or body it belongs to, or None
    branch: str = ""  # what that node calls this branch or body

    @property
    def is_copy(self) -> bool:
        return self.op in (TO_HOST, FROM_HOST)

    @property
    def on_cpu(self) -> bool:
        return self.ep == CPU_EP and not self.is_copy


@dataclass(frozen=True)
class Copy:
    node: int  # its index
    to_host: bool  # or from the host
    tensor: str  # what it copies, as the model calls it
    # the nodes that have the tensor in host memory: those that read the copy, or the one that gives what is copied;
    # where that is an input of the graph, those that read it on the CPU. Empty where none is known.
    forced_by: tuple[int, ...]
    island: int | None  # the index of theirs, or None


@dataclass(frozen=True)
class Layout:
    """What `layout` finds: the Memcpy nodes and, for each island, the indices of its nodes."""

    copies: tuple[Copy, ...]
    islands: tuple[tuple[int, ...], ...]


class _Edges:
    """Who gives and who reads each tensor, by index."""

    def __init__(self, graph: Sequence[Node]) -> None:
        self.givers: dict[str, int] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(graph):
            self.givers.update(dict.fromkeys(node.outputs, index))
            for tensor in dict.fromkeys(node.inputs):
                self.readers[tensor].append(index)


def layout(graph: Sequence[Node]) -> Layout:
    """Find the copies of a graph that has its Memcpy nodes, who forces them, and the islands."""
    edges = _Edges(graph)
    islands = _islands(graph, edges)
    home = {index: number for number, island in enumerate(islands) for index in island}
    copies = []
    for index, node in enumerate(graph):
        if node.is_copy:
            forced_by = _forced_by(graph, edges, node)
            island = next((home[it] for it in forced_by if it in home), None)
            copies.append(Copy(index, node.op == TO_HOST, _copied_tensor(node), forced_by, island))
    return Layout(tuple(copies), islands)


def _copied_tensor(node: Node) -> str:
    """ONNX Runtime leaves a tensor its name on the host's side and makes one up for the device's."""
    return node.outputs[0] if node.op == TO_HOST else node.inputs[0]


def _forced_by(graph: Sequence[Node], edges: _Edges, node: Node) -> tuple[int, ...]:
    tensor = _copied_tensor(node)
    if node.op == FROM_HOST and tensor in edges.givers:
        return (edges.givers[tensor],)
    readers = [index for index in edges.readers[tensor] if not graph[index].is_copy]
    return tuple(index for index in readers if node.op == TO_HOST or graph[index].on_cpu)


def _islands(graph: Sequence[Node], edges: _Edges) -> tuple[tuple[int, ...], ...]:
    group = {index: index for index, node in enumerate(graph) if node.on_cpu}

    def top(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for tensor, giver in edges.givers.items():
        if not graph[giver].on_cpu and graph[giver].op != TO_HOST:
            continue
        tied = [top(index) for index in (giver, *edges.readers[tensor]) if index in group]
        for index in tied[1:]:
            group[max(top(index), top(tied[0]))] = min(top(index), top(tied[0]))
    found: dict[int, list[int]] = defaultdict(list)
    for index in group:
        found[top(index)].append(index)
    return tuple(tuple(members) for members in found.values())


def position(graph: Sequence[Node], island: Collection[int]) -> str:
    """Where an island stands in its graph: ``start`` (it needs nothing that other nodes give), ``end`` (no other node
    needs what it gives), ``apart`` (both), or ``middle`` (neither, or it is in a branch or a body)."""
    members = set(island)
    own = {None, *members}
    if any(graph[index].inside is not None for index in members):
        return "middle"
    edges = _Edges(graph)
    read = {tensor for index in members for tensor in graph[index].inputs}
    given = {tensor for index in members for tensor in graph[index].outputs}
    starts = all(edges.givers.get(tensor) in own for tensor in read)
    ends = all(reader in members for tensor in given for reader in edges.readers[tensor])
    return {(True, True): "apart", (True, False): "start", (False, True): "end", (False, False): "middle"}[starts, ends]


def with_copies(graph: Sequence[Node], inputs: Sequence[str]) -> list[Node]:
    """A graph whose nodes have been placed, and behind it the Memcpy nodes that ONNX Runtime will put in, nameless and
    in its order.

    It is a prediction: it takes every node on another EP to keep all it reads and gives in device memory, as graphs do
    that an EP compiled. Operators with kernels may read a shape, say, in host memory. What passes into a branch or a
    body has no Memcpy node: it is copied on entry.
    """
    edges = _Edges(graph)
    wired = list(graph)
    made: list[Node] = []
    given = sorted(edges.givers)  # ONNX Runtime goes through them in the order of their names
    for tensor in (*inputs, *(it for it in given if wired[edges.givers[it]].on_cpu)):
        readers = _readers_beside(graph, edges, tensor)
        devices = [index for index in readers if not graph[index].on_cpu]
        if devices and (tensor in edges.givers or len(devices) < len(readers)):
            made.append(Node("", FROM_HOST, None, (tensor,), (_on_device(tensor),), graph[devices[0]].inside))
            _rename(wired, tensor, devices)
    for tensor in given:
        giver = edges.givers[tensor]
        readers = _readers_beside(graph, edges, tensor)
        if not graph[giver].on_cpu and any(graph[index].on_cpu for index in readers):
            made.append(Node("", TO_HOST, None, (_on_device(tensor),), (tensor,), graph[giver].inside))
            _rename(wired, tensor, [giver, *(index for index in readers if not graph[index].on_cpu)])
    return [*wired, *made]


def _readers_beside(graph: Sequence[Node], edges: _Edges, tensor: str) -> list[int]:
    """The readers of a tensor that stand in the same graph as its giver."""
    inside = graph[edges.givers[tensor]].inside if tensor in edges.givers else None
    return [index for index in edges.readers[tensor] if graph[index].inside == inside]


def _on_device(tensor: str) -> str:
    return f"{tensor}@device"


def _rename(graph: list[Node], tensor: str, nodes: Iterable[int]) -> None:
    for index in nodes:
        node = graph[index]
        inputs, outputs = (
            tuple(_on_device(it) if it == tensor else it for it in names) for names in (node.inputs, node.outputs)
        )
        graph[index] = replace(node, inputs=inputs, outputs=outputs)


_FEW, _MOST = 0.1, 0.5  # of the nodes, and of the time


def fell_back(result: Result) -> str | None:
    """How much of the model did not run on the EP that was asked for: ``all`` or ``most``; None where less did, or nobody
    can tell. Where nodes were profiled their times count, else their number does."""
    nodes, ep = result.placement["nodes"], result.target["ep"]
    if not nodes or ep == CPU_EP or kind_of(result.kind).of_stages:  # the stages of a chain may each have another EP
        return None
    there, whole = nodes.get(ep, 0), sum(nodes.values())
    if there <= _FEW * whole:
        return "most" if there else "all"
    part = nodes.get(CPU_EP, 0) / whole
    if result.nodes is not None:
        part = sum(row["share"] for row in result.nodes["eps"] if row["ep"] == CPU_EP)
    return "most" if part > _MOST else None


def nodes_stay(count: int) -> str:
    """That so many nodes do not move to the EP, up to where they are."""
    return "1 node stays" if count == 1 else f"{count} nodes stay"


def copies_inside(result: Result) -> bool:
    """Whether Memcpy nodes copy inside the graph, so that other copies are those at its edges."""
    return bool(result.placement["memcpy_nodes"])


def moved_inside(result: Result) -> str:
    """What Memcpy nodes copy in a run: their number, and how much each way as far as that is known."""
    count = result.placement["memcpy_nodes"]
    of = " of all stages" if "stages" in (result.part or {}) else ""
    said = f"{count} Memcpy {f'node{of} copies' if count == 1 else f'nodes{of} copy'}"
    found = result.placement.get("memcpy")
    if found is None:
        return f"{said} between CPU and device"
    ways = (found["to_host"], "to the host"), (found["from_host"], "from the host")
    moved = [(it["bytes"], words) for it, words in ways if it["nodes"]]
    return f"{said} {' and '.join(words if known is None else f'{size(known)} {words}' for known, words in moved)}"


def bytes_inside(result: Result) -> int | None:
    """What Memcpy nodes copy in a run, bytes; None where that is not known."""
    found = result.placement.get("memcpy")
    ways = [] if found is None else [found["to_host"]["bytes"], found["from_host"]["bytes"]]
    return sum(count or 0 for count in ways) if ways and None not in ways else None


def is_much_inside(result: Result) -> bool:
    """Whether more is copied inside the graph than in and out of it, or nobody knows."""
    inside = bytes_inside(result)
    sizes = [tensor["bytes"] for tensor in (*result.model["inputs"], *result.model["outputs"])]
    return inside is None or inside >= sum(size or 0 for size in sizes)


_NODE_NS, _BYTES_PER_NS = 12_500, 10  # of a Memcpy node, and of its copy, on an H100 (reports/gpu-h100)


def share_inside(result: Result) -> float | None:
    """About which part of the shortest inference Memcpy nodes take, by their number and what they copy; None where that is not known."""
    inside, count = bytes_inside(result), result.placement["memcpy_nodes"] or 0
    latencies = [ns for case in result.cases if case.status == OK and (ns := case.median(LATENCY))]
    if inside is None or not latencies:
        return None
    return (count * _NODE_NS + inside / _BYTES_PER_NS) * (work_of(result).steps or 1) / min(latencies)


MOST = 10  # rows of a table; the rest is one line
NOT_KNOWN = "not known"


def short(ep: str | None) -> str:
    return "between EPs" if ep is None else ep.removesuffix("ExecutionProvider") or ep


def forced_by(nodes: Sequence[NodeReference] | None) -> str:
    """The first of the nodes that force a copy, and how many more there are."""
    if not nodes:
        return NOT_KNOWN
    more = f" +{len(nodes) - 1}" if len(nodes) > 1 else ""
    return _node_name(nodes[0]) + more


def _node_name(node: NodeReference) -> str:
    """A node's name, with its operator where the name does not say it."""
    return str(node["name"]) if node["op"] in node["name"] else f"{node['op']} {node['name']}".rstrip()


def operators_of(island: Island) -> str:
    """An island's operators with how many nodes there are of each, the commonest first."""
    return ", ".join(count_operators(Counter(node["op"] for node in island["nodes"])))


def count_operators(operators: Counter[str]) -> list[str]:
    return [f"{count} {op}" if count > 1 else op for op, count in operators.most_common()]


def outlook(copies: InnerCopies) -> list[str]:
    """What is to be said before a measurement, from what `ortbench inspect` found of copies inside the graph."""
    if copies["problem"] is not None:
        return [f"Which nodes force Memcpy nodes is not known: {copies['problem']}."]
    if not copies["memcpy"]:
        return []
    return ["Memcpy nodes copy in each inference. ortbench run --measure-nodes shows their time and what to do."]
