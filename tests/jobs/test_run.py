"""`ortbench run` on the CPU EP, on real models, as users type it: what it measures, prints and saves, and paths that are no text."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, cases, lacking, measure, ortbench, ortbench_here
from tests.worker import saved


def test_a_result_has_what_golden_files_leave_out(tmp_path: Path) -> None:
    result = measure(MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 30, "--warmup", 1, out=tmp_path)
    assert result["target"]["memory"] == {"kind": "host", "default": "host memory", "host_accessible": None}
    assert result["placement"]["nodes"] == {"CPUExecutionProvider": 1}
    starts = [start for case in result["cases"] for blocks in case["blocks"].values() for _, _, start in blocks]
    assert result["took_ns"] > max(starts) - min(starts) > 0
    assert len(result["model"]["sha256"]) == 64
    environment = result["environment"]
    assert environment["cpu"]["model"]
    assert environment["load_average"]["start"]
    assert environment["load_average"]["end"]
    assert {"onnxruntime", "onnxruntime_build", "python", "os", "git_commit", "gpus"} <= environment.keys()
    for mode, case in cases(result).items():
        moved = 64 if mode == "device-tensors" else 0
        assert [case["metrics"][it]["value"] for it in ("bytes_h2d", "bytes_d2h")] == [moved, moved]
        assert sum(size for _, size, _ in case["blocks"]["latency"]) == len(case["samples"]["latency"]) == 30


@pytest.mark.parametrize(
    ("graph", "more", "reason"),
    [
        ("string[N] s) => (string[N] t) { t = Identity(s)", ("--dim", "N=4"), "strings"),
        ("seq(float[2]) s) => (int64 t) { t = SequenceLength(s)", ("--sequence-tensors", "s=3"), "only tensors can be bound"),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_runs_in_mode_cpu_and_says_why_not_elsewhere(
    graph: str, more: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    model = saved(tmp_path / "model.onnx", f"g ({graph} }}")
    result = measure(model, "--ep", "cpu", *more, "--iterations", 2, "--warmup", 1, out=tmp_path / "out")
    assert [case["status"] for case in result["cases"]] == ["ok"] + ["unsupported"] * 3
    assert all(reason in case["reason"] for case in result["cases"][1:])


def test_every_dtype_goes_through_every_mode(tmp_path: Path) -> None:
    dtypes = ("bfloat16", "float8e4m3fn", "double", "uint8", "int16", "bool")
    takes, gives = (", ".join(f"{dtype}[4, 8] {name}_{dtype}" for dtype in dtypes) for name in "xy")
    nodes = " ".join(f"y_{dtype} = Identity(x_{dtype})" for dtype in dtypes)
    model = saved(tmp_path / "model.onnx", f"g ({takes}) => ({gives}) {{ {nodes} }}", 19)
    result = measure(model, "--ep", "cpu", "--iterations", 2, "--warmup", 1, out=tmp_path / "out")
    assert [(case["status"], case["checks"]["outputs"]["verdict"]) for case in result["cases"]] == [
        ("ok", "passed")
    ] * 4, result["cases"]
    assert [tensor["type"] for tensor in result["model"]["outputs"]] == [f"tensor({dtype})" for dtype in dtypes]


WORDS = ("--ep", "cpu", "--mode", "cpu-tensors", *map(str, ONCE))


def test_a_model_alone_is_run(tmp_path: Path) -> None:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "model")  # an existing file may be called anything
    ran = ortbench("model", *WORDS, "--json", "-", cwd=tmp_path)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert (result["model"]["path"], result["command"]) == ("model", ["ortbench", "model", *WORDS, "--json", "-"])


@pytest.mark.pure
def test_a_command_is_a_command_whatever_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "explain").write_text("")
    assert ortbench_here("explain", "p95", cwd=tmp_path).code == 0


def test_all_that_is_written_may_go_to_a_path_that_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    try:
        folder.mkdir()
    except OSError as error:
        lacking(f"names here are text: {error}")
    shutil.copy(MODELS / "tiny.onnx", folder / "m.onnx")
    files = {f"--{name}": folder / f"it.{name}" for name in ("json", "junit", "action-json", "trace", "html")}
    options = [part for item in files.items() for part in item]
    ran = ortbench("run", "m.onnx", *WORDS, "--measure-nodes", *options, "--out", folder / "out", cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(files["--json"].read_text(encoding="utf-8"))
    assert result["nodes"]["runs"]
    assert os.fsdecode(b"\xff") in " ".join(result["command"])
    assert all(file.stat().st_size for file in files.values())
    assert len(list(folder.glob("out/*/table.md"))) == 1
