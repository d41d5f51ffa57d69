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


def test_one_that_is_not_there_is_the_error_of_run(tmp_path: Path) -> None:
    ran = ortbench("nowhere.onnx", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (2, "no such file: nowhere.onnx")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rnu", "No such command 'rnu'. Did you mean 'run'? (see --help)"),
        ("reports", "No such command 'reports'. Did you mean 'report'? (see --help)"),
        ("quux", "No such command 'quux'. (see --help)"),
    ],
)
def test_other_words_keep_their_error(word: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    ran = ortbench(word, cwd=tmp_path)
    assert (ran.code, ran.out, ran.error_line) == (2, "", message)


def test_several_models_are_for_a_suite() -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", MODELS / "fp16.onnx")
    assert ran.code == 2
    assert (
        ran.error_line == "run takes one model; ortbench suite FILE takes several (ortbench explain --more suites.md)"
    )


def test_a_command_is_a_command_whatever_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "explain").write_text("")
    assert ortbench("explain", "p95", cwd=tmp_path).code == 0


def test_an_option_without_its_path_is_named() -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", "--html", "--out", "somewhere")
    assert (ran.code, ran.error_line) == (2, "--html takes a path, and --out stands in its place: --html PATH")
