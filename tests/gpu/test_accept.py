"""The script for machines with a GPU: its checks exactly, and all of it against the reference device and the CPU EP."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import typer

from ortbench.cli import commands
from ortbench.cli.options import function_of
from tests.conftest import ROOT, ortbench
from tests.forks import MAIN
from tests.gpu import checks, further, pack
from tests.gpu.accept import Acceptance, _shown, main
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check
from tests.gpu.later import Steps
from tests.gpu.steps import FULL, QUICK, Left, Scale, Step, planned_s
from tests.refdevice import Config


def phase(ns: int) -> dict[str, int]:
    return {"median": ns}


def number(value: float) -> dict[str, Any]:
    return {"value": value, "ci95": None, "derived": False}


ITERATIONS, INTERRUPTED = {"reason": "iterations", "value": 10, "per": "mode"}, {"reason": "interrupted"}
RIGHT = {"outputs": {"verdict": "passed"}}
OTHER = {"outputs": {"verdict": "failed", "how": "1 of 4 values of output y differ"}}


def case(mode: str, **changed: Any) -> dict[str, Any]:
    return {
        "mode": mode, "status": "ok", "reason": None, "checks": RIGHT, "metrics": {"latency": phase(1_000_000)}, **changed
    }  # fmt: skip


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
        "stopped": ITERATIONS,
        "warnings": list(warnings),
        "setup": {"expected_outputs": True},
        "target": {"memory": {"kind": memory}, **target},
        "environment": {"gpus": list(gpus), "gpu_readings": list(readings)},
    }


RECORDED = {"runs": 10, "h2d": {"n": 1, "memory": "pageable"}, "d2h": {"n": 1, "memory": "pageable"}}
ON_THE_GPU = {"gpu_h2d": number(2_000_000), "gpu_d2h": number(1_000_000),
              "gpu_bytes_h2d": number(1000), "gpu_bytes_d2h": number(500)}  # fmt: skip
TIMED = {"h2d": phase(2_100_000), "d2h": phase(990_000), "inference": phase(1), "latency": phase(9_700_000),
         "bytes_h2d": number(1000), "bytes_d2h": number(500), **ON_THE_GPU}  # fmt: skip
NO_UPLOAD = {key: it for key, it in TIMED.items() if key != "h2d"}


def device(mode: str = "device-tensors", **changed: Any) -> dict[str, Any]:
    given = {"metrics": TIMED, "recorded": RECORDED, **changed}
    return case(mode, **given)


def without(mode: str, reason: str, **changed: Any) -> dict[str, Any]:
    """A mode that the EP lacks."""
    return case(mode, status="unsupported", reason=reason, **changed)


NAME = "what is shown"
GPU = {"type": "GPU", "vendor": "NVIDIA", "vendor_id": 0x10DE, "device_id": 0x2335}
H200 = {"name": "NVIDIA H200", "driver": "580.0", "memory_bytes": 1}
CUPTI_WHY = {"code": "copies-not-measured", "message": "--measure-copies gave nothing: the package is not installed"}
UNASKED = "CUPTI was not asked: it sees NVIDIA's EPs only"
SEEN = (
    "h2d 2.10 ms by ortbench, 2.00 ms by CUPTI (5.0% apart), 1000 and 1000 bytes; "
    "d2h 990 µs by ortbench, 1.00 ms by CUPTI (1.0% apart), 500 and 500 bytes; "
)
REPLAYED = {"id": 1, "verdict": "passed", "how": "the outputs followed inputs that were written in place"}
PROVED = {"library": "torch", "place": "cuda:0", "verdict": "passed", "how": "the addresses are the library's"}
LATE = case("device-tensors", status="failed", reason="the run ended before it was measured")
WRONG = case("device-tensors", status="failed", reason="1 of 4 values of output y differ", checks=OTHER)
EQUAL = "device-tensors equal to expected outputs"
PIPELINE = {"depth": 3, "items": 4, "distinct": 4, "host_memory": "CudaPinned (HOST_ACCESSIBLE)"}
HIDDEN = {**TIMED, "copies": number(3_000_000), "hidden_share": {**number(0.905), "ci95": [0.84, 1.0]},
          "pipeline_speedup": number(1.43)}  # fmt: skip
PINNED = {"h2d": phase(700_000), "d2h": phase(330_000), "latency": phase(4_850_000)}
BURST = case("device-resident-async", metrics={"latency": phase(500_000)}, inferences_per_sample=20)
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
SPANS = "2 readings over 42 s, 0 in blocks: 1980 to 1980 MHz SM, 3201 to 3201 MHz memory, 31 to 47 °C, 118 to 302 W; "
SLOWED = "GPU 0: it was slowed down by the power cap in 50% of the readings"
COPIES = {
    "point": {"memory": "host-accessible", "size": 256_000_000}, "status": "ok", "reason": None,
    "metrics": {"h2d_rate": {"value": 55_250_000_000}, "d2h_rate": {"value": 54_000_000_000}},
}  # fmt: skip
MEMCPY = [{"bytes": size, "forced_by": [{"op": "Det", "ep": "CPUExecutionProvider"}]} for size in (65_536, 16_384)]
SEVERAL, ONE = {"X": 5, "CPUExecutionProvider": 1}, {"X": 6}
OPERATORS = [{"op": op, "share": share} for op, share in (("Add", 0.1), ("Conv", 0.7), ("Relu", 0.15), ("Sum", 0.05))]
LISTED = {
    "hardware": GPU, "memory": {"default": "Cuda (DEFAULT)", "host_accessible": "CudaPinned (HOST_ACCESSIBLE)"},
    "streams": {"offered": True}, "modes": {"cpu-tensors": None, "device-tensors": None, "pipelined": "no streams"},
}  # fmt: skip
ENTRY = {"name": "X", "problem": None, "devices": [LISTED]}
RAN = result(case("cpu-tensors"), case("device-tensors"), without("pipelined", "no streams"), ep="X")
OUTLINE = {"placement": {"nodes": SEVERAL}, "copies": {"memcpy": MEMCPY}}
TIMED_BY_NAME = {"median_ns": 1_000_000, "sync": "run", "wrong": None, "reason": None}
BY_NAME = {"reason": None, "memory": "cuda:0", "modes": {"cpu-tensors": TIMED_BY_NAME, "device-tensors": TIMED_BY_NAME}}
MEMORY: dict[str, Any] = {
    "failed": None,
    "device": "NVML",
    "host": "psutil",
    "arenas": [],
    "arenas_how": "none is told of",
}
ENERGY = {"how": "counter", "of": "GPU 0", "start_ns": 1, "parts": [], "idle": []}
COSTS = {
    "device_memory": number(2_000_000), "device_memory_bound": number(1000), "device_memory_process": number(2_000_000),
    "energy": number(0.1), "power": number(200.0), "idle_power": number(120.0), "latency_spin_off": number(2_000_000),
}  # fmt: skip
LOADED = {"latency": phase(2_000_000), "throughput": number(19.5), "sm_clock": number(1980)}
SWEPT = {
    "cases": [{**case("device-tensors"), "point": {"batch": 2}}],
    "best": {"modes": {"device-tensors": {"shape": "batch=2", "items_per_s": 2_000_000.0}}},
}
CHAINED = {**result(case("cpu-tensors", metrics={"chain": phase(1_000_000)})), "chain": {"links": [{"stays": True}]}}
NSIGHT = {
    "version": "2026.1",
    "gpu": "NVIDIA H200",
    "ranges": {"cpu-tensors/latency": {"durations_ns": [1_040_000, 1_000_000]}},
    "kernels": 40,
    "copies": [{"size": 1500}],
}
RAN_ALONE = {"code": 0, "said": "cpu-tensors: median 1 µs"}


def cupti(mode: str = "device-tensors", **changed: Any) -> Check:
    return checks.cupti_phases(result(device(mode, **changed)), mode)


def derived(copies_ns: int) -> Check:
    metrics = {"latency": phase(1), "copies": number(copies_ns), **ON_THE_GPU}
    cpu = case("cpu-tensors", metrics=metrics, recorded=RECORDED)
    return checks.derived_copies(result(cpu, device()))


def sampled(each_ns: int, memory: str = "ep-device", ci95: tuple[int, int] | None = None) -> Check:
    copies = {} if memory == "host" else {"copies": number(each_ns)}
    latency = {"median": each_ns + 1, "ci95": ci95 or (each_ns + 1, each_ns + 1)}
    cpu = case("cpu-tensors", metrics={"latency": latency, **copies})
    once = {"once_h2d": number(21_000), "once_d2h": number(21_000)}
    resident = case("device-resident", metrics={"latency": phase(1), **once})
    single = case("device-tensors", metrics={"latency": phase(1), "h2d": phase(21_000), "d2h": phase(21_000)})
    return checks.published_sample(result(cpu, resident, single, memory=memory))


def checked(name: str, found: dict[str, Any] | None) -> dict[str, Any]:
    """Outputs that are right, and a check where it was made."""
    return RIGHT | ({} if found is None else {name: found})


def outputs(*cases: dict[str, Any], stopped: dict[str, Any] = ITERATIONS) -> Check:
    return checks.outputs(NAME, {**result(*cases), "stopped": stopped})


def replayed(graph: dict[str, Any] | None, *plain: dict[str, Any]) -> Check:
    found = result(
        case("device-tensors", checks={**RIGHT, "graph": REPLAYED}),
        case("device-resident", checks=checked("graph", graph)),
    )
    return checks.graph(NAME, found, result(*plain) if plain else None)


def external(found: dict[str, Any] | None) -> Check:
    return checks.external(NAME, result(case("device-tensors", checks=checked("external", found))))


def used(kind: str, *warnings: dict[str, str], **changed: Any) -> Check:
    found = result(warnings=warnings, ep="X", ep_version="1.31", ep_library="libx.so")
    memory = {"kind": kind, "default": "Cuda (DEFAULT)", "host_accessible": "CudaPinned (HOST_ACCESSIBLE)", **changed}
    found["target"]["memory"] = memory
    return checks.ep_device(found)


def chosen(by: dict[str, Any], *gpus: dict[str, Any], policy: str = "PREFER_GPU") -> Check:
    return checks.chosen(
        NAME, result(case("cpu-tensors"), gpus=gpus, device=by, policy=policy, ep="XExecutionProvider")
    )


def hiding(*lacking: str, **changed: Any) -> Check:
    metrics = {key: it for key, it in HIDDEN.items() if key not in lacking}
    return checks.pipelined("m", result(case("pipelined", metrics=metrics, pipeline={**PIPELINE, **changed})))


def pinned(*cases: dict[str, Any]) -> Check:
    return checks.pinned("m", result(device(), *cases))


def gpu_state(*readings: dict[str, Any], said: Sequence[str] = ()) -> Check:
    warnings = tuple({"code": "gpu-state", "message": words} for words in said)
    return checks.gpu_state(result(gpus=(H200,), readings=readings, warnings=warnings))


def costs(check: Callable[[str, Any], Check], *lacking: str, **changed: Any) -> Check:
    metrics = {"latency": phase(1_000_000)} | {key: it for key, it in COSTS.items() if key not in lacking}
    given = {"metrics": metrics | changed.pop("metrics", {}), "memory": MEMORY, "energy": ENERGY, **changed}
    return check(NAME, result(case("device-tensors", **given)))


def engine(cache: dict[str, Any] | None, warm: bool, seconds: int = 12, before: bool = False) -> Check:
    opened = [result(case("device-resident")) for _ in range(2)]
    opened[0]["setup"] |= {"engine_cache": cache, "session_ns": seconds * 10**9, "first_inference_ns": 10**6}
    opened[1]["setup"] |= {"session_ns": 12 * 10**9}
    return checks.engine(NAME, opened[0], warm=warm, before=opened[1] if before else None)


def zero_copy(*found: dict[str, Any]) -> Check:
    return checks.zero_copy(result(*found))


def twice(*ci95: tuple[int, int]) -> Check:
    """Runs one after the other, by the intervals of their medians."""
    runs = [
        result(case("cpu-tensors", point={}, metrics={"latency": {"median": low, "ci95": [low, high]}}))
        for low, high in ci95
    ]
    return further.again(NAME, runs[-1], runs[0] if runs[1:] else None)


def fence(ratio: float) -> Check:
    return checks.fence({"runs": 10, "kind": "run", "median_ns": 1000, "latency_ns": 10_000 * ratio, "ratio": ratio})


def looped(
    mode: str, state: tuple[int, int] = (0, 0), steps_ns: list[int] | None = None, **changed: Any
) -> dict[str, Any]:
    """A case of a loop of two steps."""
    changed = {"places": {"inputs": [], "outputs": []}} | changed
    copied = {"state_h2d": state[0], "state_d2h": state[1]}
    made = case(mode, steps_ns=steps_ns or [2_000, 3_000], step_bytes=copied, **changed)
    made["metrics"] |= {"loop": phase(6_000), "step": phase(2_500)}
    return made


def loop(*cases: dict[str, Any]) -> Check:
    return checks.loop(NAME, {**result(*cases), "loop": {"steps": 2, "feedback": [["out", "in"]]}})


def profiled(nsight: dict[str, Any] | None) -> Check:
    session = {"cases": [{"mode": "cpu-tensors", "samples": {"latency": [1_000_000, 1_000_000]}}]}
    return checks.profile(NAME, {"nsight": nsight, "session": session})


def copied(count: int, ours_ns: int) -> Check:
    copy = {"way": "h2d", "memory": "ordinary", "bytes": count, "ours_ns": ours_ns, "theirs_ns": 95_000}
    return further.plain_copies(NAME, {"copies": [copy]})


def launched(latency_ns: int) -> Check:
    return further.launch(NAME, {"latency_ns": latency_ns, "span_ns": 231_000, "launch_ns": 15_000})


def threads(*ratios: float, limited: bool = True) -> Check:
    """As many turns as an interval takes, at these ratios."""
    ours = [1000 * ratio for ratio in ratios * 9][:9]
    return further.plain_threads(NAME, {"threads": 4, "ours": ours, "theirs": [1000.0] * 9}, limited)


TOKENS = {"time_to_first_token": phase(12_000_000), "decode_tokens_per_s": number(250.0),
          "state_bytes_h2d": phase(0), "state_bytes_d2h": phase(0)}  # fmt: skip
TOLD = result(case("shared", metrics=TOKENS), case("cpu-tensors", status="failed", reason="no"))
GENAI = {"version": "0.18", "first_ns": 10_000_000, "token_ns": 2_000_000}


def soaked(grows: int, wanted: int = 5000) -> Check:
    """A soak whose device memory grows by so many bytes an inference."""
    held: dict[str, Any] = {
        "resident": None,
        "private": 80_000_000,
        "handles": 10,
        "threads": 4,
        "at_ns": 0,
        "median_ns": 1,
    }
    readings = [{**held, "inferences": n, "device": 10**9 + n * grows * 100} for n in range(0, 5001, 50)]
    soak: dict[str, Any] = {"order": "random", "reopened": None, "shapes": [{}] * 28, "readings": readings}
    return further.soaked(NAME, {**result(case("cpu-tensors")), "soak": soak}, wanted)


LEFT_THERE = {"name": "out", "memory": "host memory", "why": "left there by Concat", "usual": False}
NO_MODE = "nothing shows that it did what it was asked for"
HOW = "the outputs followed inputs that were written in place"
# What of a result makes a check what, and the figures, or how they begin; those of what passes are in the run below too.
SHOWN: list[tuple[Callable[[], Check], str, str]] = [
    (lambda: cupti("device-tensors-pinned"), PASS, f"{SEEN}limit 5% and equal bytes"),
    (lambda: cupti(), PASS, f"{SEEN}ours may be no more than 5% shorter and equal bytes"),
    (lambda: cupti(metrics={**TIMED, "h2d": phase(2_101_000)}), PASS, ""),  # the processor's part of ordinary memory
    (lambda: cupti("device-tensors-pinned", metrics={**TIMED, "h2d": phase(2_101_000)}), FAIL, ""),
    *(
        (lambda mode=mode, changed=changed: cupti(mode, metrics=TIMED | changed), FAIL, "")
        for mode in ("device-tensors", "device-tensors-pinned")
        for changed in ({"d2h": phase(940_000)}, {"bytes_h2d": number(1001)}, {"bytes_d2h": number(0)})
    ),
    (lambda: cupti(metrics=NO_UPLOAD), NOT_RUN, ""),
    (lambda: cupti(recorded=None), NOT_RUN, UNASKED),
    (lambda: checks.cupti_phases(result(device(recorded=None), warnings=(CUPTI_WHY,)), "device-tensors"), NOT_RUN, CUPTI_WHY["message"]),
    (lambda: checks.derived_copies(result(case("cpu-tensors"), warnings=(CUPTI_WHY,))), NOT_RUN, CUPTI_WHY["message"]),
    (lambda: checks.derived_copies(result(case("cpu-tensors"))), NOT_RUN, UNASKED),
    (lambda: derived(3_390_000), PASS, ""),
    (lambda: derived(2_790_000), PASS, ""),
    (lambda: derived(3_410_000), FAIL, ""),
    (lambda: derived(2_770_000), FAIL, ""),
    (lambda: checks.derived_copies(result(case("cpu-tensors", metrics=TIMED, recorded=RECORDED), device(), without("device-resident", "no memory"))), NOT_RUN,
     "no memory"),
    (lambda: sampled(42_000), PASS, ""),
    (lambda: sampled(21_000), PASS, ""),
    (lambda: sampled(20_900), FAIL, ""),
    (lambda: sampled(84_100), FAIL, ""),
    (lambda: sampled(84_100, ci95=(80_000, 90_000)), NOT_RUN, "too noisy to tell, copies take 80.0 µs to 90.0 µs; ≈8.41 ms"),
    (lambda: sampled(84_100, ci95=(84_002, 90_000)), FAIL, ""),
    (lambda: sampled(0, "host"), NOT_RUN, ""),
    (lambda: outputs(case("cpu-tensors"), case("device-resident"), without("cpu-tensors-pinned", "no such", checks={}),
                     without("device-tensors", "no such")), PASS, "cpu-tensors, device-resident equal to expected outputs; cpu-tensors-pinned, device-tensors: no such"),
    (lambda: outputs(case("cpu-tensors"), WRONG), FAIL, "device-tensors: 1 of 4 values of output y differ"),
    (lambda: outputs(case("cpu-tensors"), case("device-tensors", checks={})), FAIL, ""),
    (lambda: outputs(without("device-tensors", "no such memory")), NOT_RUN, "device-tensors: no such memory"),
    # What time ran out on has not failed.
    (lambda: outputs(case("cpu-tensors"), LATE, stopped=INTERRUPTED), PASS, "cpu-tensors equal to expected outputs; device-tensors: its time was over"),
    (lambda: outputs({**LATE, "checks": {}}, stopped=INTERRUPTED), NOT_RUN, ""),
    (lambda: outputs({**LATE, "checks": OTHER}, stopped=INTERRUPTED), FAIL, ""),
    (lambda: replayed(REPLAYED, case("device-resident", metrics={"latency": phase(1_500_000)})), PASS,
     f"device-tensors, device-resident equal to expected outputs; replayed: {HOW}; device-resident 1.00 ms (else 1.50 ms)"),
    (lambda: replayed(None), FAIL, f"device-resident: {NO_MODE}"),
    (lambda: replayed({**REPLAYED, "verdict": "unclear"}), FAIL, f"device-resident: {NO_MODE}"),
    (lambda: checks.graph(NAME, result(case("cpu-tensors"), case("device-tensors", checks={**RIGHT, "graph": REPLAYED}))), PASS, ""),
    (lambda: checks.graph(NAME, result(without("device-tensors", "it captured none"))), NOT_RUN, "device-tensors: it captured none"),
    (lambda: checks.stream(NAME, result(case("device-tensors"), stream="ort"), "ort"), PASS, EQUAL),
    (lambda: checks.stream(NAME, result(case("device-tensors"), stream="ort"), "cuda-python"), FAIL, ""),
    (lambda: checks.stream(NAME, result(case("device-tensors"), stream=None), "ort"), FAIL, ""),
    (lambda: external(PROVED), PASS, f"{EQUAL}; in cuda:0: the addresses are the library's"),
    (lambda: external(None), FAIL, ""),
    (lambda: external({**PROVED, "verdict": "unclear"}), FAIL, ""),
    (lambda: used("ep-device"), PASS, "X 1.31 from libx.so: Cuda (DEFAULT), CudaPinned (HOST_ACCESSIBLE)"),
    (lambda: used("ep-device", host_accessible=None), PASS, "X 1.31 from libx.so: Cuda (DEFAULT), no HOST_ACCESSIBLE memory"),
    (lambda: used("named-device", {"code": "named-device", "message": "it broke"}), FAIL, "X 1.31 from libx.so: it broke"),
    (lambda: used("host"), NOT_RUN, ""),
    (lambda: chosen(GPU, H200), PASS, "XExecutionProvider on GPU 2335 of NVIDIA 10de; cpu-tensors equal to expected outputs"),
    (lambda: chosen({"type": "CPU"}), NOT_RUN, "it chose XExecutionProvider: no EP that loads here has a GPU"),
    (lambda: chosen({"type": "CPU"}, H200), FAIL, ""),
    (lambda: chosen({**GPU, "vendor_id": None}), FAIL, ""),
    (lambda: chosen(GPU, policy="MAX_PERFORMANCE"), FAIL, ""),
    (lambda: hiding(), PASS, "≈90% of 3.00 ms hidden (95% CI 84% to 100%), 3 in flight, 1.43 times as fast as device-tensors; 4 of 4 items"),
    (lambda: hiding("pipeline_speedup"), PASS, "≈90% of 3.00 ms hidden (95% CI 84% to 100%), 3 in flight; 4 of 4 items"),
    (lambda: hiding("hidden_share"), FAIL, ""),
    (lambda: hiding(distinct=1), FAIL, ""),
    (lambda: checks.pipelined("m", result(case("pipelined", pipeline=PIPELINE))), NOT_RUN, ""),  # interrupted
    (lambda: checks.pipelined("m", result(without("pipelined", "no streams"))), NOT_RUN, "no streams"),
    (lambda: pinned(case("device-tensors-pinned", metrics=PINNED), case("cpu-tensors"), case("cpu-tensors-pinned")), PASS,
     "device-tensors h2d 2.10 ms, pinned 700 µs (3.00×); device-tensors d2h 990 µs, pinned 330 µs (3.00×); device-tensors latency 9.70 ms, pinned "
     "4.85 ms (2.00×); cpu-tensors latency 1.00 ms, pinned 1.00 ms (1.00×)"),
    (lambda: pinned(case("device-tensors-pinned", metrics=NO_UPLOAD)), NOT_RUN, "the time was over before every phase"),
    (lambda: pinned(without("device-tensors-pinned", "no pinned memory")), NOT_RUN, "no pinned memory"),
    (lambda: pinned(device("device-tensors-pinned"), case("cpu-tensors")), NOT_RUN, ""),
    (lambda: checks.asynchronous("m", result(BURST, case("device-resident"))), PASS,
     "500 µs a run in bursts of 20, 1.00 ms waited for one by one (2.00×)"),
    (lambda: checks.asynchronous("m", result(case("device-resident"))), NOT_RUN, ""),
    (lambda: gpu_state(BEFORE, AFTER), PASS, f"{SPANS}nothing to warn of"),
    (lambda: gpu_state({**BEFORE, "sm_mhz": 345}, {**AFTER, "in_block": True}), PASS,
     "2 readings over 42 s, 1 in blocks: 1980 to 1980 MHz SM, 3201 to 3201 MHz memory, 47 to 47 °C"),
    (lambda: gpu_state(BEFORE, CAPPED, said=[SLOWED]), PASS, f"{SPANS}{SLOWED}"),
    (lambda: gpu_state(BEFORE, CAPPED), FAIL, ""),
    (lambda: gpu_state(BEFORE), FAIL, ""),
    (lambda: gpu_state(*({key: it[key] for key in it if key != "power_w"} for it in (BEFORE, AFTER))), FAIL,
     "2 readings, without power_w"),
    (lambda: checks.gpu_state(result()), NOT_RUN, ""),
    (lambda: checks.bandwidth(NAME, {"cases": [COPIES]}), PASS,
     "peak: h2d 55.2 GB/s with 256 MB from host-accessible memory, d2h 54 GB/s with 256 MB from host-accessible memory; "
     "2 copies with their data held"),
    (lambda: checks.bandwidth(NAME, {"cases": [{**COPIES, "status": "failed", "reason": "3 bytes differ"}]}), FAIL,
     "copies of 256 MB: 3 bytes differ"),
    (lambda: checks.bandwidth(NAME, {"cases": []}), FAIL, ""),
    (lambda: checks.devices(NAME, {"eps": [ENTRY]}, RAN), PASS,
     "X on GPU 10de:2335, memory Cuda (DEFAULT) and CudaPinned (HOST_ACCESSIBLE), streams; unsupported: pipelined"),
    (lambda: checks.devices(NAME, {"eps": [ENTRY]}, result(case("pipelined"), ep="X")), FAIL, ""),
    (lambda: checks.devices(NAME, {"eps": [{**ENTRY, "devices": []}]}, RAN), FAIL, "X: no device"),
    (lambda: checks.devices(NAME, {"eps": []}, RAN), FAIL, "X: it is not listed"),
    (lambda: checks.devices(NAME, {"eps": [ENTRY]}, None), NOT_RUN, ""),
    (lambda: checks.named_device(NAME, BY_NAME), PASS,
     "memory cuda:0; cpu-tensors 1.00 ms (fence: run); device-tensors 1.00 ms (fence: run); equal to expected outputs"),
    (lambda: checks.named_device(NAME, {**BY_NAME, "modes": {"device-tensors": {**TIMED_BY_NAME, "wrong": "they differ"}}}), FAIL,
     "device-tensors: they differ"),
    (lambda: checks.named_device(NAME, {**BY_NAME, "reason": "by its EP device only"}), NOT_RUN, "by its EP device only"),
    (lambda: costs(further.memory), PASS, "device-tensors 2.00 MB (NVML; 1.00 kB bound, card 2.00 MB)"),
    (lambda: costs(further.drawn), PASS, "device-tensors 100 mJ a run at 200 W; idle 120 W by counter"),
    (lambda: costs(further.without_spin), PASS, "device-tensors 2.00 ms without"),
    (lambda: costs(further.memory, memory=None), FAIL, ""),
    (lambda: costs(further.drawn, energy=None), FAIL, ""),
    (lambda: costs(further.without_spin, "latency_spin_off"), FAIL, ""),
    (lambda: costs(further.drawn, metrics={"power": number(119.0)}), FAIL, ""),
    (lambda: costs(further.drawn, energy={"unsupported": "no counter"}), NOT_RUN, "no counter"),
    (lambda: costs(further.memory, memory={**MEMORY, "failed": "it crashed", "device": None}), FAIL, "device-tensors: it crashed"),
    (lambda: costs(further.memory, "device_memory"), PASS, "device-tensors on the host alone"),
    (lambda: costs(further.memory, "device_memory_process"), PASS, "device-tensors 2.00 MB (NVML; 1.00 kB bound, card not known)"),
    (lambda: costs(further.drawn, metrics={"energy": number(-0.1)}), FAIL, ""),
    (lambda: further.shapes(NAME, SWEPT), PASS, "device-tensors 2.00M items/s with batch=2"),
    (lambda: further.shapes(NAME, {"cases": SWEPT["cases"]}), FAIL, "no shape is the best"),
    (lambda: further.shapes(NAME, {**SWEPT, "cases": [*SWEPT["cases"], without("pipelined", "no streams")]}), PASS, ""),
    (lambda: further.shapes(NAME, {**SWEPT, "cases": [{**case("device-tensors", checks=OTHER), "point": {"batch": 2}}]}), FAIL, ""),
    (lambda: engine({"warm": False}, warm=False), PASS,
     "with a cold cache: session 12.0 s, first run 1.00 ms; device-resident equal to expected outputs"),
    (lambda: engine({"warm": True}, warm=True, seconds=1, before=True), PASS,
     "from a warm cache: session 1.00 s, first run 1.00 ms; built in 12.0 s; device-resident equal to expected outputs"),
    (lambda: engine({"warm": False}, warm=True), FAIL, ""),
    (lambda: engine({"warm": True}, warm=False), FAIL, ""),
    (lambda: engine(None, warm=True), FAIL, ""),
    (lambda: profiled(NSIGHT), PASS,
     "Nsight Systems 2026.1: 1 kinds of ranges, 40 kernels, 1.50 kB copied; sums at most 2.0% apart, limit 5% or 20.0 µs"),
    (lambda: profiled({**NSIGHT, "gpu": None}), PASS, "Nsight Systems 2026.1: 1 kinds of ranges, no CUDA work"),
    (lambda: profiled({**NSIGHT, "ranges": {"cpu-tensors/latency": {"durations_ns": [2_110_000]}}}), FAIL,
     "cpu-tensors/latency 2.00 ms by ortbench, 2.11 ms by Nsight"),
    (lambda: profiled({**NSIGHT, "ranges": {"other": {"durations_ns": []}}}), FAIL, ""),
    (lambda: profiled({**NSIGHT, "ranges": {}}), FAIL, ""),
    (lambda: profiled(None), FAIL, ""),
    (lambda: checks.profile(NAME, {"nsight": None}, streamed=True), NOT_RUN, "report.qdstrm came back"),
    (lambda: further.reported(NAME, {"code": 1, "said": ["1.31.1", "failed: dst_data != src_data was false"]}), PASS, "1.31.1; failed"),
    (lambda: further.reported(NAME, {"code": 1, "said": ["ImportError"]}), FAIL, "ImportError"),
    (lambda: further.reported(NAME, {"code": 0, "said": ["2.0"]}), PASS, "mended"),
    (lambda: copied(1_000_000, 100_000), PASS, "h2d 1.00 MB ordinary 10 GB/s, 95% of cudaMemcpy's; limit 95%, or 10.0 µs more, from 1.00 MB on"),
    (lambda: copied(1_000_000, 105_000), PASS, ""),
    (lambda: copied(1_000_000, 106_000), FAIL, ""),
    (lambda: copied(999_999, 200_000), PASS, ""),
    (lambda: further.plain_copies(NAME, {"copies": []}), FAIL, ""),
    (lambda: launched(250_000), PASS, "250 µs by ortbench, 231 µs from first to last kernel and 15.0 µs around them by CUPTI (1.6% apart)"),
    (lambda: launched(232_000), PASS, "232 µs by ortbench"),
    (lambda: launched(252_000), FAIL, ""),
    (lambda: launched(226_000), FAIL, ""),
    (lambda: threads(1.049), PASS,
     "1.05k inferences/s by ortbench, 1.00k by 4 threads; ratio in 9 turns 1.049 (95% CI 1.049 to 1.049); limit 1 ± 0.05"),
    (lambda: threads(0.94), FAIL, ""),
    (lambda: threads(0.9, 1.0, 1.1), NOT_RUN, "too noisy to tell; 1.00k inferences/s"),
    (lambda: threads(0.94, limited=False), PASS, "940 inferences/s by ortbench, 1.00k by 4 threads; ratio in 9 turns 0.940"),
    (lambda: further.generated(NAME, TOLD), PASS, "shared TTFT 12.0 ms, 250 tokens/s, 0 B of state a token"),
    (lambda: further.generated(NAME, result()), FAIL, ""),
    (lambda: further.genai(NAME, GENAI, TOLD), PASS,
     "onnxruntime-genai 0.18: TTFT 10.0 ms, 500 tokens/s; ortbench's shared: TTFT 12.0 ms, 250 tokens/s"),
    (lambda: further.genai(NAME, GENAI, None), PASS, "onnxruntime-genai 0.18: TTFT 10.0 ms, 500 tokens/s"),
    (lambda: soaked(0), PASS, "5,000 inferences of 28 shapes; host memory 80.0 MB to 80.0 MB; device memory 1.00 GB to 1.00 GB"),
    (lambda: soaked(100), FAIL, ""),
    (lambda: soaked(0, wanted=5001), FAIL, ""),
    (lambda: zero_copy(case("host-accessible", checks=checked("zero_copy", {"verdict": "unclear", "how": "it takes longer"}))), PASS,
     "not proved: it takes longer"),
    (lambda: zero_copy(case("host-accessible", checks=checked("zero_copy", {"verdict": "passed", "how": ""}))), FAIL, ""),
    (lambda: zero_copy(without("host-accessible", "no such memory")), NOT_RUN, ""),
    (lambda: fence(1.029), PASS, ""),
    (lambda: fence(0.971), PASS, ""),
    (lambda: fence(1.031), FAIL, ""),
    (lambda: fence(0.9), FAIL, ""),
    (lambda: checks.fence(None), NOT_RUN, ""),
    (lambda: checks.loop_cost({"ours_ns": 105.0, "bare_ns": 100.0}), PASS, ""),
    (lambda: checks.loop_cost({"ours_ns": 106.0, "bare_ns": 100.0}), FAIL, ""),
    (lambda: checks.loop_cost({"ours_ns": 90.0, "bare_ns": 100.0}), PASS, ""),
    (lambda: loop(looped("cpu-tensors", (512, 512)), looped("device-resident"), looped("shared")), PASS,
     "cpu-tensors, device-resident, shared equal to expected outputs; cpu-tensors 6.00 µs, 2.00 µs to 3.00 µs a step; device-resident 6.00 µs, "
     "2.00 µs to 3.00 µs a step"),
    (lambda: loop(looped("device-resident", (0, 512))), FAIL, "device-resident: a step copies 0 and 512 bytes of the state"),
    (lambda: loop(looped("device-resident", (512, 0), places={"inputs": [], "outputs": [LEFT_THERE]})), PASS,
     "device-resident equal to expected outputs; device-resident: out in host memory (left there by Concat)"),
    (lambda: loop(looped("cpu-tensors", steps_ns=[2_000])), FAIL, "cpu-tensors: its 2 steps took [2000]"),
    (lambda: loop(looped("shared", checks=OTHER, status="failed", reason="y differs")), FAIL, "shared: y differs"),
    (lambda: loop(looped("cpu-tensors"), without("host-accessible", "no such memory", steps_ns=None)), PASS, ""),
    (lambda: twice((1_000, 3_000)), PASS, "cpu-tensors 1.00 µs, processes: 1"),
    (lambda: twice((1_000, 3_000), (2_000, 4_000)), PASS, "cpu-tensors 2.00 µs, processes: 1"),
    (lambda: twice((1_000, 3_000), (4_000, 5_000)), FAIL, "cpu-tensors 4.00 µs, processes: 1; apart: latency of cpu-tensors: 4000 to 5000, before 1000 to 3000"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "verdict", "figures"), SHOWN, ids=map(str, range(len(SHOWN))))
def test_what_a_result_shows(check: Callable[[], Check], verdict: str, figures: str) -> None:
    found = check()
    assert (found.verdict, found.figures[: len(figures)]) == (verdict, figures), found


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


@pytest.mark.process
@pytest.mark.parametrize(("ep", "library"), [("cuda", None), ("auto", "libsome.so")])
@pytest.mark.parametrize("scale", [FULL, QUICK])
def test_every_command_is_one_that_ortbench_takes(ep: str, library: str | None, scale: Scale) -> None:
    steps = Steps(ep, library, scale).all()
    assert len({step.name for step in steps}) == len(steps)
    program: Any = ortbench_commands()
    for step in steps:
        module, command, *arguments = step.line
        if module == "ortbench":
            program[command].make_context(command, arguments)  # raises what is no option of it
    options = {word for step in steps for word in step.line}
    assert ("--measure-copies" in options) == (ep == "cuda")


def ortbench_commands() -> dict[str, Any]:
    """The program's commands, as it makes them of what is typed."""
    app = typer.Typer()
    for name in commands():
        app.command(name)(function_of(name))
    program: Any = typer.main.get_command(app)
    found: dict[str, Any] = program.commands
    return found


