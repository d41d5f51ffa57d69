"""What ran where, and what ONNX Runtime therefore copies inside the graph: it comes before any figure. Pure."""

from __future__ import annotations

from collections import Counter

from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.node_advice import MOST_KINDS, listed, node_findings
from ortbench.analysis.findings.program import inspection, node_times
from ortbench.core.ep_names import CPU_EP
from ortbench.core.units import share, size
from ortbench.model.kinds import KINDS
from ortbench.model.result import Result

_FEW = 0.1  # of the nodes: nearly nothing
_MOST = 0.5


def missed(result: Result) -> str | None:
    """That (nearly) nothing ran on the EP that was asked for, in a few words; None where more did, or nobody can tell."""
    nodes, ep = result.placement["nodes"], result.target["ep"]
    if not nodes or ep == CPU_EP or KINDS[result.kind].of_stages:  # the stages of a chain may each have another EP
        return None
    there, whole = nodes.get(ep, 0), sum(nodes.values())
    where = "the CPU" if nodes.keys() <= {ep, CPU_EP} else "other EPs"
    if there == 0:
        return f"Nothing ran on {ep}: {f'all {whole} nodes are' if whole > 1 else 'the one node is'} on {where}"
    return (
        f"Nearly nothing ran on {ep}: {whole - there} of {whole} nodes are on {where}"
        if there <= _FEW * whole
        else None
    )


def mostly_on_cpu(result: Result) -> str | None:
    """That most of the model runs on the CPU, though the EP has its part, in a few words; else None.

    Where nodes were profiled their times count: what is on the CPU is timed there in full. Else their number does.
    """
    nodes, ep = result.placement["nodes"], result.target["ep"]
    if not nodes or ep == CPU_EP or KINDS[result.kind].of_stages or missed(result) is not None:
        return None
    there, whole = nodes.get(CPU_EP, 0), sum(nodes.values())
    counted = f"{there} of {whole} nodes"
    if result.nodes is not None:
        part = sum(row["share"] for row in result.nodes["eps"] if row["ep"] == CPU_EP)
        return f"Most of an inference is on the CPU, not on {ep}: ≈{share(part)}, {counted}" if part > _MOST else None
    return f"Most of the model is on the CPU, not on {ep}: {counted}" if there > _MOST * whole else None


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


def placed_findings(result: Result) -> list[Finding]:
    """What to say first where nodes are not where they were asked for, or copies are inside the graph."""
    off = missed(result) or mostly_on_cpu(result)
    operators = _operators(result)
    found = [] if off is None else [Finding(f"{off}{operators}", "", inspection(result), Weight.DOUBT, "unclear")]
    if copies_inside(result) and result.nodes is not None:
        found += node_findings(result)  # what they cost, and which nodes force them
    elif copies_inside(result):
        cause = _cause(result, "" if off else operators)
        evidence = "; ".join(filter(None, (cause, "counted as inference, not as copies")))
        weight = Weight.ANSWER if _is_much(result) else Weight.GAIN
        of = (
            f" of {'its' if result.placement['memcpy_nodes'] == 1 else 'their'} stage"
            if "stages" in (result.part or {})
            else ""
        )
        found.append(
            Finding(
                f"{moved_inside(result)} in each inference{of}, in every mode", evidence, node_times(result), weight
            )
        )
    return found


def _is_much(result: Result) -> bool:
    """Whether more is copied inside the graph than in and out of it, or nobody knows."""
    inside = bytes_inside(result)
    sizes = [tensor["bytes"] for tensor in (*result.model["inputs"], *result.model["outputs"])]
    return inside is None or inside >= sum(size or 0 for size in sizes)


def _cause(result: Result, operators: str) -> str:
    nodes = result.placement["nodes"] or {}
    count, whole = nodes.get(CPU_EP, 0), sum(nodes.values())
    if not count:
        return ""
    return f"{count} of {whole} nodes {'is' if count == 1 else 'are'} on the CPU{operators}"


def _operators(result: Result) -> str:
    """The operators that stay on the CPU, in brackets."""
    operators = Counter(result.placement.get("cpu_operators") or {})
    return f" ({listed(operators, MOST_KINDS)})" if operators else ""
