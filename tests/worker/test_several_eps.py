"""Sessions in which several EPs have nodes: two builds of the reference device, with names and operators of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from ortbench.model.result import Result
from ortbench.model.result_file import load
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

_PACKAGE = """
def get_library_path(): return {library!r}
def get_ep_name(): return {ep!r}
"""


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both as plugin packages, in front of which no other EP is taken for the CPU."""
    folder = tmp_path_factory.mktemp("packages")
    for name, operators in OPERATORS.items():
        library = device_library(name=name, operators=operators)
        text = _PACKAGE.format(library=str(library), ep=f"{name}ExecutionProvider")
        (folder / f"onnxruntime_{name.lower()}.py").write_text(text)
    (folder / "onnxruntime_ep_openvino.py").write_text("# hides the package of that name\n")
    return folder


def run(packages: Path, folder: Path, text: str, gpu: Config, cpu: Config, *arguments: object) -> tuple[Result, str]:
    """The result of a model on both, and what was printed."""
    model = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    environ: Any = {**gpu.environ(GPU), **cpu.environ(CPU), MAIN: "tests.importing:main", FOLDERS: str(packages)}
    line = ["--ep", "prefer-gpu", "--out", folder / "out", *arguments]
    ran = ortbench("run", model, *line, **environ)
    assert ran.code == 0, ran.err
    (path,) = (folder / "out").glob("*/result.json")
    return load(path), " ".join(ran.out.split())


def knobs(**more: object) -> tuple[Config, Config]:
    """Those of the GPU and of the CPU."""
    return Config(compute_us=500, **more), Config(cpu=True, default_memory=False, compute_us=500, **more)  # type: ignore[arg-type]


@pytest.mark.wide
def test_each_tensor_is_bound_in_its_own_memory(packages: Path, tmp_path: Path) -> None:
    traces = {GPU: tmp_path / "gpu", CPU: tmp_path / "cpu-tensors"}
    gpu, cpu = (
        Config(compute_us=500, trace=traces[GPU]),
        Config(cpu=True, default_memory=False, compute_us=500, trace=traces[CPU]),
    )
    asked = ("--iterations", 6, "--warmup", 1, *modes("default", "cpu-tensors-pinned", "device-tensors-pinned"))
    result, _ = run(packages, tmp_path, APART, gpu, cpu, *asked)
    found = {case.mode: case for case in result.cases}
    assert {mode: case.status for mode, case in found.items()} == dict.fromkeys(found, "ok")
    for name, path in traces.items():
        trace = Trace.read(path)
        for mode, copies in {
            "device-tensors": 2,
            "device-resident": 0,
            "host-accessible": 0,
            "device-tensors-pinned": 2,
        }.items():
            for events in recorded(result, found[mode], "latency", trace):
                moved = events[is_kind(events, *COPIES) & (events["bytes"] == BYTES)]
                # Between its two memories that are both the host's, the CPU copies for device-tensors-pinned as well as not.
                assert len(moved) == copies or (name, mode) == (CPU, "device-tensors-pinned"), (name, mode)
    assert (found["device-tensors"].bytes_h2d, found["device-tensors"].bytes_d2h) == (2 * BYTES, 2 * BYTES)
    assert (found["cpu-tensors"].bytes_h2d, found["cpu-tensors"].bytes_d2h) == (None, None)


@pytest.mark.wide
@pytest.mark.parametrize("text", [APART, IN_ROW], ids=["apart", "in a row"])
@pytest.mark.parametrize("honesty", ["sync", "async"])
def test_the_sync_waits_for_both(text: str, honesty: str, packages: Path, tmp_path: Path) -> None:
    """Whichever of the two is the slower one; outputs are compared the moment a run is synced."""
    # ONNX Runtime hands on what a CPU leaves in host memory: one that does not wait even then is of no use to anybody.
    at_the_end = "async-wait" if honesty == "async" else honesty
    for slow in (GPU, CPU):
        folder = tmp_path / slow
        folder.mkdir()
        times = {name: 20_000 if name == slow else 200 for name in (GPU, CPU)}
        gpu = Config(compute_us=times[GPU], honesty=honesty)  # type: ignore[arg-type]
        cpu = Config(cpu=True, default_memory=False, compute_us=times[CPU], honesty=at_the_end)  # type: ignore[arg-type]
        result, _ = run(packages, folder, text, gpu, cpu, "--iterations", 3, "--warmup", 1)
        found = {case.mode: case for case in result.cases}
        assert {mode: case.status for mode, case in found.items()} == dict.fromkeys(found, "ok")
        for mode in ("device-resident", "host-accessible"):
            assert min(found[mode].samples["latency"]) > 19_000_000, (slow, mode)


def test_zero_copy_is_proved_for_both(packages: Path, tmp_path: Path) -> None:
    slow = {"upload_latency_us": 10_000, "download_latency_us": 10_000}
    result, _ = run(packages, tmp_path, APART, *knobs(**slow), "--iterations", 3, "--warmup", 1)
    proved = next(case.checks["zero_copy"] for case in result.cases if case.mode == "host-accessible")
    assert proved["verdict"] == "passed", proved["how"]
    assert "than with device-resident" in proved["how"], proved["how"]
    assert "copying in" in proved["how"]


@pytest.mark.parametrize("copying", [GPU, CPU])
def test_a_copy_inside_one_of_them_is_enough_for_doubt(copying: str, packages: Path, tmp_path: Path) -> None:
    slow = {"upload_latency_us": 10_000, "download_latency_us": 10_000}
    gpu = Config(compute_us=500, ha_copies=copying == GPU, **slow)  # type: ignore[arg-type]
    cpu = Config(cpu=True, default_memory=False, compute_us=500, ha_copies=copying == CPU, **slow)  # type: ignore[arg-type]
    result, _ = run(packages, tmp_path, APART, gpu, cpu, "--iterations", 3, "--warmup", 1)
    proved = next(case.checks["zero_copy"] for case in result.cases if case.mode == "host-accessible")
    assert proved["verdict"] == "unclear", proved["how"]


def test_a_pipeline_over_both_is_refused(packages: Path, tmp_path: Path) -> None:
    model = [*modes("cpu-tensors", "pipelined"), "--iterations", 2, "--warmup", 1]
    result, _ = run(packages, tmp_path, APART, *knobs(), *model)
    assert result.cases[1].status == "unsupported"
    assert "in memories of several EPs" in (result.cases[1].reason or "")
