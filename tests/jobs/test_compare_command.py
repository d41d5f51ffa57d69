"""`ortbench compare`, and `ortbench run` with several EPs, which prints the same table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ortbench.result import Result, save
from tests.conftest import MODELS, ONCE, ROOT, ortbench, ortbench_here
from tests.refdevice import EP_NAME
from tests.results import measured, result_of, steady
from tests.truth import relu_model

QUIET = [1_000_000, 1_001_000, 999_000, 1_000_500] * 6


def at(factor: float, **changed: Any) -> Result:
    values = [round(value * factor) for value in QUIET]
    return result_of(
        measured("cpu", total=steady(values)),
        measured("device", total=steady(values), upload=steady(value // 4 for value in values)),
        **changed,
    )


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Saves scripted results and gives their paths."""

    def write(**results: Result) -> list[Path]:
        paths = []
        for name, result in results.items():
            paths.append(tmp_path / f"{name}.json")
            save(result, paths[-1])
        return paths

    return write


def verdicts(out: str) -> list[str]:
    return re.findall(r"(faster|slower|same|cannot tell)$", out, re.MULTILINE)


def test_two_results(files: Any) -> None:
    ran = ortbench_here("compare", *files(old=at(1.0), new=at(1.2)))
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines() if line.startswith(("cpu ", "device "))]
    assert [row[:2] for row in rows] == [["cpu", "total"], ["device", "upload"], ["device", "total"]]
    assert rows[0][2:5] == ["1000", "1200", "×1.200"]
    assert verdicts(ran.out) == ["slower"] * 3


def test_the_words(files: Any) -> None:
    results = files(a=at(1.0), same=at(1.0), slower=at(1.5), faster=at(0.5), near=at(1.015))
    found = [
        verdicts(ortbench_here("compare", results[0], other, "--mode", "cpu", "--same", "2.5%").out)
        for other in results[1:]
    ]
    assert found == [["same"], ["slower"], ["faster"], ["cannot tell"]]


def test_a_trend(files: Any) -> None:
    ran = ortbench_here("compare", *files(may=at(1.0), june=at(1.1), july=at(1.3)), "--mode", "cpu")
    lines = [line for line in ran.out.splitlines() if re.search(r"(may|june|july) +1\.\d\d", line)]
    assert [line.split()[-2:] for line in lines] == [["–", "–"], ["×1.100", "slower"], ["×1.182", "slower"]]
    assert "×1.300" in lines[2]


def test_markdown_json_and_the_job_summary(files: Any, tmp_path: Path) -> None:
    paths = files(old=at(1.0), new=at(1.2))
    summary = tmp_path / "summary.md"
    ran = ortbench_here("compare", *paths, "--markdown", "-", GITHUB_STEP_SUMMARY=str(summary))
    assert "| cpu | total | 1000 | 1200 | ×1.200 |" in ran.out
    assert summary.read_text() == ran.out
    records = json.loads(ortbench_here("compare", *paths, "--json", "-", "--phase", "upload").out)
    assert [(it["mode"], it["phase"], it["result"], it["median_ns"]) for it in records] == [
        ("device", "upload", "old", 250_062), ("device", "upload", "new", 300_075),
    ]  # fmt: skip
    assert records[1]["vs_first"]["verdict"] == "slower"
    ortbench_here("compare", *paths, "--markdown", tmp_path / "c.md", "--json", tmp_path / "c.json")
    assert (tmp_path / "c.md").read_text() == summary.read_text()
    assert len(json.loads((tmp_path / "c.json").read_text())) == 6


def test_what_is_not_comparable_is_refused_unless_forced(files: Any) -> None:
    paths = files(a=at(1.0), b=at(1.0, model__sha256="b" * 64, target__ep="OtherExecutionProvider"))
    ran = ortbench_here("compare", *paths)
    assert ran.code == 5
    assert "a and b are not comparable: model:" in ran.error_line
    assert "EP: SomeExecutionProvider and OtherExecutionProvider" in ran.error_line
    forced = ortbench_here("compare", *paths, "--force")
    assert forced.code == 0
    assert "not comparable, forced: a and b: EP" in forced.out


def test_versions_that_differ_are_said(files: Any) -> None:
    ran = ortbench_here("compare", *files(a=at(1.0), b=at(1.0, environment__onnxruntime="1.31.0")))
    assert ran.code == 0
    assert "a → b: ONNX Runtime: 1.28.0 → 1.31.0" in ran.out


