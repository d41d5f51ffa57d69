"""`ortbench compare`, and `ortbench run` with several EPs, which prints the same table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench import compare
from ortbench.model.result import Result
from ortbench.model.result_file import save
from tests.analysis.test_why import LAYERS, chain, nodes_of
from tests.conftest import MODELS, ONCE, ortbench
from tests.results import measured, result_of, steady, tensor


def at(factor: float, batch: int = 1, name: str | None = None) -> Result:
    latency = steady(round(ns * factor) for ns in [1_000_000, 1_001_000, 999_000, 1_000_500] * 6)
    x = {**tensor("x", [batch, 3]), "model_shape": ["batch", 3]}
    result = result_of(
        *(measured(mode, latency=latency) for mode in ("cpu-tensors", "device-tensors")), model__inputs=[x]
    )
    result.name = name
    return result


def folders(root: Path, **results: Result) -> Path:
    """A folder of runs as ortbench calls them: in an order that says nothing."""
    for name, result in results.items():
        (root / name).mkdir(parents=True)
        save(result, root / name / "result.json")
    return root


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


def test_two_suites_are_compared_case_by_case(tmp_path: Path) -> None:
    """What there is nothing to compare with is named, and no reason to refuse the rest."""
    monday, tuesday = tmp_path / "monday", tmp_path / "tuesday"
    folders(monday, a=at(1.0, name="a"), b=at(1.0, 8, "b"))
    folders(tuesday, a=at(1.2, name="a"), b=at(1.2, 8, "b"), c=at(1.0, 64, "c"))
    line = ("compare", monday, tuesday, "--mode", "cpu-tensors", "--metric", "latency")
    ran = ortbench(*line, COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    rest = "not compared, nothing else here was measured on the same thing: c (--force compares all)"
    assert ran.out.endswith(f"! {rest}\n")
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
    assert [path.parent.name for path in tmp_path.glob("[!.]*/*/result.json")] == ["cpu"]
