"""Where tensors are, and what is copied inside the graph, on EPs with a node on the CPU; compared with the device's trace."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from ortbench.model.result import Result
from tests.conftest import device_library, ortbench
from tests.refdevice import Config, Trace
from tests.truth import in_fork, run_on_device
from tests.virtual import Clock

pytestmark = pytest.mark.process

SIZE = 4 * 3 * 64 * 64


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of Mul, Add and, last, Clip."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,64,64] image) => (float[1,3,64,64] adjusted)
        <float half = {0.5}, float one = {1}, float none = {0}>
        { a = Mul(image, half) b = Add(a, half) adjusted = Clip(b, none, one) }"""
    path = tmp_path_factory.mktemp("image") / "image.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


WITHOUT_CLIP = {"operators": ("Mul", "Add")}  # the output of the model is made on the CPU


def test_an_output_of_a_node_on_the_cpu(image: Path, clock: Clock, tmp_path: Path) -> None:
    modes = [word for mode in ("default", "cpu-tensors-pinned", "pipelined") for word in ("--mode", mode)]
    arguments = ("--verbose", *modes, "--depth", 2, "--iterations", 2, "--warmup", 1)
    code, result, out, _ = run_on_device(device_library(**WITHOUT_CLIP), image, Config(), tmp_path, *arguments)
    assert code == 0
    assert result.placement["memcpy"] == {
        "to_host": {"nodes": 1, "bytes": SIZE},
        "from_host": {"nodes": 0, "bytes": 0},
    }
    default, shared = "RefDevice (DEFAULT)", "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
    given, made = "NumPy array passed to session.run", "NumPy array returned by session.run"
    wanted, own, clip = "the session's memory info", "the mode's own memory", "made by Clip on the CPU"
    assert places(result) == {
        "cpu-tensors": [("host memory", given, True), ("host memory", made, True)],
        "device-tensors": [(default, wanted, True), ("host memory", clip, False)],
        "device-resident": [(default, wanted, True), ("host memory", clip, False)],
        "host-accessible": [(shared, own, True), ("host memory", clip, False)],
        "cpu-tensors-pinned": [(shared, own, True), ("host memory", made, True)],
        "pipelined": [(default, wanted, True), ("host memory", clip, False)],
    }
    for mode in ("device-tensors", "pipelined"):
        case = result.case(mode)
        assert case is not None
        assert (case.bytes_h2d, case.bytes_d2h) == (SIZE, 0)
        assert case.stats("h2d") is not None
        assert case.stats("d2h") is None  # not the 80 ns of a call that copies nothing
        assert "d2h" not in case.samples
        assert case.sync is not None
        assert case.sync["d2h"] is None
    assert "1 Memcpy node inside the graph: 49.2 kB copied in each inference." in " ".join(out.split())
    assert "warning" not in out


def places(result: Result) -> dict[str, list[tuple[str, str, bool]]]:
    """Memory, reason and whether it is usual, of the input and the output, by mode."""
    found = {}
    for case in result.cases:
        assert case.places is not None
        ins, outs = case.places["inputs"], case.places["outputs"]
        assert [it["name"] for it in (*ins, *outs)] == ["image", "adjusted"]
        found[case.mode] = [(it["memory"], it["why"], it["usual"]) for it in (*ins, *outs)]
    return found


def copies_of_bound_outputs() -> None:
    """Print the sizes of the uploads of a run whose output is bound in host memory, and of one whose is on the device."""
    library, model, trace = sys.argv[1:]
    ort.set_default_logger_severity(4)
    ort.register_execution_provider_library("refdevice", library)
    (device,) = [it for it in ort.get_ep_devices() if it.ep_name.startswith("RefDevice")]
    options = ort.SessionOptions()
    options.add_provider_for_devices([device], {})
    session = ort.InferenceSession(model, options)
    memory = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    array = np.zeros(session.get_inputs()[0].shape, np.float32)

    def on_device() -> Any:
        return ort.OrtValue.ortvalue_from_shape_and_type(array.shape, np.float32, memory_info=memory)

    def uploads(output: Any) -> list[int]:
        binding, image = session.io_binding(), on_device()
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [image], None)
        binding.bind_ortvalue_input("image", image)
        binding.bind_ortvalue_output("adjusted", output)
        before = len(Trace.read(Path(trace)).of("h2d"))
        session.run_with_iobinding(binding)
        return [int(it) for it in Trace.read(Path(trace)).of("h2d")["bytes"][before:]]

    print(json.dumps([uploads(ort.OrtValue.ortvalue_from_numpy(array)), uploads(on_device())]))


def test_on_the_device_it_does_cost_another_upload(image: Path, clock: Clock, tmp_path: Path) -> None:
    """What the report says of an output that a node on the CPU makes, by the device's own trace."""
    trace = tmp_path / "trace"
    function = f"{copies_of_bound_outputs.__module__}:{copies_of_bound_outputs.__name__}"
    line = (function, device_library(**WITHOUT_CLIP), image, trace)
    assert in_fork(*line, **Config(trace=trace).environ()) == [[], [SIZE]]


def test_a_gate_on_a_copy_of_nothing(image: Path, clock: Clock, tmp_path: Path) -> None:
    """It is over when the rest is decided, and says what is wrong where there is no rest."""
    same = ("--model", image, "--baseline-model", image, "--ep-library", device_library(**WITHOUT_CLIP))
    line = ("gate", *same, "--mode", "device-tensors", "--duration", 1)
    ran = ortbench(*line, "--metric", "device-tensors.d2h.median", "--out", tmp_path)
    assert ran.code == 1
    assert "nothing could be compared: device-tensors: d2h copies nothing" in ran.err
