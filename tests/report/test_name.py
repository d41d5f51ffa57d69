"""A run that was given a name or a note: its folder, its result, and what shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.features.page.report.page import build_page
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import run_name
from ortbench.report.phrases import heading
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.conftest import MODELS, ONCE, ortbench
from tests.results import measured, result_of, steady

TINY = str(MODELS / "tiny.onnx")


@pytest.mark.process
def test_a_name_is_the_folder_and_the_column(tmp_path: Path) -> None:
    short = ("run", TINY, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--out", tmp_path)
    for name, threads in (("before", 1), ("after the fix", 2), ("before", 1)):
        assert ortbench(*short, "--name", name, "--intra-op-threads", threads).code == 0
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["after-the-fix", "before", "before-2"]
    ran = ortbench("compare", tmp_path / "before", tmp_path / "after-the-fix")
    assert "• what differs (before → after the fix): intra-op threads: 1 → 2\n" in ran.out


def test_a_name_as_a_folder() -> None:
    for name, folder in (
        ("../../etc/passwd", "-..-etc-passwd"), ("..", "unnamed"), (".hidden", "hidden"), ("-rf", "rf"), ("###", "unnamed"), ("名前", "名前"),
    ):  # fmt: skip
        assert run_name([Plan("m.onnx", name=name)]) == folder


@pytest.mark.usefixtures("undrawn")
def test_what_a_name_is_not_taken_for() -> None:
    result = result_of(measured("cpu-tensors", latency=steady([1000] * 20)))
    assert markdown(build(result)).startswith("# ortbench: m.onnx\n")
    result.name = "<b>a</b>\n# b\u202e\x1b[31m"
    assert markdown(build(result)).startswith("# ortbench: \\<b>a\\</b> # b\ufffd\ufffd[31m\n")
    page = build_page([result], ["x"])
    shown = "&lt;b&gt;a&lt;/b&gt; # b\ufffd\ufffd[31m"
    assert f"<title>{shown}: m.onnx on SomeExecutionProvider · ortbench</title>" in page
    assert f'<p class="eyebrow">ortbench report: {shown}</p>' in page
    assert not {"\u202e", "\x1b"} & set(page)


def test_a_note_takes_one_line() -> None:
    result = result_of(measured("cpu-tensors", latency=steady([1000] * 20)))
    plain = heading(result)
    result.note = " one\n two\t"
    assert heading(result) == [f"{plain[0]}: one two", *plain[1:]]
    result.note = ""
    assert heading(result) == plain