def test_the_results_of_a_gpu_that_are_kept_pass_today() -> None:
    """No reference device gives energy, CUPTI's copies and clocks: a key of theirs that a check does not find shows here."""
    kept, results, found = ROOT / "reports" / "gpu-h100", {}, []
    for step in Steps("cuda", None, FULL).all():
        file = kept / step.name / step.leaves
        if step.leaves in ("result.json", "bandwidth.json") and file.is_file():
            data = results[step.name] = json.loads(file.read_text())
            left = Left(step.name, step.title, data, results)
            found += [_shown(show, left) for show in step.shows]
    assert len(found) > 30
    not_passed = {check.name: check.verdict for check in found if check.verdict != PASS}
    assert not_passed == {}, found


def test_the_whole_run_fits_into_its_time() -> None:
    for steps in Steps("cuda", None, FULL).parts().values():
        assert planned_s(steps) <= 9 * 60 - 20  # what is left is for a command that is stopped to save what it has
        for step in steps:
            assert step.planned_s < step.limit_s <= 200
    first = [step.name for step in Steps("cuda", None, FULL).parts()["1"][:5]]
    assert first == ["copy_4k", "profile-resnet50", "profile-copy_4k", "resnet50", "transformer"]


@pytest.mark.process
def test_a_gpu_that_is_lost_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [[H200], [H200], [{"error": "GPU is lost"}]]  # at the beginning, and behind two steps
    monkeypatch.setattr("tests.gpu.accept.nvidia_gpus", lambda: seen.pop(0))
    monkeypatch.setattr("tests.gpu.accept.subjects.write", lambda *_, **__: None)
    steps = Steps("cuda", None, QUICK).parts()["1"][:4]
    run = Acceptance("any", tmp_path, steps, minutes=0)
    run.run(quick=True)
    *_, last = run.checks
    assert (last.verdict, last.figures) == (
        FAIL,
        "NVML no longer shows the GPU of before; nothing follows profile-resnet50",
    )
    assert len(run.checks) == 3


