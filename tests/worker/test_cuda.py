"""ONNX Runtime's own CUDA EP, on a CUDA runtime that computes on the CPU (tests/softcuda): what is left for a GPU to show is
what only hardware does. Lower limits of times are the device's by definition; nothing else about time is asserted.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from ortbench.model.modes import ASYNC, DEVICE, HOST_ACCESSIBLE, MODES, PIPELINED, RESIDENT
from ortbench.model.result import Result
from ortbench.model.result_file import from_data
from tests import softcuda
from tests.conftest import MODELS, ROOT, cases, measure, ortbench
from tests.softcuda import Config, Record
from tests.truth import Span, relu_model, rounds_of, share_hidden

pytestmark = pytest.mark.process

CUDA = "CUDAExecutionProvider"
TINY = MODELS / "tiny.onnx"
MS = 1_000_000
KERNEL_MS = 2
QUICK = ("--iterations", 6, "--warmup", 2)


def with_knobs(prefix: tuple[str, ...], config: Config) -> tuple[str, ...]:
    return ("env", *(f"{name}={value}" for name, value in config.environ().items()), *prefix)


@pytest.fixture(scope="module")
def everything(
    software_cuda: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], list[Record]]:
    """A run in all modes, and what the device did."""
    folder = tmp_path_factory.mktemp("everything")
    trace = folder / "trace"
    config = Config(kernel_us=KERNEL_MS * 1000, copy_latency_us=500, trace=trace)
    arguments = ["--ep", "cuda", "--mode", "all", "--depth", 3, *QUICK]
    inputs = ["--input", MODELS / "tiny.inputs.npz", "--expect", MODELS / "tiny.expected.npz"]
    prefix = with_knobs(software_cuda, config)
    result = measure(TINY, *inputs, *arguments, out=folder / "out", prefix=prefix)
    return result, softcuda.records(trace)


def during(result: dict[str, Any], records: list[Record], mode: str) -> list[Record]:
    """What the device did while samples of a mode's total were taken; of several runs in a sample, the first."""
    case = cases(result)[mode]
    samples, found = list(case["samples"]["latency"]), []
    for _, n, start in case["blocks"]["latency"]:
        stop = start + sum(samples[:n])
        del samples[:n]
        found += [record for record in records if start <= record.begin_ns and record.end_ns <= stop]
    return found


def copies(records: list[Record]) -> set[tuple[str, str]]:
    return {(record.engine, record.host) for record in records if record.engine in ("h2d", "d2h")}


def test_all_modes_give_the_expected_outputs(everything: tuple[dict[str, Any], list[Record]]) -> None:
    result, _ = everything
    assert {
        mode: (case["status"], case["checks"]["outputs"]["verdict"]) for mode, case in cases(result).items()
    } == dict.fromkeys(MODES, ("ok", "passed"))
    assert result["warnings"] == []
    target = result["target"]
    assert (target["ep"], target["ep_library"]) == (CUDA, "onnxruntime/capi/libonnxruntime_providers_cuda.so")
    assert target["memory"] == {
        "kind": "ep-device",
        "default": "CUDA (DEFAULT)",
        "host_accessible": "CUDA host accessible (HOST_ACCESSIBLE)",
    }
    assert target["device"]["vendor_id"] == softcuda.VENDOR_ID


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("cpu-tensors", {("h2d", "pageable"), ("d2h", "pageable")}),
        ("device-tensors", {("h2d", "pageable"), ("d2h", "pageable")}),
        ("device-resident", set()),
        ("host-accessible", set()),
        ("device-tensors-pinned", {("h2d", "pinned"), ("d2h", "pinned")}),
        ("pipelined", {("h2d", "pinned"), ("d2h", "pinned")}),
        ("device-resident-async", set()),
        ("cpu-tensors-pinned", {("h2d", "pinned"), ("d2h", "pageable")}),
    ],
)
def test_each_mode_copies_as_it_says(
    mode: str, expected: set[tuple[str, str]], everything: tuple[dict[str, Any], list[Record]]
) -> None:
    # A sync may be reading back a word of four bytes; where a busy machine made its proof doubt that, all outputs.
    seen = [record for record in during(*everything, mode) if record.bytes != 4]
    doubted = cases(everything[0])[mode]["sync"]["how"].startswith("reading the outputs back")
    sync: set[tuple[str, str]] = {("d2h", "pageable")} if doubted else set()
    assert copies(seen) - sync == expected - sync
    assert any(record.engine == "compute" for record in seen)


