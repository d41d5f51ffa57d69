"""Every node that ran, with its tensors and the model's nodes that it was made of: the key ``each`` of a result's ``nodes``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import fmean

from ortbench.analysis.nodes.islands import FROM_HOST, TO_HOST, Node
from ortbench.analysis.nodes.node_times import Timed, faster, same_nodes
from ortbench.model.schema import ProfiledNode

# Nodes that are numbered anew in every session, so that no name tells which is which.
_REORDERING = ("ReorderInput", "ReorderOutput")
_PUT_IN = (TO_HOST, FROM_HOST, *_REORDERING)
_MADE_CAST = "InsertedPrecisionFreeCast"
_BLOCKED = "_nchwc"  # ONNX Runtime calls a convolution in a blocked layout by its output and this
_CONVERTED = re.compile(r"_(mul|bn)_nchwc$")  # and one that was a Mul or a BatchNormalization by this
_FUSED, _PAD = "fused ", "Pad"
_BY_FUSION = re.compile(r"(/\w+Fusion/?)+$")  # and a fused node by one of its nodes and this


def is_put_in(op: str, name: str) -> bool:
    """Whether ONNX Runtime put a node in that the model has not."""
    return op in _PUT_IN or name.startswith(_MADE_CAST)


def is_compiled(node: ProfiledNode) -> bool:
    """Whether it stands for a graph that its EP compiled."""
    return node["name"].startswith(f"{node['ep']}_")


def each_node(
    timed: Sequence[Timed], graph: Sequence[Node] | None, model: Sequence[Node], rounds: Sequence[Sequence[int]]
) -> list[ProfiledNode]:
    """The nodes of profiled runs, which make up rounds; see `faster_of`.

    `graph` has the same nodes with their tensors, where that is known, and `model` is the graph of the model's file.
    """
    there = {} if graph is None else same_nodes(graph, timed)
    wired = [
        None if graph is None or at not in there or node.op in _REORDERING else graph[there[at]]
        for at, node in enumerate(timed)
    ]
    made = made_of(timed, wired, model)
    return [
        {
            "name": node.name,
            "op": node.op,
            "ep": node.ep,
            "of": made[at],
            "inputs": None if (edges := wired[at]) is None else list(edges.inputs),
            "outputs": None if edges is None else list(edges.outputs),
            "reads": list(node.reads),
            "gives": list(node.gives),
            "inside": node.inside,
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


def made_of(timed: Sequence[Timed], wired: Sequence[Node | None], model: Sequence[Node]) -> list[list[str]]:
    """The names of the model's nodes that each node was made of.

    A fused node stands for the nodes from where its output is made back to what other nodes give. A convolution in a blocked
    layout that takes an activation in keeps its name, and so stands for what is left behind it too.
    """
    givers = {tensor: at for at, node in enumerate(model) if node.inside is None for tensor in node.outputs}
    named = {node.name: at for at, node in enumerate(model) if node.inside is None}
    ends: list[list[str]] = []
    for node, edges in zip(timed, wired, strict=True):
        blocked = [node.name.removesuffix(_BLOCKED), _CONVERTED.sub("", node.name)]
        given = next((it for it in blocked if it != node.name and it in givers), None)
        if node.inside is not None or is_put_in(node.op, node.name):
            ends.append([])
        elif given is not None:
            ends.append([given])
        else:
            tensors = [] if edges is None else [it.removeprefix(f"{_MADE_CAST}_") for it in edges.outputs]
            outputs = [it for it in tensors if it in givers]
            at = named.get(_BY_FUSION.sub("", node.name.removeprefix(_FUSED)))
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
    return [
        [node.name] if node.inside is not None else [model[at].name for at in sorted(mine)]
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
