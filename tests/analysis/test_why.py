"""Why one profile takes longer than another: which nodes are the same, what changed, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ortbench.analysis.node_times import by_round, faster_of, made_of
from ortbench.analysis.placement import Node
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BadInput
from ortbench.facts.sentences import sentence
from ortbench.features.why.analysis import (
    ADDED,
    CHANGED,
    FUSED,
    GONE,
    MOVED,
    REPLACED,
    REST,
    SAME,
    changes,
    name_node,
    whole,
)
from ortbench.features.why.facts import (
    Why,
    change_fact,
    confirmation,
    explain,
    limit_facts,
    not_confirmed,
    why_data,
    why_facts,
)
from ortbench.features.why.report import explanation
from ortbench.model.result import Result
from ortbench.model.schema import Nodes, ProfiledNode
from ortbench.report.comparison import build
from ortbench.report.markdown import markdown
from tests.results import EP, MS, US, measured, noise_of, profiled, result_of, steady

ROUNDS = 8
WOBBLE = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0)


def node(op: str, name: str, ns: int, read: str = "", given: str = "", **changed: Any) -> ProfiledNode:
    """A node of which only the first tensor that it reads and the one that it gives matter."""
    made = {
        "name": name, "op": op, "ep": EP, "of": [name], "inputs": [read] if read else None, "outputs": [given] if given else None,
        "reads": ["float[8]"], "gives": ["float[8]"], "inside": None, "ns": [round(ns * it) for it in WOBBLE],
    }  # fmt: skip
    return cast(ProfiledNode, made | changed)


def chain(*ops: tuple[str, int], first: int = 0, **changed: Any) -> list[ProfiledNode]:
    """Nodes behind each other, numbered as exporters do it, each of an operator and a time."""
    return [node(op, f"{op}_{at}", ns, f"t{at}", f"t{at + 1}", **changed) for at, (op, ns) in enumerate(ops, first)]


def nodes_of(each: list[ProfiledNode]) -> Nodes:
    taken = sum(it["ns"][0] for it in each)
    return profiled(each=each, run_ns=taken, rounds_ns=[taken] * ROUNDS, memcpy=[], islands=[])


Told = tuple[str, list[str], list[str], float]


def told(base: list[ProfiledNode], own: list[ProfiledNode]) -> list[Told]:
    """Each change but the rest: its kind, the nodes of both sides, and what it takes."""
    found = changes(nodes_of(base), nodes_of(own))
    return [
        (it.kind, [a["name"] for a in it.base], [b["name"] for b in it.own], it.ns) for it in found if it.kind != REST
    ]


LAYERS = (("Conv", 100 * US), ("Relu", 10 * US))


PLAIN = chain(*LAYERS * 4)
THREE = [node("Relu", "a", 10 * US, "x", "a"), node("Det", "b", 5 * US, "a", "b"), node("Erf", "c", 10 * US, "b", "y")]
MOVED_DET = [
    THREE[0], node("MemcpyToHost", "up", 200 * US, of=[]), node("Det", "b", 50 * US, "a", "b", ep=CPU_EP),
    node("MemcpyFromHost", "down", 100 * US, of=[]), THREE[2],
]  # fmt: skip
DOUBLE: Any = {"reads": ["double[8]"], "gives": ["double[8]"]}
CAST = [
    *PLAIN[:2], node("Cast", "Cast_a", 20 * US), node("Conv", "Conv_2", 300 * US, **DOUBLE), node("Cast", "Cast_b", 20 * US), *PLAIN[3:],
]  # fmt: skip
ENDS = [node("MatMul", "MatMul_0", 90 * US, "t0", "t1"), node("Softmax", "Softmax_9", 5 * US, "t4", "y")]
GELU = [ENDS[0], node("Gelu", "Gelu_1", 15 * US, "t1", "t4"), ENDS[1]]
ERF = [ENDS[0], *chain(("Div", 10 * US), ("Erf", 20 * US), ("Mul", 10 * US), first=1), ENDS[1]]


@pytest.mark.parametrize(
    ("base", "own", "found"),
    [
        (PLAIN, chain(*LAYERS * 2, ("Clip", 50 * US), *LAYERS * 2), [(ADDED, [], ["Clip_4"], 50 * US)]),
        (chain(*LAYERS * 2, ("Clip", 50 * US), *LAYERS * 2), PLAIN, [(GONE, ["Clip_4"], [], -50 * US)]),
        # Those that are alike are one change.
        (PLAIN, chain(*(*LAYERS, ("Clip", 20 * US)) * 4), [(ADDED, [], ["Clip_2", "Clip_5", "Clip_8", "Clip_11"], 80 * US)]),
        (GELU, ERF, [(REPLACED, ["Gelu_1"], ["Div_1", "Erf_2", "Mul_3"], 25 * US)]),
        # What was put in for the change goes with it.
        (THREE, MOVED_DET, [(MOVED, ["b"], ["up", "b", "down"], 345 * US)]),
        (PLAIN, CAST, [(CHANGED, ["Conv_2"], ["Cast_a", "Conv_2", "Cast_b"], 240 * US)]),
        (THREE, [THREE[1], THREE[2], THREE[0]], []),  # only the order differs
    ],
)  # fmt: skip
def test_what_changed(base: list[ProfiledNode], own: list[ProfiledNode], found: list[Told]) -> None:
    assert told(base, own) == found


def test_what_a_node_was_made_of_says_that_it_is_fused_no_longer() -> None:
    base = [
        node("Conv", "r0_nchwc", 100 * US, "x", "a", of=["Conv_0", "Relu_0"]),
        node("Tanh", "Tanh_0", 10 * US, "a", "y"),
    ]
    own = [
        node("Conv", "c0_nchwc", 100 * US, "x", "c", of=["Conv_0"]),
        node("Relu", "Relu_0", 30 * US, "c", "a"),
        node("Tanh", "Tanh_0", 10 * US, "a", "y"),
    ]
    assert told(base, own) == [(FUSED, ["r0_nchwc"], ["c0_nchwc", "Relu_0"], 30 * US)]
    change, *_ = changes(nodes_of(base), nodes_of(own))
    assert sentence(change_fact(change)) == (
        "Nodes fused differently: Conv, Relu (Conv_0, Relu_0) in place of Conv (Conv_0 + Relu_0)."
    )


def test_the_same_nodes_are_told_by_operator_and_by_name_where_few_make_the_difference() -> None:
    base = chain(*LAYERS * 6)
    own = chain(*LAYERS * 6)
    own[4] = node("Conv", "Conv_4", 900 * US, "t4", "t5")
    [slower] = [it for it in changes(nodes_of(base), nodes_of(own)) if it.kind != REST]
    assert (slower.kind, slower.ns, len(slower.own)) == (SAME, 800 * US, 6)
    assert [it["name"] for it in slower.mainly] == ["Conv_4"]
    assert slower.ci95 is not None and slower.ci95[0] > 0  # noqa: PT018


# What a node was made of


def test_a_fused_node_stands_for_all_back_to_what_others_give() -> None:
    from tests.analysis.test_node_times import timed

    model = [Node(name, op, None, (reads,), (gives,)) for name, op, reads, gives in [
        ("c0", "Conv", "x", "t0"), ("r0", "Relu", "t0", "t1"), ("c1", "Conv", "t1", "t2"), ("r1", "Relu", "t2", "y"),
    ]]  # fmt: skip
    ran = [
        timed("ReorderInput", [1], op="ReorderInput"),
        timed("t1_nchwc", [1], op="Conv"),
        timed("fused c1", [1], op="FusedConv"),
    ]
    wired = [
        None,
        Node("t1_nchwc", "Conv", None, ("reorder",), ("token",)),
        Node("fused c1", "FusedConv", None, ("t1",), ("y",)),
    ]
    assert made_of(ran, wired, model) == [[], ["c0", "r0"], ["c1", "r1"]]


def test_a_convolution_in_a_blocked_layout_takes_what_is_behind_it() -> None:
    """It keeps the name of its own output; an older ONNX Runtime has nodes for the activation, which have no names."""
    from ortbench.analysis.node_times import as_run
    from tests.analysis.test_node_times import timed

    model = [Node(name, op, None, (reads,), (gives,)) for name, op, reads, gives in [
        ("c0", "Conv", "x", "t0"), ("h0", "HardSwish", "t0", "t1"), ("c1", "Conv", "t1", "t2"), ("h1", "HardSwish", "t2", "y"),
    ]]  # fmt: skip
    graph = [
        Node("t0_nchwc", "Conv", None, ("x",), ("r0",)),
        Node("t2_nchwc", "Conv", None, ("r0",), ("r1",)),
        Node("ReorderOutput", "ReorderOutput", None, ("r1",), ("y",)),
    ]
    ran = [timed(node.name, [1], op=node.op) for node in graph]
    assert made_of(ran, graph, model) == [["c0", "h0"], ["c1", "h1"], []]
    old = [
        graph[0],
        Node("", "HardSigmoid", None, ("r0",), ("s0",)),
        Node("", "Mul", None, ("r0", "s0"), ("t1",)),
        Node("t2_nchwc", "Conv", None, ("t1",), ("t2",)),
        Node("", "HardSigmoid", None, ("t2",), ("s1",)),
        Node("", "Mul", None, ("t2", "s1"), ("y",)),
    ]
    ran = [timed(node.name or f"{node.op}_{9 * at}", [1], op=node.op) for at, node in enumerate(old)]
    assert as_run(old, ran) == [replace(it, ep=node.ep) for it, node in zip(old, ran, strict=True)]
    assert made_of(ran, old, model) == [["c0"], [], ["h0"], ["c1"], [], ["h1"]]


def test_a_mul_that_became_a_convolution_in_a_blocked_layout_is_known_by_its_name() -> None:
    """ONNX Runtime calls it by its output; what is behind it is part of it, what is before it is not."""
    from tests.analysis.test_node_times import timed

    model = [Node(name, op, None, reads, (gives,)) for name, op, reads, gives in [
        ("conv", "Conv", ("x",), "t0"), ("relu", "Relu", ("t0",), "t1"), ("scale", "Mul", ("s", "t1"), "t2"), ("act", "Relu", ("t2",), "t3"),
        ("norm", "BatchNormalization", ("t3",), "t4_mul"), ("gate", "Sigmoid", ("t4_mul",), "t5"), ("on", "Mul", ("t4_mul", "t5"), "y"),
    ]]  # fmt: skip
    graph = [
        Node("t1_nchwc", "Conv", None, ("x",), ("r0",)),
        Node("t2_mul_nchwc", "Conv", None, ("r0",), ("r1",)),
        Node("t4_mul_bn_nchwc", "Conv", None, ("r1",), ("r2",)),
        Node("on/QuickGeluFusion/", "QuickGelu", None, ("r2",), ("r3",)),
        Node("ReorderOutput", "ReorderOutput", None, ("r3",), ("y",)),
    ]
    ran = [timed(node.name, [1], op=node.op) for node in graph]
    assert made_of(ran, graph, model) == [["conv", "relu"], ["scale", "act"], ["norm"], ["gate", "on"], []]


def test_a_cast_that_onnxruntime_put_in_hides_no_output() -> None:
    from tests.analysis.test_node_times import timed

    model = [Node("a", "MatMul", None, ("x",), ("t",)), Node("b", "Relu", None, ("t",), ("y",))]
    ran = [timed("fused a/MatMulAddFusion", [1], op="FusedGemm")]
    graph = [Node(ran[0].name, "FusedGemm", None, ("x",), ("InsertedPrecisionFreeCast_y",))]
    assert made_of(ran, graph, model) == [["a", "b"]]


@pytest.mark.parametrize(
    ("of", "name"),
    [
        ([], "t1_nchwc"),
        (["scale"], "scale"),
        (["conv", "relu"], "conv + relu"),
        (["conv", "norm", "relu", "clip"], "conv + … + clip"),
    ],
)
def test_a_node_that_was_rewritten_is_called_by_the_models_nodes(of: list[str], name: str) -> None:
    assert name_node(node("Conv", "t1_nchwc", US, of=of)) == name
    assert name_node(node("Conv", "conv", US, of=["conv", "norm", "relu", "clip"])) == "conv"


def test_a_round_is_the_faster_half_of_its_runs_of_nodes_too() -> None:
    runs = [10, 20, 30, 90, 30, 10, 10, 30]
    assert faster_of(runs, [4, 4]) == [[0, 1], [5, 6]]
    assert by_round(runs, faster_of(runs, [4, 4])) == [15, 10]
    assert by_round([1, 3, 99, 99, 99, 5, 5, 99], faster_of(runs, [4, 4])) == [2, 5]
    assert by_round([5, 7], faster_of([5, 7], [1, 1])) == [5, 7]
    assert faster_of([9, 5, 7], [2, 1]) == [[1], [2]]


def test_what_nodes_take_and_what_is_outside_add_up_where_rounds_are_held_up() -> None:
    """Every other round one node takes 10 ms more: medians of the changes would leave half of it outside of nodes."""
    base, own = chain(*LAYERS), chain(*LAYERS, ("Clip", 50 * US))
    for at in range(1, ROUNDS, 4):
        own[at % 2]["ns"][at] += 10 * MS
    sides = [nodes_of(it) for it in (base, own)]
    for side in sides:
        side["rounds_ns"] = [sum(it["ns"][at] for it in side["each"]) + 5 * US for at in range(ROUNDS)]
    ns = [it.ns for it in changes(sides[0], sides[1])]
    base_ns, own_ns, _ = whole(sides[0], sides[1])
    assert sum(ns) == pytest.approx(own_ns - base_ns)
    assert own_ns - base_ns == pytest.approx(50 * US, rel=0.05)


# The answer


def result(each: list[ProfiledNode], ns: int, **changed: Any) -> Result:
    blocks = steady(round(ns * it) for it in WOBBLE)
    made = result_of(measured("cpu-tensors", latency=blocks), run_id="one", **changed)
    made.nodes = nodes_of(each)
    return made


def why() -> Why:
    clips = [("Clip", 20 * US)] * 20
    base, own = chain(*LAYERS * 4), chain(*LAYERS * 4, *clips)
    return explain(result(base, 440 * US), result(own, 870 * US))


def lines(found: Why) -> list[str]:
    return [sentence(it) for it in why_facts(found)]


def said(found: Why, each: list[ProfiledNode]) -> str:
    """A comparison that ends with it, as Markdown."""
    results = [result(each, MS), result(each, MS)]
    return markdown(build(results, ["one", "other"], 0.02, in_order=False, explanation=explanation(found)))


CLIPS = [("Clip", 20 * US)] * 20
ALL_CLIPS = "Added: Clip ×20 (Clip_8, Clip_9, Clip_10 and 17 more)."


@pytest.mark.parametrize(
    ("more", "outside_ns", "own_ns", "said"),
    [
        (CLIPS, 0, 870 * US, ["takes 430 µs longer; under the profiler 400 µs, 100% of it in the change below.", ALL_CLIPS]),
        (CLIPS, 100 * US, 870 * US, ["takes 430 µs longer; under the profiler 500 µs, 80% of it in the change below.", ALL_CLIPS]),
        # The latencies differ by 20 µs: a change is a share of what they differ by under the profiler, not 2000% of the 20 µs.
        (CLIPS, 0, 460 * US, ["takes 20.0 µs longer; under the profiler 400 µs, 100% of it in the change below.", ALL_CLIPS]),
        (CLIPS[:1], 0, 440 * US, ["does not differ.", "Added: Clip (Clip_8)."]),
        ([], 0, 870 * US, ["takes 430 µs longer, which the profiler does not show."]),
        ([], 430 * US, 870 * US, ["takes 430 µs longer; no changed node explains it."]),
    ],
)  # fmt: skip
def test_the_answer(more: list[tuple[str, int]], outside_ns: int, own_ns: int, said: list[str]) -> None:
    base, own = result(PLAIN, 440 * US), result(chain(*LAYERS * 4, *more), own_ns)
    assert own.nodes is not None
    own.nodes["rounds_ns"] = [it + outside_ns for it in own.nodes["rounds_ns"]]
    found = explain(base, own)
    assert lines(found) == [f"Why: cpu-tensors {said[0]}", *said[1:]]
    shares = [found.share(it.ns) for it in found.changes]
    if found.is_profiled:
        assert sum(it or 0 for it in shares) + (found.share(found.unexplained_ns) or 0) == pytest.approx(1.0)
        assert found.unexplained_ns == outside_ns
    else:
        assert (found.culprit, {*shares}) == (None, {None})


def test_a_difference_that_cannot_be_told_has_no_share() -> None:
    base, own = chain(*LAYERS), chain(*LAYERS, ("Clip", 20 * US))
    slow = result_of(measured("cpu-tensors", latency=steady(MS * it for it in (1, 2, 1, 2, 1, 2, 1, 2))), run_id="one")
    slow.nodes = nodes_of(own)
    found = explain(result(base, MS), slow)
    assert (found.culprit, found.share(1.0)) == (None, None)
    assert lines(found) == ["Why: cannot tell whether cpu-tensors differs.", "Added: Clip (Clip_2)."]
    told = explain(result(base, MS), slow, told={"cpu-tensors": 1.1})  # by a gate's own test
    assert told.certain
    assert told.ns == pytest.approx(0.1 * MS)
    assert explain(result(base, MS), slow, told={"cpu-tensors": 0.3}).verdict == "faster"


def test_unchanged_nodes_are_no_cause_where_processes_or_a_busy_machine_may_have_made_it() -> None:
    base, alike, slower = (chain(*[("Conv", ns), ("Relu", 10 * US)] * 4) for ns in (100 * US, 101 * US, 140 * US))
    assert [it.kind for it in changes(nodes_of(base), nodes_of(alike))] == [REST]
    assert [it.kind for it in changes(nodes_of(base), nodes_of(slower))] == [SAME, REST]
    sides = result(base, 440 * US), result(slower, 600 * US)
    assert [it.kind for it in explain(*sides).changes] == [SAME, REST]
    for it in sides:
        it.noise = noise_of(2, 1.5, [0.5] * 8)
    found = explain(*sides, told={"cpu-tensors": 1.36})
    assert ([it.kind for it in found.changes], found.culprit) == ([REST], None)


def test_a_graph_that_an_ep_compiled_whole_is_said_to_hide_its_nodes() -> None:
    whole = [node(f"{EP}_1", f"{EP}_graph_1", 400 * US)]
    found = explain(result(whole, 440 * US), result(whole, 870 * US))
    limits = [sentence(it) for it in limit_facts(found)]
    assert f"{EP} compiled 1 graph of the candidate whole: what changed inside is not known." in limits


def test_what_else_changed_is_content_fusions_copies_and_settings() -> None:
    content: Any = {
        "operators": {"Conv": 1, "Relu": 1},
        "opsets": {"ai.onnx": 17, "ai.onnx.preview.training": 1, "com.microsoft": 1},
        "weights": [{"type": "float32", "count": 2, "bytes": 4000}],
    }
    other: Any = {
        **content,
        "opsets": {"ai.onnx": 18, "ai.onnx.ml": 5},
        "weights": [{"type": "float16", "count": 2, "bytes": 2000}],
    }
    base = [node("FusedConv", "Conv_0", 10 * US, of=["Conv_0", "Relu_0"])]
    own = [*chain(*LAYERS), node("MemcpyToHost", "Memcpy", 5 * US, of=[])]
    results = result(base, MS), result(own, 2 * MS)
    for it, has in zip(results, (content, other), strict=True):
        assert it.nodes is not None
        it.nodes["content"] = has
    results[1].target = {**results[1].target, "opt_level": "basic"}
    found = explain(*results).others
    for line in (
        "number of Memcpy nodes: 0 → 1",
        "nodes that ONNX Runtime fused into FusedConv: 1 → 0",
        "opset ai.onnx: 17 → 18",
        "initializers of type float32: 2 (4.00 kB together) → 0",
        "initializers of type float16: 0 → 2 (2.00 kB together)",
    ):
        assert line in found
    assert any(it.endswith("→ basic") for it in found)
    assert [it for it in found if it.startswith("opset")] == ["opset ai.onnx: 17 → 18"]  # no domains that no node is of
    content["operators"] = {**content["operators"], "com.microsoft:Gelu": 1}
    assert "opset com.microsoft: 1 → 0" in explain(*results).others


def test_results_without_nodes_cannot_be_explained() -> None:
    with pytest.raises(BadInput, match="has no nodes: measure it with --measure-nodes"):
        explain(result_of(measured("cpu-tensors", latency=steady([MS] * 8))), result(chain(*LAYERS), MS))


def test_only_what_is_saved_for_certain_and_is_about_the_claim_confirms() -> None:
    found = why()
    culprit = found.culprit
    assert culprit is not None  # it claims 400 of 430 µs
    for saved, ns, slower, verdict in [
        ((380e3, 420e3), 400e3, 430e3, "confirmed"),
        ((420e3, 460e3), 440e3, 430e3, "confirmed"),
        ((600e3, 700e3), 650e3, 430e3, "confirmed"),
        ((150e3, 420e3), 300e3, 430e3, "confirmed"),
        ((40e3, 100e3), 70e3, 80e3, "confirmed"),  # as on a GPU, where the profiler took most of the 400 µs
        ((-150e3, 420e3), 300e3, 430e3, "open"),
        ((380e3, 420e3), 400e3, -5e3, "not-slower"),
        ((50e3, 150e3), 100e3, 430e3, "not-confirmed"),
        ((-20e3, 30e3), 5e3, 430e3, "not-confirmed"),
        ((-30e3, 20e3), -5e3, 430e3, "not-confirmed"),
        ((2e6, 4e6), 3e6, 430e3, "not-confirmed"),
        (None, 400e3, 430e3, "not-measured"),
    ]:
        told = replace(found, confirmation=confirmation(culprit, saved, ns, slower, 1.73e6))
        (*_, fact) = why_facts(told)
        assert (fact.code, fact.verdict) == ("confirmation", verdict)
        assert why_data(told)["confirmation"]["confirmed"] is (verdict == "confirmed")
    sure = replace(found, confirmation=confirmation(culprit, (380e3, 420e3), 400e3, 430e3, 1.73e6))
    assert lines(sure) == [
        "Why: cpu-tensors takes 430 µs longer because of the change below.",
        "Added: Clip ×20 (Clip_8, Clip_9, Clip_10 and 17 more).",
        "Confirmed: in another run, without the profiler, the candidate takes 1.73 ms, 1.33 ms without the change: 400 µs (380–420 µs) less. The baseline takes 1.30 ms.",
    ]


def test_json_and_markdown_say_the_same() -> None:
    found = replace(why(), confirmation=not_confirmed("a model cannot be read as ONNX"))
    data = why_data(found)
    assert [data["sentence"], data["changes"][0]["text"], data["confirmation"]["text"]] == lines(found)
    assert [it["code"] for it in data["findings"]] == ["why", "change", "confirmation"]
    assert next((it["kind"], it["share"]) for it in data["changes"]) == (ADDED, pytest.approx(1.0))
    text = said(found, chain(*LAYERS))
    for words in (
        *lines(found),
        "Not confirmed: a model cannot be read as ONNX.",
        "added: Clip ×20",
        "outside of nodes",
    ):
        assert words in text
