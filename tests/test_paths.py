"""Paths that a user may give: each that cannot be used is one line and exit code 2, before anything is measured."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ortbench as package
from ortbench.core.errors import BadInput
from ortbench.core.files import Kind, check_readable, kind_of, write_atomically
from tests.conftest import MODELS, ROOT, lacking, ortbench
from tests.expect import refusal

TINY = MODELS / "tiny.onnx"
RESULT = ROOT / "reports" / "copy_bound-refdevice"
SHORT = ("--ep", "cpu", "--mode", "cpu-tensors", "--iterations", "1", "--warmup", "1")
LONG = "n" * 256
ELSEWHERE = "cannot be read by other processes: name a file"
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")  # as root: to read all the same


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with a path of each kind that cannot be read."""
    (tmp_path / "loop").symlink_to("other")
    (tmp_path / "other").symlink_to("loop")
    (tmp_path / "broken").symlink_to("nothing")
    (tmp_path / "input").symlink_to("/dev/stdin")
    os.mkfifo(tmp_path / "pipe")
    shutil.copy(TINY, tmp_path / "m.onnx")
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    (tmp_path / "hard.onnx").hardlink_to(tmp_path / "m.onnx")
    (tmp_path / "folder").mkdir()
    return tmp_path


REASONS = {
    LONG: f"{LONG}: File name too long",
    "loop": "loop: Too many levels of symbolic links",
    "a\0b": "a b: embedded null byte",
    "broken": "no such file: broken",
    "m.onnx/x": "no such file: m.onnx/x",
    "folder": "folder is a folder: name a file",
    "pipe": f"pipe {ELSEWHERE}",
    "input": f"input {ELSEWHERE}",
    "/dev/stdin": f"/dev/stdin {ELSEWHERE}",
    "/dev/zero": f"/dev/zero {ELSEWHERE}",
    "/proc/self/fd/0": f"/proc/self/fd/0 {ELSEWHERE}",
}


def test_each_kind_has_its_reason(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(odd)
    for path, reason in REASONS.items():
        said = refusal(BadInput, check_readable, path, "--input").replace("\0", " ")
        assert said == f"--input: {reason}"
    check_readable("link.onnx")
    check_readable("folder", folders=True)
    assert [kind_of(path) for path in ("m.onnx", "folder", "pipe", "/dev/zero", "broken")] == [
        Kind.FILE, Kind.FOLDER, Kind.PIPE, Kind.DEVICE, Kind.NOTHING,
    ]  # fmt: skip


def test_a_name_that_just_fits_is_written(tmp_path: Path) -> None:
    for name in ("n" * 255, "é" * 127):
        write_atomically(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"


READ: dict[str, Callable[[str], tuple[object, ...]]] = {
    "model": lambda path: ("run", path, *SHORT),
    "inspect": lambda path: ("inspect", path),
    "baseline": lambda path: ("gate", "--model", "m.onnx", "--ep", "cpu", "--baseline-model", path),
    "input": lambda path: ("run", "m.onnx", *SHORT, "--input", path),
    "expect": lambda path: ("run", "m.onnx", *SHORT, "--expect", path),
    "data": lambda path: ("sweep", "m.onnx", "--ep", "cpu", "--data", path),
    "arrivals": lambda path: ("load", "m.onnx", "--ep", "cpu", "--arrivals", path, "--rate", "5"),
    "check": lambda path: ("devices", "--check", path),
    "library": lambda path: ("run", "m.onnx", *SHORT, "--ep-library", path),
}


@pytest.mark.process
@pytest.mark.parametrize(
    "option", ["--html", "--json", "--junit", "--trace", "--action-json", "--bmf", "--optimized-model"]
)
def test_what_cannot_be_written_is_said_before_anything_is_measured(option: str, odd: Path) -> None:
    for path in (LONG, "loop/x", "m.onnx/x", "nowhere/x", "folder"):
        ran = ortbench("run", "m.onnx", *SHORT, "--out", "out", option, path, cwd=odd)
        assert (ran.code, ran.out) == (2, ""), ran
        assert option in ran.error_line
    assert not (odd / "out").exists()


@pytest.mark.process
def test_an_optimized_model_never_replaces_another_file(odd: Path) -> None:
    before = (odd / "m.onnx").read_bytes()
    shutil.copy(TINY, odd / "alone.onnx")
    for model, written in (
        ("m.onnx", "link.onnx"),
        ("m.onnx", "hard.onnx"),
        ("alone.onnx", "link.onnx"),
        ("alone.onnx", "alone.onnx"),
    ):
        ran = ortbench("run", model, *SHORT, "--optimized-model", written, cwd=odd)
        assert ran.code == 2
        assert ran.error_line.endswith(": name a new file")
    assert (odd / "m.onnx").read_bytes() == before == (odd / "alone.onnx").read_bytes()
    for _ in range(2):  # its own file is written again
        assert ortbench("run", "m.onnx", *SHORT, "--optimized-model", "new.onnx", "--out", "out", cwd=odd).code == 0


def test_the_api_says_it_too(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(odd)
    for path in (LONG, "loop", "a\0b", "/dev/stdin"):
        calls: tuple[Any, ...] = (
            lambda path=path: package.run(path, ep="cpu"),
            lambda path=path: package.run(TINY, ep="cpu", input=path),
            lambda path=path: package.gate(model=TINY, ep="cpu", baseline_model=path),
        )
        for call in calls:
            assert REASONS[path].rpartition(": ")[2] in refusal(BadInput, call).replace("\0", " ")


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the file is Linux's")
def test_a_model_that_the_disk_does_not_give() -> None:
    ran = ortbench("run", "/proc/self/mem", *SHORT)
    assert (ran.code, ran.error_line) == (2, "/proc/self/mem cannot be read: Input/output error")


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="rights that root can give up are Linux's")
def test_what_may_not_be_read_or_entered(odd: Path) -> None:
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        prefix = WITHOUT_RIGHTS
        if shutil.which("setpriv") is None:
            lacking("setpriv")
    shutil.copytree(RESULT, odd / "result")
    for name in ("m.onnx", "result/result.json", "folder"):
        (odd / name).chmod(0)
    inputs = MODELS / "tiny.inputs.npz"
    for line in (
        ("run", "m.onnx", *SHORT),
        ("run", "folder/m.onnx", *SHORT),
        ("inspect", "folder/m.onnx"),
        ("run", TINY, *SHORT, "--input", "folder"),
        ("run", TINY, *SHORT, "--input", "folder/i.npz"),
        ("run", TINY, *SHORT, "--input", inputs, "--out", "folder/out"),
        ("run", TINY, *SHORT, "--html", "folder/p.html"),
        ("loop", "folder", "--ep", "cpu"),
        ("report", "result"),
        ("compare", RESULT, "folder/r.json"),
        ("suite", "folder/s.toml"),
    ):
        ran = ortbench(*line, cwd=odd, prefix=prefix)
        assert (ran.code, ran.out) == (2, ""), ran
        assert any(it in ran.error_line for it in ("Permission denied", "may not be read", "is not readable")), ran
    (odd / "folder").chmod(0o700)