@pytest.mark.parametrize(("codes", "verdicts_of"), [((0,), [PASS, FAIL]), ((0, 3), [PASS])])
def test_a_step_that_shows_all_has_failed_by_its_exit_code_unless_that_is_its_own(
    codes: tuple[int, ...], verdicts_of: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gated(run: Acceptance, *_: object) -> tuple[int, str]:
        (run.out / "why" / "gate.json").write_text("{}")
        return 3, ""

    monkeypatch.setattr(Acceptance, "_wait", gated)
    step = Step("why", NAME, ("ortbench", "gate"), "gate.json", (lambda _: Check(NAME, PASS, ""),), 1.0, codes=codes)
    found = Acceptance("any", tmp_path, (step,), minutes=1)._checked(step)
    assert [check.verdict for check in found] == verdicts_of


def test_real_models_have_a_column_a_batch_with_their_graphs(tmp_path: Path) -> None:
    def at(batch: int, mode: str, ns: int, speedup: float | None) -> dict[str, Any]:
        return case(
            mode, point={"batch": batch}, metrics={"latency": phase(ns)}, speedup=speedup and {"value": speedup}
        )

    run = Acceptance("any", tmp_path, (), minutes=1)
    run.results = {
        "vit": result(
            *(at(batch, "cpu-tensors", 4_000_000 * batch, 1.0) for batch in (1, 8)), at(1, "pipelined", 2_000_000, 2.0)
        ),
        "vit-graph": result(at(8, "device-resident", 8_000_000, None)),
    }
    assert run._figures() == [
        "| median latency, and speedup | vit, batch 1 | vit, batch 8 |",
        "|---|---|---|",
        "| cpu-tensors | 4.00 ms, 1.00× | 32.0 ms, 1.00× |",
        "| pipelined | 2.00 ms, 2.00× | – |",
        "| device-resident, CUDA graph | – | 8.00 ms, 4.00× |",
        "",
    ]


def test_only_a_check_that_failed_fails_the_run() -> None:
    assert checks.exit_code([Check("a", PASS, ""), Check("b", NOT_RUN, "")]) == 0
    assert checks.exit_code([Check("a", PASS, ""), Check("b", FAIL, "")]) == 1


DEVICE = Config(compute_us=1000, upload_latency_us=1000, upload_gbps=0, download_latency_us=1000, download_gbps=0)
# Little of each kind of step; the others differ in their options, which are compared with the program above.
LITTLE = replace(QUICK, option_s=0.02, direct_s=0.1, sweep=("--max-size", "1MB", "--iterations", "2"))
STEPS = (
    "copy_4k", "fence-and-loop", "bandwidth", "cuda-graph-resnet50", "prefer-gpu", "named-device", "devices", "profile", "tensorrt-warm",
    "loop-decoder", "loop-decoder_shared", "costs",
)  # fmt: skip
Found = dict[str, tuple[str, str]]  # verdict and figures by check


@pytest.fixture
def accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Found]]:
    """Goes through steps, each in a fork: exit code, and what the summary says."""

    def fork(self: Acceptance, line: Sequence[str], _: float, environ: Mapping[str, str]) -> tuple[int, str]:
        module, *arguments = line[2:]
        own = {} if module == "ortbench" else {MAIN: "tests.gpu.direct:forked_main"}
        ran = ortbench(*arguments, cwd=self.out, COLUMNS="200", **environ, **own, **DEVICE.environ())
        return ran.code, ran.err.strip()

    def run(*arguments: object, steps: Sequence[str]) -> tuple[int, Found]:
        chosen = [word for step in steps for word in ("--only", step)]
        code = main(["--quick", "--out", str(tmp_path / "out"), *chosen, *map(str, arguments)])
        return code, verdicts(tmp_path / "out")

    monkeypatch.setattr(Acceptance, "_wait", fork)
    monkeypatch.setattr("tests.gpu.accept.QUICK", LITTLE)
    return run


