"""`ortbench sweep`: what it prints and saves, shapes that fail, real inputs, and what ends it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ortbench.model.modes import CPU, DEVICE
from ortbench.model.result import Result
from tests.conftest import ONCE, modes, ortbench
from tests.jobs.reports import result_in
from tests.refdevice import Config
from tests.worker import saved

WIDTH = 1000  # floats of an item


def batched(path: Path) -> Path:
    return saved(path, f"g (float[batch,{WIDTH}] x) => (float[batch,{WIDTH}] y) {{ y = Relu(x) }}")


def statuses(result: Result) -> dict[str, dict[str, str]]:
    return {it.name: {case.mode: case.status for case in result.at_point(it.point)} for it in result.shapes}


def test_a_shape_that_runs_out_of_memory_is_said_and_the_others_go_on(library: Path, tmp_path: Path) -> None:
    line = (batched(tmp_path / "m.onnx"), "--ep-library", library, "--dim", "batch=1,64,2", *modes(CPU, DEVICE), *ONCE)
    knobs = Config(compute_us=100, fail_alloc_bytes=f"{WIDTH * 4 * 64}:default").environ()
    ran = ortbench("sweep", *line, "--out", tmp_path / "out", **knobs)
    result = result_in(tmp_path / "out")
    assert ran.code == 1
    assert ran.error_line.startswith("batch=64 failed: the first run ran out of memory: ")
    assert f"✗ {ran.error_line}" in ran.out.replace("\n  ", " ")
    ok, failed = (dict.fromkeys((CPU, DEVICE), it) for it in ("ok", "failed"))
    assert statuses(result) == {"batch=1": ok, "batch=64": failed, "batch=2": ok}
    assert [it["shape"] for it in (result.own["switching"] or [])[0]["shapes"]] == ["batch=1", "batch=2"]


def test_what_else_shapes_cost_and_inputs_of_another_library(tmp_path: Path) -> None:
    line = ("sweep", batched(tmp_path / "m.onnx"), "--ep", "cpu", "--dim", "batch=1,2", "--mode", "device-resident")
    more = ("--measure-memory", "--measure-spin", "--measure-energy", "--input-memory", "numpy")
    ran = ortbench(*line, *more, *ONCE, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    result = result_in(tmp_path / "out")
    assert [case.point for case in result.cases] == [{"batch": 1}, {"batch": 2}]
    for case in result.cases:
        assert case.own["memory"]["host"] is not None
        assert "energy" in case.own
        assert case.value("cpu_time_spin_off") is not None
        assert "external" in case.checks


def test_each_shape_has_a_graph_of_its_own(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    model, out = batched(tmp_path / "m.onnx"), tmp_path / "out"
    line = ("sweep", model, "--ep", "webgpu", "--dim", "batch=1,2", "--mode", "device-resident", "--cuda-graph", *ONCE)
    ran = ortbench(*line, "--out", out, prefix=software_gpu)
    assert (ran.code, ran.err) == (0, "")
    graphs = [case.checks["graph"] for case in result_in(out).cases]
    assert [graph["verdict"] for graph in graphs] == ["passed", "passed"]
    assert len({graph["id"] for graph in graphs}) == 2


def test_real_inputs_take_turns_and_their_outputs_are_checked(tmp_path: Path) -> None:
    model, data = batched(tmp_path / "m.onnx"), tmp_path / "data"
    data.mkdir()
    for name, batch in (("a", 1), ("b", 3), ("wrong", 2)):
        inputs = np.random.default_rng(batch).standard_normal((batch, WIDTH), np.float32)
        np.savez(data / f"{name}.npz", x=inputs)
        np.savez(data / f"{name}.expected.npz", y=np.maximum(inputs, 0) + (name == "wrong"))
    line = ("sweep", model, "--ep", "cpu", "--data", data, "--mode", "cpu-tensors", *ONCE)
    ran = ortbench(*line, "--out", tmp_path / "out")
    assert ran.code == 1
    assert ran.error_line.startswith("wrong failed: the outputs are not the expected ones: ")
    result = result_in(tmp_path / "out")
    assert statuses(result) == {it: {"cpu-tensors": "failed" if it == "wrong" else "ok"} for it in ("a", "b", "wrong")}
    shapes = [("a", {"batch": 1}), ("b", {"batch": 3}), ("wrong", {})]
    assert [(it.data, it.shape) for it in result.shapes] == shapes
    assert result.axes == [{"name": "data", "unit": "", "values": ["a", "b", "wrong"]}]
    assert [case.point for case in result.cases] == [{"data": "a"}, {"data": "b"}, {"data": "wrong"}]


@pytest.mark.parametrize(
    ("name", "dim", "called"),
    [("input_2:0", None, "input_2:0[0]"), ("a=b", None, "a=b[0]"), ("a, b", "?", "?")],
)
def test_a_dimension_goes_by_the_name_that_inspect_prints(
    name: str, dim: str | None, called: str, tmp_path: Path
) -> None:
    """As models of other projects have them: without a name, or with odd characters in it or in that of the input."""
    tensors = [helper.make_tensor_value_info(it, TensorProto.FLOAT, (dim, 9)) for it in (name, "y")]
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "relu", tensors[:1], tensors[1:])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    assert f"[{called}, 9] as 1x9" in ortbench("inspect", model, COLUMNS="200").out
    line = ("--ep", "cpu", "--mode", "cpu-tensors", "--dim", f"{called}=1000,2000", "--items", called, *ONCE)
    ran = ortbench("sweep", model, *line, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    result = result_in(tmp_path / "out")
    assert result.axes == [{"name": called, "unit": "elements", "values": [1000, 2000]}]
    assert [it.items for it in result.shapes] == [{"count": size, "dim": called} for size in (1000, 2000)]
