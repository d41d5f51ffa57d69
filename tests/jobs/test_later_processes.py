"""What happens between the first process of a command and a later one: its model is replaced."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ortbench.core.errors import BenchmarkFailed
from ortbench.core.files import ModelFiles
from tests.conftest import ortbench
from tests.expect import refusal
from tests.jobs.reports import json_in
from tests.jobs.test_python_option import script

CHANGED = "was changed during the measurement: measure again without changing it"


def scaling(path: Path, factor: float, weights: str) -> Path:
    """A model that multiplies, with its factor in a file beside it."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1024] x) => (float[1024] y) { y = Mul(x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.full(1024, factor, np.float32), "w"))
    onnx.save(model, path, save_as_external_data=True, location=weights, size_threshold=0)
    return path


@pytest.mark.parametrize("name", ["m.onnx", "weights"])
def test_a_model_that_is_replaced(name: str, tmp_path: Path) -> None:
    """By another one, or by one with a name in it of the same length, when the second process starts."""
    (tmp_path / "other").mkdir()
    model = scaling(tmp_path / "m.onnx", 2, "weights")
    scaling(tmp_path / "other" / "m.onnx", 3, "weights")
    (tmp_path / "other" / "m.onnx").write_bytes(model.read_bytes().replace(b"Mul", b"Add"))
    python = script(
        tmp_path / "python",
        f"#!/bin/sh\ncd {tmp_path}\necho >> starts\n"  # two can start at once
        f"if [ $(wc -l < starts) -ge 2 ] && mkdir begun 2> /dev/null; then cp other/{name} new; mv new {name}; fi\n"
        f'cd - > /dev/null\nexec {sys.executable} "$@"\n',
    )
    line = ("run", model, "--ep", "cpu", "--mode", "cpu-tensors", "--warmup", 1, "--iterations", 6, "--processes", 3)
    ran = ortbench(*line, "--python", python, "--out", tmp_path / "out")
    why = f"in process 2 the model could not be opened again: {tmp_path / name} {CHANGED}"
    assert (ran.code, ran.error_line) == (1, f"cpu-tensors failed: {why}")
    (case,) = json_in(tmp_path / "out")["cases"]
    assert len(case["samples"]["latency"]) == 2


@pytest.mark.pure
def test_files_are_compared_by_their_content_only_where_the_system_says_that_they_may_differ(tmp_path: Path) -> None:
    model = tmp_path / "m[1].onnx"
    beside = (model.name, f"{model.name}.data", f"{model.name}_data", "m[1].data")
    for name in (*beside, "m1.onnx.data"):
        (tmp_path / name).write_text("a")
    for name in beside:
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
