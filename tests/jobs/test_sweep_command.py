"""`ortbench sweep`: what it prints and saves, shapes that fail, real inputs, and what ends it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests.conftest import ONCE, Ran, ortbench
from tests.jobs.test_bandwidth_command import with_knobs
from tests.refdevice import Config

pytestmark = pytest.mark.process

WIDTH = 1000  # floats of an item


def batched(path: Path) -> Path:
    """A Relu over a batch of items."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[batch,{WIDTH}] x) => (float[batch,{WIDTH}] y) {{ y = Relu(x) }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def saved(out: Path) -> Result:
    (file,) = out.glob("*/result.json")
    return load(file)


def on_device(library: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[Ran, Result]:
    """A sweep on the reference device, each shape and mode once, in which something fails."""
    model, out = batched(folder / "m.onnx"), folder / "out"
    line = ("sweep", model, "--ep-library", library, "--out", out, *arguments, *ONCE)
    ran = ortbench(*line, prefix=with_knobs(Config(compute_us=100, **knobs)))
    assert ran.code == 1
    return ran, saved(out)


def statuses(result: Result) -> dict[str, dict[str, str]]:
    return {it.name: {case.mode: case.status for case in result.at_point(it.point)} for it in result.shapes}


def test_a_shape_that_runs_out_of_memory_is_said_and_the_others_go_on(library: Path, tmp_path: Path) -> None:
    asked = ("--dim", "batch=1,64,2", "--mode", "cpu-tensors", "--mode", "device-tensors")
    ran, result = on_device(library, tmp_path, *asked, fail_alloc_bytes=f"{WIDTH * 4 * 64}:default")
    assert ran.error_line.startswith("batch=64 failed: the first run ran out of memory: ")
    assert f"✗ {ran.error_line}" in ran.out.replace("\n  ", " ")
    ok, failed = (dict.fromkeys(("cpu-tensors", "device-tensors"), it) for it in ("ok", "failed"))
    assert statuses(result) == {"batch=1": ok, "batch=64": failed, "batch=2": ok}
    assert [it["shape"] for it in (result.own["switching"] or [])[0]["shapes"]] == ["batch=1", "batch=2"]


def test_a_mode_that_fails_leaves_the_others(library: Path, tmp_path: Path) -> None:
    asked = ("--dim", "batch=1,64", "--mode", "cpu-tensors", "--mode", "host-accessible")
    ran, result = on_device(library, tmp_path, *asked, abort_run="3:host_accessible")
    assert ran.error_line.startswith("host-accessible at batch=1, batch=64 failed: the worker was ended")
    modes = {"cpu-tensors": "ok", "host-accessible": "failed"}
    assert statuses(result) == {"batch=1": modes, "batch=64": modes}
    assert [it["mode"] for it in result.own["switching"] or []] == ["cpu-tensors"]
    assert all(case.samples["latency"] for case in result.cases if case.mode == "cpu-tensors")


def test_what_else_shapes_cost_and_inputs_of_another_library(tmp_path: Path) -> None:
    line = ("sweep", batched(tmp_path / "m.onnx"), "--ep", "cpu", "--dim", "batch=1,2", "--mode", "device-resident")
    more = ("--measure-memory", "--measure-spin", "--measure-energy", "--input-memory", "numpy")
    ran = ortbench(*line, *more, *ONCE, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    assert "\nResource usage: by shape\nmode " in ran.out
    result = saved(tmp_path / "out")
    assert [case.point for case in result.cases] == [{"batch": 1}, {"batch": 2}]
    for case in result.cases:
        assert case.own["memory"]["host"] is not None
        assert "energy" in case.own
        assert case.value("cpu_time_spin_off") is not None
        assert "external" in case.checks
    (table,) = tmp_path.glob("out/*/table.csv")
    (row, *_) = csv.DictReader(table.read_text().splitlines())
    assert int(row["host_memory_bytes"]) > 0


def test_each_shape_has_a_graph_of_its_own(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    model, out = batched(tmp_path / "m.onnx"), tmp_path / "out"
    line = ("sweep", model, "--ep", "webgpu", "--dim", "batch=1,2", "--mode", "device-resident", "--cuda-graph", *ONCE)
    ran = ortbench(*line, "--out", out, prefix=software_gpu)
    assert (ran.code, ran.err) == (0, "")
    graphs = [case.checks["graph"] for case in saved(out).cases]
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
    result = saved(tmp_path / "out")
    assert statuses(result) == {it: {"cpu-tensors": "failed" if it == "wrong" else "ok"} for it in ("a", "b", "wrong")}
    shapes = [("a", {"batch": 1}), ("b", {"batch": 3}), ("wrong", {})]
    assert [(it.data, it.shape) for it in result.shapes] == shapes
    assert result.axes == [{"name": "data", "unit": "", "values": ["a", "b", "wrong"]}]
    assert [case.point for case in result.cases] == [{"data": "a"}, {"data": "b"}, {"data": "wrong"}]
