"""The script for machines with a GPU: its checks exactly, and all of it against the reference device and the CPU EP."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from ortbench.cli import COMMANDS
from tests.conftest import ROOT, Ran
from tests.gpu import checks, further, pack
from tests.gpu.accept import main
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check
from tests.gpu.steps import ENGINE_EPS, FULL, QUICK, Scale, Steps, planned_s
from tests.refdevice import Config

ATTEMPTS = 4  # what a busy machine spoils is measured again


def phase(ns: int) -> dict[str, int]:
    return {"median_ns": ns}


def case(mode: str, **changed: Any) -> dict[str, Any]:
    none: dict[str, Any] = dict.fromkeys(["reason", "zero_copy", "derived", "once", "measured", "graph", "external"])
    phases = {"upload": None, "download": None, "inference": None, "total": phase(1_000_000)}
    return {"mode": mode, "status": "ok", "outputs_match": True, "phases": phases, **none, **changed}


def result(
    *cases: dict[str, Any],
    warnings: tuple[dict[str, str], ...] = (),
    memory: str = "ep-device",
    gpus: tuple[dict[str, Any], ...] = (),
    readings: tuple[dict[str, Any], ...] = (),
    **target: Any,
) -> dict[str, Any]:
    return {
        "cases": list(cases),
        "stopped": "iterations",
        "warnings": list(warnings),
        "setup": {"expected_outputs": True},
        "target": {"memory": {"kind": memory}, **target},
        "environment": {"gpus": list(gpus), "gpu_readings": list(readings)},
    }


COPIED = {
    "runs": 10,
    "run_ns": 9_900_000,
    "upload": {"n": 1, "bytes": 1000, "ns": 2_000_000, "memory": "pageable"},
    "download": {"n": 1, "bytes": 500, "ns": 1_000_000, "memory": "pageable"},
    "kernels_ns": 5_000_000,
}
TIMED = {"upload": phase(2_100_000), "download": phase(990_000), "inference": phase(1), "total": phase(9_700_000)}


def device(mode: str = "device", **changed: Any) -> dict[str, Any]:
    given = {"phases": TIMED, "bytes_in": 1000, "bytes_out": 500, "measured": deepcopy(COPIED), **changed}
    return case(mode, **given)


def test_copies_that_cupti_saw_as_ortbench_did() -> None:
    figures = (
        "upload 2.10 ms by ortbench, 2.00 ms by CUPTI (5.0% apart), 1000 and 1000 bytes; "
        "download 990 µs by ortbench, 1.00 ms by CUPTI (1.0% apart), 500 and 500 bytes; "
    )
    limits = {
        "device-pinned": "limit 5% and equal bytes",
        "device": "ours may be no more than 5% shorter and equal bytes",
    }
    for mode, limit in limits.items():
        assert checks.cupti_phases(result(device(mode)), mode) == Check(
            f"CUPTI's copies against upload and download of {mode}", PASS, figures + limit
        )


@pytest.mark.parametrize(
    ("changed", "in_device"),
    [
        ({"phases": {**TIMED, "upload": phase(2_101_000)}}, PASS),  # the processor's part of copying ordinary memory
        ({"phases": {**TIMED, "download": phase(940_000)}}, FAIL),
        ({"bytes_in": 1001}, FAIL),
        ({"bytes_out": 0}, FAIL),
    ],
)
def test_copies_that_cupti_saw_differently(changed: dict[str, Any], in_device: str) -> None:
    assert checks.cupti_phases(result(device("device-pinned", **changed)), "device-pinned").verdict == FAIL
    assert checks.cupti_phases(result(device(**changed)), "device").verdict == in_device


def test_copies_of_a_run_that_was_cut_short_are_held_against_nothing() -> None:
    cut = device(phases={**TIMED, "upload": None})
    assert checks.cupti_phases(result(cut), "device").verdict == NOT_RUN


def test_without_cupti_the_reason_is_the_results_own() -> None:
    why = {"code": "copies-not-measured", "message": "--measure-copies gave nothing: the package is not installed"}
    for check in (lambda it: checks.cupti_phases(it, "device"), checks.derived_copies):
        found = check(result(device(measured=None), case("cpu"), warnings=(why,)))
        assert (found.verdict, found.figures) == (NOT_RUN, why["message"])
        found = check(result(device(measured=None), case("cpu")))
        assert (found.verdict, found.figures) == (NOT_RUN, "CUPTI was not asked: it sees NVIDIA's EPs only")


@pytest.mark.parametrize(("copies_ns", "verdict"), [(3_299_999, PASS), (2_700_000, PASS), (3_310_000, FAIL), (0, FAIL)])
def test_derived_copies_against_cupti(copies_ns: int, verdict: str) -> None:
    cpu = case("cpu", derived={"copies_ns": copies_ns, "inference_ns": 1}, measured=COPIED)
    assert checks.derived_copies(result(cpu)).verdict == verdict


def test_derived_copies_need_device_resident() -> None:
    lacking = case("device-resident", status="unsupported", reason="no device memory")
    found = checks.derived_copies(result(case("cpu", measured=COPIED), lacking))
    assert (found.verdict, found.figures) == (NOT_RUN, "no device memory")


@pytest.mark.parametrize(("each_ns", "verdict"), [(42_000, PASS), (21_000, PASS), (20_900, FAIL), (84_100, FAIL)])
def test_the_published_sample(each_ns: int, verdict: str) -> None:
    cpu = case("cpu", derived={"copies_ns": each_ns, "inference_ns": 1})
    resident = case("device-resident", once={"upload_ns": 21_000, "download_ns": 21_000})
    assert checks.published_sample(result(cpu, resident)).verdict == verdict
    assert checks.published_sample(result(case("cpu"), resident, memory="host")).verdict == NOT_RUN


NAME = "what is shown"


def test_outputs() -> None:
    why = "no such memory"
    lacking = [case(mode, status="unsupported", reason=why, outputs_match=None) for mode in ("cpu-pinned", "device")]
    equal = checks.outputs(NAME, result(case("cpu"), case("device-resident"), *lacking))
    shown = "cpu, device-resident equal to expected outputs; cpu-pinned, device: no such memory"
    assert equal == Check(NAME, PASS, shown)
    wrong = case("device", status="failed", reason="output y: 1 of 4 values differ", outputs_match=False)
    found = checks.outputs(NAME, result(case("cpu"), wrong))
    assert found == Check(NAME, FAIL, "device: output y: 1 of 4 values differ")
    assert checks.outputs(NAME, result(case("cpu"), case("device", outputs_match=None))).verdict == FAIL
    assert checks.outputs(NAME, result(*lacking)) == Check(NAME, NOT_RUN, "cpu-pinned, device: no such memory")


def test_modes_that_time_ran_out_on_have_not_failed() -> None:
    late = case("device", status="failed", reason="the run ended before it was measured")
    found = checks.outputs(NAME, {**result(case("cpu"), late), "stopped": "interrupted"})
    assert (found.verdict, found.figures) == (PASS, "cpu equal to expected outputs; device: its time was over")
    unseen = {**late, "outputs_match": None}
    assert checks.outputs(NAME, {**result(unseen), "stopped": "interrupted"}).verdict == NOT_RUN
    wrong = {**late, "outputs_match": False}
    assert checks.outputs(NAME, {**result(wrong), "stopped": "interrupted"}).verdict == FAIL


@pytest.mark.parametrize(
    ("code", "said", "verdict"),
    [
        (2, "--cuda-graph: XExecutionProvider captures no graphs; YExecutionProvider do", NOT_RUN),
        (1, "TensorrtExecutionProvider does not load: the shared library libnvinfer.so.10 is missing", NOT_RUN),
        (None, "it was stopped after 20 s", NOT_RUN),
        (2, "No such option: --cuda-graph (see --help)", FAIL),
        (1, "XExecutionProvider could not open m.onnx: out of memory", FAIL),
        (-6, "terminate called after throwing an instance of 'Ort::Exception'", FAIL),
    ],
)
def test_what_an_ep_cannot_do_is_told_from_what_broke(code: int | None, said: str, verdict: str) -> None:
    found = checks.without_result(NAME, code, said, ("--cuda-graph: ", " is missing"))
    assert found == Check(NAME, verdict, said)


REPLAYED = {"id": 1, "proved": True, "how": "the outputs followed inputs that were written in place"}


def test_cuda_graphs_must_be_said_to_be_replayed() -> None:
    plain = result(case("device-resident", phases={"total": phase(1_500_000)}))
    found = checks.graph(NAME, result(case("device", graph=REPLAYED), case("device-resident", graph=REPLAYED)), plain)
    assert found == Check(
        NAME,
        PASS,
        "device, device-resident equal to expected outputs; replayed: the outputs followed inputs that were written in "
        "place; device-resident 1.00 ms (else 1.50 ms)",
    )
    for graph in (None, {**REPLAYED, "proved": False}):
        found = checks.graph(NAME, result(case("device", graph=REPLAYED), case("device-resident", graph=graph)))
        assert found.verdict == FAIL
        assert found.figures == "device-resident: nothing shows that it did what it was asked for"
    assert checks.graph(NAME, result(case("cpu"), case("device", graph=REPLAYED))).verdict == PASS
    why = "XExecutionProvider captured no graph: a run writes to whatever is bound"
    lacking = case("device", status="unsupported", reason=why)
    assert checks.graph(NAME, result(lacking)) == Check(NAME, NOT_RUN, f"device: {why}")


def test_options_of_the_session_must_be_in_the_result() -> None:
    asked = result(case("device"), stream="ort", dynamic_outputs=True)
    other = result(case("device"), stream=None, dynamic_outputs=False)
    assert checks.stream(NAME, asked, "ort") == Check(NAME, PASS, "device equal to expected outputs")
    assert checks.stream(NAME, asked, "cuda-python").verdict == FAIL
    assert checks.stream(NAME, other, "ort").verdict == FAIL
    assert checks.dynamic(NAME, asked).verdict == PASS
    assert checks.dynamic(NAME, other).verdict == FAIL


def test_external_memory_must_be_proved_to_be_read() -> None:
    proved = {"library": "torch", "place": "cuda:0", "proved": True, "how": "the addresses are the library's"}
    found = checks.external(NAME, result(case("device", external=proved)))
    assert found == Check(NAME, PASS, "device equal to expected outputs; in cuda:0: the addresses are the library's")
    for external in (None, {**proved, "proved": False}):
        assert checks.external(NAME, result(case("device", external=external))).verdict == FAIL


def test_the_ep_must_have_been_used_by_its_device() -> None:
    memory = {"kind": "ep-device", "default": "Cuda (DEFAULT)", "host_accessible": "CudaPinned (HOST_ACCESSIBLE)"}
    target: dict[str, Any] = {"ep": "X", "ep_version": "1.31", "ep_library": "onnxruntime/capi/libx.so"}

    def by(kind: str, *warnings: dict[str, str], **changed: Any) -> Check:
        found = result(warnings=warnings, **target)
        found["target"]["memory"] = {**memory, "kind": kind, **changed}
        return checks.ep_device(found)

    name, where = "the EP's device and its memory", "X 1.31 from onnxruntime/capi/libx.so: "
    assert by("ep-device") == Check(name, PASS, f"{where}Cuda (DEFAULT), CudaPinned (HOST_ACCESSIBLE)")
    assert by("ep-device", host_accessible=None).figures.endswith("no HOST_ACCESSIBLE memory")
    why = "X has no EP device here (it broke); it is used by name"
    assert by("named-device", {"code": "named-device", "message": why}) == Check(name, FAIL, f"{where}{why}")
    assert by("host").verdict == NOT_RUN


GPU = {"type": "GPU", "vendor": "NVIDIA", "vendor_id": 0x10DE, "device_id": 0x2335}
H200 = {"name": "NVIDIA H200", "driver": "580.0", "memory_bytes": 1}


def test_what_onnxruntime_chose() -> None:
    def by(device: dict[str, Any], *gpus: dict[str, Any], policy: str = "PREFER_GPU") -> Check:
        return checks.chosen(
            NAME, result(case("cpu"), gpus=gpus, device=device, policy=policy, ep="XExecutionProvider")
        )

    shown = "XExecutionProvider on GPU 2335 of NVIDIA 10de; cpu equal to expected outputs"
    assert by(GPU, H200) == Check(NAME, PASS, shown)
    cpu = {"type": "CPU"}
    assert by(cpu) == Check(NAME, NOT_RUN, "it chose XExecutionProvider: no EP that loads here has a GPU")
    assert by(cpu, H200).verdict == FAIL
    assert by({**GPU, "vendor_id": None}).verdict == FAIL
    assert by(GPU, policy="MAX_PERFORMANCE").verdict == FAIL


PIPELINE = {
    "depth": 3,
    "items": 4,
    "distinct": 4,
    "copies_ns": 3_000_000,
    "hidden_share": 0.905,
    "hidden_ci95": [0.84, 1.0],
    "vs_device": {"ratio": 1.43},
}


def test_pipelined_says_what_it_hides_of_items_with_inputs_of_their_own() -> None:
    def hiding(**changed: Any) -> Check:
        return checks.pipelined("m", result(case("pipelined", phases=TIMED, pipeline={**PIPELINE, **changed})))

    name = "m: pipelined: copies hidden, outputs of every item"
    first, last = "≈90% of 3.00 ms hidden (95 %: 84% to 100%), 3 in flight", "4 of 4 items have inputs of their own"
    assert hiding() == Check(name, PASS, f"{first}, 1.43 times as fast as device; {last}")
    assert hiding(vs_device=None).figures == f"{first}; {last}"
    assert hiding(hidden_share=None).verdict == FAIL
    assert hiding(distinct=1).verdict == FAIL
    assert checks.pipelined("m", result(case("pipelined", pipeline=PIPELINE))).verdict == NOT_RUN  # interrupted
    lacking = case("pipelined", status="unsupported", reason="no streams")
    assert checks.pipelined("m", result(lacking)) == Check(name, NOT_RUN, "no streams")


def test_pinned_and_asynchronous_are_figures() -> None:
    pinned = {"upload": phase(700_000), "download": phase(330_000), "total": phase(4_850_000)}
    both = [device(), case("device-pinned", phases=pinned), case("cpu"), case("cpu-pinned")]
    assert checks.pinned("m", result(*both)) == Check(
        "m: pinned against ordinary host memory",
        PASS,
        "device upload 2.10 ms, pinned 700 µs (3.00×); device download 990 µs, pinned 330 µs (3.00×); "
        "device total 9.70 ms, pinned 4.85 ms (2.00×); cpu total 1.00 ms, pinned 1.00 ms (1.00×)",
    )
    cut_short = result(device(), case("device-pinned", phases={**pinned, "upload": None}))
    assert checks.pinned("m", cut_short).figures == "the time was over before every phase was timed"
    lacking = case("device-pinned", status="unsupported", reason="no pinned memory")
    found = checks.pinned("m", result(device(), lacking))
    assert (found.verdict, found.figures) == (NOT_RUN, "no pinned memory")
    burst = case("device-resident-async", phases={"total": phase(500_000)}, runs_per_sample=20)
    assert checks.asynchronous("m", result(burst, case("device-resident"))) == Check(
        "m: asynchronous runs", PASS, "500 µs a run in bursts of 20, 1.00 ms waited for one by one (2.00×)"
    )
    assert checks.asynchronous("m", result(case("device-resident"))).verdict == NOT_RUN


BEFORE = {
    "at_s": 0.0,
    "gpu": 0,
    "sm_mhz": 1980,
    "memory_mhz": 3201,
    "temperature_c": 31,
    "power_w": 118.4,
    "reasons": 0,
}
AFTER = {**BEFORE, "at_s": 42.5, "temperature_c": 47, "power_w": 301.6}
CAPPED = {**AFTER, "reasons": 4}
SLOWED = "GPU 0: it was slowed down by the power cap in 50% of the readings"


def test_the_state_of_the_gpu_is_in_the_result() -> None:
    def seen(*readings: dict[str, Any], said: tuple[str, ...] = ()) -> Check:
        warnings = tuple({"code": "gpu-state", "message": words} for words in said)
        return checks.gpu_state(result(gpus=(H200,), readings=readings, warnings=warnings))

    spans = "1980 to 1980 MHz SM, 3201 to 3201 MHz memory, 31 to 47 °C, 118 to 302 W"
    found = seen(BEFORE, AFTER)
    assert (found.verdict, found.figures) == (PASS, f"2 readings over 42 s: {spans}; nothing to warn of")
    assert seen(BEFORE, CAPPED, said=(SLOWED,)).figures == f"2 readings over 42 s: {spans}; {SLOWED}"
    assert seen(BEFORE, CAPPED).verdict == FAIL
    assert seen(BEFORE).verdict == FAIL
    without = [{key: value for key, value in it.items() if key != "power_w"} for it in (BEFORE, AFTER)]
    assert seen(*without).figures == "2 readings, without power_w"
    assert seen(*without).verdict == FAIL
    assert checks.gpu_state(result(gpus=())).verdict == NOT_RUN


def test_a_sweep_and_what_a_run_makes_of_it() -> None:
    points = [{"direction": "upload", "bytes": 4000, "status": "ok", "reason": None}]
    peak = {"upload": {"gbps": 55.25, "bytes": 256_000_000, "memory": "host-accessible"}, "download": None}
    found = checks.bandwidth(NAME, {"points": points, "peak": peak})
    shown = "peak: upload 55.2 GB/s with 256 MB from host-accessible memory; 1 copies with their data held"
    assert found == Check(NAME, PASS, shown)
    bad = [{**points[0], "status": "failed", "reason": "3 bytes differ"}]
    assert checks.bandwidth(NAME, {"points": bad, "peak": peak}) == Check(
        NAME, FAIL, "upload of 4.00 kB: 3 bytes differ"
    )
    assert checks.bandwidth(NAME, {"points": [], "peak": peak}).verdict == FAIL
    shares = {"device": {"upload": {"of_sweep": 0.98, "of_peak": 0.9}}, "cpu": {}}
    found = checks.link(NAME, {"link": {"shares": shares}})
    assert found == Check(NAME, PASS, "device upload 98% of single copies, 90% of the peak")
    assert checks.link(NAME, {"link": None}).verdict == FAIL
    assert checks.link(NAME, {"link": {"shares": {}}}).verdict == FAIL


MEMCPY = [
    {"bytes": 65_536, "forced_by": [{"op": "Det", "ep": "CPUExecutionProvider"}]},
    {"bytes": 16_384, "forced_by": [{"op": "Det", "ep": "CPUExecutionProvider"}]},
]


def test_copies_inside_a_graph() -> None:
    several, one = {"X": 5, "CPUExecutionProvider": 1}, {"X": 6}

    def with_nodes(found: dict[str, Any] | None, placed: dict[str, int], **changed: Any) -> Check:
        return checks.nodes(NAME, {**result(**changed), "nodes": found, "placement": {"nodes": placed}})

    found = {"memcpy": MEMCPY, "problem": None}
    shown = "2 Memcpy nodes move 81.9 kB a run, forced by Det on CPUExecutionProvider"
    assert with_nodes(found, several) == Check(NAME, PASS, shown)
    assert with_nodes(found, one, ep="X") == Check(NAME, NOT_RUN, "every node is on X")
    assert with_nodes(found, several, memory="host").verdict == NOT_RUN
    assert with_nodes({"memcpy": [], "problem": "the profile disagrees"}, several) == Check(
        NAME, FAIL, "the profile disagrees"
    )
    why = {"code": "nodes-failed", "message": "--nodes gave nothing: it crashed"}
    assert with_nodes(None, several, warnings=(why,)) == Check(NAME, FAIL, "--nodes gave nothing: it crashed")
    assert with_nodes(None, several).verdict == NOT_RUN  # interrupted


def test_operators_and_timeline() -> None:
    operators = [
        {"op": op, "share": share} for op, share in (("Add", 0.1), ("Conv", 0.7), ("Relu", 0.15), ("Sum", 0.05))
    ]
    found = checks.operators(NAME, {**result(), "nodes": {"runs": 20, "operators": operators}})
    assert found == Check(NAME, PASS, "20 runs profiled, most time in Conv 70%, Relu 15%, Add 10%")
    assert checks.operators(NAME, {**result(), "nodes": None}).verdict == NOT_RUN
    whole = {"traceEvents": [{}, {}], "otherData": {"missing": []}}
    assert checks.trace(NAME, whole) == Check(NAME, PASS, "2 events")
    lacking = {**whole, "otherData": {"missing": ["profiled runs: it crashed"]}}
    assert checks.trace(NAME, lacking) == Check(NAME, FAIL, "profiled runs: it crashed")
    assert checks.trace(NAME, None).verdict == FAIL


def test_devices_and_inspect_say_what_a_run_shows() -> None:
    listed = {
        "hardware": GPU,
        "memory": {"default": "Cuda (DEFAULT)", "host_accessible": "CudaPinned (HOST_ACCESSIBLE)"},
        "streams": {"offered": True},
        "modes": {"cpu": None, "device": None, "pipelined": "no streams"},
    }
    entry = {"name": "X", "problem": None, "devices": [listed]}
    refused = case("pipelined", status="unsupported", reason="no streams")
    ran = result(case("cpu"), case("device"), refused, ep="X")
    assert checks.devices(NAME, {"eps": [entry]}, ran) == Check(
        NAME,
        PASS,
        "X on GPU 10de:2335, memory Cuda (DEFAULT) and CudaPinned (HOST_ACCESSIBLE), streams; unsupported: pipelined",
    )
    assert checks.devices(NAME, {"eps": [entry]}, result(case("pipelined"), ep="X")).verdict == FAIL
    assert checks.devices(NAME, {"eps": [{**entry, "devices": []}]}, ran) == Check(NAME, FAIL, "X: no device")
    assert checks.devices(NAME, {"eps": []}, ran) == Check(NAME, FAIL, "X: it is not listed")
    assert checks.devices(NAME, {"eps": [entry]}, None).verdict == NOT_RUN

    outline = {"placement": {"nodes": {"X": 5, "CPUExecutionProvider": 1}}, "copies": {"memcpy": MEMCPY}}
    assert checks.inspection(NAME, outline, {"nodes": {"memcpy": MEMCPY}}) == Check(
        NAME, PASS, "nodes: 5 on X, 1 on CPUExecutionProvider; 2 Memcpy nodes, 2 in the run"
    )
    assert checks.inspection(NAME, outline, {"nodes": {"memcpy": MEMCPY[:1]}}).verdict == FAIL
    assert checks.inspection(NAME, outline, None).verdict == PASS


def test_an_ep_by_its_name_alone() -> None:
    timed = {"median_ns": 1_000_000, "fence": "run", "wrong": None, "reason": None}
    found = {"reason": None, "memory": "cuda:0", "modes": {"cpu": timed, "device": timed}}
    shown = "memory cuda:0; cpu 1.00 ms (fence: run); device 1.00 ms (fence: run); equal to expected outputs"
    assert checks.named_device(NAME, found) == Check(NAME, PASS, shown)
    wrong = {**found, "modes": {"cpu": timed, "device": {**timed, "wrong": "output y: 1 of 4 values differ"}}}
    assert checks.named_device(NAME, wrong) == Check(NAME, FAIL, "device: output y: 1 of 4 values differ")
    unknown: dict[str, Any] = {"reason": "X is known by its EP device only", "memory": None, "modes": {}}
    assert checks.named_device(NAME, unknown).verdict == NOT_RUN


def test_what_a_mode_costs() -> None:
    held = {"failed": None, "device": {"bytes": 2_000_000, "how": "NVML", "bound": 1000, "card": 2_000_000}}
    drawn = {"how": "counter", "joules": 0.1, "watts": 200.0, "idle_watts": 120.0}
    costs = {"memory": held, "energy": drawn, "spin": {"total_ns": 2_000_000}}
    found = result(case("device", **costs))
    assert further.memory(NAME, found) == Check(NAME, PASS, "device 2.00 MB (NVML; 1.00 kB bound, card 2.00 MB)")
    assert further.drawn(NAME, found) == Check(NAME, PASS, "device 100 mJ a run at 200 W; idle 120 W by counter")
    assert further.without_spin(NAME, found) == Check(NAME, PASS, "device 2.00 ms without")
    lacking = result(case("device", **dict.fromkeys(costs)))
    assert {check(NAME, lacking).verdict for check in (further.memory, further.drawn, further.without_spin)} == {FAIL}
    idle = result(case("device", **{**costs, "energy": {**drawn, "watts": 119.0}}))
    assert further.drawn(NAME, idle).verdict == FAIL
    none = result(case("device", **{**costs, "energy": {"unsupported": "no counter"}}))
    assert further.drawn(NAME, none) == Check(NAME, NOT_RUN, "no counter")
    broken = result(case("device", **{**costs, "memory": {"failed": "it crashed", "device": None}}))
    assert further.memory(NAME, broken) == Check(NAME, FAIL, "device: it crashed")


def test_levels_points_chains_and_programs() -> None:
    level = {"rate": 20.0, "status": "ok", "reason": None, "runs_per_s": 19.5, "latency_ns": {"p50": 2_000_000},
             "outputs_match": True, "clock_mhz": {"sm": 1980}}  # fmt: skip
    assert further.levels(NAME, {"levels": [level]}) == Check(NAME, PASS, "20/s 19.5 runs/s, p50 2.00 ms at 1980 MHz")
    assert further.levels(NAME, {"levels": []}).verdict == FAIL
    assert further.levels(NAME, {"levels": [{**level, "outputs_match": False}]}).figures == "20/s: outputs differ"
    assert further.levels(NAME, {"levels": [{**level, "status": "failed", "reason": "no"}]}).figures == "20/s: no"

    point = {"name": "batch=2", "cases": [case("device")]}
    best = {"modes": {"device": {"point": 0, "items_per_s": 2_000_000.0}}}
    swept = {"points": [point], "best": best}
    assert further.points(NAME, swept) == Check(NAME, PASS, "device 2.00M items/s with batch=2")
    assert further.points(NAME, {**swept, "best": None}).verdict == FAIL
    wrong = {**point, "cases": [case("device", outputs_match=False)]}
    assert further.points(NAME, {**swept, "points": [wrong]}).verdict == FAIL

    joined = {**result(case("cpu")), "chain": {"links": [{"stays": True}]}}
    assert further.chain(NAME, joined) == Check(NAME, PASS, "1 of 1 links stay; cpu 1.00 ms")
    assert further.chain(NAME, {**joined, "chain": {"links": [{"stays": False}]}}).verdict == FAIL
    assert further.chain(NAME, {**joined, "cases": [case("cpu", outputs_match=False)]}).verdict == FAIL

    good = {"code": 0, "said": "cpu: median 1 µs"}
    assert further.programs(NAME, {"cpu": good}) == Check(NAME, PASS, "cpu: median 1 µs")
    assert further.programs(NAME, {"cpu": good, "device": {"code": 1, "said": "no"}}) == Check(NAME, FAIL, "device: no")


def test_engines_are_built_once() -> None:
    def opened(cache: dict[str, Any] | None, seconds: int = 12) -> dict[str, Any]:
        found = result(case("device-resident"))
        found["setup"] |= {"engine_cache": cache, "session_ns": seconds * 10**9, "first_run_ns": 10**6}
        return found

    cold, warm = opened({"warm": False}), opened({"warm": True}, 1)
    same = "device-resident equal to expected outputs"
    assert checks.engine(NAME, cold, warm=False) == Check(
        NAME, PASS, f"with a cold cache: session 12.0 s, first run 1.00 ms; {same}"
    )
    assert checks.engine(NAME, warm, warm=True, before=cold) == Check(
        NAME, PASS, f"from a warm cache: session 1.00 s, first run 1.00 ms; built in 12.0 s; {same}"
    )
    assert checks.engine(NAME, cold, warm=True).verdict == FAIL
    assert checks.engine(NAME, warm, warm=False).verdict == FAIL
    assert checks.engine(NAME, opened(None), warm=True).verdict == FAIL


@pytest.mark.parametrize(
    ("word", "verdict"), [("passed", PASS), ("failed", FAIL), ("cannot tell", NOT_RUN), ("benchmark failed", FAIL)]
)
def test_a_gate_between_two_of_the_same(word: str, verdict: str) -> None:
    found = checks.gate(NAME, {"verdict": word, "checks": [{"text": "×1.00"}], "failed": []})
    assert found == Check(NAME, verdict, f"{word}: ×1.00")


def test_a_profile() -> None:
    nsight = {"version": "2026.1", "gpu": "NVIDIA H200", "ranges": {"cpu/total": {}}, "kernels": 40}
    copied = {**nsight, "copies": [{"size": 1000}, {"size": 500}]}
    shown = "Nsight Systems 2026.1: 1 kinds of ranges, 40 kernels, 1.50 kB copied"
    assert checks.profile(NAME, {"nsight": copied}) == Check(NAME, PASS, shown)
    assert checks.profile(NAME, {"nsight": {**copied, "gpu": None}}).figures.endswith("no CUDA work")
    assert checks.profile(NAME, {"nsight": {**copied, "ranges": {}}}).verdict == FAIL
    assert checks.profile(NAME, {"nsight": None}).verdict == FAIL


@pytest.mark.process
@pytest.mark.parametrize(("ep", "library"), [("cuda", None), ("auto", "libsome.so")])
@pytest.mark.parametrize("scale", [FULL, QUICK])
def test_every_command_is_one_that_ortbench_takes(ep: str, library: str | None, scale: Scale) -> None:
    steps = Steps(ep, library, scale).all()
    assert len({step.name for step in steps}) == len(steps)
    program: Any = ortbench_commands()
    for step in steps:
        module, command, *arguments = *step.line, *step.inputs
        if module == "ortbench":
            program[command].make_context(command, arguments)  # raises what is no option of it
    options = {word for step in steps for word in step.line}
    wanted = {"--pinned", "--depth", "--async-runs", "--cuda-graph", "--stream", "--dynamic-outputs", "--external"}
    assert wanted | {"--nodes", "--trace", "--engine-cache", "--bandwidth", "prefer-gpu", *ENGINE_EPS} <= options
    assert ("--measure-copies" in options) == (ep == "cuda")


def ortbench_commands() -> dict[str, Any]:
    """The program's commands, as it makes them of what is typed."""
    app = typer.Typer()
    for name, module in COMMANDS.items():
        app.command(name)(getattr(import_module(module), name))
    program: Any = typer.main.get_command(app)
    found: dict[str, Any] = program.commands
    return found


