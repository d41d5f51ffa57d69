"""ONNX Runtime's own profile, read and put on ortbench's clock; nodes of loops that run many in an inference."""

from __future__ import annotations

import gc
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_node

from ortbench.analysis.node_times import Timed, each_node
from ortbench.analysis.placement import layout
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BenchmarkFailed
from ortbench.plan.target import Target
from ortbench.worker import inspection, nodes, providers
from tests.conftest import MODELS, ONCE, measure, ortbench
from tests.worker import saved

TARGET = Target(ep="cpu")
PATH = str(MODELS / "image_classifier.onnx")


def run_event(ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": dur, "pid": 1, "tid": 7, "args": {}}


def node_event(name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    return {"cat": "Node", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 7, "args": args}


RECORDED = [
    {"cat": "Session", "name": "session_initialization", "ts": 1, "dur": 5, "tid": 7, "args": {}},
    node_event("a_kernel_time", 11, 3, op_name="Relu", provider="P"),
    run_event(10, 5),
    node_event("a_sync_before", 20, 1, op_name="Relu"),
    node_event("a_kernel_time", 21, 4, op_name="Relu", provider="P", node_index="0"),
    run_event(20, 6),
    node_event("inner_kernel_time", 32, 1, op_name="Add", provider="P"),
    node_event("outer_kernel_time", 31, 6, op_name="If", provider="Q"),
    run_event(30, 9),
    {"cat": "Kernel", "name": "gpu", "ts": 33, "dur": 1, "tid": 9, "args": {}},
]


def test_a_profile_is_the_kernels_of_its_runs() -> None:
    first, second, third = nodes.read_runs(RECORDED)
    assert [(run.start_us, run.took_us) for run in (first, second, third)] == [(10, 5), (20, 6), (30, 9)]
    ((kernel, *rest),) = second.nodes
    assert (kernel.name, kernel.op, kernel.ep, kernel.number, rest) == ("a", "Relu", "P", 0, [21, 4, 7, 0])
    assert second.args == [{"op_name": "Relu", "provider": "P", "node_index": "0"}]
    assert [third.nodes[at].kernel.name for at in nodes.sort_nodes(third.nodes)] == ["outer", "inner"]
    assert len(list(nodes.read_runs(RECORDED[:-2]))) == 2  # a run that the profile lost is not in it


def test_a_profiles_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Node names can be long, and have line ends and braces in them."""
    names = [f"{{{'}'.join('x' * size)}\n\u00e9" for size in (1, 100_000, 3_000_000, 2)]
    told = [{"cat": "Node", "name": name, "args": {"a": [{"b": [1]}]}} for name in names]
    path = tmp_path / "profile.json"
    path.write_text(
        f"[\n{(',' + chr(10)).join(json.dumps(it, ensure_ascii=False) for it in told)}\n]\n", encoding="utf-8"
    )
    assert list(nodes.read_events(str(path))) == told
    path.write_text("[]")
    assert list(nodes.read_events(str(path))) == []
    path.write_text('[{"a": 1},\n{"b": ')
    with pytest.raises(ValueError, match="ends inside an event"):
        list(nodes.read_events(str(path)))


def test_the_profiles_file_is_removed() -> None:
    provider = providers.find(TARGET)
    with nodes.open_recorder(PATH, TARGET, provider) as recorder:
        pass
    with pytest.raises(BenchmarkFailed, match="profiling failed"):
        recorder.run({}, 1)


def in_a_run(name: str, ts: int, dur: int, op: str, size: int = 0) -> dict[str, Any]:
    shape = [{"float": [2, size]}]
    return node_event(
        f"{name}_kernel_time", ts, dur, op_name=op, provider="P", node_index="3", output_size=str(size),
        input_type_shape=shape, output_type_shape=[*shape, {"int64": []}],
    )  # fmt: skip


def test_a_nodes_time_is_without_that_of_the_nodes_inside_it() -> None:
    recorded = [
        in_a_run("before", 10, 0, "Relu"),  # took less than a microsecond, and is not inside what follows
        in_a_run("body", 12, 3, "Add", 8),
        in_a_run("body", 16, 4, "Add", 8),
        in_a_run("loop", 10, 12, "Loop"),
        in_a_run("body", 22, 1, "Add", 8),  # one of the same name outside
        run_event(10, 14),
        in_a_run("loop", 30, 5, "Loop"),
        run_event(30, 6),
    ]
    sums = nodes.NodeSums()
    for run in nodes.read_runs(recorded):
        sums.add(run)
    assert sums.run_ns == [14_000, 6_000]
    before, loop, body, other = sums.timed_nodes()
    assert (before.ns, before.inside) == ((0, 0), None)
    assert (loop.ns, loop.inside, loop.number) == ((5_000, 5_000), None, 3)
    assert (body.name, body.ns, body.inside, body.bytes) == ("body", (7_000, 0), 1, 16)
    assert (other.name, other.ns, other.inside) == ("body", (1_000, 0), None)
    assert (body.reads, body.gives) == (("float[2,8]",), ("float[2,8]", "int64[]"))


LOOP = """g (float[4] x) => (float[4] y) <int64 steps = {STEPS}, bool on = {1}> { r = Relu(x)  y = Loop(steps, on, r) <
    body = b (int64 i, bool c, float[4] s) => (bool c2, float[4] s2) { INSIDE  c2 = Identity(c) }> }"""
PLAIN = LOOP.replace("INSIDE", "a = Add(s, s)  s2 = Sigmoid(a)")
WITH_IF = LOOP.replace("INSIDE", """two = Constant<value_int = 2>()  m = Mod(i, two)  odd = Cast<to = 9>(m)  s2 = If(odd) <
    then_branch = t () => (float[4] o) { o = Sigmoid(s) },
    else_branch = e () => (float[4] o) { n = Neg(s)  o = Relu(n) }>""")  # fmt: skip


def save(text: str, steps: int, path: Path) -> Path:
    return saved(path, text.replace("STEPS", str(steps)))


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "operators", "body"),
    [
        (PLAIN, {"Relu": 1, "Loop": 1, "Add": 1, "Sigmoid": 1, "Identity": 1}, {"Add", "Sigmoid", "Identity"}),
        (WITH_IF, {"Relu": 2, "Loop": 1, "Mod": 1, "Cast": 1, "If": 1, "Sigmoid": 1, "Neg": 1, "Identity": 1},
         {"Mod", "Cast", "If", "Identity"}),
    ],
)  # fmt: skip
def test_nodes_of_a_body_are_counted_once_and_their_time_is_not_that_of_the_loop(
    text: str, operators: dict[str, int], body: set[str], tmp_path: Path
) -> None:
    options = ("--ep", "cpu", "--mode", "cpu-tensors", "--measure-nodes", *ONCE)
    nodes = measure(save(text, 100, tmp_path / "m.onnx"), *options, out=tmp_path / "out")["nodes"]
    assert {it["op"]: it["nodes"] for it in nodes["operators"]}.items() >= operators.items()
    # All nodes together with what is outside of them are the inference.
    assert sum(it["ns"] for it in nodes["operators"]) + nodes["outside_ns"] == pytest.approx(nodes["run_ns"], rel=1e-6)
    assert 0 <= nodes["outside_ns"] < nodes["run_ns"]
    loop = next(at for at, it in enumerate(nodes["each"]) if it["op"] == "Loop")
    assert {(it["op"], it["count"]) for it in nodes["each"] if it["inside"] == loop} == {(op, 100) for op in body}


def gathered(count: int) -> onnx.GraphProto:
    """One node takes what all others give, which have a weight each."""
    weights = [onnx.numpy_helper.from_array(np.ones(1, np.float32), f"w{at}") for at in range(count)]
    given = [f"a{at}" for at in range(count)]
    adds = [make_node("Add", ["x", f"w{at}"], [name], name=f"n{at}") for at, name in enumerate(given)]
    return make_graph([*adds, make_node("Sum", given, ["y"], name="sum")], "g", [], [], weights)


def cpu_time(count: int) -> float:
    """Of all that is done with the nodes of a graph, every third of which the CPU EP has."""
    model = onnx.helper.make_model(gathered(count))
    gc.disable()  # what it takes depends on what other tests left
    start = time.process_time()
    found, _ = inspection.flatten_nodes(model, ())
    inspection.model_content(model)
    layout([replace(it, ep="Other" if at % 3 else CPU_EP) for at, it in enumerate(found)])
    timed = [Timed(it.name, it.op, "EP", at, it.inside, (1,), 4, (), ()) for at, it in enumerate(found)]
    each_node(timed, found, found, [[0]])
    took = time.process_time() - start
    gc.enable()
    return took


@pytest.mark.wide
def test_the_time_to_look_at_a_graph_grows_with_its_nodes_not_with_their_square() -> None:
    small, large = (min(cpu_time(count) for _ in range(2)) for count in (1_000, 8_000))
    assert large < 8**1.5 * small  # half-way, on a scale of factors


@pytest.mark.wide
def test_of_an_inference_of_more_than_a_million_events_that_is_said(tmp_path: Path) -> None:
    model = save(PLAIN, 300_000, tmp_path / "m.onnx")
    ran = ortbench("run", model, "--ep", "cpu", "--mode", "cpu-tensors", "--measure-nodes", *ONCE, "--json", "-")
    (warning,) = (it for it in json.loads(ran.out)["warnings"] if it["code"] == "nodes-failed")
    assert "one inference has more events than the million that ONNX Runtime's profiler keeps" in warning["message"]