def test_folders_are_taken_and_tell_results_apart() -> None:
    folder = ROOT / "reports" / "copy_bound-refdevice"
    ran = ortbench_here("compare", folder, folder / "result.json", "--mode", "cpu")
    assert ran.code == 0, ran.err
    assert "1 copy_bound-refdevice" in ran.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a"], 2, "at least two"),
        (["a", "nowhere.json"], 2, "cannot read nowhere.json"),
        (["a", "broken"], 2, "not JSON"),
        (["a", "future"], 5, "has schema 2"),
        (["a", "a", "--mode", "gpu"], 2, "no such mode"),
        (["a", "a", "--phase", "lunch"], 2, "no such phase"),
        (["a", "a", "--same", "much"], 2, "write a share"),
        (["a", "a", "--markdown", "nowhere/c.md"], 1, "--markdown nowhere/c.md was not written: No such file"),
    ],
)
def test_bad_input_is_one_line(files: Any, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (path,) = files(a=at(1.0))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "future.json").write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 2}))
    named = {name: str(tmp_path / f"{name}.json") for name in ("a", "broken", "future")}
    ran = ortbench_here("compare", *[named.get(argument, argument) for argument in arguments])
    assert ran.code == code
    assert message in ran.error_line


# run with several EPs


@pytest.mark.process
def test_eps_side_by_side(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    out = tmp_path / "out"
    ran = ortbench("run", model, "--ep", "cpu", "--ep", library, "--ep-option", f"{library}:compute_us=2000",
                   "--iterations", 12, "--warmup", 1, "--out", out)  # fmt: skip
    assert (ran.code, ran.err) == (0, ""), ran.out + ran.err
    (folder,) = out.iterdir()
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert names == ["cpu", library.stem]
    results = {name: json.loads((folder / name / "result.json").read_text()) for name in names}
    assert results[library.stem]["target"]["ep"] == EP_NAME
    assert results[library.stem]["target"]["ep_options"] == {"compute_us": "2000"}
    assert results["cpu"]["target"]["ep_options"] == {}
    assert len({result["setup"]["run_id"] for result in results.values()}) == 1
    assert all(case["outputs_match"] for result in results.values() for case in result["cases"])
    assert (folder / "comparison.md").read_text().startswith(f"# ortbench compare: cpu, {library.stem}")
    assert "blocks of the same rounds" in ran.out
    assert verdicts(ran.out)
    again = ortbench("compare", folder / "cpu", folder / library.stem)
    assert again.code == 0  # two sides of one run are there to be compared


@pytest.mark.process
def test_an_ep_that_does_not_load_leaves_the_others(tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "cpu", "--ep", "cuda", *ONCE, "--out", tmp_path)
    assert ran.code == 1
    assert ran.error_line.startswith("cuda: ")
    assert re.search(r"^cpu +", ran.out, re.MULTILINE)
    (folder,) = tmp_path.iterdir()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["cpu"]


@pytest.mark.process
def test_an_ep_with_nodes_on_the_cpu_where_none_may_be_leaves_the_others(library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "transformer_ids.onnx", "--ep", "cpu", "--ep", library, "--require-placement",
                   "--mode", "cpu", *ONCE, "--out", tmp_path)  # fmt: skip
    assert ran.code == 1
    assert "stay on the CPU" in ran.error_line
    (folder,) = tmp_path.iterdir()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["cpu"]


@pytest.mark.process
def test_an_ep_with_other_outputs_fails_and_the_others_go_on(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    ran = ortbench("run", model, "--ep", "cpu", "--ep", library, "--ep-option", f"{library}:wrong_run=1+",
                   *ONCE, "--mode", "cpu", "--out", tmp_path / "out")  # fmt: skip
    assert ran.code == 1
    assert f"cpu failed: the outputs of {library.stem} are not those of cpu" in ran.error_line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ep", "cpu", "--ep", "cuda", "--device", "0"], "with several --ep"),
        (["--ep", "cpu", "--ep", "cuda", "--json", "-"], "--json is for one result"),
    ],
)
def test_options_that_are_for_one_ep(options: list[str], message: str) -> None:
    ran = ortbench_here("run", MODELS / "tiny.onnx", *options)
    assert ran.code == 2
    assert message in ran.error_line