def test_the_whole_run_fits_into_its_time() -> None:
    steps = Steps("cuda", None, FULL).all()
    assert planned_s(steps) <= 9 * 60 - 20  # what is left is for a command that is stopped to save what it has
    for step in steps:
        assert step.planned_s < step.limit_s <= 120
    first = [step.name for step in steps[:5]]
    assert first == ["copy_4k", "resnet50", "transformer", "fence-and-loop", "bandwidth"]


def test_zero_copy_is_proved_or_says_why_not() -> None:
    proved = case("host-accessible", zero_copy={"proved": True, "how": "same address"})
    assert checks.zero_copy(result(proved)).figures == "proved: same address"
    slow = case("host-accessible", zero_copy={"proved": False, "how": "it takes longer"})
    assert checks.zero_copy(result(slow)) == Check(
        checks.zero_copy(result(slow)).name, PASS, "not proved: it takes longer"
    )
    lacking = case("host-accessible", status="unsupported", reason="no such memory")
    assert checks.zero_copy(result(lacking)).verdict == NOT_RUN
    assert checks.zero_copy(result(case("host-accessible", zero_copy={"proved": True, "how": ""}))).verdict == FAIL


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, PASS), (1.029, PASS), (0.971, PASS), (1.031, FAIL), (0.9, FAIL)])
def test_fence(ratio: float, verdict: str) -> None:
    found = {"runs": 10, "kind": "run", "median_ns": 1000, "total_ns": 10_000 * ratio, "ratio": ratio}
    assert checks.fence(found).verdict == verdict
    assert checks.fence(None).verdict == NOT_RUN