def test_host_accessible_says_how_its_outputs_are_bound(everything: tuple[dict[str, Any], list[Record]]) -> None:
    how = cases(everything[0])[HOST_ACCESSIBLE]["checks"]["zero_copy"]["how"]
    assert (
        "bound as device memory since HOST_ACCESSIBLE outputs fail here: Error in execution: dst_data != src_data"
        in how
    )


def test_no_run_is_shorter_than_its_kernels(everything: tuple[dict[str, Any], list[Record]]) -> None:
    """Above all none of the runs that nobody waited for: copies go by another stream and could pass them."""
    for mode, case in cases(everything[0]).items():
        assert min(case["samples"]["latency"]) >= KERNEL_MS * MS, mode


def test_asynchronous_runs_do_not_wait_by_themselves(everything: tuple[dict[str, Any], list[Record]]) -> None:
    assert cases(everything[0])[ASYNC]["sync"]["kind"] != "run"


def test_a_graph_is_captured_and_replayed(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(trace=trace))
    result = measure(TINY, "--ep", "cuda", "--cuda-graph", *QUICK, out=tmp_path / "out", prefix=prefix)
    found = cases(result)
    for mode in (DEVICE, RESIDENT):
        assert found[mode]["checks"]["graph"]["verdict"] == "passed"
        assert any(record.engine == "graph" for record in during(result, softcuda.records(trace), mode))
    assert found["cpu-tensors"]["checks"].get("graph") is None
    assert not any(record.engine == "graph" for record in during(result, softcuda.records(trace), "cpu-tensors"))


