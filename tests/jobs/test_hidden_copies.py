"""Hidden copies on real EPs: the pass of `--measure-nodes`, and `ortbench inspect --ep`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from ortbench.core.eps import CPU_EP
from ortbench.plan.target import Inputs, Target
from ortbench.worker import inspection, providers
from ortbench.worker.nodes import profile_nodes
from tests.conftest import MODELS, ortbench
from tests.refdevice import Config
from tests.truth import in_fork, run_on_device
from tests.worker import saved

ISLAND = MODELS / "cpu_island.onnx"

# The reference device has neither Det nor Hardmax; it has Relu, Sigmoid, Add and Mul.
GRAPHS = {
    "two": "(float[8,4,4] x) => (float[8] y) { a = Relu(x) b = Det(a) c = Sigmoid(b) e = Mul(c, big) f = Det(e) y = Relu(f) }",
    "start": "(float[8,4,4] x) => (float[8] y) { a = Det(x) y = Relu(a) }",
    "end": "(float[8,4,4] x) => (float[8] y) { a = Relu(x) y = Det(a) }",
    "shared": "(float[8,4,4] x) => (float[8] y, float[8,4,4] z) { a = Relu(x) b = Det(a) c = Hardmax(a) y = Relu(b) "
    "z = Sigmoid(c) }",
    "input": "(float[8,4,4] x) => (float[8] y, float[8,4,4] z) { y = Det(x) z = Relu(x) }",
    "weight": "(float[8,4,4] x) => (float[8,4,4] z) { a = Add(x, big) b = Hardmax(a) c = Add(b, big) d = Hardmax(big) "
    "e = Add(c, d) z = Relu(e) }",
    "output": "(float[8,4,4] x) => (float[8,4,4] a, float[8] y) { a = Relu(x) b = Det(a) y = Relu(b) }",
    "branch": "(float[8,4,4] x, bool c) => (float[8,4,4] y) { a = Relu(x) b = If (c) <then_branch = t () => "
    "(float[8,4,4] p) { q = Relu(a) p = Hardmax(q) }, else_branch = e () => (float[8,4,4] r) { s = Sigmoid(a) "
    "r = Hardmax(s) }> y = Sigmoid(b) }",
    "chain": "(float[8,4,4] x) => (float[8,4,4] y) { a = Relu(x) b = Hardmax(a) c = Hardmax(b) y = Relu(c) }",
    "none": "(float[8,4,4] x) => (float[8,4,4] y) { a = Relu(x) y = Sigmoid(a) }",
}
# Tensor, direction, who forces it, island; islands by their first node, since their order is that of their cost.
COPIES = {
    "two": [
        ("a", "to host", "Det_1", "Det_1"), ("b", "from host", "Det_1", "Det_1"), ("e", "to host", "Det_4", "Det_4"),
        ("f", "from host", "Det_4", "Det_4"),
    ],
    "start": [("a", "from host", "Det_0", "Det_0")],
    "end": [("a", "to host", "Det_1", "Det_1")],
    "shared": [
        ("a", "to host", "Det_1 Hardmax_2", "Det_1"), ("b", "from host", "Det_1", "Det_1"), ("c", "from host", "Hardmax_2", "Det_1"),
    ],
    "input": [("x", "from host", "Det_0", "Det_0")],
    "weight": [("a", "to host", "Hardmax_1", "Hardmax_1"), ("b", "from host", "Hardmax_1", "Hardmax_1")],
    "output": [("a", "to host", "Det_1", "Det_1"), ("b", "from host", "Det_1", "Det_1")],
    "chain": [("a", "to host", "Hardmax_1", "Hardmax_1"), ("c", "from host", "Hardmax_2", "Hardmax_1")],
    "none": [],
}  # fmt: skip
BRANCH = ("If_1/else_branch/s", "to host", "If_1/else_branch/Hardmax_1")
POSITIONS = {"start": ["start"], "end": ["end"], "input": ["apart"], "two": ["middle", "middle"], "none": []}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, with nodes that have no names."""
    place = tmp_path_factory.mktemp("models")
    for name, text in GRAPHS.items():
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {name} {text}')
        big = np.ones([8] if name == "two" else [8, 4, 4], np.float32)
        if "big" in text:
            model.graph.initializer.append(numpy_helper.from_array(big, "big"))
        if name == "two":  # what Det takes is made of its eight numbers by broadcasting
            model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((8, 8, 8), np.float32), "big"))
        onnx.save(model, place / f"{name}.onnx")
    return place


def print_passes() -> None:
    """The pass of every model, by path; the reference device can be registered once in a process."""
    onnxruntime.set_default_logger_severity(3)
    library, *paths = sys.argv[1:]
    target = Target(library=library)
    provider = providers.find(target)
    with patch.object(providers, "find", lambda _: provider):
        print(json.dumps({path: profile_nodes(path, target, Inputs(), 2)[0] for path in paths}))


PASSES = f"{print_passes.__module__}:{print_passes.__name__}"


