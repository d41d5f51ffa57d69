"""`ortbench MODEL.onnx` is `ortbench run MODEL.onnx`, and nothing else is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, ortbench

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", ["m.onnx", "model"])  # an existing file may be called anything
def test_a_model_alone_is_run(name: str, tmp_path: Path) -> None:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / name)
    ran = ortbench(name, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--json", "-", cwd=tmp_path)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["model"]["path"] == name
    assert found["command"] == [
        "ortbench",
        name,
        "--ep",
        "cpu",
        "--mode",
        "cpu-tensors",
        *map(str, ONCE),
        "--json",
        "-",
    ]


def test_a_command_is_a_command_whatever_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "explain").write_text("")
    assert ortbench("explain", "p95", cwd=tmp_path).code == 0
