"""What is said about the nodes of a graph: cells and findings from the key ``nodes`` of a result, and from `inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ortbench.model.schema import InnerCopies, Island, NodeReference

MOST = 10  # rows of a table; the rest is one line
NOT_KNOWN = "not known"


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


def operators_of(island: Island) -> str:
    """An island's operators with how many nodes there are of each, the commonest first."""
    return listed(Counter(node["op"] for node in island["nodes"]))


def listed(operators: Counter[str], most: int | None = None) -> str:
    """Operators with how many nodes there are of each, the commonest first."""
    counts = operators.most_common()
    named = [f"{count} {op}" if count > 1 else op for op, count in counts[:most]]
    more = sum(count for _, count in counts) - sum(count for _, count in counts[:most])
    return ", ".join([*named, *([f"{more} more"] if more else [])])


def outlook(copies: InnerCopies) -> list[str]:
    """What is to be said before a measurement, from what `ortbench inspect` found of copies inside the graph."""
    if copies["problem"] is not None:
        return [f"Which nodes force Memcpy nodes is not known: {copies['problem']}."]
    if not copies["memcpy"]:
        return []
    return ["Memcpy nodes copy in each inference. ortbench run --measure-nodes shows their time and what to do."]
