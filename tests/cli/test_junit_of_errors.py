"""Where CI looks for what a command came to, it finds why it came to nothing."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import MODELS, ONCE, ROOT, SCREEN, ortbench, ortbench_here

pytestmark = pytest.mark.process

TINY = str(MODELS / "tiny.onnx")
RESULT, OTHER = (str(ROOT / "reports" / f"copy_bound-{name}") for name in ("refdevice", "cpu"))


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [
        ("run", ["--junit=it.xml", "nowhere.onnx"], 2),
        ("run", ["--junit=it.xml", TINY, "--nonsense"], 2),
        ("gate", [RESULT, "--baseline", OTHER, "--junit", "it.xml"], 5),
        ("suite merge", ["nowhere", "--out", "elsewhere", "--junit", "it.xml"], 2),
    ],
)
def test_the_line_is_an_error(command: str, arguments: list[str], code: int, tmp_path: Path) -> None:
    ran = ortbench_here(*command.split(), *arguments, cwd=tmp_path)
    assert ran.code == code
    root = ET.parse(tmp_path / "it.xml").getroot()
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("1", "1", "0")
    assert float(root.get("time", "0")) > 0
    (case,) = root.iter("testcase")
    assert (case.get("classname"), case.get("name")) == (f"ortbench {command}.before measuring", command)
    assert case.findtext("error") == ran.error_line


def test_standard_output_or_nothing(tmp_path: Path) -> None:
    ran = ortbench_here("run", "nowhere.onnx", "--junit", "-", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (2, "no such file: nowhere.onnx")
    assert 'message="no such file: nowhere.onnx"' in ran.out
    for words in (["--junit"], []):
        assert ortbench_here("run", "nowhere.onnx", *words, cwd=tmp_path, **{SCREEN: "1"}).code == 2
    assert [*tmp_path.iterdir()] == []


def test_an_ep_that_does_not_load(tmp_path: Path) -> None:
    options = ["--junit", tmp_path / "it.xml", *ONCE, "--mode", "cpu-tensors", "--out", tmp_path / "out"]
    ran = ortbench("run", TINY, "--ep", "cpu", "--ep", "qnn", *options)
    assert ran.code == 1
    first, second = ET.parse(tmp_path / "it.xml").getroot().iter("testcase")
    assert (first.get("name"), [child.tag for child in first]) == ("cpu-tensors", ["system-out"])
    assert (second.get("name"), second.findtext("error")) == ("qnn", ran.error_line.removeprefix("qnn: "))
