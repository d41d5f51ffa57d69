"""Loops through the commands that gate, compare and profile them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODELS, Ran, ortbench
from tests.jobs.test_bandwidth_command import with_knobs
from tests.jobs.test_profile_command import Nsys
from tests.refdevice import Config
from tests.results import level, loop_result, measured, result_of, steady

pytestmark = pytest.mark.process

CELL = MODELS / "recurrent_cell.onnx"
LARGE = MODELS / "loop_on_device.onnx"
FED = ("--feedback", "state_out=state")


@pytest.mark.parametrize(
    ("metric", "factor", "code", "said"),
    [
        ((), 1.0, 0, "✓ device-resident loop median: 4.00 ms against 4.00 ms, ratio 1.000"),
        ((), 1.5, 3, "✗ device-resident loop median: 6.00 ms against 4.00 ms, ratio 1.500"),
        (
            ("device-resident.step.median",),
            1.5,
            3,
            "✗ device-resident step median: 1.50 ms against 1.00 ms, ratio 1.500",
        ),
        (("step.p95",), 1.0, 0, "✓ device-resident step p95: 1.00 ms against 1.00 ms, ratio 1.000"),
        (("cpu-tensors.loop",), 1.5, 0, "✓ cpu-tensors loop median: 4.00 ms against 4.00 ms, ratio 1.000"),
    ],
)
def test_a_stored_loop_against_another(
    files: Any, metric: tuple[str, ...], factor: float, code: int, said: str
) -> None:
    old = files("old", loop_result(level("cpu-tensors"), level("device-resident")))
    new = files("new", loop_result(level("cpu-tensors"), level("device-resident", factor)))
    asked = [word for text in metric for word in ("--metric", text)]
    ran = ortbench("gate", new, "--baseline", old, *asked)
    assert (ran.code, ran.err) == (code, "")
    assert said in ran.out


def test_a_loop_is_not_held_against_a_run_or_another_loop(files: Any) -> None:
    loop = files("loop", loop_result(level("cpu-tensors")))
    single = files("single", result_of(measured("cpu-tensors", latency=steady([1_000_000] * 24))))
    longer = files("longer", loop_result(level("cpu-tensors", count=8)))
    for other, kind in ((single, "kind: single inferences and a loop of 4 steps"), (longer, "steps: 8 and 4")):
        gate = ("gate", loop, "--baseline", other)
        for line in (gate, ("compare", other, loop)):
            ran = ortbench(*line)
            assert (ran.code, ran.out) == (5, "")
            assert ran.error_line.endswith(f" are not comparable: {kind} (--force compares them anyway)")
        assert ortbench(*gate, "--max-regression", "900%", "--force").code in (0, 3)


def live(library: Path, out: Path, *options: object, **knobs: Any) -> Ran:
    device = Config(**{"compute_us": 500, "upload_gbps": 1, "download_gbps": 1, **knobs})
    line = ("gate", "--model", LARGE, "--ep-library", library, *FED, "--steps", 4, "--duration", 40, "--out", out)
    ran = ortbench(*line, *options, prefix=with_knobs(device))
    assert ran.code == 0, ran.out + ran.err
    return ran


def test_a_live_gate_of_a_loop_has_metrics_of_loops_and_steps(library: Path, tmp_path: Path) -> None:
    metrics = ("--metric", "loop.median", "--metric", "device-resident.step.median", "--metric", "shared.loop.mean")
    more = ("--baseline-model", LARGE, "--max-regression", "1%", "--mode", "device-resident", "--mode", "shared")
    live(library, tmp_path, *more, *metrics)
    (folder,) = tmp_path.glob("gate-*")
    checks = json.loads((folder / "gate.json").read_text())["checks"]
    assert [(check["name"], check["verdict"]) for check in checks] == [
        (f"{name} {statistic}", "passed")
        for name, statistic in (
            ("device-resident loop", "median"),
            ("shared loop", "median"),
            ("device-resident step", "median"),
            ("shared loop", "mean"),
        )
    ]
    for side in ("candidate", "baseline"):
        data = json.loads((folder / side / "result.json").read_text())
        assert (data["kind"], data["loop"]["steps"]) == ("loop", 4)


def test_a_live_gate_tells_that_a_state_is_copied(library: Path, tmp_path: Path) -> None:
    """The state crosses twice a step in cpu, never in device-resident: each is compared with the other by a limit."""
    limits = ("--min-speedup", "device-resident=1.5", "--require-mode", "shared")
    ran = live(library, tmp_path, *limits, upload_gbps=0.1, download_gbps=0.1)
    assert "✓ mode shared works" in ran.out
    assert "✓ speedup of device-resident over cpu-tensors: median ratio of paired blocks 2.0" in ran.out


LIVE = ("--model", CELL, "--ep", "cpu")
SIDES = (*LIVE, "--baseline-model", CELL)
LOOPS = (*SIDES, "--feedback", "hidden_out=hidden")
STORED = ("loop.json", "--max-cpu-nodes", "0")
NOT_STORED = "applies to a live gate (--model), not to a stored result"
NO_COPIES = "--max-copy-share is of single inferences; of a loop say --min-speedup device-resident=X"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ((*STORED, "--max-copy-share", "10%"), NO_COPIES),
        ((*STORED, "--steps", "4"), f"--steps {NOT_STORED}"),
        ((*STORED, "--feedback", "a=b"), f"--feedback {NOT_STORED}"),
        ((*LOOPS, "--metric", "step.p99"), "--metric step.p99: a live gate compares short blocks, which have median, mean, "
         "min, and p99 of steps from --steps 51 on; use more, or a stored --baseline"),
    ],
)  # fmt: skip
def test_what_a_gate_has_not(files: Any, line: tuple[object, ...], message: str, tmp_path: Path) -> None:
    files("loop", loop_result(level("cpu-tensors")))
    ran = ortbench("gate", *line, cwd=tmp_path)
    assert (ran.code, ran.out, ran.error_line) == (2, "", message)
    assert [path.name for path in tmp_path.iterdir()] == ["loop.json"]


@pytest.mark.wide
def test_a_profiled_loop_has_ranges_of_loops_and_of_steps(recorder: Path, real_library: Path, tmp_path: Path) -> None:
    nsys = Nsys(tmp_path, recorder)
    device = Config(trace=tmp_path / "trace", compute_us=200, upload_gbps=1, download_gbps=1)
    line = ("profile", LARGE, "--ep-library", real_library, *FED, "--steps", 3, "--warmup", 1, "--iterations", 2)
    ran = ortbench(*line, "--out", tmp_path / "out", prefix=with_knobs(device), **nsys.environ)
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
    in_loops = sum(it["size"] for it in ranges["cpu-tensors/loop"]["copies"])
    assert in_loops == sum(it["size"] for it in ranges["cpu-tensors/step"]["copies"]) > 6 * 2 * 65536 * 4
    assert "of a loop with cpu-tensors, by the GPU's clock" in ran.out
