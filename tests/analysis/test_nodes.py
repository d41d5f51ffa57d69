"""The nodes of a graph: islands on the CPU, who forces the copies, which profiled node is which, and what they take. Exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ortbench.analysis.node_times import Timed, as_run, by_round, faster_of, made_of, named_copies, same_nodes, summary
from ortbench.analysis.placement import FROM_HOST, TO_HOST, Copy, Node, layout, position, with_copies
from ortbench.core.eps import CPU_EP
from tests.expect import there

GPU = "SomeExecutionProvider"


def node(
    name: str, reads: str, gives: str, ep: str | None = GPU, inside: int | None = None, branch: str = "", op: str = "Op"
) -> Node:
    """A node; its tensors are separated by spaces."""
    return Node(name, op, ep, tuple(reads.split()), tuple(gives.split()), inside, branch)


def to_host(tensor: str, name: str = "Memcpy", inside: int | None = None, branch: str = "") -> Node:
    return node(name, f"{tensor}@device", tensor, None, inside, branch, TO_HOST)


def from_host(tensor: str, name: str = "Memcpy", inside: int | None = None) -> Node:
    return node(name, tensor, f"{tensor}@device", None, inside, op=FROM_HOST)


def test_islands_and_who_forces_copies() -> None:
    for graph, islands, copies in (
        ([node("0", "x", "a@device"), to_host("a"), node("2", "a", "b", CPU_EP), node("3", "a", "c", CPU_EP), node("4", "weights", "d", CPU_EP)],
         ((2, 3), (4,)), (Copy(1, True, "a", (2, 3), 0),)),
        ([node("0", "p", "a", CPU_EP), node("1", "q", "b", CPU_EP), node("2", "r", "c", CPU_EP), node("3", "b c", "d", CPU_EP),
          node("4", "a d", "e", CPU_EP)], ((0, 1, 2, 3, 4),), ()),
        # Who forces a copy.
        ([from_host("x"), node("1", "x@device", "y"), node("2", "x", "z", CPU_EP)], ((2,),), (Copy(0, False, "x", (2,), 0),)),
        ([node("0", "x", "shape@device"), to_host("shape"), node("2", "x shape", "y")], (), (Copy(1, True, "shape", (2,), None),)),
        ([node("0", "x", "a@device"), to_host("a")], (), (Copy(1, True, "a", (), None),)),
    ):  # fmt: skip
        found = layout(graph)
        assert (found.islands, found.copies) == (islands, copies)


def test_where_an_island_stands() -> None:
    graph = [
        node("0", "x", "a", CPU_EP), from_host("a"), node("2", "a@device", "b@device"), to_host("b"),
        node("4", "b", "c", CPU_EP), from_host("c"), node("6", "c@device", "d@device"), to_host("d"),
        node("8", "d", "e", CPU_EP), node("9", "x", "f", CPU_EP), node("10", "x", "g", CPU_EP, inside=6),
    ]  # fmt: skip
    assert [position(graph, [index]) for index in (0, 4, 8, 9, 10)] == ["start", "middle", "end", "apart", "middle"]


def test_copies_are_predicted_where_tensors_cross_in_the_order_of_their_names() -> None:
    graph = [
        node("0", "x", "p"), node("1", "p w", "q", CPU_EP), node("2", "x", "b", CPU_EP), node("3", "q b", "y"),
        node("4", "p", "z"), node("5", "only", "unread", CPU_EP),
    ]  # fmt: skip
    wired = with_copies(graph, ["x", "only"])
    assert wired[6:] == [from_host("x", ""), from_host("b", ""), from_host("q", ""), to_host("p", "")]
    assert [(" ".join(it.inputs), " ".join(it.outputs)) for it in wired[:5]] == [
        ("x@device", "p@device"), ("p w", "q"), ("x", "b"), ("q@device b@device", "y"), ("p@device", "z"),
    ]  # fmt: skip
    forced = [(it.tensor, *it.forced_by) for it in layout(wired).copies]
    assert forced == [("x", 2), ("b", 2), ("q", 1), ("p", 1)]
    graph = [
        node("0", "x", "a"),
        node("if", "c inner/b", "y", CPU_EP, op="If"),
        node("2", "a", "inner/p", CPU_EP, inside=1, branch="then_branch"),
        node("3", "inner/p", "inner/b", inside=1, branch="then_branch"),
    ]
    assert with_copies(graph, ["x", "c"])[4:] == [from_host("inner/p", "", inside=1)]


# Profiled nodes


def timed(name: str, ns: Sequence[int] = (1,), ep: str = GPU, op: str = "Op", size: int = 0, **more: Any) -> Timed:
    usual: dict[str, Any] = {"number": 0, "inside": None, "reads": ("float[2]",), "gives": ("float[2]",)}
    return Timed(name, op, ep, ns=tuple(ns), bytes=size, **usual | more)


def columns(found: Mapping[str, Any], key: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found[key]]


def test_the_summary_is_of_means_over_the_faster_half_of_the_runs() -> None:
    graph = [
        node("first", "x", "a@device"), to_host("a", "Memcpy_1"), node("island", "a", "b", CPU_EP, op="Det"), from_host("b"),
        node("last", "b@device", "y"),
    ]  # fmt: skip
    ran = [
        timed("first", [10, 20, 60], op="Relu"),
        timed("Memcpy_1", [100, 100, 130], op=TO_HOST, size=64, reads=("float[4,4]",)),
        timed("island", [300, 310, 320], CPU_EP, op="Det", reads=("float[4,4]",)),
        timed("Memcpy", [30, 30, 20], CPU_EP, op=FROM_HOST, size=16, reads=("float[4]",)),
        timed("last", [40, 40, 40], op="Relu"),
    ]
    found = summary([800, 1000, 1200], ran, graph)
    assert (found["runs"], found["run_ns"], found["outside_ns"], found["problem"]) == (3, 900, 410, None)
    assert columns(found, "operators", "op", "ep", "nodes", "ns", "share") == [
        ("Det", CPU_EP, 1, 305, 0.338889), (TO_HOST, None, 1, 100, 0.111111), ("Relu", GPU, 2, 55, 0.061111), (FROM_HOST, None, 1, 30, 0.033333),
    ]  # fmt: skip
    assert columns(found, "eps", "ep", "nodes", "ns") == [(CPU_EP, 1, 305), (None, 2, 130), (GPU, 2, 55)]
    det = [{"name": "island", "op": "Det", "ep": CPU_EP}]
    assert columns(found, "memcpy", "name", "direction", "tensor", "type", "bytes", "ns", "forced_by", "island") == [
        ("Memcpy_1", "to host", "a", "float[4,4]", 64, 100, det, 0), ("Memcpy", "from host", "b", "float[4]", 16, 30, det, 0),
    ]  # fmt: skip
    assert found["islands"] == [
        {"nodes": [{"name": "island", "op": "Det", "reads": ["float[4,4]"], "ns": 305}], "position": "middle",
         "node_ns": 305, "to_host": 1, "from_host": 1, "bytes": 80, "memcpy_ns": 130, "ns": 435, "share": 0.483333},
    ]  # fmt: skip


BRANCHES = [
    node("if", "c then/b else/b", "y", CPU_EP, op="If"),
    *(it for branch in ("then", "else") for it in (
        to_host(f"{branch}/a", "Memcpy", 0, f"{branch}_branch"), node(f"{branch}/n", f"{branch}/a", f"{branch}/b", CPU_EP, 0, f"{branch}_branch"),
    )),
]  # fmt: skip
RAN = [timed("if", op="If"), timed("Memcpy", op=TO_HOST, inside=0), timed("else/n", ep=CPU_EP, inside=0)]
AGAIN = [node("Relu_0", "x", "a"), node("if", "c", "y", op="If"), node("Relu_0", "a", "b", inside=1)]
FUSED = [node("conv", "x", "a", CPU_EP, op="Conv"), node("gemm", "a", "y", CPU_EP, op="Gemm")]


def test_nodes_are_the_same_by_name_and_place() -> None:
    for graph, ran, same in (
        (BRANCHES, RAN, {0: 0, 1: 3, 2: 4}),
        (AGAIN, [RAN[0], timed("Relu_0", inside=0)], {0: 1, 1: 2}),
        (
            FUSED,
            [timed("conv", ep=CPU_EP, op="FusedConv"), timed("fused gemm", ep=CPU_EP, op="FusedGemm")],
            {0: 0, 1: 1},
        ),
    ):
        assert same_nodes(graph, ran) == same


def test_a_prediction_has_the_names_and_the_branch_of_what_ran_or_is_refuted() -> None:
    assert [(it.name, it.ep, it.inside) for it in as_run(BRANCHES, RAN)] == [
        ("if", GPU, None), ("Memcpy", GPU, 0), ("else/n", CPU_EP, 0),
    ]  # fmt: skip
    givers = [node("then/up", "z", "then/a", inside=0), node("else/up", "z", "else/a", inside=0)]
    found = there(named_copies(with_copies([*(it for it in BRANCHES if not it.is_copy), *givers], []), RAN))
    assert [(it.name, it.inside) for it in found] == [("if", None), ("else/n", 0), ("Memcpy", 0)]
    assert found[2].outputs == ("else/a",)
    predicted = with_copies([node("0", "x", "a"), node("1", "a", "b", CPU_EP), node("2", "b", "c")], ["x"])
    ran = [
        timed("Memcpy_1", op=TO_HOST, number=8, reads=("float[1]",)),
        timed("1", ep=CPU_EP, reads=("float[1]",)),
        timed("Memcpy", op=FROM_HOST, number=7),
    ]
    assert [it.name for it in there(named_copies(predicted, ran)) if it.is_copy] == ["Memcpy", "Memcpy_1"]
    assert named_copies(predicted, ran[1:]) is None  # a copy less
    assert named_copies(predicted, [replace(ran[0], reads=("float[9]",)), *ran[1:]]) is None  # it copied something else


Wired = list[tuple[str, str, str, str]]  # name, operator, what it reads, and the tensor that it gives
SWISH: Wired = [
    ("c0", "Conv", "x", "t0"), ("h0", "HardSwish", "t0", "t1"), ("c1", "Conv", "t1", "t2"), ("h1", "HardSwish", "t2", "y"),
]  # fmt: skip
CONVERTED: Wired = [
    ("conv", "Conv", "x", "t0"), ("relu", "Relu", "t0", "t1"), ("scale", "Mul", "s t1", "t2"), ("act", "Relu", "t2", "t3"),
    ("norm", "BatchNormalization", "t3", "t4_mul"), ("gate", "Sigmoid", "t4_mul", "t5"), ("on", "Mul", "t4_mul t5", "y"),
]  # fmt: skip


def test_the_nodes_that_a_node_was_made_of() -> None:
    for model, graph, made in (
        # A fused node stands for all back to what others give.
        (SWISH, [("t1_nchwc", "Conv", "r", "token"), ("fused c1", "FusedConv", "t1", "y")], [["c0", "h0"], ["c1", "h1"]]),
        # A convolution in a blocked layout, which keeps the name of its own output, takes what is behind it.
        (SWISH, [("t0_nchwc", "Conv", "x", "r0"), ("t2_nchwc", "Conv", "r0", "r1"), ("ReorderOutput", "ReorderOutput", "r1", "y")],
         [["c0", "h0"], ["c1", "h1"], []]),
        # An older ONNX Runtime has nodes for the activation, which have no names.
        (SWISH, [("t0_nchwc", "Conv", "x", "r0"), ("", "HardSigmoid", "r0", "s0"), ("", "Mul", "r0 s0", "t1"), ("t2_nchwc", "Conv", "t1", "t2"),
                 ("", "HardSigmoid", "t2", "s1"), ("", "Mul", "t2 s1", "y")], [["c0"], [], ["h0"], ["c1"], [], ["h1"]]),
        # What became a convolution is called by its output; what is before it is no part of it.
        (CONVERTED, [("t1_nchwc", "Conv", "x", "r0"), ("t2_mul_nchwc", "Conv", "r0", "r1"), ("t4_mul_bn_nchwc", "Conv", "r1", "r2"),
                     ("on/QuickGeluFusion/", "QuickGelu", "r2", "r3"), ("ReorderOutput", "ReorderOutput", "r3", "y")],
         [["conv", "relu"], ["scale", "act"], ["norm"], ["gate", "on"], []]),
        # A cast that ONNX Runtime put in hides no output.
        ([("a", "MatMul", "x", "t"), ("b", "Relu", "t", "y")], [("fused a/MatMulAddFusion", "FusedGemm", "x", "InsertedPrecisionFreeCast_y")],
         [["a", "b"]]),
    ):  # fmt: skip
        wired = [node(name, reads, gives, None, op=op) for name, op, reads, gives in graph]
        ran = [timed(it.name or f"{it.op}_{9 * at}", op=it.op) for at, it in enumerate(wired)]
        assert as_run(wired, ran) == [replace(it, ep=GPU) for it in wired]
        found = made_of(ran, wired, [node(name, reads, gives, None, op=op) for name, op, reads, gives in model])
        assert [[it.name for it in own] for own in found] == made


def test_a_round_is_the_faster_half_of_its_runs_of_nodes_too() -> None:
    runs = [10, 20, 30, 90, 30, 10, 10, 30]
    assert (faster_of(runs, [4, 4]), faster_of([9, 5, 7], [2, 1])) == ([[0, 1], [5, 6]], [[1], [2]])
    assert by_round([1, 3, 99, 99, 99, 5, 5, 99], faster_of(runs, [4, 4])) == [2, 5]
