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
    Change,
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


def test_an_inserted_node_is_found_though_all_that_follow_have_another_number() -> None:
    base = chain(*LAYERS * 4)
    own = chain(*LAYERS * 2, ("Clip", 50 * US), *LAYERS * 2)
    assert told(base, own) == [(ADDED, [], ["Clip_4"], 50 * US)]
    assert told(own, base) == [(GONE, ["Clip_4"], [], -50 * US)]


def test_nodes_that_a_gap_splits_up_are_one_change_where_they_are_alike() -> None:
    base = chain(*LAYERS * 4)
    own = chain(*(*LAYERS, ("Clip", 20 * US)) * 4)
    [(kind, _, names, ns)] = told(base, own)
    assert (kind, names, ns) == (ADDED, ["Clip_2", "Clip_5", "Clip_8", "Clip_11"], 80 * US)


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


def test_another_operator_is_in_place_of_several() -> None:
    gelu = chain(("Div", 10 * US), ("Erf", 20 * US), ("Mul", 10 * US), first=1)
    ends = [node("MatMul", "MatMul_0", 90 * US, "t0", "t1"), node("Softmax", "Softmax_9", 5 * US, "t4", "y")]
    own = [ends[0], *gelu, ends[1]]
    base = [ends[0], node("Gelu", "Gelu_1", 15 * US, "t1", "t4"), ends[1]]
    assert told(base, own) == [(REPLACED, ["Gelu_1"], ["Div_1", "Erf_2", "Mul_3"], 25 * US)]


def test_a_node_that_moved_takes_the_copies_with_it() -> None:
    base = [
        node("Relu", "Relu_0", 10 * US, "x", "a"),
        node("Det", "Det_1", 5 * US, "a", "b"),
        node("Relu", "Relu_2", 10 * US, "b", "y"),
    ]
    own = [
        base[0],
        node("MemcpyToHost", "Memcpy", 200 * US, of=[]),
        node("Det", "Det_1", 50 * US, "a", "b", ep=CPU_EP),
        node("MemcpyFromHost", "Memcpy_1", 100 * US, of=[]),
        base[2],
    ]
    [(kind, _, names, ns)] = told(base, own)
    assert (kind, names, ns) == (MOVED, ["Memcpy", "Det_1", "Memcpy_1"], 345 * US)


def test_casts_go_with_the_node_whose_type_they_change() -> None:
    base = chain(*LAYERS * 2)
    double: Any = {"reads": ["double[8]"], "gives": ["double[8]"]}
    own = [
        *base[:2],
        node("Cast", "Cast_a", 20 * US),
        node("Conv", "Conv_2", 300 * US, **double),
        node("Cast", "Cast_b", 20 * US),
        base[3],
    ]
    [(kind, _, names, ns)] = told(base, own)
    assert (kind, names, ns) == (CHANGED, ["Cast_a", "Conv_2", "Cast_b"], 240 * US)


def test_the_same_nodes_are_told_by_operator_and_by_name_where_few_make_the_difference() -> None:
    base = chain(*LAYERS * 6)
    own = chain(*LAYERS * 6)
    own[4] = node("Conv", "Conv_4", 900 * US, "t4", "t5")
    [slower] = [it for it in changes(nodes_of(base), nodes_of(own)) if it.kind != REST]
    assert (slower.kind, slower.ns, len(slower.own)) == (SAME, 800 * US, 6)
    assert [it["name"] for it in slower.mainly] == ["Conv_4"]
    assert slower.ci95 is not None and slower.ci95[0] > 0  # noqa: PT018


def test_a_node_that_only_runs_at_another_time_is_the_same() -> None:
    base = [node("Conv", "a", 10 * US), node("Tanh", "b", 10 * US), node("Erf", "c", 10 * US)]
    assert told(base, [base[1], base[2], base[0]]) == []


def test_nothing_is_left_out_of_the_sum() -> None:
    base = chain(*LAYERS * 3, ("Sin", 7 * US))
    own = chain(("Erf", 13 * US), *LAYERS * 3, ("Clip", 3 * US), ("Cos", 9 * US))
    found = changes(nodes_of(base), nodes_of(own))
    assert sum(it.ns for it in found) == sum(it["ns"][0] for it in own) - sum(it["ns"][0] for it in base)


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


