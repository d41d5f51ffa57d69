"""A machine whose noise is scripted, in virtual time: what commands that measure say of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ortbench.facts.run import facts_of
from ortbench.model.result import Result
from tests.conftest import ortbench
from tests.refdevice import Config
from tests.results import fact, values
from tests.truth import relu_model, run_on_device
from tests.virtual.machine import VARIABLE

MS_DEVICE = Config(compute_us=1000)
TWO = ("--mode", "cpu-tensors", "--mode", "device-resident", "--iterations", 200, "--warmup", 1)
WAIT = ("--mode", "device-resident", "--iterations", 3, "--warmup", 1)


def machine(**scripted: Any) -> dict[str, str]:
    return {VARIABLE: json.dumps(scripted)}


BUSY = machine(others=[1.22], waits={str(it): 0.5 for it in range(3)})


def run(library: Path, folder: Path, *line: object, **environment: str) -> tuple[Result, str]:
    model = relu_model(folder / "m.onnx", 4000)
    code, result, out, err = run_on_device(library, model, MS_DEVICE, folder, *line, **environment)
    assert code == 0, err
    return result, out


def test_a_busy_machine_is_said_first_and_is_a_track_of_the_timeline(library: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    result, out = run(library, tmp_path, *TWO, "--trace", trace, **BUSY)
    first, again = out.split("\n\n")[1].splitlines()[:2]
    assert first == "! Busy machine: other processes used 61% of 2 cores."
    assert re.match(r"  Next: ortbench run .*", again)
    assert facts_of(result)[0] == fact(result, "busy-machine")
    found = values(fact(result, "busy-machine"))
    assert (found["others"], found["cores"]) == (pytest.approx(0.61), 2)
    assert found["waited"] == pytest.approx(0.14, abs=0.005)
    events = json.loads(trace.read_text())["traceEvents"]
    (track,) = {it["tid"] for it in events if it["ph"] == "M" and it["args"].get("name") == "noise of the machine"}
    spans = [(it["name"], it["args"]) for it in events if it["ph"] == "X" and it["tid"] == track]
    assert spans[0] == ("others used 61% of 2 cores", {"others": 1.22, "stolen": 0.0, "pressure": 0.0})
    assert result.noise is not None
    waited = [
        {"round": it[0], "waited_us": it[3] / 1000, "involuntary_switches": 0} for it in result.noise["blocks"][:3]
    ]
    assert spans[1:] == [("waited for a CPU", args) for args in waited]


def test_a_machine_that_must_be_quiet(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", 4000)
    out = tmp_path / "out"
    asked = ("run", model, "--ep-library", library, *WAIT, "--require-quiet", "--wait-quiet", "0.1min", "--out", out)
    ran = ortbench(*asked, **MS_DEVICE.environ(), **machine(others=[1.0]))
    assert ran.code == 1
    why = "the machine was not quiet within 6 s: other processes used 50% of 2 cores in the last second"
    assert ran.error_line == f"{why} (--require-quiet)"
    assert not out.exists() or not list(out.iterdir())
    assert ortbench(*asked, **MS_DEVICE.environ()).code == 0