def copies(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The Memcpy nodes as `COPIES` writes them."""
    firsts = [min(node["name"] for node in island["nodes"]) for island in found["islands"]]
    return sorted(
        (
            row["tensor"], row["direction"], " ".join(sorted(node["name"] for node in row["forced_by"])),
            None if row["island"] is None else firsts[row["island"]],
        )
        for row in found["memcpy"]
    )  # fmt: skip


def check(found: dict[str, Any]) -> None:
    assert {name: it["problem"] for name, it in found.items()} == dict.fromkeys(GRAPHS)
    assert {name: copies(found[name]) for name in COPIES} == COPIES
    for name, positions in POSITIONS.items():
        assert [island["position"] for island in found[name]["islands"]] == positions, name
    assert next(row for row in copies(found["branch"]) if row[1] == "to host")[:3] == BRANCH
    for one in found.values():
        assert one["runs"] == 2
        for row in one["memcpy"]:
            shape = row["type"].partition("[")[2].strip("]").split(",")
            assert (row["bytes"], row["forced_by"][0]["ep"]) == (4 * np.prod([int(size) for size in shape]), CPU_EP)
            assert row["ns"] is not None


def test_copies_and_who_forces_them_where_an_ep_compiles(library: Path, folder: Path, tmp_path: Path) -> None:
    apart = tmp_path / "apart.onnx"
    onnx.save(onnx.load(ISLAND), apart, save_as_external_data=True, location="weights", size_threshold=0)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "island.ort")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    onnxruntime.InferenceSession(ISLAND, options, providers=["CPUExecutionProvider"])
    paths = (*sorted(folder.glob("*.onnx")), apart, tmp_path / "island.ort")
    found = {Path(path).stem: it for path, it in in_fork(PASSES, library, *paths).items()}
    assert "ORT format" in found.pop("island")["problem"]
    assert copies(found.pop("apart")) == [
        ("determinants", "from host", "Det_4", "Det_4"), ("matrices", "to host", "Det_4", "Det_4"),
    ]  # fmt: skip
    check(found)
    operators = {row["op"] for row in found["two"]["operators"]}
    assert operators == {"compiled graph", "Det", "MemcpyToHost", "MemcpyFromHost"}


# Only the first run of the measured worker has tensors in host memory.
TINY = MODELS / "tiny.onnx"
RESIDENT = ("--mode", "device-resident", "--iterations", 3, "--warmup", 1, "--measure-nodes")


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        (Config(abort_run="4:host"), "--measure-nodes gave nothing: the worker was ended by SIGABRT"),
        (Config(fail_download="4:host"), "--measure-nodes gave nothing: profiling failed: the reference device"),
    ],
)
def test_a_pass_that_fails_is_a_warning(knobs: Config, words: str, library: Path, tmp_path: Path) -> None:
    code, result, _, errors = run_on_device(library, TINY, knobs, tmp_path, *RESIDENT, "--quiet")
    assert (code, errors, result.nodes) == (0, "", None)
    (warning,) = result.warnings
    assert (warning["code"], warning["message"][: len(words)]) == ("nodes-failed", words)
    assert len(result.cases[0].samples["latency"]) == 3


def test_inspect_lists_what_is_known_without_a_run(library: Path, tmp_path: Path) -> None:
    """Of a model with a node for the CPU, which does not run with synthetic inputs."""
    text = """g (float[8,4,4] x, int64[1] shape) => (float[8] y, float[n] z) {
        a = Relu(x) b = Det(a) y = Relu(b) r = Reshape(x, shape) z = Relu(r)
    }"""
    ran = ortbench("inspect", saved(tmp_path / "picky.onnx", text), "--ep", library, "--json", "-")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert "the first run failed with synthetic inputs" in found["not_run"]
    assert [output["shape"] for output in found["outputs"]] == [[8], None]
    assert found["copies"]["problem"] is None
    rows = copies(found["copies"])
    assert {("a", "to host", "Det_1", "Det_1"), ("b", "from host", "Det_1", "Det_1")} <= {*rows}
    assert found["placement"]["memcpy_nodes"] == len(rows) >= 2
    assert {(row["bytes"], row["ns"]) for row in found["copies"]["memcpy"]} == {(None, None)}


def test_names_that_several_nodes_have_are_told_apart_and_others_are_left_alone(tmp_path: Path) -> None:
    model = onnx.load(ISLAND)
    for node, name in zip(model.graph.node, ("same", "same", "Relu_1", "c", "", *"efgh"), strict=True):
        node.name = name
    onnx.save(model, tmp_path / "m.onnx")
    content = inspection.name_nodes(str(tmp_path / "m.onnx"))
    assert content is not None
    names = [node.name for node in onnx.load_from_string(content).graph.node]
    assert names == ["same", "Add_1", "Relu_1", "c", "Reshape_3", *"efgh"]
    (tmp_path / "named.onnx").write_bytes(content)
    assert inspection.name_nodes(str(tmp_path / "named.onnx")) is None
