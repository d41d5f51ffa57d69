"""What profiled runs come to: exact, from nodes that are written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortbench.analysis.node_times import (
    Timed,
    as_run,
    named_copies,
    same_nodes,
    summary,
)
from ortbench.analysis.placement import FROM_HOST, TO_HOST, Node, with_copies
from ortbench.core.eps import CPU_EP
from tests.analysis.test_islands import GPU, from_host, node, to_host
from tests.expect import there


def timed(
    name: str,
    ns: list[int],
    ep: str = GPU,
    op: str = "Op",
    number: int = 0,
    inside: int | None = None,
    size: int = 0,
    reads: tuple[str, ...] = ("float[2]",),
    gives: tuple[str, ...] = ("float[2]",),
) -> Timed:
    return Timed(name, op, ep, number, inside, tuple(ns), size, reads, gives)


GRAPH = [
    node("first", "x", "a@device"), to_host("a", "Memcpy_1"), node("island", "a", "b", CPU_EP, op="Det"),
    from_host("b"), node("last", "b@device", "y"),
]  # fmt: skip
TIMED = [
    timed("first", [10, 20, 60], op="Relu"),
    timed("Memcpy_1", [100, 100, 130], op=TO_HOST, size=64, reads=("float[4,4]",)),
    timed("island", [300, 310, 320], CPU_EP, op="Det", reads=("float[4,4]",)),
    timed("Memcpy", [30, 30, 20], CPU_EP, op=FROM_HOST, size=16, reads=("float[4]",)),
    timed("last", [40, 40, 40], op="Relu"),
]


def rows(found: Mapping[str, Any], key: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in found[key]]


def test_the_summary_is_of_means_over_the_faster_half_of_the_runs() -> None:
    found = summary([800, 1000, 1200], TIMED, GRAPH)
    assert (found["runs"], found["run_ns"], found["outside_ns"], found["problem"]) == (3, 900, 410, None)
    assert rows(found, "operators", "op", "ep", "nodes", "ns", "share") == [
        ("Det", CPU_EP, 1, 305, 0.338889),
        (TO_HOST, None, 1, 100, 0.111111),
        ("Relu", GPU, 2, 55, 0.061111),
        (FROM_HOST, None, 1, 30, 0.033333),
    ]
    assert rows(found, "eps", "ep", "nodes", "ns") == [(CPU_EP, 1, 305), (None, 2, 130), (GPU, 2, 55)]
    det = {"name": "island", "op": "Det", "ep": CPU_EP}
    assert found["memcpy"] == [
        {"name": "Memcpy_1", "direction": "to host", "tensor": "a", "type": "float[4,4]", "bytes": 64, "ns": 100,
         "forced_by": [det], "island": 0},
        {"name": "Memcpy", "direction": "from host", "tensor": "b", "type": "float[4]", "bytes": 16, "ns": 30,
         "forced_by": [det], "island": 0},
    ]  # fmt: skip
    assert found["islands"] == [
        {"nodes": [{"name": "island", "op": "Det", "reads": ["float[4,4]"], "ns": 305}], "position": "middle",
         "node_ns": 305, "to_host": 1, "from_host": 1, "bytes": 80, "memcpy_ns": 130, "ns": 435, "share": 0.483333},
    ]  # fmt: skip


IF = [
    node("if", "c then/b else/b", "y", CPU_EP, op="If"),
    to_host("then/a", "Memcpy", inside=0), node("then/n", "then/a", "then/b", CPU_EP, 0, "then_branch"),
    to_host("else/a", "Memcpy", inside=0), node("else/n", "else/a", "else/b", CPU_EP, 0, "else_branch"),
]  # fmt: skip
BRANCHES = [
    Node(it.name, it.op, it.ep, it.inputs, it.outputs, it.inside, it.outputs[0].split("/")[0] + "_branch")
    if it.inside is not None
    else it
    for it in IF
]


def test_nodes_are_the_same_by_name_and_place() -> None:
    ran = [
        timed("if", [9], op="If"),
        timed("Memcpy", [1], op=TO_HOST, inside=0),
        timed("else/n", [1], CPU_EP, inside=0),
    ]
    assert same_nodes(BRANCHES, ran) == {0: 0, 1: 3, 2: 4}
    kept = as_run(BRANCHES, ran)
    assert [(it.name, it.ep, it.inside) for it in kept] == [
        ("if", GPU, None), ("Memcpy", GPU, 0), ("else/n", CPU_EP, 0),
    ]  # fmt: skip
    assert same_nodes(BRANCHES, ran[:2]) == {0: 0}  # nothing says which branch it was
    graph = [node("Relu_0", "x", "a"), node("if", "c", "y", op="If"), node("Relu_0", "a", "b", inside=1)]
    ran = [timed("if", [9], op="If"), timed("Relu_0", [1], inside=0)]
    assert same_nodes(graph, ran) == {0: 1, 1: 2}
    graph = [node("conv", "x", "a", CPU_EP, op="Conv"), node("gemm", "a", "y", CPU_EP, op="Gemm")]
    ran = [timed("conv", [1], CPU_EP, op="FusedConv"), timed("fused gemm", [1], CPU_EP, op="FusedGemm")]
    assert same_nodes(graph, ran) == {0: 0, 1: 1}


PREDICTED = with_copies(
    [node("0", "x", "a"), node("1", "a", "b", CPU_EP), node("2", "b", "c"), node("3", "c", "d", CPU_EP)], ["x"]
)
RAN = [
    timed("Memcpy_later", [1], op=TO_HOST, number=9, reads=("float[3]",)),
    timed("1", [1], CPU_EP, reads=("float[1]",), gives=("float[2]",)),
    timed("Memcpy", [1], op=FROM_HOST, number=7, reads=("float[2]",)),
    timed("Memcpy_first", [1], op=TO_HOST, number=8, reads=("float[1]",)),
    timed("3", [1], CPU_EP, reads=("float[3]",)),
]


def test_a_prediction_that_the_runs_refute_is_none() -> None:
    assert named_copies(PREDICTED, RAN[1:]) is None  # a copy less
    other = [*RAN[:3], timed("Memcpy_first", [1], op=TO_HOST, number=8, reads=("float[9]",)), RAN[4]]
    assert named_copies(PREDICTED, other) is None  # it copied something else


def test_of_a_prediction_only_the_branch_that_ran_is_kept() -> None:
    givers = [node("then/up", "z", "then/a", inside=0), node("else/up", "z", "else/a", inside=0)]
    wired = with_copies([*(it for it in BRANCHES if not it.is_copy), *givers], [])
    ran = [
        timed("if", [9], CPU_EP, op="If"),
        timed("Memcpy", [1], op=TO_HOST, inside=0),
        timed("else/n", [1], CPU_EP, inside=0),
    ]
    named = there(named_copies(wired, ran))
    assert [(it.name, it.inside) for it in named] == [("if", None), ("else/n", 0), ("Memcpy", 0)]
    assert named[2].outputs == ("else/a",)
