"""`ortbench history`: of folders and of commits, in whatever form it is wanted."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.outputs import put
from ortbench.model.result import Result
from ortbench.model.result_file import load, result_json, save
from tests.analysis.test_outputs import lower
from tests.conftest import ROOT, ortbench
from tests.expect import there
from tests.results import night, nights, noise, save_nights, serving, stepped

pytestmark = pytest.mark.process

STEPPED = nights(stepped(30, 18, 1.12), noise(30, seed=5), upgraded=18)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A folder of nightly runs."""
    save_nights(STEPPED, tmp_path / "reports")
    return tmp_path / "reports"


WHOLE = """\
30 results from 2026-10-01 to 2026-10-30, 2 series: 1 change point
m: m.onnx (x: 1x3, y: scalar) on SomeExecutionProvider

mode            results    first     last  change  over time         scatter  change points
cpu-tensors          30  4.01 ms  4.49 ms    1.12  ▃▃▃▃▃▃▃▃▃▃▇▇█▆▇█  ±0.532%              1
device-tensors       30  2.98 ms  2.99 ms   1.006  ▄▄▅▅▅▅▄▅▃▄▄▅▄▅▄▄  ±0.899%              0

Change points
mode         since              before    after  ratio     95% CI  verdict  results
cpu-tensors  2026-10-19 02:00  4.01 ms  4.47 ms   1.12  1.11–1.12  slower   18 + 12
✗ since 2026-10-19 02:00 (reports/night-18/result.json): m cpu-tensors slower, ratio 1.12; changed there: ONNX Runtime: 1.30.0 → 1.31.1; checkout: 0000011 → 0000012

Times are medians. change: the last result divided by the first; scatter: of results between two change points; change points: found by E-divisive means (a false one in 1 of 100 series), their 95% CI
beyond ±2 %; ratio: of the results after a change point to those before it, above 1 is slower.
ortbench explain WORD explains over time, scatter, change points, …
"""


def test_a_folder_of_nights(reports: Path) -> None:
    ran = ortbench("history", "reports", cwd=reports.parent, COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == WHOLE


def test_what_is_written(reports: Path, tmp_path: Path) -> None:
    exports = [word for kind in ("html", "json", "markdown") for word in (f"--{kind}", tmp_path / f"h.{kind}")]
    ran = ortbench("history", reports, *exports, "--mode", "cpu-tensors")
    assert (ran.code, ran.err) == (0, "")
    assert "30 results" in ran.out
    (record,) = json.loads((tmp_path / "h.json").read_text())
    assert [step["result"] for step in record["steps"]] == [18]
    assert (tmp_path / "h.html").read_text().count("<figure>") == 1
    assert "## Change points" in (tmp_path / "h.markdown").read_text()
    for kind, begins in (("html", "<!DOCTYPE html>"), ("json", "["), ("markdown", "# ortbench history")):
        ran = ortbench("history", reports, f"--{kind}", "-")
        assert ran.out.startswith(begins)
        assert "30 results from" not in ran.out or kind != "json"


def test_places_that_hold_the_same_files_count_them_once(reports: Path) -> None:
    ran = ortbench("history", reports, reports / "night-03", reports / "night-04" / "result.json")
    assert ran.out.startswith("30 results")


def test_doubtful_figures_are_left_out(reports: Path) -> None:
    path = reports / "night-03" / "result.json"
    result = load(path)
    put(result, there(lower().outputs)[0])
    save(result, path)
    found = " ".join(ortbench("history", reports).out.split())
    assert "29 results" in found
    assert (
        "night-03/result.json: its figures are doubtful: OpenVINOExecutionProvider is likely to compute in a" in found
    )


def test_what_cannot_be_read_is_left_out_and_said(reports: Path) -> None:
    newer = json.loads(result_json(STEPPED[0])) | {"schema_version": 3}
    (reports / "night-07" / "result.json").write_text(json.dumps(newer))
    (reports / "night-08" / "result.json").write_text("{")
    save(serving(), reports / "night-09" / "result.json")
    ran = ortbench("history", reports, COLUMNS="300")
    assert ran.code == 0
    assert ran.out.startswith("28 results")
    assert "night-07/result.json has schema_version 3, this ortbench reads schema_version 2" in ran.out
    assert "night-08/result.json is not JSON: it ends too early" in ran.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["empty"], 2, "empty: there is no result.json in this folder, nor in those in it"),
        (["broken.json"], 2, "broken.json is not JSON: it ends too early"),
        (
            ["newer.json"],
            2,
            "newer.json has schema_version 3, this ortbench reads schema_version 2: a newer ortbench wrote it",
        ),
        (["night.json", "--mode", "device-tensors"], 2, "none of 1 results has figures of device"),
        (["night.json", "--metric", "never"], 2, "--metric 'never': there is no mode, metric or statistic 'never'"),
        (["night.json", "--html", "no/where.html"], 2, "--html no/where.html: there is no folder no"),
        ([], 2, "Missing argument"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else None,
)
def test_bad_input(arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    save(night(0, 1), tmp_path / "night.json")
    save(replace(night(0, 1), schema_version=3), tmp_path / "newer.json")
    ran = ortbench("history", *arguments, cwd=tmp_path)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.error_line


def test_results_of_another_machine_are_one_series_where_it_is_forced(tmp_path: Path) -> None:
    moved = [night(at, 1.3 if at >= 12 else 1) for at in range(24)]
    for result in moved[12:]:
        result.environment["cpu"]["model"] = "Other CPU"
    save_nights(moved, tmp_path)
    apart, together = (ortbench("history", tmp_path, *more, COLUMNS="300").out for more in ([], ["--force"]))
    assert "2 series: no change points" in apart.splitlines()[0]
    assert "1 series: 1 change point" in together.splitlines()[0]
    assert "CPU: Some CPU → Other CPU" in together


# Commits


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, result: Result | None, place: str, message: str = "night") -> None:
    file = folder / place
    if result is None:
        file.unlink()
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        save(result, file)
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "--message", message)


