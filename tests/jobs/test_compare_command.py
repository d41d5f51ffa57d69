"""`ortbench compare`, and `ortbench run` with several EPs, which prints the same table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ortbench import compare
from ortbench.model.result import Result
from ortbench.model.result_file import save
from tests.analysis.test_why import LAYERS, chain, nodes_of
from tests.conftest import MODELS, ONCE, ortbench
from tests.refdevice import EP_NAME
from tests.results import measured, result_of, steady, tensor
from tests.truth import relu_model

pytestmark = pytest.mark.process

QUIET = [1_000_000, 1_001_000, 999_000, 1_000_500] * 6


def at(factor: float, batch: int = 1, name: str | None = None) -> Result:
    values = [round(value * factor) for value in QUIET]
    x = {**tensor("x", [batch, 3]), "model_shape": ["batch", 3]}
    result = result_of(
        measured("cpu-tensors", latency=steady(values)),
        measured("device-tensors", latency=steady(values), h2d=steady(value // 4 for value in values)),
        model__inputs=[x],
    )
    result.name = name
    return result


def folders(root: Path, **results: Result) -> Path:
    """A folder of runs as ortbench calls them: in an order that says nothing."""
    for name, result in results.items():
        (root / name).mkdir(parents=True)
        save(result, root / name / "result.json")
    return root


def columns(out: str) -> list[str]:
    """What two results are called in the headings of tables."""
    found = re.findall(r"^mode +metric +(\S.*?) {2,}ratio ", out, re.MULTILINE)
    return [name for names in found for name in re.split("  +", names)]


def test_why_is_in_the_text_the_json_and_from_python(tmp_path: Path) -> None:
    each = chain(*LAYERS, ("Clip", 200_000))
    old, new = at(1.0), at(1.2)
    old.nodes, new.nodes = nodes_of(each[:2]), nodes_of(each)
    folders(tmp_path, old=old, new=new)
    paths = [tmp_path / "old", tmp_path / "new"]
    text = (
        "Why: cpu-tensors takes 200 µs longer (by medians); under the profiler 200 µs, 100% of it in the change below."
    )
    assert f"{text} → Added: Clip (Clip_2)." in " ".join(ortbench("compare", *paths, "--why").out.split())
    data = json.loads(ortbench("compare", *paths, "--why", "--json", "-").out)
    assert data["why"]["sentence"] == text
    assert [it["code"] for it in data["findings"]][:2] == ["why", "change"]
    why = compare(paths, why=True).why
    assert why is not None
    assert why.data == {"why": data["why"]}
    ran = ortbench("compare", *paths, paths[0], "--why")
    assert (ran.code, ran.error_line) == (2, "--why: is of two results, and there are 3")


def test_files_and_the_job_summary(tmp_path: Path) -> None:
    folders(tmp_path, old=at(1.0), new=at(1.2))
    files = {name: tmp_path / name for name in ("summary", "markdown", "json")}
    line = ("--markdown", files["markdown"], "--json", files["json"])
    ran = ortbench("compare", tmp_path / "old", tmp_path / "new", *line, GITHUB_STEP_SUMMARY=str(files["summary"]))
    assert (ran.code, ran.err) == (0, "")
    assert "| cpu-tensors | latency | 1.00 | 1.20 | 1.20 |" in files["markdown"].read_text()
    assert files["summary"].read_text() == files["markdown"].read_text()
    assert [it["verdict"] for it in json.loads(files["json"].read_text())["findings"]][:1] == ["slower"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "at least two"),
        (("a", "--mode", "gpu"), "no such mode"),
        (("a", "--metric", "lunch"), "there is no mode, metric or statistic 'lunch'"),
        (("a", "--equivalence-margin", "much"), "write a share"),
        (("a", "--markdown", "nowhere/c.md"), "--markdown nowhere/c.md: there is no folder nowhere"),
    ],
)
def test_bad_input_is_one_line(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    ran = ortbench("compare", "a", *options, cwd=folders(tmp_path, a=at(1.0)))
    assert ran.code == 2
    assert message in ran.error_line


def test_two_suites_are_compared_case_by_case(tmp_path: Path) -> None:
    """What there is nothing to compare with is named, and no reason to refuse the rest."""
    monday, tuesday = tmp_path / "monday", tmp_path / "tuesday"
    folders(monday, a=at(1.0, name="a"), b=at(1.0, 8, "b"))
    folders(tuesday, a=at(1.2, name="a"), b=at(1.2, 8, "b"), c=at(1.0, 64, "c"))
    line = ("compare", monday, tuesday, "--mode", "cpu-tensors", "--metric", "latency")
    ran = ortbench(*line, COLUMNS="200")
    assert (ran.code, ran.err, columns(ran.out)) == (0, "", ["monday", "tuesday"] * 2)
    rest = "not compared, nothing else here was measured on the same thing: c (--force compares all)"
    assert ran.out.endswith(f"! {rest}\n")
    text = ortbench(*line, "--markdown", "-").out
    assert re.findall(r"^# ortbench compare: (.*)", text, re.MULTILINE) == [
        "a: monday, tuesday",
        "b: monday, tuesday",
        "the rest",
    ]
    records = json.loads(ortbench(*line, "--json", "-").out)["records"]
    assert [(it["group"], it["result"], (it["vs_first"] or {}).get("verdict")) for it in records] == [
        ("a", "monday", None), ("a", "tuesday", "slower"), ("b", "monday", None), ("b", "tuesday", "slower"),
    ]  # fmt: skip


def test_files_that_a_glob_names_beside_results_are_passed_over(tmp_path: Path) -> None:
    folder, page = folders(tmp_path, a=at(1.0)) / "a", tmp_path / "page.html"
    for name in ("table.md", "table.csv"):
        (folder / name).touch()
    ran = ortbench("report", *sorted(folder.iterdir()), "--html", page)
    assert (ran.code, ran.out) == (0, f"Saved in {page}\n")
    assert ran.error_line == "2 files passed over, as results are .json files: table.csv, table.md"
    alone = ortbench("report", folder / "table.md")
    assert (alone.code, alone.error_line) == (2, f"{folder / 'table.md'} is not JSON: it is empty")


# run with several EPs


def results_in(out: Path) -> dict[str, Any]:
    (folder,) = out.glob("[!.]*")
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/result.json")}


def test_eps_side_by_side(library: Path, tmp_path: Path) -> None:
    model, option = relu_model(tmp_path / "relu.onnx", 1 << 16), ("--ep-option", f"{library}:compute_us=2000")
    ran = ortbench("run", model, "--ep", "cpu", "--ep", library, *option, *ONCE, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, ""), ran.out + ran.err
    results = results_in(tmp_path / "out")
    assert {name: (it["target"]["ep"], it["target"]["ep_options"]) for name, it in results.items()} == {
        "cpu": ("CPUExecutionProvider", {}), library.stem: (EP_NAME, {"compute_us": "2000"}),
    }  # fmt: skip
    assert len({result["setup"]["run_id"] for result in results.values()}) == 1
    assert {case["checks"]["outputs"]["verdict"] for it in results.values() for case in it["cases"]} == {"passed"}
    (text,) = (tmp_path / "out").glob("*/comparison.md")
    assert text.read_text().startswith(f"# ortbench compare: cpu, {library.stem}")


@pytest.mark.parametrize(
    ("ep", "options", "message"),
    [("cuda", (), "cuda: "), ("library", ("--no-cpu-fallback", "--mode", "cpu-tensors"), "stay on the CPU")],
)
def test_an_ep_that_cannot_leaves_the_others(
    ep: str, options: tuple[str, ...], message: str, library: Path, tmp_path: Path
) -> None:
    other = ("--ep", library if ep == "library" else ep, *options)
    ran = ortbench("run", MODELS / "transformer_ids.onnx", "--ep", "cpu", *other, *ONCE, "--out", tmp_path)
    assert ran.code == 1
    assert message in ran.error_line
    assert [*results_in(tmp_path)] == ["cpu"]
