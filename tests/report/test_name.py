"""A run that was given a name: its folder, its result, and what shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.features.page.report.page import build_page
from ortbench.measure.folder import run_name
from ortbench.plan.plan import Plan
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.conftest import MODELS, ONCE, ortbench
from tests.results import measured, result_of, steady

TINY = str(MODELS / "tiny.onnx")


@pytest.mark.process
def test_it_is_the_folder_the_title_and_the_column(tmp_path: Path) -> None:
    for name, threads in (("before", 1), ("after the fix", 2), ("before", 1)):
        ran = ortbench("run", TINY, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--name", name, "--intra-op-threads", threads,
                       "--html", tmp_path / "page.html", "--out", tmp_path / "out")  # fmt: skip
        assert ran.code == 0, ran.err
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == ["after-the-fix", "before", "before-2"]
    result = json.loads((tmp_path / "out" / "after-the-fix" / "result.json").read_text())
    assert result["name"] == "after the fix"
    assert (tmp_path / "out" / "after-the-fix" / "table.md").read_text().startswith("# ortbench: after the fix\n")
    assert '<p class="eyebrow">ortbench report: before</p>' in (tmp_path / "page.html").read_text()
    ran = ortbench("compare", tmp_path / "out" / "before", tmp_path / "out" / "after-the-fix")
    assert ran.code == 0, ran.err
    assert "• what differs (before → after the fix): intra-op threads: 1 → 2\n" in ran.out


@pytest.mark.wide
@pytest.mark.process
def test_cases_of_a_suite_have_their_ids(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        f'[[bench]]\nmodel = "{TINY}"\nep = ["cpu", {{name = "one-thread", ep = "cpu", intra-op-threads = 1}}]\nmode = "cpu-tensors"\n'
        "iterations = 1\nwarmup = 1\n"
    )
    ran = ortbench("suite", tmp_path / "s.toml", "--out", tmp_path / "suite")
    assert ran.code == 0, ran.err
    saved = {path.parent.name: json.loads(path.read_text())["name"] for path in tmp_path.glob("suite/*/result.json")}
    assert saved == {name: name for name in ("tiny--cpu", "tiny--one-thread")}
    ran = ortbench("compare", tmp_path / "suite", COLUMNS="200")
    assert ran.code == 0, ran.err
    assert "• what differs (tiny--cpu → tiny--one-thread): intra-op threads: default → 1\n" in ran.out
    ran = ortbench("report", tmp_path / "suite")
    assert ran.out == f"Saved in {tmp_path / 'suite' / 'report.html'}\n"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("before", "before"),
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


def test_what_a_name_is_not_taken_for() -> None:
    result = result_of(measured("cpu-tensors", latency=steady([1000] * 20)))
    assert markdown(build(result)).startswith("# ortbench: m.onnx\n")
    assert "<title>m.onnx on SomeExecutionProvider · ortbench</title>" in build_page([result], ["x"])
    result.name = "<b>a</b>\n# b\u202e\x1b[31m"
    assert markdown(build(result)).startswith("# ortbench: \\<b>a\\</b> # b\ufffd\ufffd[31m\n")
    page = build_page([result], ["x"])
    shown = "&lt;b&gt;a&lt;/b&gt; # b\ufffd\ufffd[31m"
    assert f"<title>{shown}: m.onnx on SomeExecutionProvider · ortbench</title>" in page
    assert f'<p class="eyebrow">ortbench report: {shown}</p>' in page
    assert not {"\u202e", "\x1b"} & set(page)
