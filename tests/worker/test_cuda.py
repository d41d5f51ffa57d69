"""ONNX Runtime's own CUDA EP, on a CUDA runtime that computes on the CPU (tests/softcuda)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.model.modes import DEVICE, MODES, RESIDENT
from tests import softcuda
from tests.conftest import MODELS, cases, measure, ortbench
from tests.softcuda import Config, Record

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
    shared = "CUDA host accessible (HOST_ACCESSIBLE)"
    assert target["memory"] == {"kind": "ep-device", "default": "CUDA (DEFAULT)", "host_accessible": shared}
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


def test_no_run_is_shorter_than_its_kernels(everything: tuple[dict[str, Any], list[Record]]) -> None:
    """Above all none of the runs that nobody waited for: copies go by another stream and could pass them."""
    for mode, case in cases(everything[0]).items():
        assert min(case["samples"]["latency"]) >= KERNEL_MS * MS, mode


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


def test_kernels_run_on_a_stream_of_the_users(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(trace=trace))
    arguments = ["--ep", "cuda", "--mode", RESIDENT, *QUICK]
    result = measure(TINY, *arguments, "--stream", "ort", out=tmp_path / "out", prefix=prefix)
    assert cases(result)[RESIDENT]["checks"]["outputs"]["verdict"] == "passed"
    assert result["target"]["stream"] == "ort"
    begun = cases(result)[RESIDENT]["blocks"]["latency"][0][2]
    seen = [record for record in softcuda.records(trace) if record.begin_ns >= begun]
    assert len({record.stream for record in seen if record.engine == "compute"}) == 1


def test_where_no_ep_device_is_found_it_is_used_by_name(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """As in a container that shows no card in /sys."""
    folder = software_cuda[-1]
    ran = ortbench("run", TINY, "--ep", "cuda", *QUICK, "--out", tmp_path, "--json", "-", LD_LIBRARY_PATH=folder)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert [warning["code"] for warning in result["warnings"]] == ["named-device"]
    assert result["target"]["memory"] == {"kind": "named-device", "default": "cuda:0", "host_accessible": None}
    status = [case["status"] for case in result["cases"]]
    assert status == ["ok", "ok", "ok", "unsupported"]  # host-accessible


def test_an_operator_that_needs_cudnn_says_where_to_get_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "compute_bound.onnx", "--ep", "cuda", "--out", tmp_path, prefix=software_cuda)
    assert ran.code == 1
    assert ran.error_line.startswith(
        "the first run failed, as cuDNN is missing (it comes with: pip install 'onnxruntime-gpu[cuda,cudnn]'): "
    )
