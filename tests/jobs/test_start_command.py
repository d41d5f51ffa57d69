"""`ortbench start`, as its users have it. Each test starts real processes; durations are asserted where these go by a virtual clock."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from ortbench.features.gate.job import asked_gate
from ortbench.features.gate.plan import limits_of
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import START_PARTS
from tests import virtual
from tests.conftest import MODELS, ONCE, ROOT, clock_library, measure, ortbench
from tests.refdevice import EP_NAME, Config, Trace
from tests.truth import in_fork
from tests.versions import environment
from tests.virtual import CALL_NS
from tests.worker import saved

TINY = MODELS / "tiny.onnx"
REAL = ("nice", "-n", "0")  # the clock of a fork is not that of the processes that it starts


@pytest.mark.wide
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
    compiled = ahead["start"]["compiled"]
    assert (compiled["context_nodes"], compiled["other_nodes"], compiled["bytes"] > 1000) == (1, 0, True)
    assert ("ahead.onnx" in ahead["start"]["program"], "ahead.onnx" in plain["start"]["program"]) == (True, False)


@pytest.mark.wide
def test_starts_say_whether_they_took_what_an_earlier_one_compiled(tmp_path: Path) -> None:
    ep = ("--ep", "openvino", "--python", environment("openvino"))
    line = ("start", TINY, *ep, "--iterations", 2, "--compile-cache", "warm,cold")
    ran = ortbench(*line, "--out", tmp_path / "out", prefix=REAL)
    assert ran.code == 0, ran.err
    cold, warm = (
        json.loads(it.read_text())["start"]["kept"] for it in sorted((tmp_path / "out").glob("*/*/result.json"))
    )
    assert cold["files"] == warm["files"] > 0 < warm["bytes"]
    assert [it["changing"] for it in (cold, warm)] == [2, 0]
    assert [it["reading"] for it in (cold, warm)] in ([0, 2], [None, None])
    assert ("2 of 2 starts read what" in ran.out) == (warm["reading"] == 2)


_FRESH = """
import sys
from pathlib import Path
from tests import virtual
virtual.take_place(Path({clock!r}))
virtual.attach(works="-m" not in sys.orig_argv)  # the command waits, its worker and the starts work
"""


def in_virtual_time(folder: Path) -> dict[str, str]:
    """Variables with which processes that Python starts go by the test's clock."""
    folder.mkdir()
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "sitecustomize.py").write_text(_FRESH.format(clock=str(clock_library())))
    return {"PYTHONPATH": str(folder)}


COMPILE_US, CONTEXT_BYTES = 300_000, 50_000
# ONNX Runtime makes one node of both, in a session and before it compiles.
LINEAR = """g (float[2,400] x) => (float[2,3] y)
    <float[400,3] w, float[3] b = {1, 2, 3}> { m = MatMul(x, w)  y = Add(m, b) }"""


def compile_again() -> None:
    """Print the bytes of what ONNX Runtime's compiler makes of the model."""
    import onnxruntime as ort

    virtual.attach(works=True)
    library, model, folder, embeds = sys.argv[1:]
    ort.register_execution_provider_library(EP_NAME, library)
    options = ort.SessionOptions()
    options.add_provider_for_devices([it for it in ort.get_ep_devices() if it.ep_name == EP_NAME], {})
    level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    compiler = ort.ModelCompiler(options, model, embeds == "1", graph_optimization_level=level)
    compiler.compile_to_file(f"{folder}/ahead.onnx")
    print(sum(it.stat().st_size for it in Path(folder).glob("ahead*")))


