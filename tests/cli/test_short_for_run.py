"""`ortbench MODEL.onnx` is `ortbench run MODEL.onnx`, and nothing else is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, ortbench, ortbench_here


@pytest.mark.process
def test_a_model_alone_is_run(tmp_path: Path) -> None:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "model")  # an existing file may be called anything
    words = ["model", "--ep", "cpu", "--mode", "cpu-tensors", *map(str, ONCE), "--json", "-"]
    ran = ortbench(*words, cwd=tmp_path)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert (result["model"]["path"], result["command"]) == ("model", ["ortbench", *words])


def test_a_command_is_a_command_whatever_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "explain").write_text("")
    assert ortbench_here("explain", "p95", cwd=tmp_path).code == 0
