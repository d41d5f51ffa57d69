"""`ortbench gate --load`: two sides under load in turns, on the reference device, whose times are what they are set to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.features.load.analysis import load_cases
from ortbench.model.result_file import load
from tests.conftest import MODELS, modes, ortbench

pytestmark = pytest.mark.process

GATE = ("gate", "--model", MODELS / "tiny.onnx", "--load", "--warmup", 1)


def check_turns(folder: Path) -> None:
    """Both sides have the same load points of one run, in blocks of the same rounds."""
    results = [load(folder / side / "result.json") for side in ("candidate", "baseline")]
    assert results[0].setup["run_id"] == results[1].setup["run_id"]
    for one, other in zip(*map(load_cases, results), strict=True):
        assert (one.point, one.status, one.checks["outputs"]["verdict"]) == (other.point, "ok", "passed")
        rounds = [[block["round"] for block in it.load_blocks or ()] for it in (one, other)]
        assert rounds[0] == rounds[1] == list(range(max(10, len(rounds[0]))))


def test_a_device_four_times_as_slow_fails_with_fresh_workers_too(library: Path, tmp_path: Path) -> None:
    metrics = ("--metric", "throughput@concurrency=1", "--metric", "latency.p50@rate=100", "--max-regression", "50%")
    sides = ("--ep-option", "compute_us=8000", "--baseline-set", "ep-option=compute_us=2000", "--sessions", "process")
    points = (*modes("device-resident"), "--concurrency", 1, "--rate", 100, "--duration", 20, "--out", tmp_path)
    ran = ortbench(*GATE, "--ep", library, *sides, *points, *metrics)
    assert (ran.code, ran.err) == (3, ""), ran.out
    (folder,) = tmp_path.glob("gate-*")
    check_turns(folder)
    check_turns(folder / "again")
    checks = json.loads((folder / "gate.json").read_text())["checks"]
    assert {check["name"]: (check["verdict"], round(check["ratio"])) for check in checks} == {
        "device-resident throughput concurrency=1": ("failed", 4), "device-resident latency median rate=100": ("failed", 8),
    }  # fmt: skip
    assert all("; again with fresh workers: ratio " in check["text"] for check in checks)


def test_an_slo_alone_needs_no_baseline(tmp_path: Path) -> None:
    line = (*GATE, "--ep", "cpu", *modes("cpu-tensors"), "--rate", 50, "--duration", 0.4, "--out", tmp_path)
    assert [ortbench(*line, "--slo", f"max={limit}").code for limit in ("1ns", "1000s")] == [3, 0]
