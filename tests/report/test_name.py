"""A run that was given a name or a note: its folder, its result, and what shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.core.errors import CANNOT_TELL, DONE, REGRESSION
from ortbench.features.page.report.page import build_page
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import run_name
from ortbench.report.phrases import heading
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.conftest import MODELS, ONCE, ortbench
from tests.results import measured, result_of, steady

TINY = str(MODELS / "tiny.onnx")
NOTE = "fans at full speed | <b>second</b> try"


@pytest.mark.process
def test_a_name_is_the_folder_the_title_and_the_column(tmp_path: Path) -> None:
    short = ("run", TINY, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--out", tmp_path)
    for name, threads in (("before", 1), ("after the fix", 2), ("before", 1)):
        ran = ortbench(*short, "--name", name, "--intra-op-threads", threads)
        assert ran.code == 0, ran.err
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["after-the-fix", "before", "before-2"]
    assert json.loads((tmp_path / "after-the-fix" / "result.json").read_text())["name"] == "after the fix"
    assert (tmp_path / "after-the-fix" / "table.md").read_text().startswith("# ortbench: after the fix\n")
    ran = ortbench("compare", tmp_path / "before", tmp_path / "after-the-fix")
    assert "• what differs (before → after the fix): intra-op threads: 1 → 2\n" in ran.out


@pytest.mark.process
def test_a_live_gate_and_a_suite_keep_a_note_and_cases_have_their_ids(tmp_path: Path) -> None:
    short = ["--ep", "cpu", "--mode", "cpu-tensors", "--warmup", 1, "--duration", 0.2, "--note", NOTE]
    ran = ortbench("gate", "--model", TINY, "--baseline-model", TINY, *short, "--out", tmp_path, COLUMNS="200")
    assert ran.code in (DONE, REGRESSION, CANNOT_TELL), ran.err  # as a busy machine has it
    assert [json.loads(path.read_text())["note"] for path in tmp_path.glob("*/*/result.json")] == [NOTE] * 2
    assert ran.out.count(NOTE) == 1  # what both have in common is said once
    (tmp_path / "s.toml").write_text(
        f'[[bench]]\nmodel = "{TINY}"\nep = ["cpu", {{name = "one-thread", ep = "cpu", intra-op-threads = 1}}]\n'
        f'mode = "cpu-tensors"\niterations = 1\nwarmup = 1\nnote = "{NOTE}"\n'
    )
    ran = ortbench("suite", tmp_path / "s.toml", "--out", tmp_path / "suite")
    assert ran.code == 0, ran.err
    saved = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("suite/*/result.json")}
    assert {name: (it["name"], it["note"]) for name, it in saved.items()} == {
        name: (name, NOTE) for name in ("tiny--cpu", "tiny--one-thread")
    }


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("after the fix", "after-the-fix"),
        ("../../etc/passwd", "-..-etc-passwd"),
        ("..", "unnamed"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("a/b\\c:d*e\x1b[31m", "a-b-c-d-e-31m"),
        ("###", "unnamed"),
        ("名前", "名前"),
    ],
)
def test_a_name_as_a_folder(name: str, folder: str) -> None:
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
