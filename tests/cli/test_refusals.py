"""Every refusal is one line on stderr and an exit code, and leaves nothing behind: a table of commands, refusals.txt."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ortbench

pytestmark = pytest.mark.process

LINES = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
TABLE = [line.split(" -> ") for line in LINES if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    shutil.copy(MODELS / "tiny.onnx", folder / "m.onnx")
    shutil.copy(MODELS / "transformer_ids.onnx", folder / "ids.onnx")
    (folder / "text.md").write_text("text")
    (folder / "folder").mkdir()
    return folder


@pytest.mark.parametrize(("line", "answer"), TABLE, ids=[line for line, _ in TABLE])
def test_a_refusal(line: str, answer: str, folder: Path) -> None:
    before = {*folder.rglob("*")}
    ran = ortbench(*shlex.split(line.replace("MANY", "1" * 5000)), cwd=folder)
    code, words = (1, answer[3:]) if answer.startswith("1: ") else (2, answer)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.error_line
    assert {*folder.rglob("*")} == before
