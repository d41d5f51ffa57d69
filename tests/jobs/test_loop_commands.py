"""Loops through the commands that gate, profile and suggest them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, ortbench
from tests.jobs.test_bandwidth_command import with_knobs
from tests.jobs.test_profile_command import Nsys
from tests.refdevice import Config

pytestmark = pytest.mark.process

LARGE = MODELS / "loop_on_device.onnx"
FED = ("--feedback", "state_out=state")


def test_a_live_gate_tells_that_a_state_is_copied(library: Path, tmp_path: Path) -> None:
    """The state crosses twice a step in cpu, never in device-resident: each is compared with the other by a limit."""
    line = ("gate", "--model", LARGE, "--ep-library", library, *FED, "--steps", 4, "--duration", 40, "--out", tmp_path)
    limits = ("--min-speedup", "device-resident=1.5", "--require-mode", "shared")
    ran = ortbench(*line, *limits, **Config(compute_us=500, upload_gbps=0.1, download_gbps=0.1).environ())
    assert ran.code == 0, ran.out + ran.err
    assert "✓ mode shared works" in ran.out
    assert "✓ speedup of device-resident over cpu-tensors: median ratio of paired blocks 2.0" in ran.out


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
    in_loops = sum(it["size"] for it in ranges["cpu-tensors/loop"]["copies"])
    assert in_loops == sum(it["size"] for it in ranges["cpu-tensors/step"]["copies"]) > 6 * 2 * 65536 * 4


@pytest.mark.parametrize(
    ("model", "fed", "count"),
    [
        ("decoder", "", "--prompt-length 1 --generate 3"),
        ("growing_on_device", "--feedback present=past", "--steps 3"),
    ],
)
def test_the_loop_that_inspect_suggests_is_one(model: str, fed: str, count: str, tmp_path: Path) -> None:
    path = MODELS / f"{model}.onnx"
    answer = json.loads(ortbench("inspect", path, "--json", "-").out)["loop"]
    assert answer["command"] == f"ortbench loop {shlex.quote(str(path))} {fed}".rstrip()
    line = [*shlex.split(answer["command"])[1:], *f"--ep cpu --mode cpu-tensors {count}".split(), *ONCE]
    ran = ortbench(*line, "--out", tmp_path, "--json", "-")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["loop"]["feedback"] == answer["feedback"]
