"""Which nodes of one profile stand for which of another. Pure.

Nodes are the same by an alignment in the order in which they run; those of a quantized model by the tensors of the models' files, whose
names what quantizes keeps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ortbench.analysis.node_times import REORDERING, is_put_in, operator
from ortbench.model.schema import ProfiledNode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.int32]

_QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear")
CONVERTING = ("Cast", "Transpose", "DequantizeLinear", *_QUANTIZING)


def describe_nodes(nodes: Sequence[ProfiledNode], is_plain: bool = False) -> list[Traits]:
    """What tells which node is which; `is_plain`: whether a quantized operator is the same as its original."""
    readers: dict[str, list[str]] = defaultdict(list)
    givers: dict[str, str] = {}
    for node in nodes:
        for tensor in node["inputs"] or ():
            readers[tensor].append(node["op"])
        givers.update(dict.fromkeys(node["outputs"] or (), node["op"]))
    return [
        Traits(
            op=(plain(node) if is_plain else operator(node), node["inside"] is None),
            gives=tuple(node["gives"]),
            reads=tuple(node["reads"][:1]),  # others may be weights, which are left out once they are packed
            before=tuple(givers.get(it) for it in node["inputs"] or ()),
            after=tuple(sorted(op for it in node["outputs"] or () for op in readers[it])),
            name=tuple(node["of"]) or node["name"],
            outputs=tuple(node["outputs"] or ()),
        )
        for node in nodes
    ]


# Quantized models
#
# What quantizes a model keeps the names of its tensors, and puts nodes between them. So nodes of both models that give one tensor stand
# for each other, and nodes that give none of the other model's belong to what reads them, as a QuantizeLinear does, or else to what they
# read from.


_FORM = re.compile(r"^(QLinear|DynamicQuantize|Nhwc|Fused|Q(?=[A-Z]))+|(Integer(ToFloat)?|NBits|Bnb4)$")
_INTEGER = re.compile(r"[Qq]uantize|QLinear|Integer|NBits|Bnb4|^Q[A-Z]")
_SCALING = ("Mul", "Add", "Cast", "DequantizeLinear")  # which give what an operator on integers stands for
ACTIVATIONS = ("Relu", "Clip")  # which quantizing makes part of what they read
_BLOCK = 16  # channels
_DIMS = re.compile(r"\d+")
_WRONG = 0.1  # of the tensors of one name: where so many are of other operators, names tell nothing

_Key = tuple[int, int]  # a graph and a number
Rows = list[tuple[list[ProfiledNode], list[ProfiledNode]]]


def is_quantized(node: ProfiledNode) -> bool:
    """Whether it works on quantized numbers, or makes them."""
    return _INTEGER.search(node["op"]) is not None


def plain(node: ProfiledNode) -> str:
    """The operator of a node, or that whose quantized or fused form it is."""
    op = node["op"] if node["op"] in CONVERTING else _FORM.sub("", operator(node))
    return "MatMul" if op == "Gemm" else op  # which ONNX Runtime makes of each other


def match_quantized(base: Sequence[ProfiledNode], own: Sequence[ProfiledNode]) -> Rows | None:
    """The nodes of two models, a row each with what stands for them; None where neither is quantized."""
    if not any(map(is_quantized, (*base, *own))):
        return None
    links = _same_tensors(base, own)
    if links is None:
        pairs = align(*(describe_nodes(it, is_plain=True) for it in (base, own)))
        links = [(a, b) for a, b in pairs if a is not None and b is not None]
    rows = _Rows((base, own), links)
    for graph in (0, 1):
        rows.attach(graph)
    return rows.rows()


def _same_tensors(base: Sequence[ProfiledNode], own: Sequence[ProfiledNode]) -> list[tuple[int, int]] | None:
    """The numbers of the nodes that give a tensor that both models have; None where its name does not make it the same."""
    mine, theirs = _givers(base), _givers(own)
    shared = [(mine[tensor], theirs[tensor]) for tensor in mine if tensor in theirs]
    pairs = [(base[a], own[b]) for a, b in shared]
    # Of a node that was made of several, and of one that converts or scales, the operator does not tell what gives the tensor.
    skipped = {*CONVERTING, *ACTIVATIONS, *(_SCALING if any("Integer" in it["op"] for it in (*base, *own)) else ())}
    told = [it for it in pairs if all(len(node["of"]) == 1 or is_quantized(node) for node in it)]
    told = [it for it in told if not {node["op"] for node in it} & skipped]
    wrong = sum(plain(a) != plain(b) for a, b in told)
    ends = [(a, b) for a, b in pairs if _last(a) == _last(b)]
    is_told = pairs and wrong <= _WRONG * len(told) and all(_sizes(a) == _sizes(b) for a, b in ends)
    return shared if is_told else None


def _givers(nodes: Sequence[ProfiledNode]) -> dict[str, int]:
    """By tensor of the model's file the node that gives it; one that is only there as integers has the name of what it was."""
    found = {tensor: at for at, node in enumerate(nodes) for tensor in node["makes"]}
    for tensor, at in [*found.items()]:
        if nodes[at]["op"] not in _QUANTIZING:
            found.setdefault(tensor.removesuffix("_quantized"), at)
    return found


