"""The pass behind `ortbench run --nodes`, and the same without times for `ortbench inspect --ep`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ortbench.analysis.nodes import node_summary
from ortbench.analysis.nodes.islands import Node
from ortbench.analysis.nodes.node_times import Timed, counted
from ortbench.core.ep_names import CPU_EP
from ortbench.core.errors import OrtbenchError
from ortbench.plan.ep_options import with_own
from ortbench.plan.target import Inputs, Target
from ortbench.worker.looks import graph as looks_graph
from ortbench.worker.looks import ort_profile
from ortbench.worker.looks.ort_profile import NodeEvent, Profile
from ortbench.worker.session import first_run, placement, providers, session
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.tensors import Array

if TYPE_CHECKING:
    from ortbench.model.schema import CountedCopies, InnerCopies, Nodes


def profile_nodes(path: str, target: Target, request: Inputs, runs: int) -> tuple[Nodes, Profile]:
    """Profile some runs and say what its nodes and the copies between them take: the key ``nodes`` of a result.

    Args:
        path: of the model.
        target: the EP and the session.
        request: the inputs.
        runs: how many.

    Returns:
        That, and the profile that it is of.

    Raises:
        OrtbenchError: the model cannot be opened or run, or its profile not be read.
    """
    provider = providers.find(target)
    target = with_own(target, provider.name)
    content = looks_graph.with_names(path)
    with ort_profile.recording(path, target, provider, content) as recorder:
        arrays, _, _ = first_run.make_inputs(path, recorder.model, request)
        placed = placement.placed(recorder.model)
        profile = recorder.take(arrays, runs)
    del recorder  # and with it the session, before there is another one
    timed = node_times(profile)
    graph, problem = _graph(path, target, provider, content, placed, timed)
    return node_summary.summary([duration for _, duration in profile.runs], timed, graph, problem), profile


def outline(
    path: str, target: Target, model: session.Model, content: bytes | None, profile: Profile | None
) -> InnerCopies:
    """The Memcpy nodes and the islands of an open model without times; see `ortbench.analysis.nodes.node_summary.outline`.

    Args:
        path: of the model.
        target: what it was opened with.
        model: it.
        content: the model from `graphs.with_names` that was opened.
        profile: of one run; None where it could not be run.
    """
    timed = [] if profile is None else node_times(profile)
    graph, problem = _graph(path, target, model.provider, content, placement.placed(model), timed)
    return node_summary.outline(graph, timed, problem)


def count_copies(path: str, target: Target, provider: Provider, arrays: dict[str, Array]) -> CountedCopies:
    """How many Memcpy nodes one run has, and what they copy: keys of a result's ``placement``."""
    try:
        timed = node_times(ort_profile.profile_runs(path, target, provider, arrays, 1, warmup=0))
    except OrtbenchError:  # the count is a help in reading the figures: never worth losing them for
        return {"memcpy_nodes": None}
    return counted(timed)


def _graph(
    path: str,
    target: Target,
    provider: Provider,
    content: bytes | None,
    placed: looks_graph.Placed | None,
    timed: Sequence[Timed],
) -> tuple[list[Node] | None, str | None]:
    """The graph, where it has more than one EP, and why it is not known."""
    if provider.name == CPU_EP or (timed and not any(node.is_copy or node.ep == CPU_EP for node in timed)):
        return [], None
    if not timed and placed is not None and CPU_EP not in {ep for ep, _, _ in placed}:
        return [], None
    try:
        return looks_graph.find(path, target, provider, content, placed, timed), None
    except looks_graph.NotKnown as error:
        return None, str(error)


@dataclass
class _Sum:
    """What one node has been seen to do so far."""

    event: NodeEvent
    inside: int | None
    ns: list[int]
    bytes: list[int]


def node_times(profile: Profile) -> list[Timed]:
    """The nodes of a profile, a node before those in its branches or body, in the order in which they first ran."""
    sums: list[_Sum] = []
    indices: dict[tuple[int | None, str, str, str, Any], int] = {}
    open_nodes: dict[int, list[tuple[NodeEvent, int]]] = defaultdict(list)  # by thread, the innermost last
    for event in profile.events:
        around = open_nodes[event.thread]
        while around and event.start_ns >= around[-1][0].start_ns + around[-1][0].duration_ns:
            around.pop()
        inside = around[-1][1] if around else None
        key = (inside, event.name, event.op, event.ep, event.args.get("node_index"))
        index = indices.setdefault(key, len(sums))
        if index == len(sums):
            sums.append(_Sum(event, inside, [0] * len(profile.runs), [0] * len(profile.runs)))
        sums[index].ns[event.run] += event.duration_ns
        sums[index].bytes[event.run] += int(event.args.get("output_size", 0))
        if inside is not None:
            sums[inside].ns[event.run] -= event.duration_ns
        around.append((event, index))
    return [_timed(it) for it in sums]


def _timed(found: _Sum) -> Timed:
    event = found.event
    return Timed(
        name=event.name,
        op=event.op,
        ep=event.ep,
        number=int(event.args.get("node_index", -1)),
        inside=found.inside,
        ns=tuple(found.ns),
        bytes=max(found.bytes),
        reads=_types(event.args.get("input_type_shape", ())),
        gives=_types(event.args.get("output_type_shape", ())),
    )


def _types(recorded: Sequence[dict[str, list[int]]]) -> tuple[str, ...]:
    """Types and shapes as ONNX Runtime records them, ``[{"float": [8, 4]}]``, as text."""
    return tuple(f"{name}[{','.join(map(str, shape))}]" for entry in recorded for name, shape in entry.items())
