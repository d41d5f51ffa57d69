"""Every refusal is one line on stderr and an exit code, and leaves nothing behind: a table of commands, refusals.txt."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS, ROOT, ortbench

pytestmark = pytest.mark.process

LINES = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
FILES = {
    "m.onnx": "tiny.onnx", "ids.onnx": "transformer_ids.onnx", "multi.onnx": "multi_output.onnx", "cell.onnx": "recurrent_cell.onnx",
    "decoder.onnx": "decoder.onnx", "shared.onnx": "decoder_shared.onnx", "chain.toml": "text_to_image.toml",
}  # fmt: skip
TABLE = [line.split(" -> ") for line in LINES if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    for name, model in FILES.items():
        shutil.copy(MODELS / model, folder / name)
    (folder / "r").symlink_to(ROOT / "reports" / "copy_bound-refdevice")
    (folder / "text.md").write_text("text")
    (folder / "folder").mkdir()
    return folder


@pytest.mark.parametrize(("line", "answer"), TABLE, ids=[line for line, _ in TABLE])
def test_a_refusal(line: str, answer: str, folder: Path) -> None:
    before = {*folder.rglob("*")}
    typed = re.sub(
        r"1\.\.(\d+)", lambda last: ",".join(map(str, range(1, int(last[1]) + 1))), line.replace("MANY", "1" * 5000)
    )
    ran = ortbench(*shlex.split(typed), cwd=folder)
    code, words = (1, answer[3:]) if answer.startswith("1: ") else (2, answer)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.error_line
    assert {*folder.rglob("*")} == before