def verdicts(out: Path) -> Found:
    """Verdict and figures by check, from the summary."""
    rows = [line.strip("| ").split(" | ") for line in (out / "summary.md").read_text().splitlines()]
    return {row[1]: (row[0], row[2]) for row in rows if row[0] in (PASS, FAIL, NOT_RUN)}


def differing(found: Found, expected: Mapping[str, tuple[str, str]]) -> Found:
    """The checks, by how their names begin, that have another verdict or figures that begin otherwise."""
    wrong = {}
    for beginning, (verdict, figures) in expected.items():
        (seen,) = [value for name, value in found.items() if name.startswith(beginning)]
        if seen[0] != verdict or not seen[1].startswith(figures):
            wrong[beginning] = seen
    return wrong


ALL = "cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned, device-tensors-pinned, pipelined, device-resident-async"
ON_THE_DEVICE = {
    "copy_4k: outputs": (PASS, f"{ALL} equal to expected outputs"),
    "copy_4k: pipelined": (
        PASS,
        "≈75% of 4.00 ms hidden (95% CI 75% to 75%), 3 in flight, 1.50 times as fast as device-tensors; 4 of 4 items have inputs of "
        "their own",
    ),
    "copy_4k: pinned": (
        PASS,
        "device-tensors h2d 1.00 ms, pinned 1.00 ms (1.00×); device-tensors d2h 1.00 ms, pinned 1.00 ms (1.00×); "
        "device-tensors latency 3.00 ms, pinned 3.00 ms (1.00×); cpu-tensors latency 3.00 ms, pinned 3.00 ms (1.00×)",
    ),
    "copy_4k: asynchronous": (PASS, "1.00 ms a run in bursts of 19, 1.00 ms waited for one by one (1.00×)"),
    "the EP's device and its memory": (PASS, "RefDeviceExecutionProvider 1.0.0 from "),
    "host-accessible: zero-copy": (
        PASS,
        "proved: the outputs are at the bound addresses; in a short check before the measurement an inference took 1.00 µs longer than with",
    ),
    "CUPTI's copies against h2d and d2h of device-tensors-pinned": (NOT_RUN, UNASKED),
    "cpu-tensors less device-resident agrees": (NOT_RUN, UNASKED),
    "the published sample's shape": (
        PASS,
        "≈200 ms of copies with CPU tensors, 2.00 ms a copy in device-tensors, 100 times",
    ),
    "NVML before": (NOT_RUN, ""),
    "the fence holds": (PASS, "30 runs in 30.0 ms, median 1.00 ms (fence: run), ratio 0.999"),
    "loop cost against a bare loop": (PASS, "1.00 ms a sample, 1.00 ms in a bare loop, ratio 1.001; limit 1.05"),
    "copy bandwidth over sizes": (
        PASS,
        "peak: h2d 0.998 GB/s with 1.00 MB from ordinary memory, d2h 0.998 GB/s with 1.00 MB from ordinary memory; "
        "20 copies with their data held",
    ),
    "loop of decoder:": (
        PASS,
        "cpu-tensors, device-resident, host-accessible equal to expected outputs; cpu-tensors 172 ms, 27.0 ms to",
    ),
    "loop of decoder_shared:": (
        PASS,
        "cpu-tensors, device-resident, host-accessible, shared equal to expected outputs; cpu-tensors 114 ms",
    ),
    "--cuda-graph, resnet50": (NOT_RUN, "--cuda-graph: RefDeviceExecutionProvider captures no graphs"),
    "--ep prefer-gpu": (
        PASS,
        "RefDeviceExecutionProvider on GPU 0001 of ortbench 0b0b; cpu-tensors, device-tensors, device-resident equal",
    ),
    "without an EP device": (NOT_RUN, "auto is known by its EP device only"),
    "--measure-spin:": (PASS, "cpu-tensors 3.00 ms without; device-resident 1.00 ms without"),
    "--measure-memory:": (
        PASS,
        "cpu-tensors 146 kB (what ortbench bound and what the EP's arena held; 0 B bound, card not known); ",
    ),
    "--measure-energy:": (NOT_RUN, "the device of RefDeviceExecutionProvider is no NVIDIA GPU"),
    "ortbench devices": (
        PASS,
        "RefDeviceExecutionProvider on GPU 0b0b:0001, memory RefDevice (DEFAULT) and RefDeviceHostAccessible "
        "(HOST_ACCESSIBLE), streams; unsupported: no mode",
    ),
    "--ep tensorrt: engine from": (NOT_RUN, "no engine was built"),
}


