"""Paths that a user may give: each that cannot be used has its reason. tests/cli/refusals.txt has those of commands."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import ortbench as package
from ortbench.core.errors import BadInput
from ortbench.core.files import Kind, check_readable, kind_of, write_atomically
from tests.conftest import MODELS, ONCE, ortbench
from tests.expect import refusal

LONG = "n" * 256
ELSEWHERE = "cannot be read by other processes: name a file"
REASONS = {
    LONG: f"{LONG}: File name too long",
    "loop": "loop: Too many levels of symbolic links",
    "a\0b": "a b: embedded null byte",
    "broken": "no such file: broken",
    "m.onnx/x": "no such file: m.onnx/x",
    "folder": "folder is a folder: name a file",
    "pipe": f"pipe {ELSEWHERE}",
    "/dev/stdin": f"/dev/stdin {ELSEWHERE}",
    "/dev/zero": f"/dev/zero {ELSEWHERE}",
    "/proc/self/fd/0": f"/proc/self/fd/0 {ELSEWHERE}",
}


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a path of each kind."""
    for link, target in {"loop": "loop", "broken": "nothing", "link.onnx": "m.onnx"}.items():
        (tmp_path / link).symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "m.onnx")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("odd")
def test_each_kind_has_its_reason() -> None:
    for path, reason in REASONS.items():
        assert refusal(BadInput, check_readable, path, "--input").replace("\0", " ") == f"--input: {reason}"
    check_readable("link.onnx")
    check_readable("folder", folders=True)
    kinds = [kind_of(path) for path in ("m.onnx", "folder", "pipe", "/dev/zero", "broken")]
    assert kinds == [Kind.FILE, Kind.FOLDER, Kind.PIPE, Kind.DEVICE, Kind.NOTHING]


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize("given", [{"model": LONG}, {"input": "a\0b"}, {"baseline_model": "/dev/stdin"}])
def test_the_api_says_it_too(given: dict[str, str]) -> None:
    call: Any = package.gate if "baseline_model" in given else package.run
    (path,) = given.values()
    said = refusal(BadInput, call, **{"model": "m.onnx", "ep": "cpu", **given}).replace("\0", " ")
    assert REASONS[path].rpartition(": ")[2] in said


def test_a_name_that_just_fits_is_written(tmp_path: Path) -> None:
    for name in ("n" * 255, "é" * 127):
        write_atomically(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"


@pytest.mark.process
def test_an_optimized_model_is_written_again_where_ortbench_wrote_it(odd: Path) -> None:
    for _ in range(2):
        words = ("--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--optimized-model", "new.onnx", "--out", "out")
        assert ortbench("run", "m.onnx", *words, cwd=odd).code == 0
