"""What is said about the nodes of a graph: cells and findings from the key ``nodes`` of a result, and from `inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.core.ep_names import CPU_EP
from ortbench.core.units import count, duration, size
from ortbench.model.result import Result
from ortbench.model.schema import InnerCopies, Island, NodeReference, Nodes

MOST = 10  # rows of a table; the rest is one line
_MOST_ISLANDS = 3  # that get a sentence each
MOST_KINDS = 5  # of operators in a sentence
_LEAST = 0.005  # of a run: what rounds to 0 % is called less than 1 %
_LITTLE, _MUCH = 0.02, 0.1  # of an inference: not worth a change to a model, and what comes before all else
NOT_KNOWN = "not known"
# What devices often have no kernels for, though they have them for float.
_RARE_TYPES = ("double", "int64", "uint64", "int16", "uint16", "int8", "uint8")


def short(ep: str | None) -> str:
    return "between EPs" if ep is None else ep.removesuffix("ExecutionProvider") or ep


def forced_by(nodes: Sequence[NodeReference] | None) -> str:
    """The first of the nodes that force a copy, and how many more there are."""
    if not nodes:
        return NOT_KNOWN
    more = f" +{len(nodes) - 1}" if len(nodes) > 1 else ""
    return _called(nodes[0]) + more


def _called(node: NodeReference) -> str:
    """A node's name, with its operator where the name does not say it."""
    return str(node["name"]) if node["op"] in node["name"] else f"{node['op']} {node['name']}".rstrip()


def _part(share: float) -> str:
    return f"≈{share:.0%}" if share >= _LEAST else "less than 1%"


def operators_of(island: Island, most: int | None = None) -> str:
    """An island's operators with how many nodes there are of each, the commonest first."""
    return listed(Counter(node["op"] for node in island["nodes"]), most)


def listed(operators: Counter[str], most: int | None = None) -> str:
    """Operators with how many nodes there are of each, the commonest first."""
    counts = operators.most_common()
    named = [f"{count} {op}" if count > 1 else op for op, count in counts[:most]]
    more = sum(count for _, count in counts) - sum(count for _, count in counts[:most])
    return ", ".join([*named, *([f"{more} more"] if more else [])])


# Findings


def node_findings(result: Result) -> list[Finding]:
    """What the copies inside the graph cost and what can be done about them, on the CPU EP which operators take the time; empty
    without node times."""
    nodes, ep = result.nodes, result.target["ep"]
    if nodes is None:
        return []
    if ep == CPU_EP:
        return _slowest(nodes)
    if not nodes["memcpy"]:
        return [_none(nodes, ep)]
    paying = [number for number, row in enumerate(nodes["islands"]) if row["to_host"] + row["from_host"]]
    alone = [number for number in paying if _share(nodes["islands"][number]) >= _LITTLE][:_MOST_ISLANDS]
    others = [number for number in paying if number not in alone]
    if len(others) == 1:
        alone, others = [*alone, *others], []
    only = len(nodes["islands"]) == 1
    found = [
        _island(nodes["islands"][it], "A CPU fallback subgraph" if only else f"CPU fallback {it + 1}", ep)
        for it in alone
    ]
    if others:
        name = f"{len(others)} {'more ' if alone else ''}CPU fallback subgraphs"
        found.append(_island(_together([nodes["islands"][number] for number in others]), name, ep, many=True))
    return [*found, *_without_island(nodes, ep)]


def _slowest(nodes: Nodes) -> list[Finding]:
    """The operators that take most of an inference."""
    rows = sorted(nodes["operators"], key=lambda row: -row["share"])[:_MOST_ISLANDS]
    if not rows:
        return []
    first, *rest = [(f"{row['op']} ({count(row['nodes'], 'node')})", _part(row["share"])) for row in rows]
    evidence = f"the next operators are {', '.join(' '.join(it) for it in rest)}" if rest else ""
    return [Finding(f"{first[0]} takes {first[1]} of an inference under the profiler", evidence)]


def _share(island: Island) -> float:
    """What an island that was timed takes of a run."""
    assert island["share"] is not None
    return island["share"]


def _together(islands: Sequence[Island]) -> Island:
    return {
        "nodes": [node for row in islands for node in row["nodes"]],
        "position": None,
        "node_ns": _sum(row["node_ns"] for row in islands),
        "to_host": sum(row["to_host"] for row in islands),
        "from_host": sum(row["from_host"] for row in islands),
        "bytes": _sum(row["bytes"] for row in islands),
        "memcpy_ns": _sum(row["memcpy_ns"] for row in islands),
        "ns": _sum(row["ns"] for row in islands),
        "share": _sum(row["share"] for row in islands),
    }