@pytest.mark.wide
@pytest.mark.process
def test_on_the_reference_device_all_that_it_can_answer_passes(
    accept: Callable[..., tuple[int, Found]], library: Path, tmp_path: Path
) -> None:
    code, found = accept("--ep-library", library, steps=STEPS)
    assert differing(found, ON_THE_DEVICE) == {}
    assert code == 0
    out = tmp_path / "out"
    summary = (out / "summary.md").read_text()
    assert str(ROOT) not in summary
    assert "| copy_4k | 0 |" in summary
    assert "| pipelined | 2.00 ms, 1.50× |" in summary
    assert "--mode all --depth 3" in summary
    for name in ("copy_4k", "prefer-gpu"):
        assert {path.name for path in (out / name).iterdir()} == {"result.json", "table.csv", "table.md"}
    assert not [path for path in out.rglob("*") if path.is_symlink() or path.suffix == ".onnx"]


@pytest.mark.wide
@pytest.mark.process
def test_on_the_cpu_it_says_what_does_not_apply(accept: Callable[..., tuple[int, Found]]) -> None:
    steps = ("copy_4k", "transformer", "fence-and-loop", "bandwidth", "loop-*")
    _, found = accept("--ep", "cpu", steps=steps)  # what it says of times a busy machine may spoil
    passed = (
        "copy_4k: outputs", "transformer: outputs", "host-accessible",
        "loop of recurrent_cell:", "loop of decoder:", "loop of decoder_shared:",
    )  # fmt: skip
    why = "this EP computes in host memory: nothing is copied to a device"
    inapplicable = ("copy_4k: pipelined", "copy_4k: pinned", "copy bandwidth over sizes")
    assert differing(
        found,
        {
            **dict.fromkeys(passed, (PASS, "")),
            **dict.fromkeys(("the published sample's shape", "the fence holds"), (NOT_RUN, why)),
            **dict.fromkeys(inapplicable, (NOT_RUN, "")),
        },
    ) == {}  # fmt: skip