@pytest.mark.parametrize("embeds", [0, 1])
def test_starts_of_a_model_that_was_compiled_ahead_compile_nothing(embeds: int, library: Path, tmp_path: Path) -> None:
    config = Config(compile_us=COMPILE_US, context_bytes=CONTEXT_BYTES, trace=tmp_path / "trace")
    model = saved(tmp_path / "linear.onnx", LINEAR.replace("w,", "w = {" + "1, " * 1199 + "1},"))
    line = ("start", model, "--ep-library", library.name, "--iterations", 2, "--compile-cache", "none,ahead")
    embedding = ("--session-config", f"ep.context_embed_mode={embeds}", "--out", tmp_path / "out")
    environment = in_virtual_time(tmp_path / "fresh") | config.environ()
    ran = ortbench(*line, *embedding, cwd=library.parent, **environment)
    assert ran.code == 0, ran.err
    assert f"{EP_NAME} opens 1 EPContext node and has no other nodes to compile." in ran.out
    assert "To set compile-cache=ahead" not in ran.out  # both have the same settings of the session
    ahead, plain = (json.loads(it.read_text()) for it in sorted((tmp_path / "out").glob("*/*/result.json")))
    samples = [it["cases"][0]["samples"] for it in (ahead, plain)]
    compiling = COMPILE_US * 1000 + CALL_NS  # and the call
    weights = sum(round(config.copy_ns("h2d", size)) + CALL_NS for size in (4800, 12))
    assert [it["start.session"] for it in samples] == [[weights + CALL_NS] * 2, [weights + compiling + CALL_NS] * 2]
    assert {part for part in START_PARTS if samples[0][part] != samples[1][part]} == {"start.session"}
    assert [b - a for a, b in zip(*(it["latency"] for it in samples), strict=True)] == [compiling] * 2
    # A worker and three starts of each: the one that is compared, and two that are timed.
    trace = Trace.read(tmp_path / "trace")
    by_process = Counter(dict.fromkeys(trace.of("run")["pid"].tolist(), 0))
    by_process.update(trace.of("compile")["pid"].tolist())
    assert sorted(by_process.values()) == [0, 0, 0, 1, 1, 1, 1, 2]
    assert set(trace.of("compile")["bytes"]) == {1}  # nodes
    size = in_fork(f"{__name__}:compile_again", library, model, tmp_path, embeds, **config.environ())
    assert size - CONTEXT_BYTES > 4800  # the weights are in the model
    assert ahead["start"]["compiled"] == {
        "compile_ns": compiling + CALL_NS, "bytes": size, "context_nodes": 1, "other_nodes": 0
    }  # fmt: skip
    assert "compiled" not in plain["start"]


def test_a_model_that_was_compiled_ahead_runs_on_its_ep_alone(library: Path, tmp_path: Path) -> None:
    in_fork(f"{__name__}:compile_again", library, TINY, tmp_path, 0, **Config(context_bytes=1).environ())
    model, on_device = tmp_path / "ahead.onnx", ("--ep-library", library)
    data = ("--input", MODELS / "tiny.inputs.npz", "--expect", MODELS / "tiny.expected.npz")
    result = measure(model, *on_device, *data, *ONCE, out=tmp_path / "out")
    assert result["placement"]["nodes"] == {EP_NAME: 1}
    assert {it["checks"]["outputs"]["verdict"] for it in result["cases"]} == {"passed"}
    for command in ("run", "inspect"):
        ran = ortbench(command, model, "--ep", "cpu")
        made = f"{model} was compiled ahead of time by {EP_NAME}, which CPUExecutionProvider cannot open"
        assert (ran.code, ran.error_line) == (1, f"{made}: choose that EP with --ep")
    line = ("start", model, *on_device, "--compile-cache", "ahead", "--iterations", 1)
    ran = ortbench(*line, "--out", tmp_path / "again")
    assert (ran.code, "was compiled ahead of time already" in ran.error_line) == (1, True)


def test_an_ep_that_compiles_nothing_ahead_says_so(tmp_path: Path) -> None:
    ran = ortbench("start", TINY, "--ep", "cpu", "--compile-cache", "ahead", "--iterations", 1, "--out", tmp_path)
    assert ran.code == 1
    why = "CPUExecutionProvider compiles no part of this model ahead of time"
    assert ran.error_line.startswith(f"cpu-tensors failed: {why}")


@pytest.mark.pure
def test_a_gate_with_a_metric_of_starts_measures_starts() -> None:
    limits = {"metric": (parse_metric("start.session"),), "baseline-set.intra-op-threads": 1}
    asked = asked_gate({"model": str(TINY), "ep": "cpu", **limits}, False, ())
    assert limits_of(limits, True, ()).kinds == {"start"}
    assert [plan.work.kind for plan in asked.plans] == ["start", "start"]
    assert [plan.modes for plan in asked.plans] == [("cpu-tensors",)] * 2
    asked = asked_gate({"model": str(TINY), "ep": "cpu", **limits, "metric": (parse_metric("latency"),)}, False, ())
    assert [plan.work.kind for plan in asked.plans] == ["run", "run"]
