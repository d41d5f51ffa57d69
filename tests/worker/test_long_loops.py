"""Nodes of loops that run many nodes in an inference: what the profile has of them is used, and times add up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import ONCE, measure, ortbench

F, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_value = helper.make_tensor_value_info
_node = helper.make_node


def _save(path: Path, graph: onnx.GraphProto) -> Path:
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def save_loop(path: Path, steps: int, nodes: Sequence[onnx.NodeProto]) -> Path:
    """A Loop behind a Relu, whose body makes `s2` of `s` and `i`."""
    body = helper.make_graph(
        [*nodes, _node("Identity", ["c"], ["c2"])], "body",
        [_value("i", INT, []), _value("c", BOOL, []), _value("s", F, [4])], [_value("c2", BOOL, []), _value("s2", F, [4])],
    )  # fmt: skip
    weights = [numpy_helper.from_array(np.array(it), name) for it, name in ((steps, "steps"), (True, "on"))]
    loop = [_node("Relu", ["x"], ["r"]), _node("Loop", ["steps", "on", "r"], ["y"], body=body)]
    return _save(path, helper.make_graph(loop, "graph", [_value("x", F, [4])], [_value("y", F, [4])], weights))


def with_if(steps: int, path: Path) -> Path:
    branches: Any = {
        "then_branch": helper.make_graph([_node("Sigmoid", ["s"], ["o"])], "then", [], [_value("o", F, [4])]),
        "else_branch": helper.make_graph(
            [_node("Neg", ["s"], ["n"]), _node("Relu", ["n"], ["o"])], "else", [], [_value("o", F, [4])]
        ),
    }
    two = helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2)))
    parity = [two, _node("Mod", ["i", "two"], ["m"]), _node("Cast", ["m"], ["odd"], to=BOOL)]
    return save_loop(path, steps, [*parity, _node("If", ["odd"], ["s2"], **branches)])


def plain(steps: int, path: Path) -> Path:
    return save_loop(path, steps, [_node("Add", ["s", "s"], ["a"]), _node("Sigmoid", ["a"], ["s2"])])


def sequence_map(steps: int, path: Path) -> Path:
    body = helper.make_graph([_node("Sigmoid", ["e"], ["o"])], "body", [_value("e", F, None)], [_value("o", F, None)])
    nodes = [
        _node("SplitToSequence", ["x"], ["s"], axis=0),
        _node("SequenceMap", ["s"], ["t"], body=body),
        _node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    return _save(path, helper.make_graph(nodes, "graph", [_value("x", F, [steps, 4])], [_value("y", F, None)]))


def scan(steps: int, path: Path) -> Path:
    matrix = [3, 3]
    body = helper.make_graph(
        [_node("MatMul", ["s", "e"], ["s2"]), _node("Identity", ["s2"], ["o"])], "body",
        [_value("s", F, matrix), _value("e", F, matrix)], [_value("s2", F, matrix), _value("o", F, matrix)],
    )  # fmt: skip
    first = [numpy_helper.from_array(np.eye(3, dtype=np.float32), "first")]
    nodes = [_node("Scan", ["first", "m"], ["last", "y"], body=body, num_scan_inputs=1)]
    graph = helper.make_graph(nodes, "scan", [_value("m", F, [steps, 3, 3])], [_value("y", F, [None, 3, 3])], first)
    return _save(path, graph)


BODIES = {
    "scan": ["MatMul", "Identity"],
    "plain": ["Add", "Sigmoid", "Identity"],
    "with_if": ["Mod", "Cast", "If", "Identity"],
    "sequence_map": ["SequenceAt", "Sigmoid", "SequenceInsert", "Identity"],
}


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
    ("make", "operators"),
    [
        (scan, {"Scan": 1, "MatMul": 1, "Identity": 1}),
        (plain, {"Relu": 1, "Loop": 1, "Add": 1, "Sigmoid": 1, "Identity": 1}),
        (with_if, {"Relu": 2, "Loop": 1, "Mod": 1, "Cast": 1, "If": 1, "Sigmoid": 1, "Neg": 1, "Identity": 1}),
        (sequence_map, {"SplitToSequence": 1, "ConcatFromSequence": 1, "Loop": 1, "Sigmoid": 1}),
    ],
)
def test_nodes_of_a_body_are_counted_once_and_their_time_is_not_that_of_the_loop(
    make: Any, operators: dict[str, int], tmp_path: Path
) -> None:
    nodes = nodes_of(make(100, tmp_path / "m.onnx"), tmp_path)
    assert {it["op"]: it["nodes"] for it in nodes["operators"]}.items() >= operators.items()
    assert_adds_up(nodes)
    loop = next(at for at, it in enumerate(nodes["each"]) if it["op"] in ("Loop", "Scan"))
    inside = {it["op"] for it in nodes["each"] if it["inside"] == loop}
    assert inside == {*BODIES[make.__name__]}


@pytest.mark.wide
def test_a_profile_of_a_million_events_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    nodes = nodes_of(plain(60_000, tmp_path / "m.onnx"), tmp_path)  # 240,000 events in an inference
    assert 1 <= nodes["runs"] <= 4
    assert_adds_up(nodes)


@pytest.mark.wide
def test_of_an_inference_of_more_than_a_million_events_that_is_said(tmp_path: Path) -> None:
    model = plain(300_000, tmp_path / "m.onnx")
    ran = ortbench("run", model, "--ep", "cpu", "--mode", "cpu-tensors", "--measure-nodes", *ONCE, "--json", "-")
    (warning,) = (it for it in json.loads(ran.out)["warnings"] if it["code"] == "nodes-failed")
    reason = "one inference has more events than the million that ONNX Runtime's profiler keeps"
    assert warning["message"] == f"--measure-nodes gave nothing: {reason}"
