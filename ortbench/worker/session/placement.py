"""Where the nodes of an open model were placed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ortbench.core.ep_names import CPU_EP
from ortbench.worker.session.session import Model

if TYPE_CHECKING:
    from ortbench.model.schema import Placement


def placed(model: Model) -> list[tuple[str, str, str]] | None:
    """EP, name and operator of every node as the EPs were asked for them; None where ORT does not say.

    An EP that compiles subgraphs counts the nodes it took, not the fused ones.
    """
    try:
        subgraphs = model.session.get_provider_graph_assignment_info()
    except Exception:  # an ORT without it
        return None
    found = [(subgraph.ep_name, node.name, node.op_type) for subgraph in subgraphs for node in subgraph.get_nodes()]
    return found or None  # a model in ORT format has nodes, and nothing is said of them


def placement(model: Model) -> Placement:
    """Where the nodes were placed: ``nodes`` per EP, and ``cpu_operators`` (name → count) where another EP was asked for.

    ``memcpy_nodes`` is 0 where nothing can need any, else None until a profile has counted them.
    """
    found = placed(model)
    if found is None:
        return {"nodes": None, "memcpy_nodes": None, "cpu_operators": {}}
    nodes = Counter(ep for ep, _, _ in found)
    operators = Counter(op for ep, _, op in found if ep == CPU_EP != model.provider.name)
    memcpy = 0 if len(nodes) < 2 else None  # with one EP there is nothing to copy between
    return {"nodes": dict(nodes), "memcpy_nodes": memcpy, "cpu_operators": dict(operators.most_common())}