def test_results_that_are_committed(tmp_path: Path) -> None:
    """One file that each night overwrites, in a repository that also has others; the last night removes it."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, night(0, 1), "other/m.json", "another result, not asked for")
    git(tmp_path, "tag", "begin")
    for number, result in enumerate(STEPPED[10:26]):
        commit(tmp_path, result, "reports/nightly/result.json")
        if number == 3:
            git(tmp_path, "tag", "early")
    commit(tmp_path, None, "reports/nightly/result.json")
    (tmp_path / "reports" / "deeper").mkdir(parents=True)

    def history(*arguments: str, cwd: Path = tmp_path) -> Any:
        return ortbench("history", *arguments, "--mode", "cpu-tensors", cwd=cwd, COLUMNS="300")

    ran = history("begin..main", "--json", "-")
    assert (ran.code, ran.err) == (0, "")
    (record,) = json.loads(ran.out)
    assert [it["value"] for it in record["results"]] == [it.cases[0].median("latency") for it in STEPPED[10:26]]
    (step,) = record["steps"]
    assert step["result"] == 8
    assert step["changed"][0] == "ONNX Runtime: 1.30.0 → 1.31.1"
    assert git(tmp_path, "show", f"{step['place']}") == result_json(STEPPED[18]).strip()

    # A branch or a tag has what is in its tree; a path says what of it, from a folder that is looked from too.
    assert history("early").out.startswith("1 result of 2026-10-14")
    assert history("early", "main~1").out.startswith("2 results from 2026-10-14 to 2026-10-26")
    assert history("begin", "other/m.json").out.startswith("1 result of 2026-10-01")
    assert history("early..main", "--", "reports/nightly").out.startswith("12 results")
    assert history("main~3..main", "nightly", cwd=tmp_path / "reports").out.startswith("2 results")
    for arguments, said in (
        (["main"], "main: there is no result called result.json"),
        (["early..main", "other"], "early..main: there is no result under other"),
        (["main..early"], "main..early: there is no result called result.json"),
        (["main~99..main"], "main~99..main: there is no such file or folder, and no such commits here that git knows"),
    ):
        ran = history(*arguments)
        assert (ran.code, ran.out, ran.error_line.removeprefix("ortbench: ")) == (2, "", said)


def test_without_git_a_revision_is_nothing(tmp_path: Path) -> None:
    for environment in ({}, {"PATH": ""}):
        ran = ortbench("history", "HEAD", cwd=tmp_path, **environment)
        assert ran.code == 2
        assert "HEAD: there is no such file or folder, and no such commits here that git knows" in ran.error_line


def test_the_reports_of_this_repository() -> None:
    ran = ortbench("history", ROOT / "reports", COLUMNS="200")
    assert ran.code == 0
    assert "all series have fewer results than the 12 that a change point needs" in ran.out
