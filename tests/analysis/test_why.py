"""Why one profile takes longer than another: which nodes are the same, what changed, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ortbench.analysis.node_times import name_node
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BadInput
from ortbench.facts.sentences import sentence
from ortbench.features.why.analysis import ADDED, CHANGED, FUSED, MOVED, REPLACED, REST, SAME, changes, rows, whole
from ortbench.features.why.facts import Why, confirmation, explain, float_confirmation, limit_facts, why_data, why_facts
from ortbench.features.why.report import _table
from ortbench.model.result import Result
from ortbench.model.schema import Nodes, ProfiledNode
from tests.results import EP, MS, US, measured, noise_of, profiled, result_of, steady

ROUNDS = 8
WOBBLE = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0)


def node(op: str, name: str, ns: int, read: str = "", given: str = "", **changed: Any) -> ProfiledNode:
    """A node of which only the first tensor that it reads and the one that it gives matter."""
    made = {
        "name": name, "op": op, "ep": EP, "of": [name], "inputs": [read] if read else None, "outputs": [given] if given else None,
        "reads": ["float[8]"], "gives": ["float[8]"], "inside": None, "makes": [given] if given else [], "count": 1, "ns": [round(ns * it) for it in WOBBLE],
    }  # fmt: skip
    return cast(ProfiledNode, made | changed)


def chain(*ops: tuple[str, int], first: int = 0, **changed: Any) -> list[ProfiledNode]:
    """Nodes behind each other, numbered as exporters do it, each of an operator and a time."""
    return [node(op, f"{op}_{at}", ns, f"t{at}", f"t{at + 1}", **changed) for at, (op, ns) in enumerate(ops, first)]


def nodes_of(each: list[ProfiledNode]) -> Nodes:
    taken = sum(it["ns"][0] for it in each)
    return profiled(each=each, run_ns=taken, rounds_ns=[taken] * ROUNDS, memcpy=[], islands=[])


LAYERS = (("Conv", 100 * US), ("Relu", 10 * US))
PLAIN = chain(*LAYERS * 4)
CLIP = chain(*LAYERS * 2, ("Clip", 50 * US), *LAYERS * 2)
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
TANH = node("Tanh", "Tanh_0", 10 * US, "a", "y")
WHOLE_CONV = [node("Conv", "r0_nchwc", 100 * US, "x", "a", of=["Conv_0", "Relu_0"]), TANH]
BARE_CONV = node("Conv", "c0_nchwc", 100 * US, "x", "c", of=["Conv_0"])
SPLIT_CONV = [BARE_CONV, node("Relu", "Relu_0", 30 * US, "c", "a"), TANH]


def test_what_changed() -> None:
    for base, own, change in (
        (PLAIN, CLIP, (ADDED, [], ["Clip_4"], 50 * US)),
        # Those that are alike are one change.
        (PLAIN, chain(*(*LAYERS, ("Clip", 20 * US)) * 4), (ADDED, [], ["Clip_2", "Clip_5", "Clip_8", "Clip_11"], 80 * US)),
        (GELU, ERF, (REPLACED, ["Gelu_1"], ["Div_1", "Erf_2", "Mul_3"], 25 * US)),
        (WHOLE_CONV, SPLIT_CONV, (FUSED, ["r0_nchwc"], ["c0_nchwc", "Relu_0"], 30 * US)),
        # What was put in for the change goes with it.
        (THREE, MOVED_DET, (MOVED, ["b"], ["up", "b", "down"], 345 * US)),
        (PLAIN, CAST, (CHANGED, ["Conv_2"], ["Cast_a", "Conv_2", "Cast_b"], 240 * US)),
        (THREE, [THREE[1], THREE[2], THREE[0]], None),  # only the order differs
    ):  # fmt: skip
        found = [it for it in changes(rows(nodes_of(base), nodes_of(own))) if it.kind != REST]
        named = [(it.kind, [a["name"] for a in it.base], [b["name"] for b in it.own], it.ns) for it in found]
        assert named == ([] if change is None else [change])


def test_the_same_nodes_are_named_where_few_make_the_difference() -> None:
    own = chain(*LAYERS * 6)
    own[4] = node("Conv", "Conv_4", 900 * US, "t4", "t5")
    [slower] = [it for it in changes(rows(nodes_of(chain(*LAYERS * 6)), nodes_of(own))) if it.kind != REST]
    assert (slower.kind, slower.ns, len(slower.own)) == (SAME, 800 * US, 6)
    assert [it["name"] for it in slower.mainly] == ["Conv_4"]
    assert slower.ci95 is not None
    assert slower.ci95[0] > 0
    for of, name in (([], "t1_nchwc"), (["a"], "a"), (["a", "b"], "a + b"), (["a", "b", "c", "d"], "a + … + d")):
        assert name_node(node("Conv", "t1_nchwc", US, of=of)) == name


def test_what_nodes_take_and_what_is_outside_add_up_where_rounds_are_held_up() -> None:
    """Every other round one node takes 10 ms more: medians of the changes would leave half of it outside of nodes."""
    base, own = chain(*LAYERS), chain(*LAYERS, ("Clip", 50 * US))
    for at in range(1, ROUNDS, 4):
        own[at % 2]["ns"][at] += 10 * MS
    sides = [nodes_of(it) for it in (base, own)]
    for side in sides:
        side["rounds_ns"] = [sum(it["ns"][at] for it in side["each"]) + 5 * US for at in range(ROUNDS)]
    base_ns, own_ns, _ = whole(sides[0], sides[1])
    assert sum(it.ns for it in changes(rows(sides[0], sides[1]))) == pytest.approx(own_ns - base_ns)
    assert own_ns - base_ns == pytest.approx(50 * US, rel=0.05)


# The answer


def result(each: list[ProfiledNode], ns: int, wobble: tuple[float, ...] = WOBBLE) -> Result:
    made = result_of(measured("cpu-tensors", latency=steady(round(ns * it) for it in wobble)), run_id="one")
    made.nodes = nodes_of(each)
    return made


def keys(found: Why) -> list[str]:
    return [f"{it.code} {it.verdict}" for it in why_facts(found)]


CLIPS = [("Clip", 20 * US)] * 20


def test_the_answer() -> None:
    for more, outside_us, own_us, facts, share in (
        (CLIPS, 0, 870, ["why slower", "change added"], 1.0),
        # The latencies differ by 20 µs: a change is a share of what they differ by under the profiler, not 2000 % of that.
        (CLIPS, 0, 460, ["why slower", "change added"], 1.0),
        (CLIPS[:1], 0, 440, ["why same", "change added"], None),
        ([], 0, 870, ["why slower-not-profiled"], None),
        ([], 430, 870, ["why slower-unexplained"], 0.0),
    ):
        base, own = result(PLAIN, 440 * US), result(chain(*LAYERS * 4, *more), own_us * US)
        assert own.nodes is not None
        own.nodes["rounds_ns"] = [it + outside_us * US for it in own.nodes["rounds_ns"]]
        found = explain(base, own)
        assert keys(found) == facts
        if share is None:
            assert (found.culprit, {found.share(it.ns) for it in found.changes}) == (None, {None})
        else:
            assert sum(found.share(it.ns) or 0 for it in found.changes) == pytest.approx(share)
            assert found.unexplained_ns == outside_us * US


def test_a_difference_that_cannot_be_told_has_no_share_unless_a_gate_tells() -> None:
    base, own = result(chain(*LAYERS), MS), result(chain(*LAYERS, ("Clip", 20 * US)), MS, (1, 2) * 4)
    found = explain(base, own)
    assert (keys(found), found.culprit, found.share(1.0)) == (["why open", "change added"], None, None)
    told = explain(base, own, told={"cpu-tensors": 1.1})
    assert told.certain
    assert told.ns == pytest.approx(0.1 * MS)
    assert explain(base, own, told={"cpu-tensors": 0.3}).verdict == "faster"


def test_unchanged_nodes_are_no_cause_where_processes_or_a_busy_machine_may_have_made_it() -> None:
    base, alike, slower = (chain(*[("Conv", ns), ("Relu", 10 * US)] * 4) for ns in (100 * US, 101 * US, 140 * US))
    assert [it.kind for it in changes(rows(nodes_of(base), nodes_of(alike)))] == [REST]
    sides = result(base, 440 * US), result(slower, 600 * US)
    assert [it.kind for it in explain(*sides).changes] == [SAME, REST]
    for it in sides:
        it.noise = noise_of(2, 1.5, [0.5] * 8)
    found = explain(*sides, told={"cpu-tensors": 1.36})
    assert ([it.kind for it in found.changes], found.culprit) == ([REST], None)


def test_medians_that_are_far_from_the_ratio_of_pairs_are_not_said() -> None:
    sides = result(chain(*LAYERS), 300 * US), result(chain(*LAYERS), 700 * US)
    for ratio, said in ((1.2, "60.0 µs longer (by the gate's ratio)"), (2.0, "400 µs longer (by medians)")):
        assert said in sentence(why_facts(explain(*sides, told={"cpu-tensors": ratio}))[0])


def test_the_profiler_only_adds_to_what_an_inference_takes() -> None:
    slow, fast = (result(PLAIN, ns * US) for ns in (500, 400))
    for base, own, said in (
        (fast, fast, "Under the profiler; without it cpu-tensors takes 400 µs before, 400 µs after."),
        (slow, fast, "Profiled at another time; without the profiler 500 µs before, 400 µs after."),
    ):
        assert sentence(limit_facts(explain(base, own))[0]) == said
    columns = [it.name for it in _table(explain(slow, fast)).columns]
    slow.noise = noise_of(2, 1.5, [0.5] * 8)
    found = explain(slow, fast)
    said = "Busy machine: node times are hints; unprofiled 500 µs before, 400 µs after."
    assert sentence(limit_facts(found)[0]) == said
    assert {*columns} - {it.name for it in _table(found).columns} == {"95% CI"}


def test_what_hides_nodes() -> None:
    compiled = [node(f"{EP}_1", f"{EP}_graph_1", 400 * US)]
    found = explain(result(compiled, 440 * US), result(compiled, 870 * US))
    limits = [it.values for it in limit_facts(found) if it.verdict == "compiled"]
    assert limits == [{"side": it, "graphs": 1, "ep": EP} for it in ("baseline", "candidate")]
    with pytest.raises(BadInput, match="has no nodes: measure it with --measure-nodes"):
        explain(result_of(measured("cpu-tensors", latency=steady([MS] * 8))), result(chain(*LAYERS), MS))


def test_only_what_is_saved_for_certain_and_is_about_the_claim_confirms() -> None:
    for saved_us, us, slower_us, verdict in (
        ((380, 420), 400, 430, "confirmed"),
        ((150, 420), 300, 430, "confirmed"),
        ((40, 100), 70, 80, "confirmed"),  # as on a GPU, where the profiler took most of the 400 µs
        ((380, 420), 400, -5, "not-slower"),
        ((2000, 4000), 3000, 430, "not-confirmed"),
        (None, 400, 430, "not-measured"),
    ):
        found = explain(result(PLAIN, 440 * US), result(chain(*LAYERS * 4, *CLIPS), 870 * US))
        assert found.culprit is not None  # it claims 400 of 430 µs
        saved = None if saved_us is None else (saved_us[0] * US, saved_us[1] * US)
        told = replace(found, confirmation=confirmation(found.culprit, saved, us * US, slower_us * US, 1.73e6))
        (answer, *_, last) = why_facts(told)
        assert (last.code, last.verdict) == ("confirmation", verdict)
        assert (answer.verdict == "slower-confirmed") == (verdict == "confirmed")
        assert why_data(told)["confirmation"]["confirmed"] is (verdict == "confirmed")


CONVERTED = [
    node("QuantizeLinear", "q", 20 * US, "t0", "q0", of=[], makes=[]), node("QLinearConv", "Conv_0", 200 * US, "q0", "t1"),
    *chain(("Relu", 10 * US), *(("QLinearConv", 20 * US), ("Relu", 10 * US)) * 3, first=1),
]  # fmt: skip


def test_a_node_that_is_slower_quantized_is_named_and_what_it_saves_in_float() -> None:
    for saved_us, facts in (
        (None, ["why faster-mixed", "slower-node slower"]),
        ((90, 110), ["why faster-mixed", "slower-node slower", "in-float confirmed"]),
        ((1, 5), ["why faster-mixed", "slower-node slower"]),  # 1 %, as two processes may differ
        ((-5, 110), ["why faster-mixed", "slower-node slower", "in-float open"]),
        ((-20, 5), ["why faster-mixed", "slower-node slower"]),
        ((), ["why faster-mixed", "slower-node slower"]),
    ):
        fused: list[ProfiledNode] = [{**PLAIN[0], "of": ["Conv_0", "Add_0"]}, *PLAIN[1:]]
        found = explain(result(fused, 440 * US), result(CONVERTED, 320 * US))
        assert found.loss is not None
        assert [it["name"] for it in found.loss.own] == ["q", "Conv_0"]
        if saved_us is not None:
            saved = (saved_us[0] * US, saved_us[1] * US) if saved_us else None
            found = replace(found, in_float=float_confirmation(saved, sum(saved or (0,)) / 2, 320 * US))
        assert keys(found) == facts
        assert "1 node slower, though the whole is faster: Conv_0, 100 µs → 220 µs" in sentence(why_facts(found)[1])
        if saved_us == (90, 110):
            said = "Keep Conv_0, Add_0 in float: 100 µs (90.0–110 µs) less of 320 µs in a copy."
            assert sentence(why_facts(found)[2]) == said
        assert explain(result(PLAIN, 440 * US), result(CONVERTED[1:], 100 * US)).loss is not None
        assert (
            explain(result(PLAIN, 440 * US), result([*CONVERTED, *chain(("Erf", 400 * US), first=9)], 720 * US)).loss
            is None
        )


def test_what_else_changed_is_content_fusions_copies_and_settings() -> None:
    content: Any = {
        "operators": {"Conv": 1, "Relu": 1, "com.microsoft:Gelu": 1},
        "opsets": {"ai.onnx": 17, "ai.onnx.preview.training": 1, "com.microsoft": 1},
        "weights": [{"type": "float32", "count": 2, "bytes": 4000}],
    }
    weights = [{"type": "float16", "count": 2, "bytes": 2000}]
    other: Any = {**content, "opsets": {"ai.onnx": 18, "ai.onnx.ml": 5}, "weights": weights}
    base = result([node("FusedConv", "Conv_0", 10 * US, of=["Conv_0", "Relu_0"])], MS)
    own = result([*chain(*LAYERS), node("MemcpyToHost", "Memcpy", 5 * US, of=[])], 2 * MS)
    for it, has in ((base, content), (own, other)):
        assert it.nodes is not None
        it.nodes["content"] = has
    own.target = {**own.target, "opt_level": "basic"}
    assert explain(base, own).others == [
        "optimisation: all → basic",
        "number of Memcpy nodes: 0 → 1",
        "nodes that ONNX Runtime fused into FusedConv: 1 → 0",
        "opset ai.onnx: 17 → 18",
        "opset com.microsoft: 1 → 0",  # of other domains there are no nodes
        "initializers of type float32: 2 (4.00 kB together) → 0",
        "initializers of type float16: 0 → 2 (2.00 kB together)",
    ]
