"""Why a session wants an input or output in ordinary host memory though its EP computes elsewhere: its graph says it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortbench.analysis.nodes.islands import Node
from ortbench.core.safe_text import listed
from ortbench.worker.looks.graph import Placed, nodes_of

_MOST = 3  # operators that are named


def reasons(path: str, placed: Placed | None, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """What makes an output, or reads an input, in host memory, in words.

    Args:
        path: of the model.
        placed: where its nodes are; None where that is not known.
        inputs, outputs: names of those that are in host memory.

    Returns:
        By name; without those that the graph does not explain, as of a model in ORT format.
    """
    if placed is None or Path(path).suffix == ".ort":
        return {}
    try:
        import onnx

        nodes, _ = nodes_of(onnx.load(path, load_external_data=False), placed)
    except Exception:  # no such package; protobuf and onnx raise many kinds, and a reason is no reason to lose a mode
        return {}
    made = {name: _said([node for node in nodes if name in node.outputs], "makes", "leaves") for name in outputs}
    read = {name: _said([node for node in nodes if name in node.inputs], "reads", "takes") for name in inputs}
    return {name: said for name, said in (read | made).items() if said is not None}


def _said(having: Sequence[Node], does: str, keeps: str) -> str | None:
    """Which of the nodes that have a tensor does so on the CPU or, where none does, keeps it there by itself."""
    on_cpu = list(dict.fromkeys(node.op for node in having if node.on_cpu))
    if on_cpu:
        return f"{_listed(on_cpu)} {_verb(does, on_cpu)} it on the CPU"
    others = list(dict.fromkeys(node.op for node in having if node.ep is not None))
    return f"{_listed(others)} {_verb(keeps, others)} it there" if others else None


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    shown = [*names[:_MOST], *([f"{more} more"] if more > 0 else [])]
    return listed(shown)


def _verb(verb: str, names: Sequence[str]) -> str:
    return verb if len(names) == 1 else verb.removesuffix("s")