def test_the_facts_say_share_difference_nodes_and_place() -> None:
    clips = "Added: Clip ×20 (Clip_8, Clip_9, Clip_10 and 17 more)."
    found = why()
    takes = "Why: cpu-tensors takes 430 µs longer; under the profiler"
    assert lines(found) == [f"{takes} 400 µs, 100% of it in the change below.", clips]
    assert found.unexplained_ns == 0
    partly = explain_sides(chain(*LAYERS * 4), chain(*LAYERS * 4, *[("Clip", 20 * US)] * 20), own_outside_ns=100 * US)
    assert lines(partly) == [f"{takes} 500 µs, 80% of it in the change below.", clips]
    assert partly.unexplained_ns == 100 * US
    less = explain_sides(chain(*LAYERS * 4), chain(*LAYERS * 4, *[("Clip", 20 * US)] * 20), own_outside_ns=200 * US)
    assert lines(less) == [f"{takes} 600 µs, 67% of it in the change below.", clips]


def explain_sides(base: list[ProfiledNode], own: list[ProfiledNode], own_outside_ns: int = 0) -> Why:
    sides = result(base, 440 * US), result(own, 870 * US)
    assert sides[1].nodes is not None
    sides[1].nodes["rounds_ns"] = [it + own_outside_ns for it in sides[1].nodes["rounds_ns"]]
    return explain(*sides)


def test_shares_are_of_the_profiled_difference_and_add_up_to_it() -> None:
    """The latencies differ by 20 µs, under the profiler by 100: of these a change is a share, not 500 % of the 20 µs."""
    base, own = chain(*LAYERS * 4), chain(*LAYERS * 4, *[("Clip", 5 * US)] * 20)
    found = explain(result(base, 440 * US), result(own, 460 * US))
    shares = [found.share(it.ns) for it in found.changes]
    assert shares[0] == pytest.approx(1.0)
    assert sum(it or 0 for it in shares) + (found.share(found.unexplained_ns) or 0) == pytest.approx(1.0)


def test_without_a_difference_there_is_no_share() -> None:
    base, own = chain(*LAYERS), chain(*LAYERS, ("Clip", 20 * US))
    found = explain(result(base, MS), result(own, MS))
    assert (found.certain, found.culprit, found.share(1.0)) == (False, None, None)
    assert lines(found) == ["Why: cpu-tensors does not differ.", "Added: Clip (Clip_2)."]
    text = said(found, base)
    assert "share of profiled difference" not in text


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


def test_a_difference_that_the_profiler_does_not_show_has_no_share() -> None:
    base = chain(*LAYERS)
    found = explain(result(base, 440 * US), result(base, 870 * US))
    assert (found.culprit, found.share(1.0)) == (None, None)
    assert lines(found) == ["Why: cpu-tensors takes 430 µs longer, which the profiler does not show."]


def test_what_no_node_makes_is_said() -> None:
    found = explain_sides(chain(*LAYERS), chain(*LAYERS), own_outside_ns=430 * US)
    assert found.culprit is None
    assert lines(found) == ["Why: cpu-tensors takes 430 µs longer; no changed node explains it."]


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


def test_nodes_that_onnx_runtime_inserts_are_told_from_those_that_the_model_has() -> None:
    put_in = [node("ReorderOutput", "ReorderOutput_1", US, of=[])]
    base, clips = chain(*LAYERS), chain(*[("Clip", 20 * US)] * 2, first=2)
    added = Change(ADDED, [], [*clips, *put_in], 0, 40 * US, (38 * US, 42 * US))
    assert sentence(change_fact(added)) == "Added: Clip ×2 (Clip_2, Clip_3)."
    alone = replace(added, own=put_in)
    assert sentence(change_fact(alone)) == "Added: ReorderOutput (ReorderOutput_1)."
    assert "| added: Clip ×2 |" in said(replace(why(), changes=[added]), base)


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
