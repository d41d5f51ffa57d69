"""Paths that are no text: commands write to them, and read the model beside them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, lacking, ortbench


@pytest.mark.process
def test_all_that_is_written_may_go_to_a_path_that_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    try:
        folder.mkdir()
    except OSError as error:
        lacking(f"names here are text: {error}")
    shutil.copy(MODELS / "tiny.onnx", folder / "m.onnx")
    files = {f"--{name}": folder / f"it.{name}" for name in ("json", "junit", "action-json", "trace", "html")}
    options = [part for item in files.items() for part in item]
    words = ["m.onnx", "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--measure-nodes", *options]
    ran = ortbench("run", *words, "--out", folder / "out", cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(files["--json"].read_text(encoding="utf-8"))
    assert result["nodes"]["runs"]
    assert os.fsdecode(b"\xff") in " ".join(result["command"])
    assert all(file.stat().st_size for file in files.values())
    assert len(list(folder.glob("out/*/table.md"))) == 1