def test_the_eps_own_option_of_graphs_is_refused(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    ran = ortbench(
        "run", TINY, "--ep", "cuda", "--ep-option", "enable_cuda_graph=1", "--out", tmp_path, prefix=software_cuda
    )
    assert ran.code == 2
    assert ran.error_line == (
        "--ep-option enable_cuda_graph: use --cuda-graph, which captures only where addresses are fixed"
    )


def test_kernels_run_on_a_stream_of_the_users(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(trace=trace))
    arguments = ["--ep", "cuda", "--mode", RESIDENT, *QUICK]
    for name, option in (("own", []), ("theirs", ["--stream", "ort"])):
        result = measure(TINY, *arguments, *option, out=tmp_path / name, prefix=prefix)
        assert cases(result)[RESIDENT]["checks"]["outputs"]["verdict"] == "passed"
        assert result["target"]["stream"] == (option[-1] if option else None)
        begun = cases(result)[RESIDENT]["blocks"]["latency"][0][2]
        seen = [record for record in softcuda.records(trace) if record.begin_ns >= begun]
        assert len({record.stream for record in seen if record.engine == "compute"}) == 1


def test_dynamic_outputs_are_allocated_on_the_device(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    result = measure(TINY, "--ep", "cuda", "--dynamic-outputs", *QUICK, out=tmp_path, prefix=software_cuda)
    assert [cases(result)[mode]["checks"]["outputs"]["verdict"] for mode in (DEVICE, RESIDENT)] == ["passed", "passed"]


def test_copies_inside_the_graph_are_found_and_named(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    island = MODELS / "cpu_island.onnx"
    arguments = ["--ep", "cuda", "--mode", "cpu-tensors", "--measure-nodes", *QUICK]
    result = measure(island, *arguments, out=tmp_path, prefix=software_cuda)
    assert result["placement"]["memcpy_nodes"] == 2
    moved = {(copy["tensor"], copy["direction"], copy["forced_by"][0]["op"]) for copy in result["nodes"]["memcpy"]}
    assert moved == {("matrices", "to host", "Det"), ("determinants", "from host", "Det")}


def test_a_policy_chooses_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    result = measure(TINY, "--ep", "prefer-gpu", *QUICK, out=tmp_path, prefix=software_cuda)
    assert (result["target"]["ep"], result["target"]["device"]["vendor_id"]) == (CUDA, softcuda.VENDOR_ID)


def test_where_no_ep_device_is_found_it_is_used_by_name(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """As in a container that shows no card in /sys."""
    folder = software_cuda[-1]
    ran = ortbench("run", TINY, "--ep", "cuda", *QUICK, "--out", tmp_path, "--json", "-", LD_LIBRARY_PATH=folder)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert [warning["code"] for warning in result["warnings"]] == ["named-device"]
    assert result["target"]["memory"] == {"kind": "named-device", "default": "cuda:0", "host_accessible": None}
    status = {mode: case["status"] for mode, case in cases(result).items()}
    assert status == {
        "cpu-tensors": "ok",
        "device-tensors": "ok",
        "device-resident": "ok",
        "host-accessible": "unsupported",
    }


def test_the_sweep_tells_pinned_from_ordinary_memory(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(trace=trace))
    arguments = ["--ep", "cuda", "--max-size", "64kB", "--duration", 1, "--out", tmp_path / "out"]
    ran = ortbench("bandwidth", *arguments, prefix=prefix)
    assert ran.code == 0, ran.err
    moved = {(record.engine, record.host) for record in softcuda.records(trace) if record.bytes == 64000}
    assert moved == {(way, host) for way in ("h2d", "d2h") for host in ("pageable", "pinned")}


def test_a_device_without_memory_left_is_one_clear_line(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    prefix = with_knobs(software_cuda, Config(memory_gb=0.01))
    ran = ortbench("run", MODELS / "copy_bound.onnx", "--ep", "cuda", "--out", tmp_path, prefix=prefix)
    assert ran.code == 1
    assert "Failed to allocate memory" in ran.error_line


def test_a_kernel_that_the_device_has_not_fails_by_name(software_cuda: tuple[str, ...]) -> None:
    """What softcuda cannot do it says: no figure of this file rests on work that was left out."""
    text = "import onnxruntime, sys; from ortbench.worker import first_run, providers, session; from ortbench.plan.target import Inputs, Target; t = Target(ep='cuda'); m = session.open_model(sys.argv[1], t, providers.find(t)); first_run.make_data(sys.argv[1], m, Inputs())"
    line = [*software_cuda, sys.executable, "-c", text, str(MODELS / "transformer_ids.onnx")]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "softcuda: it has no kernel _ZN11onnxruntime4cuda13_GatherKernel" in done.stderr


def test_nvml_is_read_before_during_and_after(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """By the package nvidia-ml-py, from a library of NVML that softcuda is too."""
    prefix = with_knobs(software_cuda, Config(slowed=0x08))
    result = measure(TINY, "--ep", "cuda", "--mode", "cpu-tensors", *QUICK, out=tmp_path, prefix=prefix)
    (gpu,) = result["environment"]["gpus"]
    assert gpu["name"] == "softcuda (no GPU)"
    assert (gpu["sm_mhz"], gpu["sm_mhz_max"], gpu["memory_mhz"], gpu["memory_bytes"]) == (
        1000,
        1500,
        2000,
        8_000_000_000,
    )
    readings = result["environment"]["gpu_readings"]
    assert len(readings) >= 2
    for reading in readings:
        assert (reading["sm_mhz"], reading["temperature_c"], reading["power_w"], reading["reasons"]) == (
            1000,
            40,
            75.5,
            8,
        )
    (warning,) = result["warnings"]
    assert warning["code"] == "gpu-state"
    assert warning["message"] == "GPU 0: it was slowed down by a hardware slowdown in 100% of the readings"


@pytest.mark.parametrize(("capability", "there"), [(8.9, True), (9.0, False)])
def test_tensorrt_rtx_up_to_its_engines(
    capability: float, there: bool, software_cuda: tuple[str, ...], tmp_path: Path
) -> None:
    """Its EP's devices, memory, streams and copies; what it needs a GPU for is one line."""
    if importlib.util.find_spec("onnxruntime_ep_nv_tensorrt_rtx") is None:
        pytest.skip(
            "onnxruntime-ep-nv-tensorrt-rtx is not installed (it brings NVIDIA's TensorRT, under its own licence)"
        )
    prefix = with_knobs(software_cuda, Config(capability=capability))
    ep = ["--ep", "nv-tensorrt-rtx", "--out", tmp_path]
    sweep = ortbench("bandwidth", *ep, "--max-size", "64kB", "--duration", 1, prefix=prefix)
    run = ortbench("run", TINY, *ep, *QUICK, prefix=prefix)
    assert run.code == 1
    if there:
        assert sweep.code == 0, sweep.err
        assert "TensorRTRTX (DEFAULT) and TensorRTRTX host accessible (HOST_ACCESSIBLE)" in sweep.out
        assert "Failed to create serialized engine" in run.error_line
    else:
        assert sweep.code == 1
        assert "finds no device it can use" in sweep.error_line


ATTEMPTS = 5  # see tests/jobs/test_truth.py


@pytest.mark.timing
def test_the_pipelines_hidden_share_is_that_of_the_trace(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    seen = []
    for attempt in range(ATTEMPTS):
        trace = tmp_path / f"trace{attempt}"
        prefix = with_knobs(software_cuda, Config(kernel_us=6000, copy_latency_us=2000, trace=trace))
        arguments = ["--ep", "cuda", "--mode", PIPELINED, "--iterations", 18, "--warmup", 2]
        result = measure(model, *arguments, out=tmp_path / str(attempt), prefix=prefix)
        share = cases(result)[PIPELINED]["metrics"]["hidden_share"]["value"]
        true = median(hidden_shares(from_data(result, "result"), softcuda.records(trace)))
        seen.append((share, true))
        if abs(share - true) <= 0.05 and true > 0.9:
            return
    raise AssertionError(seen)


def hidden_shares(result: Result, records: list[Record]) -> list[float]:
    """Of each sample of `pipelined`, by what the device's engines did."""
    computed = spans(records, "compute")
    begins, ends = np.array(computed).T
    return [
        share_hidden(within(spans(records, "h2d", "d2h"), part), within(computed, part))
        for part in rounds_of(result, begins, ends)
    ]


def spans(records: list[Record], *engines: str) -> list[Span]:
    return sorted((record.begin_ns, record.end_ns) for record in records if record.engine in engines)


def within(found: list[Span], part: Span) -> list[Span]:
    cut = [(max(begin, part[0]), min(end, part[1])) for begin, end in found]
    return [(begin, end) for begin, end in cut if begin < end]


def test_an_operator_that_needs_cudnn_says_where_to_get_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "compute_bound.onnx", "--ep", "cuda", "--out", tmp_path, prefix=software_cuda)
    assert ran.code == 1
    assert ran.error_line.startswith(
        "the first run failed, as cuDNN is missing (it comes with: pip install 'onnxruntime-gpu[cuda,cudnn]'): "
    )


def test_outputs_that_differ_may_be_tf32(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    with np.load(MODELS / "tiny.expected.npz") as expected:
        np.savez(tmp_path / "other.npz", allow_pickle=False, y=expected["y"] * np.float32(1.002))
    other = ["--input", MODELS / "tiny.inputs.npz", "--expect", tmp_path / "other.npz", "--out", tmp_path / "out"]
    few = ["--iterations", 1, "--warmup", 1, "--mode", "cpu-tensors"]
    ran = ortbench("run", TINY, "--ep", "cuda", *other, *few, prefix=software_cuda)
    assert ran.code == 0, ran.err
    assert "CUDAExecutionProvider is likely to compute in a lower precision" in " ".join(ran.out.split())
    strict = ortbench("run", TINY, "--ep", "cuda", *other, *few, "--strict-outputs", prefix=software_cuda)
    assert strict.code == 1
    assert "CUDAExecutionProvider may compute float32 as TF32, --ep-option use_tf32=0 changes that" in strict.error_line
    option = ["--ep-option", "use_tf32=0", *few, "--out", tmp_path / "out"]
    assert ortbench("run", TINY, "--ep", "cuda", *option, prefix=software_cuda).code == 0
