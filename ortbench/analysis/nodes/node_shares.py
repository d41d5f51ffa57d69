"""What ran where, and what ONNX Runtime therefore copies inside the graph: it comes before any figure. Pure."""

from __future__ import annotations

from ortbench.core.eps import CPU_EP
from ortbench.core.units import size
from ortbench.model.kinds import kind_of
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Result, work_of

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