def are(count: int) -> str:
    """The verb behind so many."""
    return "is" if count == 1 else "are"


_Number = TypeVar("_Number", int, float)


def _sum(values: Iterable[_Number | None]) -> _Number | None:
    """The sum; None where one is not known."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def outlook(copies: InnerCopies) -> list[str]:
    """What is to be said before a measurement, from what `ortbench inspect` found of copies inside the graph."""
    if copies["problem"] is not None:
        return [f"Which nodes force Memcpy nodes is not known: {copies['problem']}."]
    if not copies["memcpy"]:
        return []
    return ["Memcpy nodes copy in each inference. ortbench run --measure-nodes shows their time and what to do."]


def _none(nodes: Nodes, ep: str) -> Finding:
    on_cpu = sum(row["nodes"] for row in nodes["eps"] if row["ep"] == CPU_EP)
    ran = sum(row["nodes"] for row in nodes["eps"])
    where = f"{count(on_cpu, 'node')} of {ep}'s graph ran on the CPU" if on_cpu else _all_on(ran, ep)
    return Finding("No Memcpy node copies between CPU and device", where, weight=Weight.DETAIL)


def _all_on(ran: int, ep: str) -> str:
    return f"{'the one node' if ran == 1 else f'all {ran} nodes'} that ran {are(ran)} on {ep}"


def _island(island: Island, name: str, ep: str, many: bool = False) -> Finding:
    one, copies = len(island["nodes"]) == 1, island["to_host"] + island["from_host"]
    # A copy to the host waits for whatever the device still has to do, which is no cost of the subgraph's.
    most = "up to " if island["to_host"] else ""
    part = _share(island)
    waits = ", which can include waiting for the device" if island["to_host"] else ""
    share = f"{most}{_part(part)}" if part >= _LEAST else _part(part)
    assert island["memcpy_ns"] is not None  # timed as its share is
    assert island["node_ns"] is not None
    evidence = (
        f"{operators_of(island, MOST_KINDS)} on the CPU {'forces' if one else 'force'} {count(copies, 'Memcpy node')}"
        f"{_moving(island)} ({duration(island['memcpy_ns'])} in copies{waits}, {duration(island['node_ns'])} in "
        f"{'the node' if one else 'nodes'})"
    )
    little = part < _LITTLE
    weight = Weight.DETAIL if little else Weight.ANSWER if part >= _MUCH else Weight.GAIN
    verb = "take" if many else "takes"
    return Finding(f"{name} {verb} {share} of an inference", evidence, "" if little else _advice(island, ep), weight)


def _moving(island: Island) -> str:
    if island["bytes"] is None:
        return ""
    return f" that {'moves' if island['to_host'] + island['from_host'] == 1 else 'move'} {size(island['bytes'])}"


_PLACES = {
    "start": "compute it before the model: it needs nothing from the device",
    "end": "compute it after the model: nothing on the device needs it",
    "apart": "compute it outside of the model: it neither takes from the device nor gives to it",
}


def _advice(island: Island, ep: str) -> str:
    rare = _rare(island)
    found = []
    if island["position"] in _PLACES:
        found.append(_PLACES[island["position"]])
    if rare is not None:
        op, kind = rare
        found.append(f"cast to a type that {ep} computes with, if precision allows: {op} reads {kind}")
    else:
        found.append(f"use an operator or an opset that {ep} has a kernel for")
    return "; or ".join(found)


def _rare(island: Island) -> tuple[str, str] | None:
    """An operator of an island whose first input is of a type that devices often lack, and that type."""
    for node in island["nodes"]:
        kind = node["reads"][0].partition("[")[0] if node["reads"] else ""
        if kind in _RARE_TYPES:
            return node["op"], kind
    return None


def _without_island(nodes: Nodes, ep: str) -> list[Finding]:
    """What is to be said of Memcpy nodes that no node on the CPU forces, or of which it is not known."""
    apart = [row for row in nodes["memcpy"] if row["island"] is None]
    known = [row["forced_by"] for row in apart if row["forced_by"]]
    found = []
    if known:
        names = ", ".join(dict.fromkeys(node["op"] for nodes_of_one in known for node in nodes_of_one))
        what = f"{count(len(known), 'Memcpy node')} {are(len(known))} forced by {names} on {ep} itself"
        found.append(Finding(what, "it keeps shapes and indices, for example, in host memory", weight=Weight.DETAIL))
    if len(apart) > len(known):
        what = f"Which nodes force {count(len(apart) - len(known), 'Memcpy node')} is not known"
        found.append(Finding(what, nodes["problem"] or "", weight=Weight.DETAIL, tone="unclear"))
    return found
