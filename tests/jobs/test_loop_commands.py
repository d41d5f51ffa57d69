"""Loops through the commands that gate, compare and profile them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODELS, ROOT, Ran, ortbench, ortbench_here
from tests.jobs.test_profile_command import Nsys
from tests.made_loops import level, loop_of, loop_result
from tests.refdevice import Config
from tests.results import measured, result_of, steady

CELL = MODELS / "recurrent_cell.onnx"
LARGE = MODELS / "loop_on_device.onnx"
FED = ("--feedback", "state_out=state")


# Stored results


@pytest.mark.parametrize(
    ("metric", "factor", "code", "said"),
    [
        ((), 1.0, 0, "✓ device-resident loop median: 4.00 ms against 4.00 ms, ×1.000"),
        ((), 1.5, 3, "✗ device-resident loop median: 6.00 ms against 4.00 ms, ×1.500"),
        (("device-resident.step.median",), 1.5, 3, "✗ device-resident step median: 1.50 ms against 1.00 ms, ×1.500"),
        (("step.p95",), 1.0, 0, "✓ device-resident step p95: 1.00 ms against 1.00 ms, ×1.000"),
        (("cpu.loop",), 1.5, 0, "✓ cpu loop median: 4.00 ms against 4.00 ms, ×1.000"),
    ],
)
def test_a_stored_loop_against_another(
    files: Any, metric: tuple[str, ...], factor: float, code: int, said: str
) -> None:
    old = files("old", loop_result(level("cpu"), level("device-resident")))
    new = files("new", loop_result(level("cpu"), level("device-resident", factor)))
    asked = [word for text in metric for word in ("--metric", text)]
    ran = ortbench_here("gate", new, "--baseline", old, *asked)
    assert (ran.code, ran.err) == (code, "")
    assert said in ran.out


def test_a_loop_is_not_held_against_a_run_or_another_loop(files: Any) -> None:
    loop = files("loop", loop_result(level("cpu")))
    single = files("single", result_of(measured("cpu", total=steady([1_000_000] * 24))))
    longer = files("longer", loop_result(level("cpu", count=8)))
    for other, kind in ((single, "kind: single inferences and a loop of 4 steps"), (longer, "steps: 8 and 4")):
        ran = ortbench_here("gate", loop, "--baseline", other)
        said = f"ortbench: baseline and candidate are not comparable: {kind} (--force compares them all the same)\n"
        assert (ran.code, ran.err) == (5, said)
        assert ortbench_here("gate", loop, "--baseline", other, "--max-regression", "900%", "--force").code in (0, 3)
        ran = ortbench_here("compare", other, loop)
        assert (ran.code, ran.out) == (5, "")
        assert (
            ran.err
            == f"ortbench: {other.stem} and loop are not comparable: {kind} (--force compares them all the same)\n"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-copy-share", "10%"], "--max-copy-share is of single inferences; of a loop say --min-speedup "
         "device-resident=X"),
        (["--steps", "4"], "--steps says how to measure: it is for a live gate (--model), not for a result file"),
        (["--feedback", "a=b"], "--feedback says how to measure: it is for a live gate (--model), not for a result file"),
    ],
)  # fmt: skip
def test_what_a_stored_loop_has_not(files: Any, options: list[str], message: str) -> None:
    loop = files("loop", loop_result(level("cpu")))
    ran = ortbench_here("gate", loop, "--max-cpu-nodes", "0", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"ortbench: {message}\n")


def test_two_loops_side_by_side(files: Any) -> None:
    one = files("one", loop_result(level("cpu"), level("device-resident")))
    fed = loop_of(resident=["x"])
    other = files("other", loop_result(level("cpu"), level("device-resident", 0.5), loop=fed))
    ran = ortbench_here("compare", one, other)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("loop of 4 steps: hidden_out → hidden") == 2
    rows = [line.split() for line in ran.out.splitlines() if line.startswith(("cpu ", "device-resident "))]
    assert [row[:5] for row in rows] == [
        ["cpu", "loop", "4.00", "4.00", "×1.000"],
        ["cpu", "step", "1.00", "1.00", "×1.000"],
        ["device-resident", "loop", "4.00", "2.00", "×0.500"],
        ["device-resident", "step", "1.00", "0.500", "×0.500"],
    ]
    assert "copied once: none → x" in ran.out
    only = ortbench_here("compare", one, other, "--phase", "step", "--mode", "device-resident", "--json", "-")
    assert [(it["mode"], it["phase"], it["median_ns"]) for it in json.loads(only.out)] == [
        ("device-resident", "step", 1_000_250), ("device-resident", "step", 500_125)
    ]  # fmt: skip


# Live


def live(library: Path, out: Path, *options: object, **config: Any) -> Ran:
    device = Config(**{"compute_us": 500, "upload_gbps": 1, "download_gbps": 1, **config})
    line = ("gate", "--model", LARGE, "--ep-library", library, *FED, "--steps", 4, "--duration", 40, "--out", out)
    return ortbench(*line, *options, prefix=(), cwd=ROOT, **device.environ())


def checks_in(out: Path) -> list[dict[str, Any]]:
    (folder,) = out.glob("gate-*")
    found: list[dict[str, Any]] = json.loads((folder / "gate.json").read_text())["checks"]
    return found


@pytest.mark.process
def test_a_live_gate_of_a_loop_has_metrics_of_loops_and_steps(library: Path, tmp_path: Path) -> None:
    """Two of the same are no regression of five times, whatever else this machine does."""
    metrics = ("--metric", "loop.median", "--metric", "device-resident.step.median", "--metric", "shared.loop.mean")
    more = ("--baseline-model", LARGE, "--max-regression", "400%", "--share-buffers", "--mode", "device-resident")
    ran = live(library, tmp_path, *more, *metrics)
    assert ran.code == 0, ran.out + ran.err
    assert [(check["name"], check["verdict"]) for check in checks_in(tmp_path)] == [
        ("device-resident loop median", "passed"),
        ("shared loop median", "passed"),
        ("device-resident step median", "passed"),
        ("shared loop mean", "passed"),
    ]
    for side in ("candidate", "baseline"):
        (stored,) = tmp_path.glob(f"gate-*/{side}*/result.json")
        data = json.loads(stored.read_text())
        assert (data["kind"], data["loop"]["steps"]) == ("loop", 4)


@pytest.mark.process
def test_a_live_gate_tells_that_a_state_is_copied(library: Path, tmp_path: Path) -> None:
    """The state crosses twice a step in cpu, never in device-resident: each is held against the other by a limit."""
    slow = {"upload_gbps": 0.1, "download_gbps": 0.1}
    limits = ("--min-speedup", "device-resident=1.5", "--require-mode", "shared")
    ran = live(library, tmp_path, *limits, **slow)
    assert ran.code == 0, ran.out + ran.err
    assert "✓ shared is ok" in ran.out
    assert "✓ device-resident is as fast as cpu: ×" in ran.out


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "upload"], "--metric upload.median: a loop has step, loop and cpu_time only"),
        (["--metric", "step.p99"], "--metric step.p99: a live gate compares short blocks, which have median, mean, min, "
         "and p99 of steps from --steps 51 on; use more, or a stored --baseline"),
        (["--max-copy-share", "1%"], "--max-copy-share is of single inferences; of a loop say --min-speedup "
         "device-resident=X"),
        (["--cuda-graph"], "--cuda-graph: is for single inferences, leave it out of a loop"),
    ],
)  # fmt: skip
def test_bad_input_of_a_live_gate_is_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    line = ("gate", "--model", CELL, "--baseline-model", CELL, "--feedback", "hidden_out=hidden", "--ep", "cpu")
    ran = ortbench_here(*line, "--out", tmp_path / "out", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"ortbench: {message}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--baseline-keep", "y"], "--baseline-keep is for a loop: say what is fed back with --feedback OUT=IN"),
        (["--baseline-model", str(CELL), "--metric", "step"], "--metric step.median: single inferences have no steps; say "
         "what is fed back with --feedback OUT=IN"),
        (["--baseline-model", str(CELL), "--fill", "x=1"], "--fill is for a loop: say what is fed back with --feedback "
         "OUT=IN"),
    ],
)  # fmt: skip
def test_words_of_loops_without_one_are_one_line(options: list[str], message: str) -> None:
    ran = ortbench_here("gate", "--model", CELL, "--ep", "cpu", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"ortbench: {message}\n")


# Under Nsight Systems


@pytest.mark.process
def test_a_profiled_loop_has_ranges_of_loops_and_of_steps(recorder: Path, library: Path, tmp_path: Path) -> None:
    nsys = Nsys(tmp_path, recorder)
    knobs = Config(trace=tmp_path / "trace", compute_us=200, upload_gbps=1, download_gbps=1).environ()
    line = ("profile", LARGE, "--ep-library", library, *FED, "--steps", 3, "--warmup", 1, "--iterations", 2)
    ran = ortbench(*line, "--out", tmp_path / "out", prefix=(), cwd=ROOT, **knobs, **nsys.environ)
    assert ran.code == 0, ran.err
    assert "loop of 3 steps: state_out → state" in ran.out
    (file,) = (tmp_path / "out").glob("*/profile.json")
    found = json.loads(file.read_text())
    ranges, session = found["nsight"]["ranges"], found["session"]
    modes = [case["mode"] for case in session["cases"] if case["status"] == "ok"]
    assert set(ranges) == {f"{mode}/{phase}" for mode in modes for phase in ("loop", "step")}
    for mode in modes:
        loop, step = ranges[f"{mode}/loop"], ranges[f"{mode}/step"]
        assert (len(loop["durations_ns"]), len(step["durations_ns"])) == (2, 6)
        assert loop["kernels"] == step["kernels"] == 6
        rows = [text.split() for text in ran.out.splitlines() if text.startswith((f"{mode}/loop ", f"{mode}/step "))]
        assert [row[:2] for row in rows] == [[f"{mode}/loop", "2"], [f"{mode}/step", "6"]]
    in_loops = sum(it["size"] for it in ranges["cpu/loop"]["copies"])
    assert in_loops == sum(it["size"] for it in ranges["cpu/step"]["copies"]) > 6 * 2 * 65536 * 4
    assert "of a loop is copies by the GPU's clock" in ran.out
