"""What `ortbench load` leaves, and what the commands that read results make of it: report, compare, gate; and a suite of one."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ortbench.core.errors import CANNOT_TELL, DONE
from ortbench.features.load.analysis import load_cases
from ortbench.model.result_file import load
from tests.conftest import MODELS, Ran, ortbench

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """A load of clients and of requests, with all that may be written of it, and its folder."""
    out = tmp_path_factory.mktemp("load")
    done = ortbench(
        "load", TINY, "--ep", "cpu", "--mode", "cpu-tensors", "--concurrency", "1,2", "--rate", 200, "--slo", "max=10s", "--duration", 0.6,
        "--warmup", 1, "--out", out, "--html", out / "page.html", "--junit", out / "j.xml", "--action-json", out / "a.json",
    )  # fmt: skip
    (folder,) = (path for path in out.iterdir() if path.is_dir())
    return done, folder


def test_the_report_of_a_load_is_shown_and_saved(ran: tuple[Ran, Path]) -> None:
    done, folder = ran
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[1] == "load: one session, 1 worker, poisson arrivals, 0.6 s each, SLO max ≤ 10 s"
    assert sum(line.startswith("cpu-tensors ") for line in lines) == 2 + 2  # clients; back to back and the rate
    assert "• cpu-tensors meets max ≤ 10 s with up to 200 requests/s." in lines
    assert lines[-1] == f"Saved in {folder}"
    result = load(folder / "result.json")
    levels = [level.point for level in load_cases(result)]
    assert levels == [{"concurrency": 1}, {"concurrency": 2}, {"rate": 200}]
    assert all(len(level.load_blocks or ()) >= 3 for level in load_cases(result))
    assert [row["status"] for row in csv.DictReader(io.StringIO((folder / "table.csv").read_text()))] == [
        "ok"
    ] * 4  # back to back too
    assert (folder / "table.md").read_text().startswith("# ortbench load: ")
    assert "Latency and inferences/s against clients" in (folder.parent / "page.html").read_text()
    assert (folder.parent / "j.xml").read_text().count("<testcase ") == 3
    assert len(json.loads((folder.parent / "a.json").read_text())) == 4 + 4 + 3


def test_commands_that_read_results_know_loads(ran: tuple[Ran, Path], tmp_path: Path) -> None:
    _, folder = ran
    compared = ortbench("compare", folder, folder)
    assert compared.code == 0
    assert sum(line.startswith("cpu-tensors ") for line in compared.out.splitlines()) == 4 + 4 + 3
    page = ortbench("report", folder, folder, "--html", tmp_path / "two.html")
    assert page.code == 0
    kept = ortbench("gate", folder, "--slo", "max=1000s", "--max-cpu-nodes", 0)
    assert (kept.code, kept.out.splitlines()[-1]) == (0, "gate: passed")
    assert "✓ max of cpu-tensors at 200 requests/s: " in kept.out
    broke = ortbench("gate", folder, "--slo", "p50=1ns")
    assert (broke.code, broke.out.splitlines()[-1]) == (3, "gate: failed")
    wide = ortbench("gate", folder, "--baseline", folder, "--metric", "latency.p50@rate=200", "--max-regression", "50%")
    assert wide.code in (DONE, CANNOT_TELL)  # as noisy as the machine is
    assert " cpu-tensors latency median rate=200: " in wide.out
    none = ortbench("gate", folder, "--baseline", folder, "--metric", "throughput@concurrency=3")
    assert none.code == 2
    assert "no such point was measured in both; there are concurrency=1, concurrency=2, rate=200" in none.error_line


def test_a_suite_measures_loads_and_holds_them_to_their_slo(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(f"""
[[bench]]
model = "{TINY}"
ep = "cpu"
mode = "cpu-tensors"
concurrency = [1, 2]
rate = 500
slo = "max=1000s"
duration = 0.3
warmup = 1
""")
    line = ("suite", tmp_path / "bench.toml", "--out", tmp_path / "out")
    done = ortbench(*line, "--quiet", "--json", "-")
    assert done.code == 0
    (case,) = json.loads(done.out)["cases"]
    assert (case["outcome"], case["fastest"], [it["name"] for it in case["checks"]]) == (
        "passed", "cpu-tensors", ["SLO of cpu-tensors max rate=500"]
    )  # fmt: skip
    assert case["throughput_per_s"] > 0
    assert "done before" in ortbench(*line).err


@pytest.mark.wide
def test_a_mix_of_shapes_is_shown_compared_and_gated(tmp_path: Path) -> None:
    mix = ("--dim", "batch=1,4", "--shape-order", "cycle", "--concurrency", 2, "--duration", 0.6)
    out, model = tmp_path / "out", MODELS / "multi_output.onnx"
    done = ortbench(
        "load", model, "--ep", "cpu", *mix, "--sessions", "process", "--out", out, "--html", tmp_path / "page.html"
    )
    assert (done.code, done.err) == (0, "")
    assert "By shape" in done.out
    assert "p99 apart" in (tmp_path / "page.html").read_text()
    (file,) = out.glob("*/result.json")
    (case,) = load_cases(load(file))
    assert case.point == {"concurrency": 2}
    gate = ortbench("gate", file, "--baseline", file, "--metric", "mixing.all@concurrency=2")
    assert gate.code in (DONE, CANNOT_TELL), gate.err
    assert "mixing.all concurrency=2" in gate.out
    assert {
        "mixed.batch=1",
        "mixed.batch=4",
        "apart.batch=1",
        "apart.batch=4",
        "apart.all",
        "mixing.all",
    } <= case.metrics.keys()
