"""ONNX Runtime's own CUDA EP, on a CUDA runtime that computes on the CPU (tests/softcuda), and on its card."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ortbench.model.modes import DEVICE, MODES, RESIDENT
from tests import softcuda
from tests.conftest import MODELS, cases, command, measure, ortbench
from tests.softcuda import Card, Config, Record

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


def test_a_graph_is_captured_and_replayed_on_a_stream_of_the_users(
    software_cuda: tuple[str, ...], tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(kernel_us=KERNEL_MS * 1000, trace=trace))
    asked = ("--ep", "cuda", "--cuda-graph", "--stream", "ort")
    result = measure(TINY, *asked, *QUICK, out=tmp_path / "out", prefix=prefix)
    records, found = softcuda.records(trace), cases(result)
    assert result["target"]["stream"] == "ort"
    for mode in (DEVICE, RESIDENT):
        done = during(result, records, mode)
        assert [found[mode]["checks"][it]["verdict"] for it in ("graph", "outputs")] == ["passed", "passed"]
        assert len({it.stream for it in done if it.engine == "graph"}) == 1
    assert found["cpu-tensors"]["checks"].get("graph") is None
    plain = during(result, records, "cpu-tensors")
    assert "graph" not in {it.engine for it in plain}
    assert len({it.stream for it in plain if it.engine == "compute"}) == 1


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


PATIENCE_S = 120.0


def wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def drawn(found: dict[str, Any], trace: Path) -> float:
    """What the law says that the work drew which ended in the stretch, J a run; it counts when it ends."""
    begin = found["start_ns"]
    end = begin + sum(seconds for _, seconds, _ in found["parts"]) * 1e9
    watts = {"compute": Card.KERNEL_W, "h2d": Card.COPY_W, "d2h": Card.COPY_W}
    inside = [it for it in softcuda.records(trace) if it.engine in watts and begin <= it.end_ns <= end]
    joules = sum(watts[it.engine] * (it.end_ns - it.begin_ns) / 1e9 for it in inside)
    return float(joules / sum(runs for runs, _, _ in found["parts"]))


def test_energy_is_what_the_law_of_power_says(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """With clocks locked meanwhile, and reset at the end."""
    card, trace = Card(tmp_path / "card"), tmp_path / "trace"
    prefix = with_knobs(software_cuda, Config(kernel_us=5000, card=card.path, trace=trace))
    asked = ("--ep", "cuda", "--mode", "device-tensors", "--iterations", 6, "--warmup", 1, "--measure-energy")
    result = measure(TINY, *asked, "--lock-clocks", "base", out=tmp_path / "out", prefix=prefix)
    case = cases(result)["device-tensors"]
    found, metrics = case["energy"], case["metrics"]
    assert (found["how"], found["of"]) == ("counter", "GPU 0")
    joules = metrics["energy"]
    assert metrics["idle_power"]["value"] == pytest.approx(Card.IDLE_W, rel=0.05)
    assert joules["value"] == pytest.approx(drawn(found, trace), rel=0.05)
    assert joules["ci95"][0] < joules["value"] < joules["ci95"][1]
    assert len(found["parts"]) >= 5
    seconds = sum(seconds for _, seconds, _ in found["parts"])
    assert seconds > 1.5
    assert metrics["power"]["value"] == pytest.approx(sum(it for _, _, it in found["parts"]) / seconds, rel=1e-3)
    assert result["environment"]["locked_clocks"] == "base"
    assert {reading["sm_mhz"] for reading in result["environment"]["gpu_readings"]} == {900}
    assert card.locked_mhz == 0


def test_rounds_held_back_in_a_known_time_are_left_out(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """The first half second of a measurement of at least 1.5 s."""
    prefix = with_knobs(software_cuda, Config(kernel_us=10_000, slowed=0x40, slowed_until_s=0.5))
    asked = ("--ep", "cuda", "--mode", "device-resident", "--iterations", 150, "--warmup", 1)
    result = measure(TINY, *asked, out=tmp_path, prefix=prefix)
    found, case = result["throttled"], cases(result)["device-resident"]
    assert (found["reasons"], found["left_out"]) == (["its temperature (hardware)"], True)
    assert 0 < len(found["rounds"]) < found["of"] == 50
    assert found["rounds"] == list(range(len(found["rounds"])))
    assert len(case["left_out"]["samples"]["latency"]) + len(case["samples"]["latency"]) == 150
    # No block that is in the figures began before a reading that says that the card is free again.
    held = [it["at_ns"] for it in result["environment"]["gpu_readings"] if it["reasons"]]
    assert all(start > max(held) for _, _, start in case["blocks"]["latency"])


@pytest.mark.parametrize(
    ("number", "of_worker"), [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)]
)
def test_clocks_are_reset_however_the_run_ends(
    number: signal.Signals, of_worker: bool, software_cuda: tuple[str, ...], tmp_path: Path
) -> None:
    """Ended by a signal, killed, or with its worker killed, as an EP that crashes does."""
    card = Card(tmp_path / "card")
    line = command("run", TINY, "--ep", "cuda", "--mode", DEVICE, "--precision", 0, "--duration", 600, "--lock-clocks", 1200,
                   "--out", tmp_path / "out", prefix=with_knobs(software_cuda, Config(card=card.path)))  # fmt: skip
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: card.locked_mhz == 1200)
            children = psutil.Process(process.pid).children()
            (worker,) = (it for it in children if any("worker" in word for word in it.cmdline()))
        except BaseException:
            process.kill()
            raise
        os.kill(worker.pid if of_worker else process.pid, number)
        process.wait(PATIENCE_S)
    assert process.returncode == (1 if of_worker else 143 if number == signal.SIGTERM else -number)
    wait_for(lambda: card.locked_mhz == 0)


def test_who_may_not_lock_clocks_is_told_what_does_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("run", TINY, "--ep", "cuda", "--mode", "device-tensors", "--out", tmp_path)
    ran = ortbench(*asked, "--lock-clocks", 1200, prefix=software_cuda)
    assert ran.code == 2
    assert ran.error_line == (
        "--lock-clocks 1200: you may not lock the clocks of GPU 0: run 'sudo nvidia-smi -i 0 -lgc 1200,1200' before and "
        "'sudo nvidia-smi -i 0 -rgc' afterwards, without this option"
    )
    assert list(tmp_path.iterdir()) == []
    prefix = with_knobs(software_cuda, Config(card=Card(tmp_path / "card").path))
    ran = ortbench(*asked, "--lock-clocks", 5000, prefix=prefix)
    assert (ran.code, ran.error_line) == (2, "--lock-clocks 5000: GPU 0 does not take it: Invalid Argument")
