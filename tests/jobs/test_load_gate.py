"""`ortbench gate --load`: two sides under load in turns, on the reference device, whose times are what they are set to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.features.load.analysis import load_cases
from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests.conftest import MODELS, Ran, modes, ortbench

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"
SIDES = ("candidate", "baseline")


def live(library: Path, out: Path, *options: object, compute_us: int, baseline_us: int) -> Ran:
    return ortbench(
        "gate", "--model", TINY, "--ep", library, "--mode", "device-resident", "--warmup", 1, "--load", "--out", out,
        "--ep-option", f"compute_us={compute_us}", "--baseline-set", f"ep-option=compute_us={baseline_us}", *options,
    )  # fmt: skip


def results_of(folder: Path) -> list[Result]:
    return [load(folder / side / "result.json") for side in SIDES]


def are_in_turns(results: list[Result], rounds: int) -> None:
    """Both sides have the same levels, of blocks of the same rounds, of one run."""
    assert results[0].setup["run_id"] == results[1].setup["run_id"]
    keys = [[(it.mode, it.point) for it in load_cases(result)] for result in results]
    assert keys[0] == keys[1] != []
    for level, other in zip(*(load_cases(result) for result in results), strict=True):
        assert (level.status, other.status, level.checks["outputs"]["verdict"]) == ("ok", "ok", "passed")
        numbers = [[block["round"] for block in it.load_blocks or ()] for it in (level, other)]
        assert numbers[0] == numbers[1] == list(range(len(numbers[0])))
        assert len(numbers[0]) >= rounds


def test_a_device_four_times_as_slow_fails_and_so_it_does_with_fresh_workers(library: Path, tmp_path: Path) -> None:
    metrics = ("--metric", "throughput@concurrency=1", "--metric", "latency.p50@rate=100")
    options = ("--concurrency", 1, "--rate", 100, "--sessions", "process", *metrics, "--max-regression", "50%")
    ran = live(library, tmp_path, *options, "--duration", 20, compute_us=8000, baseline_us=2000)
    assert (ran.code, ran.err) == (3, ""), ran.out
    (folder,) = tmp_path.glob("gate-*")
    are_in_turns(results_of(folder), rounds=10)
    are_in_turns(results_of(folder / "again"), rounds=10)
    checks = json.loads((folder / "gate.json").read_text())["checks"]
    assert {check["name"]: (check["verdict"], round(check["ratio"])) for check in checks} == {
        "device-resident throughput concurrency=1": ("failed", 4), "device-resident latency median rate=100": ("failed", 8),
    }  # fmt: skip
    for check in checks:
        assert "; again with fresh workers: ratio " in check["text"]
    assert [result.stopped for result in results_of(folder)] == [{"reason": "verdict"}] * 2


def test_an_slo_alone_needs_no_baseline(tmp_path: Path) -> None:
    line = (*modes("cpu-tensors"), "--load", "--rate", 50, "--duration", 0.4, "--warmup", 1, "--out", tmp_path)
    codes = [
        ortbench("gate", "--model", TINY, "--ep", "cpu", *line, "--slo", f"max={it}").code for it in ("1ns", "1000s")
    ]
    assert codes == [3, 0]
    for folder in tmp_path.iterdir():
        assert load_cases(load(folder / "result.json"))[0].median("latency")
