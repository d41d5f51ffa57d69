"""`ortbench compare`, and `ortbench run` with several EPs, which prints the same table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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


def at(factor: float, **changed: Any) -> Result:
    values = [round(value * factor) for value in QUIET]
    return result_of(
        measured("cpu-tensors", latency=steady(values)),
        measured("device-tensors", latency=steady(values), h2d=steady(value // 4 for value in values)),
        **changed,
    )


@pytest.fixture
def files(files: Callable[[str, Result], Path]) -> Callable[..., list[Path]]:
    """Saves scripted results and gives their paths."""
    return lambda **results: [files(name, result) for name, result in results.items()]


def verdicts(out: str) -> list[str]:
    return re.findall(r"^(?!mode).*?  (faster|slower|same|cannot tell)(?=  |$)", out, re.MULTILINE)


def test_why_is_in_the_text_the_json_and_from_python(files: Any, tmp_path: Path) -> None:
    each = chain(*LAYERS, ("Clip", 200_000))
    old, new = at(1.0), at(1.2)
    old.nodes, new.nodes = nodes_of(each[:2]), nodes_of(each)
    paths = files(old=old, new=new)
    text = "Why: cpu-tensors takes 200 µs longer; under the profiler 200 µs, 100% of it in the change below."
    assert f"{text} → Added: Clip (Clip_2)." in " ".join(ortbench("compare", *paths, "--why").out.split())
    found = json.loads(ortbench("compare", *paths, "--why", "--json", "-").out)
    plain = json.loads(ortbench("compare", *paths, "--json", "-").out)
    assert found["records"] == plain["records"]
    assert [it["code"] for it in found["findings"]] == ["why", "change", *(it["code"] for it in plain["findings"])]
    assert found["why"]["sentence"] == text
    why = compare(paths, why=True).why
    assert why is not None
    assert why.data == {"why": found["why"]}
    ran = ortbench("compare", *paths, paths[0], "--why")
    assert (ran.code, ran.error_line) == (2, "--why: is of two results, and there are 3")


def test_markdown_json_and_the_job_summary(files: Any, tmp_path: Path) -> None:
    paths = files(old=at(1.0), new=at(1.2))
    summary = tmp_path / "summary.md"
    ran = ortbench("compare", *paths, "--markdown", "-", GITHUB_STEP_SUMMARY=str(summary))
    assert "| cpu-tensors | latency | 1.00 | 1.20 | 1.20 |" in ran.out
    assert summary.read_text() == ran.out
    records = json.loads(ortbench("compare", *paths, "--json", "-", "--metric", "h2d").out)["records"]
    assert [(it["mode"], it["metric"], it["result"], round(it["value"])) for it in records] == [
        ("device-tensors", "h2d", "old", 250_062), ("device-tensors", "h2d", "new", 300_075),
    ]  # fmt: skip
    assert records[1]["vs_first"]["verdict"] == "slower"
    ortbench("compare", *paths, "--markdown", tmp_path / "c.md", "--json", tmp_path / "c.json")
    assert (tmp_path / "c.md").read_text() == summary.read_text()
    told = json.loads((tmp_path / "c.json").read_text())
    assert len(told["records"]) == 6
    assert [(it["code"], it["verdict"], it["mode"]) for it in told["findings"]][:1] == [
        ("difference", "slower", "cpu-tensors")
    ]


def test_what_is_not_comparable_is_refused_unless_forced(files: Any) -> None:
    paths = files(a=at(1.0), b=at(1.0, model__sha256="b" * 64, target__ep="OtherExecutionProvider"))
    ran = ortbench("compare", *paths)
    assert ran.code == 5
    assert "Some and Other are not comparable: model:" in ran.error_line
    assert "EP: SomeExecutionProvider and OtherExecutionProvider" in ran.error_line
    forced = ortbench("compare", *paths, "--force")
    assert forced.code == 0
    assert "not comparable, forced: Some and Other: model: " in forced.out
    assert "; EP: SomeExecutionProvider and OtherExecutionProvider" in forced.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a"], 2, "at least two"),
        (["a", "nowhere.json"], 2, "cannot read nowhere.json"),
        (["a", "broken"], 2, "not JSON"),
        (["a", "future"], 2, "has schema_version 3, this ortbench reads schema_version 2"),
        (["a", "a", "--mode", "gpu"], 2, "no such mode"),
        (["a", "a", "--metric", "lunch"], 2, "there is no mode, metric or statistic 'lunch'"),
        (["a", "a", "--equivalence-margin", "much"], 2, "write a share"),
        (["a", "a", "--markdown", "nowhere/c.md"], 2, "--markdown nowhere/c.md: there is no folder nowhere"),
    ],
)
def test_bad_input_is_one_line(files: Any, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (path,) = files(a=at(1.0))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "future.json").write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 3}))
    named = {name: str(tmp_path / f"{name}.json") for name in ("a", "broken", "future")}
    ran = ortbench("compare", *[named.get(argument, argument) for argument in arguments])
    assert ran.code == code
    assert message in ran.error_line


# Folders


def batch(size: int, factor: float = 1.0, name: str | None = None, **changed: Any) -> Result:
    x = {**tensor("x", [size, 3]), "model_shape": ["batch", 3]}
    made = at(factor, model__inputs=[x], **changed)
    made.name = name
    return made


def folders(root: Path, **results: Result) -> Path:
    """A folder of runs as ortbench calls them: in an order that says nothing."""
    for name, result in results.items():
        place = root / name.replace("_", "-")
        place.mkdir(parents=True)
        save(result, place / "result.json")
    return root


def columns(out: str) -> list[str]:
    """What results are called: in the headings of tables of two, or in a column of three and more, once for each."""
    two = re.findall(r"^mode +metric +(\S.*?) {2,}ratio ", out, re.MULTILINE)
    three = re.findall(r"^(?:[a-z]+-tensors)? +(batch\S+) +[\d.]", out, re.MULTILINE)
    return [name for found in two for name in re.split("  +", found)] or list(dict.fromkeys(three))


def test_names_that_were_given_are_the_columns(tmp_path: Path) -> None:
    one, other = at(1.0, target__intra_op_threads=1), at(1.2, target__intra_op_threads=2)
    one.name, other.name = "before", "after |x| <b>"
    place = folders(tmp_path / "r", a=one, b=other)
    ran = ortbench("compare", place)
    assert columns(ran.out) == ["before", "after |x| <b>"]
    text = ortbench("compare", place, "--markdown", "-").out
    assert text.startswith("# ortbench compare: before, after |x| \\<b>\n")
    assert ortbench("report", place).code == 0
    page = (place / "report.html").read_text()
    assert "<title>before, after |x| &lt;b&gt;: m.onnx on SomeExecutionProvider · ortbench</title>" in page
    assert '<a href="#result-2">after |x| &lt;b&gt;</a>' in page


def test_two_suites_are_compared_case_by_case(tmp_path: Path) -> None:
    """What there is nothing to compare with is named, and no reason to refuse the rest."""
    cases = {"a": batch(1, name="a"), "b": batch(8, name="b")}
    slower = {"a": batch(1, 1.2, name="a"), "b": batch(8, 1.2, name="b"), "c": batch(64, name="c")}
    places = folders(tmp_path / "monday", **cases), folders(tmp_path / "tuesday", **slower)
    ran = ortbench("compare", *places, "--mode", "cpu-tensors", COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    assert verdicts(ran.out) == ["slower", "slower"]
    assert columns(ran.out) == ["monday", "tuesday"] * 2
    rest = "not compared, nothing else here was measured on the same thing: c (--force compares all)"
    assert ran.out.endswith(f"! {rest}\n")
    text = ortbench("compare", *places, "--markdown", "-").out
    assert re.findall(r"^# (.*)", text, re.MULTILINE) == [
        "ortbench compare: a: monday, tuesday", "ortbench compare: b: monday, tuesday", "ortbench compare: the rest",
    ]  # fmt: skip
    records = json.loads(
        ortbench("compare", *places, "--json", "-", "--metric", "latency", "--mode", "cpu-tensors").out
    )["records"]
    assert [(it["group"], it["result"]) for it in records] == [
        ("a", "monday"), ("a", "tuesday"), ("b", "monday"), ("b", "tuesday"),
    ]  # fmt: skip


def test_a_folder_in_which_nothing_may_be_compared(tmp_path: Path) -> None:
    place = folders(tmp_path / "r", x=batch(8), y=batch(1), z=batch(16))
    ran = ortbench("compare", place)
    assert ran.code == 5
    assert ran.error_line.startswith("batch=8 and batch=1 are not comparable: shapes: x 8x3 and x 1x3 (--force")
    forced = ortbench("compare", place, "--force")
    assert forced.code == 0
    assert columns(forced.out) == ["batch=8", "batch=1", "batch=16"]


def test_files_that_a_glob_names_beside_results_are_passed_over(tmp_path: Path) -> None:
    place = folders(tmp_path / "r", a=at(1.0))
    for name in ("table.md", "table.csv"):
        (place / "a" / name).touch()
    page = tmp_path / "page.html"
    ran = ortbench("report", *sorted((place / "a").iterdir()), "--html", page)
    assert (ran.code, ran.out) == (0, f"Saved in {page}\n")
    assert ran.error_line == "2 files passed over, as results are .json files: table.csv, table.md"
    alone = ortbench("report", place / "a" / "table.md")
    assert (alone.code, alone.error_line) == (2, f"{place / 'a' / 'table.md'} is not JSON: it is empty")


# run with several EPs


def test_eps_side_by_side(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    out = tmp_path / "out"
    ran = ortbench("run", model, "--ep", "cpu", "--ep", library, "--ep-option", f"{library}:compute_us=2000",
                   "--iterations", 12, "--warmup", 1, "--out", out)  # fmt: skip
    assert (ran.code, ran.err) == (0, ""), ran.out + ran.err
    (folder,) = out.glob("[!.]*")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert names == ["cpu", library.stem]
    results = {name: json.loads((folder / name / "result.json").read_text()) for name in names}
    assert results[library.stem]["target"]["ep"] == EP_NAME
    assert results[library.stem]["target"]["ep_options"] == {"compute_us": "2000"}
    assert results["cpu"]["target"]["ep_options"] == {}
    assert len({result["setup"]["run_id"] for result in results.values()}) == 1
    assert all(
        case["checks"]["outputs"]["verdict"] == "passed" for result in results.values() for case in result["cases"]
    )
    assert (folder / "comparison.md").read_text().startswith(f"# ortbench compare: cpu, {library.stem}")
    assert verdicts(ran.out)
    again = ortbench("compare", folder / "cpu", folder / library.stem)
    assert again.code == 0  # two sides of one run are there to be compared


def test_an_ep_that_does_not_load_leaves_the_others(tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "cpu", "--ep", "cuda", *ONCE, "--out", tmp_path)
    assert ran.code == 1
    assert ran.error_line.startswith("cuda: ")
    assert re.search(r"^cpu-tensors +", ran.out, re.MULTILINE)
    (folder,) = tmp_path.iterdir()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["cpu"]


def test_an_ep_with_nodes_on_the_cpu_where_none_may_be_leaves_the_others(library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "transformer_ids.onnx", "--ep", "cpu", "--ep", library, "--no-cpu-fallback",
                   "--mode", "cpu-tensors", *ONCE, "--out", tmp_path)  # fmt: skip
    assert ran.code == 1
    assert "stay on the CPU" in ran.error_line
    (folder,) = tmp_path.iterdir()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["cpu"]
