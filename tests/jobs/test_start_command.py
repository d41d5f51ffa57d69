"""`ortbench start`, as its users have it. Each test starts real processes, so no duration is asserted here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.features.gate.job import asked_gate
from ortbench.features.gate.plan import limits_of
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import START_PARTS
from tests.conftest import MODELS, ortbench
from tests.versions import environment

TINY = MODELS / "tiny.onnx"
REAL = ("nice", "-n", "0")  # the clock of a fork is not that of the processes that it starts


@pytest.mark.wide
@pytest.mark.process
def test_a_start_is_measured_from_nothing_to_ready(tmp_path: Path) -> None:
    line = ("start", TINY, "--ep", "cpu", "--iterations", 2, "--file-cache", "warm,cold")
    ran = ortbench(*line, "--out", tmp_path / "out", prefix=REAL)
    assert ran.code == 0, ran.err
    assert "time to ready" in ran.out
    files = sorted((tmp_path / "out").glob("*/*/result.json"))
    assert [it.parent.name for it in files] == ["file-cache-cold", "file-cache-warm"]
    for file in files:
        result = json.loads(file.read_text())
        (case,) = result["cases"]
        assert (result["kind"], case["mode"], case["status"]) == ("start", "cpu-tensors", "ok")
        assert case["checks"]["outputs"]["verdict"] == "passed"
        parts = [case["samples"][part] for part in START_PARTS]
        assert case["samples"]["latency"] == [sum(each) for each in zip(*parts, strict=True)]
        assert all(ns > 0 for part in parts for ns in part)
        assert case["metrics"]["start.memory"]["min"] > 10_000_000
        assert result["start"]["launch_ns"] > 0


@pytest.mark.wide
@pytest.mark.process
def test_starts_open_the_model_that_was_compiled_ahead(tmp_path: Path) -> None:
    """By QNN's EP, which simulates its device and writes what it compiled into a file of its own."""
    python = environment("qnn")
    (backend,) = python.glob("lib/python*/site-packages/onnxruntime_qnn/libQnnHtp.so")
    ep = ("--ep", "qnn", "--ep-option", f"backend_path={backend}", "--python", python)
    line = ("start", TINY, *ep, "--iterations", 2, "--compile-cache", "none,ahead")
    ran = ortbench(*line, "--out", tmp_path / "out", prefix=REAL)
    assert ran.code == 0, ran.err
    ahead, plain = (json.loads(it.read_text()) for it in sorted((tmp_path / "out").glob("*/*/result.json")))
    assert [it["cases"][0]["checks"]["outputs"]["verdict"] for it in (ahead, plain)] == ["passed"] * 2
    assert (ahead["start"]["compile_cache"], plain["start"]["compile_cache"]) == ("ahead", "none")
    assert "compiled" not in plain["start"]
    assert ahead["start"]["compiled"]["compile_ns"] > 0
    assert ahead["start"]["compiled"]["bytes"] > 1000
    assert ("ahead.onnx" in ahead["start"]["program"], "ahead.onnx" in plain["start"]["program"]) == (True, False)


@pytest.mark.process
def test_an_ep_that_compiles_nothing_ahead_says_so(tmp_path: Path) -> None:
    ran = ortbench("start", TINY, "--ep", "cpu", "--compile-cache", "ahead", "--iterations", 1, "--out", tmp_path)
    assert ran.code == 1
    assert ran.error_line.startswith(
        "cpu-tensors failed: CPUExecutionProvider compiles no part of this model ahead of time"
    )


def test_a_gate_with_a_metric_of_starts_measures_starts() -> None:
    limits = {"metric": (parse_metric("start.session"),), "baseline-set.intra-op-threads": 1}
    asked = asked_gate({"model": str(TINY), "ep": "cpu", **limits}, False, ())
    assert limits_of(limits, True, ()).kinds == {"start"}
    assert [plan.work.kind for plan in asked.plans] == ["start", "start"]
    assert [plan.modes for plan in asked.plans] == [("cpu-tensors",)] * 2
    asked = asked_gate({"model": str(TINY), "ep": "cpu", **limits, "metric": (parse_metric("latency"),)}, False, ())
    assert [plan.work.kind for plan in asked.plans] == ["run", "run"]
