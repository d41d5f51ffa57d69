"""Where tensors are, and what is copied inside the graph, on EPs with a node on the CPU; held against the device's trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ortbench.result import Result, load
from tests.compiling import BuildError
from tests.conftest import MODELS, ONCE, ROOT, cases, lacking, measure, ortbench
from tests.refdevice import Config, build
from tests.truth import run_on_device

pytestmark = pytest.mark.process

IMAGE = MODELS / "copy_bound.onnx"  # Mul, Add and, last, Clip
SIZE = 4 * 3 * 1080 * 1920


@pytest.fixture(scope="module")
def without_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference device without Clip: the output of the model is made on the CPU."""
    try:
        return build(tmp_path_factory.mktemp("refdevice"), operators=("Mul", "Add"))
    except BuildError as error:
        lacking(str(error))


def test_an_output_of_a_node_on_the_cpu(without_clip: Path, tmp_path: Path) -> None:
    arguments = ("--pinned", "--depth", 2, "--iterations", 2, "--warmup", 1)
    code, result, out, _ = run_on_device(without_clip, IMAGE, Config(), tmp_path, *arguments)
    assert code == 0
    assert result.placement["memcpy"] == {
        "to_host": {"nodes": 1, "bytes": SIZE},
        "from_host": {"nodes": 0, "bytes": 0},
    }
    default, shared = "RefDevice (DEFAULT)", "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
    given, made, wanted = "an array that is given to run", "an array that run makes", "the session wants it there"
    own, clip = "the mode's own memory", "Clip makes it on the CPU"
    assert places(result) == {
        "cpu": [("host memory", given, True), ("host memory", made, True)],
        "device": [(default, wanted, True), ("host memory", clip, False)],
        "device-resident": [(default, wanted, True), ("host memory", clip, False)],
        "host-accessible": [(shared, own, True), ("host memory", clip, False)],
        "cpu-pinned": [(shared, own, True), ("host memory", made, True)],
        "device-pinned": [(default, wanted, True), ("host memory", clip, False)],
        "pipelined": [(default, wanted, True), ("host memory", clip, False)],
    }
    for mode in ("device", "device-pinned", "pipelined"):
        case = result.case(mode)
        assert case is not None
        assert (case.bytes_in, case.bytes_out) == (SIZE, 0)
        assert case.phases["upload"] is not None
        assert case.phases["download"] is None  # not the 80 ns of a call that copies nothing
        assert "download" not in case.samples_ns
        assert case.fence is not None
        assert case.fence["download"] is None
    resident, pipelined = result.case("device-resident"), result.case("pipelined")
    assert resident is not None
    assert resident.once is not None
    assert (resident.once["upload_ns"] > 0, resident.once["download_ns"]) == (True, 0)
    assert pipelined is not None
    assert pipelined.pipeline is not None
    assert pipelined.pipeline["copies_ns"] == pipelined.median("upload")
    said = " ".join(out.split())
    assert (
        "• 1 Memcpy node copies 24.9 MB to the host inside every run, in every mode, since 1 of 3 nodes is on" in said
    )
    assert "output adjusted is bound in host memory, not on the device: Clip makes it on the CPU. Bound on the" in said
    assert "warning" not in said


def places(result: Result) -> dict[str, list[tuple[str, str, bool]]]:
    """Memory, reason and whether it is usual, of the input and the output, by mode."""
    found = {}
    for case in result.cases:
        assert case.places is not None
        ins, outs = case.places["inputs"], case.places["outputs"]
        assert [it["name"] for it in (*ins, *outs)] == ["image", "adjusted"]
        found[case.mode] = [(it["memory"], it["why"], it["usual"]) for it in (*ins, *outs)]
    return found


