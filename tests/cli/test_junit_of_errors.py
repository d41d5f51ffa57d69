"""Where CI looks for what a command came to, it finds why it came to nothing."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import MODELS, ONCE, ortbench

pytestmark = pytest.mark.process

TINY = str(MODELS / "tiny.onnx")
RESULT = str(MODELS.parent / "reports" / "copy_bound-refdevice")


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [
        ("run", ["nowhere.onnx"], 2),
        ("run", [TINY, "--nonsense"], 2),
        ("gate", [RESULT], 2),
        ("gate", [RESULT, "--baseline", str(Path(RESULT).with_name("copy_bound-cpu"))], 5),
        ("suite merge", ["nowhere", "--out", "elsewhere"], 2),
    ],
)
def test_the_line_is_an_error(command: str, arguments: list[str], code: int, tmp_path: Path) -> None:
    before, behind = (
        ([f"--junit={tmp_path / 'it.xml'}"], []) if command == "run" else ([], ["--junit", tmp_path / "it.xml"])
    )
    ran = ortbench(*command.split(), *before, *arguments, *behind, cwd=tmp_path)
    assert ran.code == code
    root = ET.parse(tmp_path / "it.xml").getroot()
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("1", "1", "0")
    (case,) = root.iter("testcase")
    assert (case.get("classname"), case.get("name")) == (f"ortbench {command}.before measuring", command)
    assert case.findtext("error") == ran.error_line


def test_standard_output(tmp_path: Path) -> None:
    ran = ortbench("run", "nowhere.onnx", "--junit", "-", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (2, "no such file: nowhere.onnx")
    assert 'message="no such file: nowhere.onnx"' in ran.out


def test_a_file_that_cannot_be_written_changes_no_exit_code(tmp_path: Path) -> None:
    ran = ortbench("run", "nowhere.onnx", "--junit", "no/it.xml", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (2, "--junit no/it.xml: there is no folder no")


def test_what_only_looks_like_the_option_is_none(tmp_path: Path) -> None:
    """It is the text of a note; the file of that name is the user's."""
    (tmp_path / "mine").write_text("mine")
    ran = ortbench("run", "nowhere.onnx", "--note", "--junit", "mine", cwd=tmp_path)
    assert ran.code == 2
    assert (tmp_path / "mine").read_text() == "mine"
    assert ortbench("run", "nowhere.onnx", "--junit", cwd=tmp_path, ORTBENCH_TESTS_SCREEN="1").code == 2
    assert ortbench("run", "nowhere.onnx", cwd=tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_ep_that_does_not_load(tmp_path: Path) -> None:
    options = ["--junit", tmp_path / "it.xml", *ONCE, "--mode", "cpu-tensors", "--out", tmp_path / "out"]
    ran = ortbench("run", TINY, "--ep", "qnn", *options)
    assert ran.code == 1
    (case,) = ET.parse(tmp_path / "it.xml").getroot().iter("testcase")
    assert case.findtext("error") == ran.error_line
    ran = ortbench("run", TINY, "--ep", "cpu", "--ep", "qnn", *options)
    assert ran.code == 1
    first, second = ET.parse(tmp_path / "it.xml").getroot().iter("testcase")
    assert (first.get("name"), [child.tag for child in first]) == ("cpu-tensors", ["system-out"])
    assert (second.get("name"), second.findtext("error")) == ("qnn", ran.error_line.removeprefix("qnn: "))
