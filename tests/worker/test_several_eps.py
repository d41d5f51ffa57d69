"""Sessions in which several EPs have nodes: two builds of the reference device, with names and operators of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnxruntime
import pytest

from ortbench.model.result import Case
from ortbench.model.result_file import load
from ortbench.worker import opening, streams
from tests.conftest import device_library, modes, ortbench
from tests.forks import MAIN
from tests.importing import FOLDERS
from tests.refdevice import Config, Trace
from tests.truth import COPIES, is_kind, recorded

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("clock")]

GPU, CPU = "SimGpu", "SimCpu"
OPERATORS = {GPU: ("Relu", "Sigmoid"), CPU: ("Tanh",)}
BYTES = 1 << 16

# x and y are for the GPU, w and z for the CPU.
APART = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[{BYTES // 4}] x, float[{BYTES // 4}] w) => (float[{BYTES // 4}] y, float[{BYTES // 4}] z) {{
  a = Relu(x) b = Sigmoid(a) y = Relu(b) z = Tanh(w)
}}"""
# The input is for the CPU, the output for the GPU.
IN_ROW = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[{BYTES // 4}] x) => (float[{BYTES // 4}] y) {{ a = Tanh(x) b = Sigmoid(a) y = Relu(b) }}"""


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both as plugin packages, in front of which no other EP is taken for the CPU."""
    folder = tmp_path_factory.mktemp("packages")
    for name, operators in OPERATORS.items():
        library = str(device_library(name=name, operators=operators))
        text = f"get_library_path = lambda: {library!r}\nget_ep_name = lambda: '{name}ExecutionProvider'\n"
        (folder / f"onnxruntime_{name.lower()}.py").write_text(text)
    (folder / "onnxruntime_ep_openvino.py").write_text("# hides the package of that name\n")
    return folder


def run(
    packages: Path, folder: Path, *arguments: object, text: str = APART, gpu: Any = (), cpu: Any = (), **both: Any
) -> dict[str, Case]:
    """The cases of a model on both, by mode."""
    model = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    knobs = {"compute_us": 500, **both}
    environ = Config(**{**knobs, **dict(gpu)}).environ(GPU)
    environ |= Config(**{"cpu": True, "default_memory": False, **knobs, **dict(cpu)}).environ(CPU)
    line = ["--ep", "prefer-gpu", "--out", folder / "out", *arguments, "--warmup", 1]
    ran = ortbench("run", model, *line, **environ, **{MAIN: "tests.importing:main", FOLDERS: str(packages)})
    assert ran.code == 0, ran.err
    (path,) = (folder / "out").glob("*/result.json")
    return {case.mode: case for case in load(path).cases}


@pytest.mark.wide
def test_each_tensor_is_bound_in_its_own_memory(packages: Path, tmp_path: Path) -> None:
    asked = ("--iterations", 6, *modes("default", "cpu-tensors-pinned", "device-tensors-pinned"))
    traces = {name: {"trace": tmp_path / name} for name in OPERATORS}
    found = run(packages, tmp_path, *asked, gpu=traces[GPU], cpu=traces[CPU])
    assert {case.status for case in found.values()} == {"ok"}
    copied = {"device-tensors": 2, "device-resident": 0, "host-accessible": 0, "device-tensors-pinned": 2}
    (path,) = (tmp_path / "out").glob("*/result.json")
    for name in OPERATORS:
        trace = Trace.read(tmp_path / name)
        for mode, copies in copied.items():
            for events in recorded(load(path), found[mode], "latency", trace):
                moved = events[is_kind(events, *COPIES) & (events["bytes"] == BYTES)]
                # Between its two memories that are both the host's, the CPU copies for device-tensors-pinned as well as not.
                assert len(moved) == copies or (name, mode) == (CPU, "device-tensors-pinned"), (name, mode)
    assert (found["device-tensors"].bytes_h2d, found["device-tensors"].bytes_d2h) == (2 * BYTES, 2 * BYTES)
    assert (found["cpu-tensors"].bytes_h2d, found["cpu-tensors"].bytes_d2h) == (None, None)


@pytest.mark.parametrize(
    ("version", "places", "problem", "is_told"),
    [
        ("1.30.0", ("one", "other"), None, True),
        ("1.30.0", ("one", None), None, False),  # None: the host's
        ("1.30.0", ("one", "other"), "no streams", False),
        ("1.30.1", ("one", "other"), None, False),
    ],
)
def test_a_version_that_loses_streams_is_a_warning_of_sessions_on_several_devices(
    version: str, places: tuple[str | None, ...], problem: str | None, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", version)
    monkeypatch.setattr(streams, "stream_problem", lambda _: problem)
    several = [SimpleNamespace(own=it, is_host_only=it is None) for it in places]
    for inputs, outputs in ((several, []), ([], several)):
        model: Any = SimpleNamespace(locations=SimpleNamespace(inputs=inputs, outputs=outputs), provider=None)
        told = [(it["code"], "issue 32643" in it["message"]) for it in opening.defect_notes(model)]
        assert told == [("runtime-defect", True)] * is_told


@pytest.mark.wide
@pytest.mark.parametrize("text", [APART, IN_ROW], ids=["apart", "in a row"])
@pytest.mark.parametrize(("honesty", "slow"), [("sync", GPU), ("async", GPU), ("async", CPU)])
def test_the_sync_waits_for_both(text: str, honesty: str, slow: str, packages: Path, tmp_path: Path) -> None:
    """Whichever of the two is the slower one; outputs are compared the moment a run is synced."""
    # ONNX Runtime hands on what a CPU leaves in host memory: one that does not wait even then is of no use to anybody.
    kinds = {GPU: honesty, CPU: "async-wait" if honesty == "async" else honesty}
    gpu, cpu = ({"compute_us": 20_000 if name == slow else 200, "honesty": kinds[name]} for name in (GPU, CPU))
    found = run(packages, tmp_path, "--iterations", 3, text=text, gpu=gpu, cpu=cpu)
    assert {case.status for case in found.values()} == {"ok"}
    assert min(ns for it in ("device-resident", "host-accessible") for ns in found[it].samples["latency"]) > 19_000_000


SLOW: Any = {"upload_latency_us": 10_000, "download_latency_us": 10_000}


@pytest.mark.parametrize(("copying", "verdict"), [(None, "passed"), (GPU, "unclear"), (CPU, "unclear")])
def test_zero_copy_is_proved_for_both_or_not_at_all(
    copying: str | None, verdict: str, packages: Path, tmp_path: Path
) -> None:
    gpu, cpu = ({"ha_copies": name == copying} for name in (GPU, CPU))
    wanted = ("--iterations", 3, *modes("device-resident", "host-accessible"))
    found = run(packages, tmp_path, *wanted, gpu=gpu, cpu=cpu, **SLOW)
    proved = found["host-accessible"].checks["zero_copy"]
    assert proved["verdict"] == verdict, proved["how"]


def test_a_pipeline_over_both_is_refused(packages: Path, tmp_path: Path) -> None:
    found = run(packages, tmp_path, *modes("cpu-tensors", "pipelined"), "--iterations", 2)
    assert found["pipelined"].status == "unsupported"
    assert "in memories of several EPs" in (found["pipelined"].reason or "")