def looped(
    mode: str, state: tuple[int, int] = (0, 0), steps_ns: list[int] | None = None, **changed: Any
) -> dict[str, Any]:
    """A case of a loop of two steps."""
    changed = {"places": {"inputs": [], "outputs": []}} | changed
    made = case(mode, steps_ns=steps_ns or [2_000, 3_000], state_bytes_in=state[0], state_bytes_out=state[1], **changed)
    made["phases"] |= {"loop": phase(6_000), "step": phase(2_500)}
    return made


def test_a_loop_leaves_its_state_on_the_device() -> None:
    def checked(*cases: dict[str, Any]) -> Check:
        return checks.loop(NAME, {**result(*cases), "loop": {"steps": 2, "feedback": [["out", "in"]]}})

    good = checked(looped("cpu", (512, 512)), looped("device-resident"), looped("shared"))
    assert good.verdict == PASS
    assert "device-resident 6.00 µs, 2.00 µs to 3.00 µs a step" in good.figures
    assert checked(looped("device-resident", (0, 512))) == Check(
        NAME, FAIL, "device-resident: a step copies 0 and 512 bytes of the state"
    )
    left = {"name": "out", "memory": "host memory", "why": "Concat leaves it there", "usual": False}
    excused = looped("device-resident", (512, 0), places={"inputs": [], "outputs": [left]})
    assert checked(excused).verdict == PASS
    assert "device-resident: out in host memory (Concat leaves it there)" in checked(excused).figures
    assert checked(looped("cpu", steps_ns=[2_000])) == Check(NAME, FAIL, "cpu: its 2 steps took [2000]")
    assert checked(looped("shared", outputs_match=False, status="failed", reason="y of step 1 differs")) == Check(
        NAME, FAIL, "shared: y of step 1 differs"
    )
    lacking = case("host-accessible", status="unsupported", reason="no such memory", steps_ns=None)
    assert checked(looped("cpu"), lacking).verdict == PASS


