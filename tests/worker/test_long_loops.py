"""Nodes of loops that run many nodes in an inference: what the profile has of them is used, and times add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.conftest import ONCE, measure, ortbench

HEAD = '<ir_version: 9, opset_import: ["" : 17]> '
LOOP = """g (float[4] x) => (float[4] y) <int64 steps = {STEPS}, bool on = {1}> { r = Relu(x)  y = Loop(steps, on, r) <
    body = b (int64 i, bool c, float[4] s) => (bool c2, float[4] s2) { INSIDE  c2 = Identity(c) }> }"""
PLAIN = LOOP.replace("INSIDE", "a = Add(s, s)  s2 = Sigmoid(a)")
WITH_IF = LOOP.replace("INSIDE", """two = Constant<value_int = 2>()  m = Mod(i, two)  odd = Cast<to = 9>(m)  s2 = If(odd) <
    then_branch = t () => (float[4] o) { o = Sigmoid(s) },
    else_branch = e () => (float[4] o) { n = Neg(s)  o = Relu(n) }>""")  # fmt: skip
SEQUENCE_MAP = """g (float[STEPS, 4] x) => (float[a, 4] y) { s = SplitToSequence<axis = 0>(x)
    t = SequenceMap(s) <body = b (float[1, 4] e) => (float[1, 4] o) { o = Sigmoid(e) }>  y = ConcatFromSequence<axis = 0>(t) }"""
SCAN = """g (float[STEPS, 3, 3] m, float[3, 3] first) => (float[a, 3, 3] y) { last, y = Scan(first, m) <num_scan_inputs = 1,
    body = b (float[3, 3] s, float[3, 3] e) => (float[3, 3] s2, float[3, 3] o) { s2 = MatMul(s, e)  o = Identity(s2) }> }"""


def save(text: str, steps: int, path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(HEAD + text.replace("STEPS", str(steps))), path)
    return path


def nodes_of(model: Path, folder: Path) -> dict[str, Any]:
    options = ("--ep", "cpu", "--mode", "cpu-tensors", "--measure-nodes", *ONCE)
    found: dict[str, Any] = measure(model, *options, out=folder / "out")["nodes"]
    return found


def assert_adds_up(nodes: dict[str, Any]) -> None:
    """No time is in a node and in the one around it: all together with what is outside of nodes are the inference."""
    assert sum(it["ns"] for it in nodes["operators"]) + nodes["outside_ns"] == pytest.approx(nodes["run_ns"], rel=1e-6)
    assert 0 <= nodes["outside_ns"] < nodes["run_ns"]
    assert all(it["ns"] >= 0 for it in nodes["operators"])


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "operators", "body"),
    [
        (SCAN, {"Scan": 1, "MatMul": 1, "Identity": 1}, {"MatMul", "Identity"}),
        (PLAIN, {"Relu": 1, "Loop": 1, "Add": 1, "Sigmoid": 1, "Identity": 1}, {"Add", "Sigmoid", "Identity"}),
        (WITH_IF, {"Relu": 2, "Loop": 1, "Mod": 1, "Cast": 1, "If": 1, "Sigmoid": 1, "Neg": 1, "Identity": 1},
         {"Mod", "Cast", "If", "Identity"}),
        (SEQUENCE_MAP, {"SplitToSequence": 1, "ConcatFromSequence": 1, "Loop": 1, "Sigmoid": 1},
         {"SequenceAt", "Sigmoid", "SequenceInsert", "Identity"}),
    ],
)  # fmt: skip
def test_nodes_of_a_body_are_counted_once_and_their_time_is_not_that_of_the_loop(
    text: str, operators: dict[str, int], body: set[str], tmp_path: Path
) -> None:
    nodes = nodes_of(save(text, 100, tmp_path / "m.onnx"), tmp_path)
    assert {it["op"]: it["nodes"] for it in nodes["operators"]}.items() >= operators.items()
    assert_adds_up(nodes)
    loop = next(at for at, it in enumerate(nodes["each"]) if it["op"] in ("Loop", "Scan"))
    assert {it["op"] for it in nodes["each"] if it["inside"] == loop} == body


@pytest.mark.wide
def test_a_profile_of_a_million_events_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    nodes = nodes_of(save(PLAIN, 60_000, tmp_path / "m.onnx"), tmp_path)  # 240,000 events in an inference
    assert 1 <= nodes["runs"] <= 4
    assert_adds_up(nodes)


@pytest.mark.wide
def test_of_an_inference_of_more_than_a_million_events_that_is_said(tmp_path: Path) -> None:
    model = save(PLAIN, 300_000, tmp_path / "m.onnx")
    ran = ortbench("run", model, "--ep", "cpu", "--mode", "cpu-tensors", "--measure-nodes", *ONCE, "--json", "-")
    (warning,) = (it for it in json.loads(ran.out)["warnings"] if it["code"] == "nodes-failed")
    assert "one inference has more events than the million that ONNX Runtime's profiler keeps" in warning["message"]
