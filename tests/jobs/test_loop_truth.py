"""The times of loops in virtual time against the reference device's own trace."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests import wrong_builds
from tests.loop_truth import FED, STATE_BYTES, differences, loop_model
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import run_on_device

pytestmark = pytest.mark.process

STEPS = {f"step {number}": 1 for number in range(5)}
ONE_LOOP = ("--steps", len(STEPS), "--iterations", 4, "--warmup", 1)


@pytest.mark.parametrize("honesty", HONESTY)
def test_steps_and_whole_loops_are_what_the_devices_trace_has_of_them(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    config = Config(trace=tmp_path / "trace", honesty=honesty, compute_us=3000)
    model, line = loop_model(tmp_path / "loop.onnx"), (*FED, "--mode", "default", "--mode", "shared", *ONE_LOOP)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, command="loop")
    assert code == 0, errors
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident", "host-accessible", "shared"]
    assert differences(result, Trace.read(tmp_path / "trace"), STEPS, first_bytes=STATE_BYTES) == {}


def test_a_microsecond_too_many_is_found_out(library: Path, tmp_path: Path) -> None:
    model, config = loop_model(tmp_path / "loop.onnx"), Config(trace=tmp_path / "trace")
    line, wrong = (*FED, "--mode", "device-resident", *ONE_LOOP), wrong_builds.build("adds_a_microsecond")
    _, result, _, _ = run_on_device(library, model, config, tmp_path, *line, command="loop", **wrong)
    found = differences(result, Trace.read(tmp_path / "trace"), STEPS, first_bytes=STATE_BYTES)
    assert found.keys() == {("device-resident", "latency")}


GROWS = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,65536] past, float[2,65536] x) => (float[M,65536] present) { present = Concat<axis=0>(past, x) }"""
FIRST_BYTES = 4 * 65536


@pytest.mark.parametrize("honesty", ["sync", "async-wait"])
def test_so_are_steps_of_a_state_that_grows(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    model = tmp_path / "grows.onnx"
    onnx.save(onnx.parser.parse_model(GROWS), model)
    line = (
        "--feedback",
        "present=past",
        "--first-dim",
        "N=1",
        "--mode",
        "cpu-tensors",
        "--mode",
        "device-resident",
        *ONE_LOOP,
    )
    config = Config(trace=tmp_path / "trace", honesty=honesty, upload_gbps=1, download_gbps=1)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line, command="loop")
    assert code == 0, errors
    assert result.part["grows"] == ["past"]
    assert differences(result, Trace.read(tmp_path / "trace"), STEPS, first_bytes=FIRST_BYTES) == {}