@pytest.mark.parametrize(("ours", "verdict"), [(105.0, PASS), (106.0, FAIL), (90.0, PASS)])
def test_loop_cost(ours: float, verdict: str) -> None:
    assert checks.loop_cost({"ours_ns": ours, "bare_ns": 100.0}).verdict == verdict


def test_only_a_check_that_failed_fails_the_run() -> None:
    assert checks.exit_code([Check("a", PASS, ""), Check("b", NOT_RUN, "")]) == 0
    assert checks.exit_code([Check("a", PASS, ""), Check("b", FAIL, "")]) == 1


def accept(*arguments: object, prefix: Sequence[str] = (), **environment: str) -> Ran:
    """Run the script, quick, to its end."""
    line = [*prefix, sys.executable, "-m", "tests.gpu.accept", "--quick", *map(str, arguments)]
    environ = {**os.environ, **environment}
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=1800)
    return Ran(done.returncode, done.stdout, done.stderr)


def verdicts(out: Path) -> dict[str, tuple[str, str]]:
    """Verdict and figures by check, from the summary."""
    rows = [line.strip("| ").split(" | ") for line in (out / "summary.md").read_text().splitlines()]
    return {row[1]: (row[0], row[2]) for row in rows if row[0] in (PASS, FAIL, NOT_RUN)}


