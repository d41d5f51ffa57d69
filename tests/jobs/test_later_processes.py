"""What happens between the first process of a command and a later one: its model is replaced."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ortbench.core.errors import BenchmarkFailed
from ortbench.core.files import ModelFiles
from tests.conftest import Ran, ortbench
from tests.expect import refusal
from tests.jobs.test_python_option import script
from tests.truth import relu_model

process = pytest.mark.process
SHORT = ("--ep", "cpu", "--mode", "cpu-tensors", "--warmup", 1)
THREE = (*SHORT, "--iterations", 6, "--processes", 3)
CHANGED = "was changed during the measurement: measure again without changing it"


def scaling(path: Path, factor: float, location: str | None = None) -> Path:
    """A model that multiplies, with its factor in a file beside it."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1024] x) => (float[1024] y) { y = Mul(x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.full(1024, factor, np.float32), "w"))
    onnx.save(model, path, save_as_external_data=True, location=location or f"{path.name}.data", size_threshold=0)
    return path


def ran_with(folder: Path, at_start: int, what: str, *line: object) -> Ran:
    """A command with an interpreter that does something in the folder, in the words of a shell, at its nth start."""
    python = script(
        folder / "python",
        f"#!/bin/sh\ncd {folder}\necho >> starts\n"  # two can start at once
        f"if [ $(wc -l < starts) -ge {at_start} ] && mkdir begun 2> /dev/null; then {what}; fi\ncd - > /dev/null\n"
        f'exec {sys.executable} "$@"\n',
    )
    return ortbench(*line, "--python", python, "--out", folder / "out")


def cases_of(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("out/*/result.json")
    cases: list[dict[str, Any]] = json.loads(file.read_text())["cases"]
    return cases


@process
@pytest.mark.parametrize("name", ["m.onnx", "weights"])
def test_a_model_that_is_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    location = None if name == "m.onnx" else name
    model = scaling(tmp_path / "m.onnx", 2, location)
    scaling(tmp_path / "other" / "m.onnx", 3, location)
    if name == "m.onnx":  # with a name in it of the same length
        (tmp_path / "other" / name).write_bytes(model.read_bytes().replace(b"Mul", b"Add"))
    ran = ran_with(tmp_path, 2, f"cp other/{name} new; mv new {name}", "run", model, *THREE)
    why = f"in process 2 the model could not be opened again: {tmp_path / name} {CHANGED}"
    assert (ran.code, ran.error_line) == (1, f"cpu-tensors failed: {why}")
    (case,) = cases_of(tmp_path)
    assert len(case["samples"]["latency"]) == 2


@process
@pytest.mark.wide
@pytest.mark.parametrize(
    ("command", "options", "start"),
    [
        ("load", (*SHORT, "--duration", 0.3, "--concurrency", "1,2", "--sessions", "process"), 2),
        ("start", ("--ep", "cpu", "--iterations", 4), 4),
        ("load", (*SHORT, "--duration", 0.3, "--concurrency", 1, "--processes", 3), 3),
        ("run", (*SHORT, "--iterations", 2, "--measure-nodes"), 2),
    ],
)
def test_every_later_process_finds_it(command: str, options: tuple[object, ...], start: int, tmp_path: Path) -> None:
    model = scaling(tmp_path / "m.onnx", 2)
    (tmp_path / "other.onnx").write_bytes(model.read_bytes().replace(b"Mul", b"Add"))
    ran = ran_with(tmp_path, start, "cp other.onnx new; mv new m.onnx", command, model, *options)
    assert CHANGED in (ran.out if command == "run" else ran.error_line), ran
    assert cases_of(tmp_path)[0]["samples"]["latency"]


@process
@pytest.mark.wide
def test_a_regression_is_not_confirmed_with_another_model(real_library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", 4096)
    relu_model(tmp_path / "other.onnx", 8192)
    device = ("--ep", real_library, "--ep-option", "compute_us=9000", "--baseline-set", "ep-option=compute_us=3000")
    line = ("gate", "--model", model, *device, "--mode", "device-resident", "--warmup", 1, "--duration", 2)
    ran = ran_with(tmp_path, 3, "mv other.onnx m.onnx", *line, "--max-regression", "10%")
    said = f"cannot tell, the regression could not be measured again: {model} {CHANGED}"
    assert (ran.code, said in " ".join(ran.out.split())) == (4, True), ran


def test_files_are_compared_by_their_content_only_where_the_system_says_that_they_may_differ(tmp_path: Path) -> None:
    model = tmp_path / "m[1].onnx"
    for name in (model.name, f"{model.name}.data", f"{model.name}_data", "m[1].data", "m1.onnx.data"):
        (tmp_path / name).write_text("a")
    for name in (model.name, f"{model.name}.data", f"{model.name}_data", "m[1].data"):
        files = ModelFiles([str(model)])
        files.digest(str(model))
        files.check()
        (tmp_path / name).write_text("b")
        assert refusal(BenchmarkFailed, files.check) == f"{tmp_path / name} {CHANGED}"
        (tmp_path / name).unlink()
        assert refusal(BenchmarkFailed, files.check) == f"{tmp_path / name} {CHANGED}"
        (tmp_path / name).write_text("a")
    files = ModelFiles([str(model)])
    files.digest(str(model))
    model.rename(tmp_path / "before")
    shutil.copy(tmp_path / "before", model)
    (tmp_path / "m1.onnx.data").unlink()
    files.check()
