"""Where tensors are, and what is copied inside the graph, where a node stays on the CPU; compared with the device's trace."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import device_library, modes, ortbench
from tests.expect import there
from tests.refdevice import Config
from tests.truth import run_on_device
from tests.virtual import Clock
from tests.worker import saved

SIZE = 4 * 3 * 64 * 64


def test_an_output_of_a_node_on_the_cpu(clock: Clock, tmp_path: Path) -> None:
    text = """g (float[1,3,64,64] image) => (float[1,3,64,64] adjusted)
        <float half = {0.5}, float one = {1}, float none = {0}>
        { a = Mul(image, half) b = Add(a, half) adjusted = Clip(b, none, one) }"""
    image, library = saved(tmp_path / "image.onnx", text), device_library(operators=("Mul", "Add"))
    line = (*modes("default", "cpu-tensors-pinned", "pipelined"), "--depth", 2, "--iterations", 2, "--warmup", 1)
    code, result, out, _ = run_on_device(library, image, Config(), tmp_path, *line)
    assert (code, "warning" in out) == (0, False)
    assert "1 Memcpy node inside the graph: 49.2 kB copied in each inference." in " ".join(out.split())
    copies = {"to_host": {"nodes": 1, "bytes": SIZE}, "from_host": {"nodes": 0, "bytes": 0}}
    assert result.placement["memcpy"] == copies
    default, shared = "RefDevice (DEFAULT)", "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
    given, made = "NumPy array passed to session.run", "NumPy array returned by session.run"
    wanted, own, clip = "the session's memory info", "the mode's own memory", "made by Clip on the CPU"
    places = {case.mode: [(it["memory"], it["why"], it["usual"]) for way in ("inputs", "outputs")
                          for it in there(case.places)[way]] for case in result.cases}  # fmt: skip
    assert places == {
        "cpu-tensors": [("host memory", given, True), ("host memory", made, True)],
        "device-tensors": [(default, wanted, True), ("host memory", clip, False)],
        "device-resident": [(default, wanted, True), ("host memory", clip, False)],
        "host-accessible": [(shared, own, True), ("host memory", clip, False)],
        "cpu-tensors-pinned": [(shared, own, True), ("host memory", made, True)],
        "pipelined": [(default, wanted, True), ("host memory", clip, False)],
    }
    for mode in ("device-tensors", "pipelined"):
        case = there(result.case(mode))
        assert (case.bytes_h2d, case.bytes_d2h, there(case.sync)["d2h"]) == (SIZE, 0, None)
        assert case.stats("h2d") is not None
        assert "d2h" not in case.samples  # not the 80 ns of a call that copies nothing
    # A gate on a copy of nothing says what is wrong where there is nothing else to decide.
    gate = ("gate", "--model", image, "--baseline-model", image, "--ep-library", library, "--mode", "device-tensors")
    ran = ortbench(*gate, "--duration", 1, "--metric", "device-tensors.d2h.median", "--out", tmp_path / "gate")
    assert ran.code == 1
    assert "nothing could be compared: device-tensors: d2h copies nothing" in ran.err