def of(found: dict[str, tuple[str, str]], beginning: str) -> tuple[str, str]:
    """The one check whose name begins so."""
    (only,) = [value for name, value in found.items() if name.startswith(beginning)]
    return only


# It sleeps rather than spins, so that it is on time on a busy machine too.
DEVICE = Config(
    compute_us=1000, upload_latency_us=1000, upload_gbps=0, download_latency_us=1000, download_gbps=0, spin_us=50
)


ALWAYS = ("copy_4k", "fence-and-loop")
TIMED_CHECKS = ("the published sample's shape", "the fence holds", "loop cost against a bare loop")
# One of each kind of step; the others differ in their options, which are held against the program above.
ALSO = (
    "bandwidth", "cuda-graph-resnet50", "prefer-gpu", "named-device", "island", "link", "devices", "page", "profile",
    "tensorrt-warm", "loop-decoder", "loop-decoder_shared", "costs", "load-rate", "sweep", "chain",
)  # fmt: skip


def only(*steps: str) -> list[str]:
    """The options that choose steps."""
    return [word for step in steps for word in ("--only", step)]


@pytest.mark.timing
def test_on_the_reference_device_its_checks_of_times_pass(library: Path, tmp_path: Path) -> None:
    passed = set[str]()
    for attempt in range(ATTEMPTS):
        out = tmp_path / str(attempt)
        ran = accept("--ep-library", library, "--out", out, *only(*ALWAYS), **DEVICE.environ())
        found = verdicts(out)
        passed |= {name for name in TIMED_CHECKS if of(found, name)[0] == PASS}
        if passed == {*TIMED_CHECKS}:
            break
    assert passed == {*TIMED_CHECKS}, ran.out
    assert json.loads((out / "fence-and-loop" / "figures.json").read_text())["fence"]["kind"] == "run"