def _last(node: ProfiledNode) -> str:
    return next(iter(node["makes"][-1:]), node["name"])


def _sizes(node: ProfiledNode) -> list[list[int]]:
    """The dimensions of what it gives, in whatever layout: one in blocks of channels has them whole."""
    dims = [[int(size) for size in _DIMS.findall(it.partition("[")[2])] for it in node["gives"][:1]]
    return [sorted(-(-size // _BLOCK) for size in it) for it in dims]


class _Rows:
    """Nodes of both graphs, by graph and number, in rows that grow; each begins in one of its own."""

    def __init__(self, graphs: Sequence[Sequence[ProfiledNode]], links: Iterable[tuple[int, int]]) -> None:
        self._graphs = graphs
        self._top = {(graph, at): (graph, at) for graph, nodes in enumerate(graphs) for at in range(len(nodes))}
        self._linked = {it for a, b in links for it in ((0, a), (1, b))}
        for a, b in links:
            self._top[self._find((1, b))] = self._find((0, a))
        self._ops: dict[tuple[int, _Key], set[str]] = defaultdict(set)  # of what is linked, by graph and row
        for graph, at in self._linked:
            self._ops[graph, self._find((graph, at))].add(plain(graphs[graph][at]))

    def _find(self, node: _Key) -> _Key:
        while self._top[node] != node:
            node = self._top[node]
        return node

    def _neighbours(self, graph: int) -> tuple[list[set[int]], list[set[int]]]:
        """What reads each node of a graph, and what each reads from; of what ONNX Runtime numbers anew what runs beside it."""
        nodes = self._graphs[graph]
        givers = {tensor: at for at, node in enumerate(nodes) for tensor in node["outputs"] or ()}
        gives = [{givers[it] for it in node["inputs"] or () if it in givers} for node in nodes]
        for at, node in enumerate(nodes):
            if node["op"] == REORDERING[1] and at:
                gives[at].add(at - 1)
            elif node["op"] == REORDERING[0] and at + 1 < len(nodes):
                gives[at + 1].add(at)
        reads: list[set[int]] = [set() for _ in nodes]
        for at, found in enumerate(gives):
            for giver in found:
                reads[giver].add(at)
        return reads, gives

    def attach(self, graph: int) -> None:
        """Put what gives no tensor of the other graph into the row that it is for."""
        nodes = self._graphs[graph]
        reads, gives = self._neighbours(graph)
        for at in reversed(range(len(nodes))):
            if not self._is_of(graph, at, gives[at]) and self._is_for(graph, at, reads[at]):
                self._assign((graph, at), reads[at])
        for at, node in enumerate(nodes):
            scales = node["op"] in _SCALING and any("Integer" in nodes[it]["op"] for it in gives[at])
            is_last = node["op"] in CONVERTING and not reads[at]
            is_left = scales or is_last or is_put_in(node["op"], node["name"])
            if self._find((graph, at)) == (graph, at) and (is_left or self._is_of(graph, at, gives[at])):
                self._assign((graph, at), gives[at])

    def _is_of(self, graph: int, at: int, givers: set[int]) -> bool:
        """Whether a node is there for what it reads from: an activation that the other graph has no more, or the end of a quantized part."""
        nodes = self._graphs[graph]
        op = nodes[at]["op"]
        if op == "DequantizeLinear":
            return any(is_quantized(nodes[it]) and nodes[it]["op"] not in CONVERTING for it in givers)
        return op == REORDERING[1] or (graph == 0 and op in ACTIVATIONS)

    def _is_for(self, graph: int, at: int, readers: set[int]) -> bool:
        """Whether a node is there for what reads it: it converts, or both graphs have other operators there."""
        node, tops = self._graphs[graph][at], {self._find((graph, it)) for it in readers}
        if node["op"] in CONVERTING or is_put_in(node["op"], node["name"]):
            return True
        return not any(self._ops[0, top] & self._ops[1, top] for top in tops)

    def _assign(self, node: _Key, others: set[int]) -> None:
        tops = {self._find((node[0], it)) for it in others}
        if node not in self._linked and len(tops) == 1:
            self._top[self._find(node)] = tops.pop()

    def rows(self) -> Rows:
        found: dict[_Key, tuple[list[ProfiledNode], list[ProfiledNode]]] = defaultdict(lambda: ([], []))
        for graph, at in self._top:
            found[self._find((graph, at))][graph].append(self._graphs[graph][at])
        return [*found.values()]


# Which node is which: an alignment in the order in which they run.
#
# An exporter that numbers nodes gives every node behind an inserted one another name, so a name alone decides nothing. Two nodes
# can be the same one only if they have one operator; of all alignments the one with the highest score is taken (Needleman &
# Wunsch, J. Molecular Biology 48 (1970) 443), in which operators count most, then shapes, then neighbours, and names last.


class Traits(NamedTuple):
    """What tells a node: each is compared as a whole."""

    op: Hashable  # nodes of two are never the same
    gives: Hashable = None
    reads: Hashable = None
    before: Hashable = None  # the operators that it reads from
    after: Hashable = None  # those that read it
    name: Hashable = None
    outputs: Hashable = None


Pair = tuple[int | None, int | None]

_WEIGHTS = Traits(op=16, gives=4, reads=2, before=2, after=2, name=1, outputs=1)
_MOST_CELLS = 30_000_000  # cells of a table of scores: 120 MB


def align(one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The nodes of both in order, graph by graph where they are the same: each once, None on the graph that lacks it."""
    shortest = min(len(one), len(other))
    head = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    left = shortest - head
    tail = next((at for at in range(left) if one[-1 - at] != other[-1 - at]), left)
    middle = _align_scored(one[head : len(one) - tail], other[head : len(other) - tail])
    found: list[Pair] = [(at, at) for at in range(head)]
    found += [(None if a is None else a + head, None if b is None else b + head) for a, b in middle]
    found += [(len(one) - tail + at, len(other) - tail + at) for at in range(tail)]
    return _with_moved(found, one, other)


def _align_scored(one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    if not one or not other or len(one) * len(other) > _MOST_CELLS:
        return [*((at, None) for at in range(len(one))), *((None, at) for at in range(len(other)))]
    import numpy as np

    codes: list[dict[Hashable, int]] = [{} for _ in Traits._fields]

    def encode(nodes: Sequence[Traits]) -> Scores:
        return np.array(
            [[code.setdefault(it, len(code)) for it, code in zip(node, codes, strict=True)] for node in nodes], np.int32
        )

    mine, theirs = encode(one), encode(other)
    best = np.zeros((len(one) + 1, len(other) + 1), np.int32)
    for row, node in enumerate(mine, 1):
        scores = (theirs == node) @ np.array(_WEIGHTS, np.int32)
        matched = np.where(theirs[:, 0] == node[0], best[row - 1, :-1] + scores, 0)
        best[row, 1:] = np.maximum(best[row - 1, 1:], matched)
        np.maximum.accumulate(best[row], out=best[row])
    return _path(best, one, other)


def _path(best: Scores, one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The way to the highest score, from its end."""
    found: list[Pair] = []
    a, b = len(one), len(other)
    while a or b:
        if a and b and best[a, b] > max(best[a - 1, b], best[a, b - 1]):
            a, b = a - 1, b - 1
            found.append((a, b))
        elif b and (not a or best[a, b] == best[a, b - 1]):
            b -= 1
            found.append((None, b))
        else:
            a -= 1
            found.append((a, None))
    return found[::-1]


def _with_moved(found: Sequence[Pair], one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The same, where nodes that only run earlier or later are graph by graph too: those of one operator, name and shape."""
    gone: dict[Hashable, list[int]] = defaultdict(list)
    came: dict[Hashable, list[int]] = defaultdict(list)
    for a, b in found:
        if a is None and b is not None:
            came[_identity(other[b])].append(b)
        elif b is None and a is not None:
            gone[_identity(one[a])].append(a)
    moved = {gone[key][0]: came[key][0] for key in gone if len(gone[key]) == 1 == len(came.get(key, ()))}
    here = set(moved.values())
    kept = [(a, b) for a, b in found if a is not None or b not in here]
    return [(a, moved[a]) if a is not None and a in moved else (a, b) for a, b in kept]


def _identity(node: Traits) -> Hashable:
    return node.op, node.name, node.gives
