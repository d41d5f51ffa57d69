"""Runs as users type them: a model alone, and paths that are no text."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, lacking, ortbench, ortbench_here

WORDS = ("--ep", "cpu", "--mode", "cpu-tensors", *map(str, ONCE))


@pytest.mark.process
def test_a_model_alone_is_run(tmp_path: Path) -> None:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "model")  # an existing file may be called anything
    ran = ortbench("model", *WORDS, "--json", "-", cwd=tmp_path)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert (result["model"]["path"], result["command"]) == ("model", ["ortbench", "model", *WORDS, "--json", "-"])


def test_a_command_is_a_command_whatever_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "explain").write_text("")
    assert ortbench_here("explain", "p95", cwd=tmp_path).code == 0


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
    ran = ortbench("run", "m.onnx", *WORDS, "--measure-nodes", *options, "--out", folder / "out", cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(files["--json"].read_text(encoding="utf-8"))
    assert result["nodes"]["runs"]
    assert os.fsdecode(b"\xff") in " ".join(result["command"])
    assert all(file.stat().st_size for file in files.values())
    assert len(list(folder.glob("out/*/table.md"))) == 1