@pytest.mark.process
def test_on_the_reference_device_all_else_that_it_can_answer_passes(library: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = accept("--ep-library", library, "--out", out, *only(*ALWAYS, *ALSO), **DEVICE.environ())
    checked = verdicts(out)
    assert ran.code == int(any(verdict == FAIL for verdict, _ in checked.values())), ran.out
    for name in TIMED_CHECKS:
        assert of(checked, name)[0] in (PASS, FAIL), ran.out
    for name in (
        "copy_4k: outputs", "copy_4k: pipelined", "copy_4k: pinned", "copy_4k: asynchronous", "the EP's device and its memory",
        "host-accessible: zero-copy",
        "copy bandwidth over sizes", "--ep prefer-gpu", "cpu_island: outputs", "--nodes: copies inside", "--bandwidth",
        "ortbench devices", "the HTML page", "loop of decoder:", "loop of decoder_shared:", "--spin:", "--memory:",
        "ortbench load: requests", "ortbench sweep:", "ortbench chain:",
    ):  # fmt: skip
        assert of(checked, name)[0] == PASS, ran.out
    for name, why in (
        (
            "CUPTI's copies against upload and download of device-pinned",
            "CUPTI was not asked: it sees NVIDIA's EPs only",
        ),
        ("cpu less device-resident agrees", "CUPTI was not asked: it sees NVIDIA's EPs only"),
        ("--cuda-graph, resnet50", "--cuda-graph: RefDeviceExecutionProvider captures no graphs"),
        ("without an EP device", "auto is known by its EP device only"),
        ("--ep tensorrt: engine from", "no engine was built"),
    ):
        verdict, figures = of(checked, name)
        assert (verdict, figures[: len(why)]) == (NOT_RUN, why)
    summary = (out / "summary.md").read_text()
    assert str(ROOT) not in summary
    assert "| copy_4k | 0 |" in summary
    assert "--pinned --depth 3 --async-runs" in summary
    for name in ("copy_4k", "prefer-gpu", "link"):
        assert {path.name for path in (out / name).iterdir()} == {"result.json", "table.csv", "table.md"}
    assert not [path for path in out.rglob("*") if path.is_symlink() or path.suffix == ".onnx"]


@pytest.mark.process
def test_on_the_cpu_it_says_what_does_not_apply(tmp_path: Path) -> None:
    steps = only("copy_4k", "transformer", "fence-and-loop", "bandwidth", "external-numpy", "nodes-and-trace", "loop-*")
    accept("--ep", "cpu", "--out", tmp_path / "out", *steps)  # what it says of times a busy machine may spoil
    found = verdicts(tmp_path / "out")
    for name in (
        "copy_4k: outputs",
        "transformer: outputs",
        "host-accessible",
        "--external numpy",
        "--nodes, resnet50",
        "--trace",
        "loop of recurrent_cell:",
        "loop of decoder:",
        "loop of decoder_shared:",
    ):
        assert of(found, name)[0] == PASS, found
    why = "this EP computes in host memory: nothing is copied to a device"
    for name in ("the published sample's shape", "the fence holds"):
        assert of(found, name) == (NOT_RUN, why)
    for name in (
        "CUPTI's copies against upload and download of device-pinned",
        "copy_4k: pipelined",
        "copy_4k: pinned",
        "copy bandwidth over sizes",
    ):
        assert of(found, name)[0] == NOT_RUN


@pytest.mark.process
def test_a_step_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    steps = only("copy_4k", "transformer", "fence-and-loop", "bandwidth", "gate")
    ran = accept("--ep", "no-such-ep", "--out", tmp_path / "out", *steps)
    assert ran.code == 1
    found = verdicts(tmp_path / "out")
    for name in ("copy_4k: outputs equal", "transformer: outputs equal", "the fence holds, loop cost"):
        assert of(found, name)[0] == FAIL, ran.out
    assert "no such execution provider" in of(found, "copy_4k: outputs equal")[1]
    why = "the EP ran nothing yet: copy_4k, transformer, fence-and-loop left no result"
    for name in ("copy bandwidth over sizes", "ortbench gate"):
        assert of(found, name) == (NOT_RUN, why)


@pytest.mark.process
def test_what_there_is_no_time_for_is_not_run(tmp_path: Path) -> None:
    ran = accept("--ep", "cpu", "--out", tmp_path / "out", "--minutes", 0.01)
    found = verdicts(tmp_path / "out")
    assert ran.code == 0, ran.out
    assert {verdict for verdict, _ in found.values()} == {NOT_RUN}
    assert of(found, "copy_4k: outputs equal")[1] == "no time was left"
    assert "0 passed, 0 failed" in (tmp_path / "out" / "summary.md").read_text()


@pytest.mark.process
def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    ran = accept("--ep", "cpu", "--out", tmp_path)
    assert (ran.code, ran.err) == (2, f"accept: --out {tmp_path}: File exists\n")
    assert list(tmp_path.iterdir()) == []


def test_steps_are_printed_and_chosen_by_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "--only", "stream-*", "--only", "gate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["stream-ort", "stream-cuda-python", "gate"]
    assert main(["--only", "no-such-step", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "accept: --only no-such-step: there is no such step; --steps prints them\n"
    assert not (tmp_path / "out").exists()


def test_what_is_packed_has_the_code_of_one_architecture() -> None:
    def image(kind: int, arch: int, content: bytes) -> bytes:
        return struct.pack("<HHIQ12xII28x", kind, 0x101, 64, len(content), arch, 64) + content

    def container(*images: bytes) -> bytes:
        body = b"".join(images)
        return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body

    elf, ptx = 2, 1
    kept = image(elf, 90, b"\x01" * 24)
    first = container(image(elf, 80, b"\x02" * 16), kept, image(ptx, 90, b"\x03" * 8))
    section = first + bytes(16) + container(image(elf, 75, b"\x04" * 8), kept)
    names = b"\0.text\0.nv_fatbin\0.shstrtab\0"
    start = 64
    table = start + len(section) + len(names)
    headers = [
        struct.pack("<IIQQQQ24x", at, 1, 0, 0, offset, size)
        for at, offset, size in ((7, start, len(section)), (18, start + len(section), len(names)))
    ]
    head = bytearray(start)
    struct.pack_into("<Q", head, 0x28, table)
    struct.pack_into("<HHH", head, 0x3A, 64, 2, 1)
    library = bytes(head) + section + names + b"".join(headers)

    slim = pack.with_one_architecture(library, 90)
    assert len(slim) == len(library)
    assert (slim.count(b"\x01" * 24), library.count(b"\x01" * 24)) == (2, 2)
    for byte, count in ((b"\x02", 16), (b"\x03", 8), (b"\x04", 8)):
        assert (byte * count in library, byte * count in slim) == (True, False)
    with pytest.raises(SystemExit, match="no code for sm_120"):
        pack.with_one_architecture(library, 120)


def test_what_is_there_is_not_packed_and_parts_make_the_whole(tmp_path: Path) -> None:
    site, out = tmp_path / "site", tmp_path / "out"
    out.mkdir()
    for name in ("one", "two"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / name).mkdir()
        (site / name / "__init__.py").write_bytes(os.urandom(1_500_000))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.title()}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    pack.leave_out(site, ["one"])
    assert sorted(path.name for path in site.iterdir()) == ["two", "two-1.0.dist-info"]
    with pytest.raises(SystemExit, match="--there one: it is none of two"):
        pack.leave_out(site, ["one"])
    parts = pack.pack(site, out, 1)
    assert [path.name for path in parts] == ["site.tar.xz.00", "site.tar.xz.01"] == sorted(os.listdir(out))
    whole = io.BytesIO(b"".join(path.read_bytes() for path in parts))
    with tarfile.open(fileobj=whole) as tar:
        assert "two/__init__.py" in tar.getnames()


@pytest.mark.process
def test_the_cuda_ep_takes_all_that_is_asked_of_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """The command lines of the run on a GPU, with the CUDA EP itself on a runtime that computes on the CPU."""
    asked = ("copy_4k", "stream-ort", "devices")
    arguments = ["--ep", "cuda", "--out", tmp_path / "out", *(word for name in asked for word in ("--only", name))]
    ran = accept(*arguments, prefix=software_cuda)
    found = verdicts(tmp_path / "out")
    passed = {name for name, (verdict, _) in found.items() if verdict == PASS}
    for beginning in (
        "copy_4k: outputs equal", "copy_4k: pipelined", "copy_4k: pinned", "copy_4k: asynchronous", "the EP's device",
        "host-accessible: zero-copy", "NVML", "--stream ort", "ortbench devices",
    ):  # fmt: skip
        assert any(name.startswith(beginning) for name in passed), (beginning, ran.out)