# Runs in a process of its own: the device can be registered once in one.
_BOUND = """
import json, sys
import numpy as np
import onnxruntime as ort
from pathlib import Path
from tests.refdevice import Trace

library, model, trace = sys.argv[1:]
ort.set_default_logger_severity(4)
ort.register_execution_provider_library("refdevice", library)
(device,) = [it for it in ort.get_ep_devices() if it.ep_name.startswith("RefDevice")]
options = ort.SessionOptions()
options.add_provider_for_devices([device], {})
session = ort.InferenceSession(model, options)
memory = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
shape = session.get_inputs()[0].shape

def copies(output):
    binding = session.io_binding()
    image = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, memory_info=memory)
    ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))], [image], None)
    binding.bind_ortvalue_input("image", image)
    binding.bind_ortvalue_output("adjusted", output)
    before = len(Trace.read(Path(trace)).of("upload"))
    session.run_with_iobinding(binding)
    return [int(it) for it in Trace.read(Path(trace)).of("upload")["bytes"][before:]]

host = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
print(json.dumps([copies(host), copies(ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, memory_info=memory))]))
"""


def test_on_the_device_it_does_cost_another_upload(without_clip: Path, tmp_path: Path) -> None:
    """What the report says of an output that a node on the CPU makes, by the device's own trace."""
    trace = tmp_path / "trace"
    line = [sys.executable, "-c", _BOUND, str(without_clip), str(IMAGE), str(trace)]
    environ = {**os.environ, **Config(trace=trace).environ()}
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], [SIZE]]


def test_nothing_on_the_ep_that_was_asked_for(tmp_path: Path) -> None:
    try:
        library = build(tmp_path / "library", operators=("Relu",))
    except BuildError as error:
        lacking(str(error))
    code, result, out, _ = run_on_device(library, IMAGE, Config(), tmp_path, *ONCE)
    assert code == 0
    lines = [line for line in out.splitlines() if line]
    said = "! Nothing ran on RefDeviceExecutionProvider: all 3 nodes are on the CPU (Mul, Add, Clip)."
    assert lines.index(said) < next(number for number, line in enumerate(lines) if line.startswith("mode "))
    device, cpu, shared = (result.case(mode) for mode in ("device", "cpu", "host-accessible"))
    assert device is not None
    assert cpu is not None
    assert shared is not None
    assert device.phases["upload"] is device.phases["download"] is None
    assert device.phases["inference"] is not None
    assert device.fence is not None
    assert device.fence["upload"] is None
    assert cpu.derived is None  # there are no copies in it
    assert shared.zero_copy is not None
    assert shared.zero_copy["how"] == "the session wants every input and output in host memory"


def test_a_gate_on_a_copy_of_nothing(without_clip: Path, tmp_path: Path) -> None:
    """It is over when the rest is decided, and says what is wrong where there is no rest."""
    same = ("--model", IMAGE, "--baseline-model", IMAGE, "--ep-library", without_clip)
    line = ("gate", *same, "--mode", "device", "--duration", 1)
    ran = ortbench(*line, "--metric", "device.download.median", "--out", tmp_path)
    assert ran.code == 1
    assert "nothing could be compared: download of device copies nothing" in ran.err


def test_an_island_on_a_real_ep(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    island = MODELS / "cpu_island.onnx"
    result: dict[str, Any] = measure(island, "--ep", "webgpu", *ONCE, out=tmp_path, prefix=software_gpu)
    assert result["placement"]["memcpy"] == {
        "to_host": {"nodes": 1, "bytes": 65536},
        "from_host": {"nodes": 1, "bytes": 16384},
    }
    device = cases(result)["device"]["places"]
    assert [it["memory"] for it in (*device["inputs"], *device["outputs"])] == ["WebGPU_Buf (DEFAULT)"] * 2
    assert cases(result)["host-accessible"]["places"] is None
    (path,) = tmp_path.glob("*/table.md")
    assert (
        "\n- 2 Memcpy nodes copy 65.5 kB to the host and 16.4 kB from the host inside every run, in every mode, since 1 of 6 "
        "nodes is on the CPU (Det). That counts as inference here, not as copies; --nodes says what it takes.\n"
    ) in path.read_text()
    assert load(path.with_name("result.json")).cases[1].places == device