@pytest.mark.process
def test_a_step_that_fails_does_not_end_the_run(accept: Callable[..., tuple[int, Found]]) -> None:
    basic = ("copy_4k", "transformer", "fence-and-loop")
    code, found = accept("--ep", "no-such-ep", steps=(*basic, "bandwidth", "why"))
    assert code == 1
    failed = ("copy_4k: outputs equal", "transformer: outputs equal", "the fence holds, loop cost")
    why = f"the EP ran nothing yet: {', '.join(basic)} left no result"
    expected = dict.fromkeys(failed, (FAIL, "")) | dict.fromkeys(
        ("copy bandwidth", "ortbench gate: finds"), (NOT_RUN, why)
    )
    assert differing(found, expected) == {}
    assert "no such execution provider" in next(figures for name, (_, figures) in found.items() if failed[0] in name)


@pytest.mark.process
def test_a_command_that_is_not_done_in_time_is_interrupted(tmp_path: Path) -> None:
    run = Acceptance("any", tmp_path, (), minutes=1)
    assert run._wait([sys.executable, "-c", "import sys; sys.exit('it broke')"], 600) == (1, "it broke")
    assert run._wait(["sleep", "600"], 0.1) == (None, "")


@pytest.mark.process
def test_what_there_is_no_time_for_is_not_run(accept: Callable[..., tuple[int, Found]], tmp_path: Path) -> None:
    code, found = accept("--ep", "cpu", "--minutes", 0.01, steps="*")
    assert code == 0
    assert {verdict for verdict, _ in found.values()} == {NOT_RUN}
    assert differing(found, {"copy_4k: outputs equal": (NOT_RUN, "no time was left")}) == {}
    assert "0 passed, 0 failed" in (tmp_path / "out" / "summary.md").read_text()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ep", "cpu", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"accept: --out {tmp_path}: File exists\n"
    assert list(tmp_path.iterdir()) == []


