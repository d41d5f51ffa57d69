"""Where tensors are, and what is copied inside the graph, on EPs with a node on the CPU; compared with the device's trace."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from ortbench.model.result import Result
from tests.conftest import device_library, ortbench
from tests.refdevice import Config
from tests.truth import run_on_device
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


def test_a_gate_on_a_copy_of_nothing(image: Path, clock: Clock, tmp_path: Path) -> None:
    """It is over when the rest is decided, and says what is wrong where there is no rest."""
    same = ("--model", image, "--baseline-model", image, "--ep-library", device_library(**WITHOUT_CLIP))
    line = ("gate", *same, "--mode", "device-tensors", "--duration", 1)
    ran = ortbench(*line, "--metric", "device-tensors.d2h.median", "--out", tmp_path)
    assert ran.code == 1
    assert "nothing could be compared: device-tensors: d2h copies nothing" in ran.err
