"""What `ortbench watch` says of a program on the reference device, against what the device itself counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.refdevice import Config, Trace

pytestmark = pytest.mark.process
CALLS = 40

PROGRAM = f"""
import sys, numpy as np, onnx, onnxruntime as ort
ort.register_execution_provider_library("refdevice", sys.argv[1])
device = next(it for it in ort.get_ep_devices() if it.ep_name == "RefDeviceExecutionProvider")
def session(name, text):
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text), name)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # whose spinning would be a finding
    options.add_provider_for_devices([device], {{}})
    return ort.InferenceSession(name, options)
first = session("first.onnx", "g (float[1000] x, float[1000] w, float[1000] s) => (float[1000] y, float[1000] t, float[2000] u)"
    "{{ y = Add(x, w)  t = Add(s, w)  u = Concat<axis = 0>(x, s) }}")
second = session("second.onnx", "g (float[1000] a) => (float[1000] b) {{ b = Relu(a) }}")
weights, state, random = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32), np.random.default_rng(0)
for _ in range({CALLS}):
    y, state = first.run(None, {{"x": random.random(1000, np.float32), "w": weights, "s": state}})[:2]
    (b,) = second.run(None, {{"a": y}})
"""


@pytest.fixture(scope="module")
def watched(real_library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Trace]:
    """The result of the program, and the device's trace of it."""
    folder = tmp_path_factory.mktemp("watch")
    (folder / "program.py").write_text(PROGRAM)
    line = [
        sys.executable,
        "-m",
        "ortbench",
        "watch",
        "--no-replay",
        "--out",
        "out",
        "--",
        sys.executable,
        "program.py",
        str(real_library),
    ]
    env = {**os.environ, **Config(trace=folder / "trace").environ()}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("out/*/result.json")
    return json.loads(file.read_text()), Trace.read(folder / "trace")


def test_calls_and_bytes_are_those_of_the_device(watched: tuple[dict[str, Any], Trace]) -> None:
    result, trace = watched
    sessions = {it["name"]: it for it in result["sessions"]}
    assert {name: it["counts"]["calls"] for name, it in sessions.items()} == {"first.onnx": CALLS, "second.onnx": CALLS}
    copied = sum(it["bytes_per_call"] * it["counts"]["calls"] for it in sessions.values())
    assert copied == trace.of("h2d", "d2h")["bytes"].astype(np.int64).sum()


def test_habits_are_those_of_the_program_and_no_others(watched: tuple[dict[str, Any], Trace]) -> None:
    found = {(it["mode"], it["verdict"], *(it["values"].get(key) for key in ("input", "output"))): it["values"]["copied"]["value"]
             for it in watched[0]["findings"]}  # fmt: skip
    size = 4000 * CALLS
    assert found == {
        ("first.onnx", "state-through-host", "s", "t"): 2 * size,
        ("first.onnx", "constant-input", "w", None): size,
        ("first.onnx", "unread-output", None, "u"): 2 * size,
        ("second.onnx", "link-through-host", "a", "y"): 2 * size,
    }