def test_the_plan_is_printed_and_steps_are_chosen_by_part_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--plan", "--only", "stream-*", "--only", "start"]) == 0
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["part", "start", "stream-ort", "stream-cuda-python"]
    assert "57" in lines  # MB to carry
    assert main(["--plan", "--part", "1", "--only", "gate", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "accept: --only gate: there is no such step; --plan prints them\n"
    assert not (tmp_path / "out").exists()


def test_what_ortbench_needs_is_packed() -> None:
    """But for what comes with onnx, and what its commands of the run do without."""
    needed = {re.split(r"[<>=; \[]", it)[0] for it in requires("ortbench") or () if "extra ==" not in it}
    packed = {re.split(r"[<>=]", it)[0] for it in pack.PACKAGES}
    assert needed - packed == {"numpy", "pandas", "scipy", "onnxruntime"}


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
    pack.leave_out(site, ["ONE", "what-is-not-packed"])
    assert sorted(path.name for path in site.iterdir()) == ["two", "two-1.0.dist-info"]
    parts = pack.pack(site, out, 1)
    assert [path.name for path in parts] == ["site.tar.xz.00", "site.tar.xz.01"] == sorted(os.listdir(out))
    whole = io.BytesIO(b"".join(path.read_bytes() for path in parts))
    with tarfile.open(fileobj=whole) as tar:
        assert "two/__init__.py" in tar.getnames()


@pytest.mark.process
def test_the_cuda_ep_takes_all_that_is_asked_of_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """The command lines of the run on a GPU, with the CUDA EP itself on a runtime that computes on the CPU."""
    chosen = [word for name in ("copy_4k", "stream-ort", "devices", "report", "memcpy") for word in ("--only", name)]
    line = [*software_cuda, sys.executable, "-m", "tests.gpu.accept", "--quick", "--ep", "cuda", *chosen]
    done = subprocess.run(
        [*line, "--out", str(tmp_path / "out")], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )
    beginnings = (
        "copy_4k: outputs equal", "copy_4k: pipelined", "copy_4k: pinned", "copy_4k: asynchronous", "the EP's device",
        "host-accessible: zero-copy", "NVML", "--stream ort", "ortbench devices", "the first process", "reports/host-accessible-outputs.md",
    )  # fmt: skip
    assert differing(verdicts(tmp_path / "out"), dict.fromkeys(beginnings, (PASS, ""))) == {}, done.stdout
