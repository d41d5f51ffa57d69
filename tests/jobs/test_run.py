"""`ortbench run` on the CPU EP, on real models: what it measures, prints and saves."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnx.backend.test
import pytest
from onnx import numpy_helper
from onnx.backend.test.runner import Runner

from tests.conftest import MODELS, ONCE, cases, measure

pytestmark = pytest.mark.process

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"
MODES = ["cpu-tensors", "device-tensors", "device-resident", "host-accessible"]


def light_test_set(name: str, folder: Path) -> Path:
    """The test set that onnx's own runner makes of a light model: synthetic inputs, expected outputs as shipped."""
    model = onnx.load(LIGHT / f"{name}.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for index, value in enumerate(inputs):
        array = Runner.generate_dummy_data(value, seed=0, name=name, random=False)
        (folder / f"input_{index}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    for index in range(len(model.graph.output)):
        (folder / f"output_{index}.pb").write_bytes((LIGHT / f"{name}_output_{index}.pb").read_bytes())
    return folder


def test_a_light_model_of_onnx_gives_its_expected_outputs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    line = (LIGHT / "light_shufflenet.onnx", "--ep", "cpu", "--input", light_test_set("light_shufflenet", data), *ONCE)
    result = measure(*line, out=tmp_path / "out")
    assert result["setup"]["expected_outputs"] is True
    for case in result["cases"]:
        assert (case["status"], case["checks"]["outputs"]["verdict"]) == ("ok", "passed"), case


def test_the_result_has_the_contracts_keys(tmp_path: Path) -> None:
    result = measure(MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 30, "--warmup", 1, "--seed", 7, out=tmp_path)
    assert result["schema_version"] == 2
    assert result["target"]["ep"] == "CPUExecutionProvider"
    assert result["target"]["sync"]["kind"] == "run"
    assert result["target"]["memory"] == {"kind": "host", "default": "host memory", "host_accessible": None}
    assert result["placement"]["nodes"] == {"CPUExecutionProvider": 1}
    assert result["placement"]["memcpy_nodes"] == 0
    assert result["setup"]["seed"] == 7
    assert result["stopped"] == {"reason": "iterations", "value": 30, "per": "mode"}
    starts = [start for case in result["cases"] for blocks in case["blocks"].values() for _, _, start in blocks]
    assert result["took_ns"] > max(starts) - min(starts) > 0
    table = next(tmp_path.glob("**/table.md")).read_text()
    assert re.search(r"; ended after [\d.]+ m?s: iterations done \(30 per mode\)  $", table, re.MULTILINE), table
    assert len(result["model"]["sha256"]) == 64
    environment = result["environment"]
    assert environment["cpu"]["model"]
    assert environment["load_average"]["start"]
    assert environment["load_average"]["end"]
    assert {"onnxruntime", "onnxruntime_build", "python", "os", "git_commit", "gpus"} <= environment.keys()
    by_mode = cases(result)
    for mode, case in by_mode.items():
        moved = 64 if mode == "device-tensors" else 0
        assert [case["metrics"][it]["value"] for it in ("bytes_h2d", "bytes_d2h")] == [moved, moved]
    counts = {name: stats["n"] for name, stats in by_mode["device-tensors"]["metrics"].items() if "n" in stats}
    blocks = len(by_mode["device-tensors"]["blocks"]["latency"])
    assert counts == dict.fromkeys(("h2d", "inference", "d2h", "latency"), 30) | dict.fromkeys(
        ("cpu_time", "page_faults", "involuntary_switches"), blocks
    )
    for mode in ("device-resident", "host-accessible"):
        assert by_mode[mode]["metrics"]["inference"] == by_mode[mode]["metrics"]["latency"]
    assert {"once_h2d", "once_d2h"} <= by_mode["device-resident"]["metrics"].keys()
    assert by_mode["host-accessible"]["checks"]["zero_copy"]["verdict"] == "passed"
    for case in result["cases"]:
        assert sum(size for _, size, _ in case["blocks"]["latency"]) == 30
        assert len(case["samples"]["latency"]) == 30
        assert case["speedup"].keys() == {"value", "ci95", "derived"}


@pytest.mark.usefixtures("clock")
def test_blocks_alternate_in_an_order_that_the_seed_fixes(tmp_path: Path) -> None:
    def order(seed: int, name: str) -> list[str]:
        arguments = ("--ep", "cpu", "--seed", seed, "--iterations", 2500, "--warmup", 200)
        result = measure(MODELS / "tiny.onnx", *arguments, out=tmp_path / name)
        blocks = [
            (number, start, case["mode"])
            for case in result["cases"]
            for number, _, start in case["blocks"]["latency"]
            if number < 2  # a block has 1000 at most, so each mode has three or more; how many, its speed decides
        ]
        assert sorted(blocks) == sorted(blocks, key=lambda block: block[1])  # round after round
        return [mode for _, _, mode in sorted(blocks)]

    first = order(3, "a")
    assert order(3, "b") == first
    assert sorted(first[:4]) == sorted(first[4:]) == sorted(MODES)


def test_shapes_dims_and_ranges_reach_the_model(tmp_path: Path) -> None:
    result = measure(
        MODELS / "transformer_ids.onnx", "--ep", "cpu", "--dim", "batch=3", "--shape", "input_ids:3x5",
        "--range", "input_ids:7,9", *ONCE, out=tmp_path,
    )  # fmt: skip
    inputs = {tensor["name"]: tensor for tensor in result["model"]["inputs"]}
    assert [tensor["shape"] for tensor in inputs.values()] == [[3, 5]] * 3
    assert inputs["input_ids"]["range"] == [7, 9]
    assert inputs["token_type_ids"]["range"] == [0, 1]  # a table of two
    assert result["warnings"] == []


@pytest.mark.parametrize(
    ("graph", "more", "reason"),
    [
        ("string[N] s) => (string[N] t) { t = Identity(s)", ("--dim", "N=4"), "strings"),
        ("seq(float[2]) s) => (int64 t) { t = SequenceLength(s)", ("--sequence-tensors", "s=3"), "only tensors can be bound"),
        ("optional(float[2]) s) => (bool t) { t = OptionalHasElement(s)", (), "only tensors can be bound"),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_runs_in_mode_cpu_and_says_why_not_elsewhere(
    graph: str, more: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({graph} }}'), model)
    result = measure(model, "--ep", "cpu", *more, "--iterations", 2, "--warmup", 1, out=tmp_path / "out")
    assert [case["status"] for case in result["cases"]] == ["ok"] + ["unsupported"] * 3
    assert all(reason in case["reason"] for case in result["cases"][1:])


def test_every_dtype_goes_through_every_mode(tmp_path: Path) -> None:
    dtypes = ("bfloat16", "float8e4m3fn", "double", "uint8", "int16", "bool")
    takes, gives = (", ".join(f"{dtype}[4, 8] {name}_{dtype}" for dtype in dtypes) for name in "xy")
    nodes = " ".join(f"y_{dtype} = Identity(x_{dtype})" for dtype in dtypes)
    model = tmp_path / "model.onnx"
    graph = f'<ir_version: 9, opset_import: ["" : 19]> g ({takes}) => ({gives}) {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(graph), model)
    result = measure(model, "--ep", "cpu", "--iterations", 2, "--warmup", 1, out=tmp_path / "out")
    assert [(case["status"], case["checks"]["outputs"]["verdict"]) for case in result["cases"]] == [
        ("ok", "passed")
    ] * 4, result["cases"]
    assert [tensor["type"] for tensor in result["model"]["outputs"]] == [f"tensor({dtype})" for dtype in dtypes]


@pytest.mark.usefixtures("clock")
def test_precision_stops_a_steady_case_and_says_so(tmp_path: Path) -> None:
    result = measure(
        MODELS / "tiny.onnx", "--ep", "cpu", "--precision", "1%", "--duration", 60, "--warmup", 5, out=tmp_path
    )
    assert result["stopped"] == {"reason": "precision", "value": 0.01}
    for case in result["cases"]:
        low, high = case["metrics"]["latency"]["ci95"]
        assert high == low
        assert case["speedup"]["ci95"] is not None
