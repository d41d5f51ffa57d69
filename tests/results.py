"""Synthetic results of every kind, for tests of what is said about results: every time is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np

from ortbench.analysis.bandwidth import DIRECTIONS, CopySweep, Point
from ortbench.analysis.derive import derive
from ortbench.analysis.history import Run, run_of
from ortbench.analysis.load import knees
from ortbench.analysis.loops import summarise_steps
from ortbench.analysis.points import together
from ortbench.analysis.sweep import best_of, switched
from ortbench.modes import HOST_ACCESSIBLE, RESIDENT, STEP, TOTAL
from ortbench.plan import CPU_EP, Inputs, Plan
from ortbench.result import FAILED, UNSUPPORTED, Case, Result, save
from ortbench.schema import (
    BackToBack,
    ChainLink,
    ChainStage,
    Direction,
    Fence,
    HostTime,
    Island,
    Latency,
    Level,
    LevelBlock,
    LoadSetup,
    Loop,
    Measured,
    MemcpyNode,
    Memory,
    NodeReference,
    Nodes,
    SloRate,
    Spin,
    Switching,
    Tensor,
)
from ortbench.slo import Slo
from ortbench.stats import Stats, summarise
from ortbench.sweep_plan import Shape

US, MS = 1_000, 1_000_000
MB = 1_000_000
EP = "SomeExecutionProvider"
DET: NodeReference = {"name": "/head/Det_7", "op": "Det", "ep": CPU_EP}

Blocks = dict[int, list[int]]  # round → samples, ns


def steady(medians: Iterable[int], first: int = 0) -> Blocks:
    """Blocks of three samples that are all the same, in consecutive rounds."""
    return {number: [value] * 3 for number, value in enumerate(medians, first)}


def measured(mode: str, **phases: Blocks) -> Case:
    """A mode that is ok."""
    case = Case(mode)
    for phase, blocks in phases.items():
        case.samples_ns[phase] = [sample for samples in blocks.values() for sample in samples]
        case.blocks[phase] = [[number, len(samples), 0] for number, samples in blocks.items()]
        case.phases[phase] = summarise(case.samples_ns[phase])
    if mode in (RESIDENT, HOST_ACCESSIBLE):
        case.phases["inference"] = case.phases["total"]
    return case


def broken(mode: str, status: str = FAILED, reason: str | None = "it broke", **phases: Blocks) -> Case:
    """A mode that is not ok, with what was measured of it before."""
    case = measured(mode, **phases)
    case.status, case.reason = status, reason
    return case


def host_time(runs: int, wall_ns: int, user_ns: int, system_ns: int) -> HostTime:
    """What the host took for so many runs of so much each."""
    return {"runs": runs, "wall_ns": runs * wall_ns, "user_ns": runs * user_ns, "system_ns": runs * system_ns}


def spin(runs: int, cpu_ns: int, total_ns: int, within: int = 0) -> Spin:
    """What a run takes where threads do not spin, `within` so many ns of CPU time of the median."""
    found = host_time(runs, total_ns, cpu_ns, 0)
    return {**found, "total_ns": total_ns, "cpu_time_ci95_ns": [cpu_ns - within, cpu_ns + within]}


def weighed(
    case: Case, device: int | None = None, host: int | None = None, *, failed: str | None = None, nodes: bool = False
) -> Case:
    """A case with its memory measured, which it gives back.

    Args:
        case: of a mode.
        device, host: what it takes, bytes: of the device's half is bound and half the arena's, None where it has none.
        failed: why there is nothing.
        nodes: one holds most.
    """
    if failed is not None:
        case.memory = {"failed": failed, "device": None, "host": None, "arenas": [], "arenas_how": failed}
        return case
    case.memory = {
        "failed": None,
        "device": None
        if device is None
        else {"bytes": device, "how": "as it was scripted", "bound": device // 2, "card": None},
        "host": None
        if host is None
        else {"before": host // 4, "session": host // 2, "peak": host, "pinned": 0, "how": "scripted too"},
        "arenas": [] if device is None else [{"ep": EP, "held": device - device // 2, "in_use": device // 4}],
        "arenas_how": "as the profile has it",
    }
    if nodes:
        case.memory["nodes"] = [
            {"name": "/head/Conv_3", "op": "Conv", "ep": EP, "allocated": 4 * MB, "output": 4 * MB, "weights": 1000}
        ]
    return case


# Cases of whose phases only the statistics are known


def stats(median: int, n: int = 200) -> Stats:
    """Statistics whose percentiles follow from the median: p95 is 10 % above it, p99 20 %."""
    return Stats(
        n=n,
        min_ns=median * 9 // 10,
        mean_ns=median,
        median_ns=median,
        p90_ns=median * 105 // 100,
        p95_ns=median * 11 // 10,
        p99_ns=median * 12 // 10,
        max_ns=median * 2,
        stdev_ns=median // 100,
        mad_ns=median // 200,
        ci95_ns=(median * 99 // 100, median * 101 // 100),
    )


def case(mode: str, n: int = 200, ratio: Sequence[float] | None = None, **phases: int) -> Case:
    """A case from the medians of its phases; `ratio` is (ratio, low, high), or (ratio,) without an interval."""
    made = Case(mode, bytes_in=0, bytes_out=0, outputs_match=True)
    for name, median in phases.items():
        made.phases[name] = stats(median, n)
    if ratio is not None:
        made.vs_cpu = {"ratio": ratio[0], "ci95": list(ratio[1:]) or None}
    return made


# Results


def tensor(name: str, shape: list[int], size: int | None = None) -> Tensor:
    """An input or output of `size` bytes."""
    return {"name": name, "type": "tensor(float)", "model_shape": [*shape], "shape": shape, "bytes": size}


def result_of(*cases: Case, run_id: str | None = None, **changed: Any) -> Result:
    """A result of a GPU.

    Args:
        cases: its modes.
        run_id: of the run.
        changed: instead of what is here, see `change`.
    """
    result = Result(
        tool={"name": "ortbench", "version": "0"},
        created="2026-01-01T00:00:00Z",
        command=["ortbench"],
        environment={
            "onnxruntime": "1.28.0",
            "python": "3.12.0",
            "os": "Linux",
            "cpu": {"model": "Some CPU", "cores": 8, "usable_cores": 4},
            "gpus": [{"name": "Some GPU"}],
            "load_average": {"start": None, "end": None},
        },
        model={
            "path": "m.onnx",
            "sha256": "a" * 64,
            "inputs": [tensor("x", [1, 3]), tensor("y", [])],
            "outputs": [],
        },
        target={
            "ep": EP,
            "ep_version": "1.0",
            "device": {"type": "GPU", "vendor": "Some", "vendor_id": 1, "device_id": 2, "index": 0},
            "memory": {"kind": "ep-device", "default": "Mem (DEFAULT)", "host_accessible": None},
            "fence": None,
            "ep_options": {},
            "session_config": {},
            "threads": None,
            "opt_level": "all",
        },
        placement={"nodes": {EP: 3}, "memcpy_nodes": 0, "cpu_operators": {}},
        setup={"session_ns": 0, "first_run_ns": 0, "seed": 0},
        cases=list(cases),
    )
    if run_id is not None:
        result.setup["run_id"] = run_id
    return change(result, **changed)


def change(result: Result, **changed: Any) -> Result:
    """The result with other values, as ``environment__cpu__model="other"``."""
    for path, value in changed.items():
        part, *keys, last = path.split("__")
        inner: dict[str, Any] = getattr(result, part)
        for key in keys:
            inner = inner[key]
        inner[last] = deepcopy(value)
    return result


def nvidia_result(*cases: Case, **target: Any) -> Result:
    """A result of an NVIDIA GPU that was proved to wait.

    Args:
        cases: its modes.
        target: instead of what is here, or besides.
    """
    made = result_of(*cases)
    made.command = ["ortbench", "run", "m.onnx", "--ep", "some"]
    made.model["inputs"] = [tensor("x", [1, 3]), tensor("s", [])]
    made.target["ep_version"] = "0.4"
    made.target["device"] = {"type": "GPU", "vendor": "NVIDIA", "vendor_id": 0x10DE, "device_id": 0x2335}
    made.target["memory"] = {"kind": "ep-device", "default": "Some", "host_accessible": "SomeShared"}
    made.target["fence"] = {"kind": "synchronize_outputs", "cost_ns": 2_300, "how": "seen"}
    cast(dict[str, Any], made.target).update(target)
    made.stopped = "precision: ±1 %"
    return made


def published(ratio: Sequence[float] = (2.4, 2.3, 2.5)) -> Result:
    """The figures of ONNX Runtime's device tensor sample: 7.2 ms with CPU tensors, 3.0 ms with device tensors."""
    cpu = case("cpu", ratio=(1.0, 1.0, 1.0), total=7_200 * US)
    cpu.bytes_in = cpu.bytes_out = 25 * MB
    cpu.derived = {"copies_ns": 4_200 * US, "inference_ns": 3_000 * US}
    device = case(
        "device", ratio=(0.9, 0.88, 0.92), upload=2_100 * US, inference=3_100 * US, download=2_100 * US, total=8 * MS
    )
    device.bytes_in = device.bytes_out = 25 * MB
    resident = case("device-resident", ratio=ratio, inference=3_000 * US, total=3_000 * US)
    resident.once = {"upload_ns": 2_100 * US, "download_ns": 2_100 * US}
    shared = case("host-accessible", ratio=(1.8, 1.75, 1.85), inference=4 * MS, total=4 * MS)
    shared.zero_copy = {"proved": True, "how": "bound addresses are used"}
    return nvidia_result(cpu, device, resident, shared)


def with_failures() -> Result:
    """One mode of four that is ok."""
    wrong = case("device", upload=1 * MS, inference=1 * MS, download=1 * MS, total=2 * MS)
    wrong.status, wrong.reason = FAILED, "after the timed runs: output y: 1 of 2 values differ"
    wrong.outputs_match = False
    return nvidia_result(
        case("cpu", ratio=(1.0, 1.0, 1.0), total=3 * MS),
        wrong,
        Case("device-resident", FAILED, "the worker was ended by SIGABRT"),
        Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"),
    )


# Loops


OVERHEAD = 1_000  # ns of a loop of `level` that are in none of its steps
QUIET = (1.0, 1.001, 0.999, 1.0005)  # by what its steps are off, round by round


def loop_case(
    mode: str,
    steps: Sequence[int],
    ratio: Sequence[float] | None = None,
    state: int | list[int] | None = 0,
    copied: int | list[int] | None = 0,
    rounds: int = 20,
    loops: int = 1,
    overhead: int = 0,
    wobble: Sequence[float] = (1.0,),
) -> Case:
    """A mode of a loop, which brings its first state there in no time.

    Args:
        mode: its name.
        steps: what each takes, ns.
        ratio: as of `case`.
        state: what is copied each way in a step because of the state, bytes, or by step.
        copied: the same of all.
        rounds: blocks, of so many `loops` each.
        overhead: of a loop, ns that are in none of its steps.
        wobble: by what the steps are off, round by round.
    """
    made = Case(mode, outputs_match=True)
    made.samples_ns, made.blocks = {TOTAL: [], STEP: []}, {TOTAL: [], STEP: []}
    for number in range(rounds):
        taken = [round(ns * wobble[number % len(wobble)]) for ns in steps]
        made.samples_ns[TOTAL] += [sum(taken) + overhead] * loops
        made.samples_ns[STEP] += taken * loops
        made.blocks[TOTAL].append([number, loops, number * 10**9])
        made.blocks[STEP].append([number, len(steps) * loops, number * 10**9])
    made.phases[TOTAL] = summarise(made.samples_ns[TOTAL])
    made.state_bytes_in = made.state_bytes_out = state
    made.step_bytes_in = made.step_bytes_out = copied
    if ratio is not None:
        made.vs_cpu = {"ratio": ratio[0], "ci95": list(ratio[1:]) or None}
    summarise_steps(made, len(steps))
    return made


def level(mode: str, factor: float = 1.0, count: int = 4) -> Case:
    """A mode whose steps take about 1 ms, times a factor."""
    steps = [round(MS * factor)] * count
    return loop_case(mode, steps, rounds=24, loops=3, overhead=OVERHEAD, wobble=QUIET)


def loop_of(steps: int = 4, **changed: Any) -> Loop:
    """A loop of a cell."""
    made = {"steps": steps, "feedback": [["hidden_out", "hidden"]], "first": None, "grows": [],
            "state_shapes": [[[1, 128], [1, 128]]], "fill": {}, "keep": [], "resident": []}  # fmt: skip
    return cast(Loop, made | changed)


def loop_result(*cases: Case, loop: Loop | None = None, **changed: Any) -> Result:
    """A result of a loop on an NVIDIA GPU; of the first mode the steps are counted unless the loop is given."""
    made = nvidia_result(*cases)
    made.command = ["ortbench", "loop", "m.onnx", "--ep", "some", "--feedback", "present=past"]
    made.kind = "loop"
    made.loop = loop or loop_of(next((len(it.steps_ns) for it in cases if it.steps_ns), 1))
    return change(made, **changed)


def decoding(first: bool = False) -> Result:
    """A loop of 8 steps whose state grows by 1 kB in each: a step of `cpu` takes 10 µs longer each time, of the others none.

    Args:
        first: the first step has a shape of its own, and takes 2 ms.
    """
    grown = [8_000 + 1_000 * step for step in range(8)]
    cpu = [1 * MS + 10 * US * step for step in range(8)]
    resident = [500 * US] * 8
    if first:
        cpu[0] = resident[0] = 2 * MS
    return loop_result(
        loop_case("cpu", cpu, (1.0, 1.0, 1.0), grown, [size + 100 for size in grown]),
        loop_case("device-resident", resident, (2.07, 2.0, 2.1), 0, 100),
        Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"),
        loop=loop_of(
            8,
            feedback=[["present", "past"]],
            first={"sequence": 5} if first else None,
            grows=["past"],
            state_shapes=[[[1, 0, 250], [1, 8, 250]]],
        ),
    )


# What CUPTI measured


def copied(up: int, down: int, kernels: int = 1) -> Measured:
    """Copies of one pageable byte each way, in so many ns, and kernels."""
    return {
        "runs": 3,
        "run_ns": 1,
        "upload": {"n": 1, "bytes": 1, "ns": up, "memory": "pageable"},
        "download": {"n": 1, "bytes": 1, "ns": down, "memory": "pageable"},
        "kernels_ns": kernels,
    }


# Profiled nodes


def memcpy_node(tensor: str | None, direction: str, **changed: Any) -> MemcpyNode:
    """A Memcpy node that `Det` forces."""
    made = {"name": "Memcpy", "direction": direction, "tensor": tensor, "type": "float[8]", "bytes": 2000, "ns": 40_000,
            "forced_by": [DET], "island": 0}  # fmt: skip
    return cast(MemcpyNode, made | changed)


def island(op: str = "Det", count: int = 1, reads: str = "float[8]", **changed: Any) -> Island:
    """An island of so many nodes of an operator, with a copy in and one out."""
    names = [{"name": f"{op}_{n}", "op": op, "reads": [reads], "ns": 100_000} for n in range(count)]
    made = {"nodes": names, "position": "middle", "node_ns": 100_000, "to_host": 1, "from_host": 1, "bytes": 4000,
            "memcpy_ns": 80_000, "ns": 180_000, "share": 0.18}  # fmt: skip
    return cast(Island, made | changed)


def profiled(**changed: Any) -> Nodes:
    """A run of 1 ms, of which an island takes 0.18 ms."""
    made = {
        "runs": 20,
        "run_ns": 1_000_000,
        "outside_ns": 20_000,
        "operators": [
            {"op": "Conv", "ep": EP, "nodes": 4, "ns": 800_000, "share": 0.8},
            {"op": "Det", "ep": CPU_EP, "nodes": 1, "ns": 100_000, "share": 0.1},
            {"op": "MemcpyToHost", "ep": None, "nodes": 1, "ns": 40_000, "share": 0.04},
            {"op": "MemcpyFromHost", "ep": None, "nodes": 1, "ns": 400, "share": 0.0004},
        ],
        "eps": [
            {"ep": EP, "nodes": 4, "ns": 800_000, "share": 0.8},
            {"ep": CPU_EP, "nodes": 1, "ns": 100_000, "share": 0.1},
            {"ep": None, "nodes": 2, "ns": 80_000, "share": 0.08},
        ],
        "memcpy": [memcpy_node("matrices", "to host"), memcpy_node("determinants", "from host", ns=400)],
        "islands": [island()],
        "problem": None,
    }
    return cast(Nodes, made | changed)


# Bandwidth sweeps


def point(direction: Direction, memory: str, size: int, ns: int, rounds: int = 6) -> Point:
    """Copies in blocks of three equal samples."""
    blocks = [[number, 3, number * 10**9, ns] for number in range(rounds)]
    samples = [ns] * 3 * rounds
    return Point(direction, memory, size, stats=summarise(samples), blocks=blocks, samples_ns=samples)


def sweep_of(*points: Point, **changed: Any) -> CopySweep:
    """A sweep on the machine of `result_of`."""
    like = result_of()
    fence: Fence = {"kind": "run", "cost_ns": 0, "how": "proved"}
    target = like.target
    return CopySweep(
        tool={"name": "ortbench", "version": "0"},
        created="2026-01-02T00:00:00+00:00",
        command=["ortbench", "bandwidth"],
        environment=like.environment,
        target={
            "ep": target["ep"],
            "ep_version": target["ep_version"],
            "device": target["device"],
            "memory": target["memory"],
            "fence": {memory: dict.fromkeys(DIRECTIONS, fence) for memory in {point.memory for point in points}},
        },
        setup={"seed": 0},
        stopped="duration: 20 s",
        points=list(points),
        **changed,
    )


# Chains


DEVICE: Memory = {"kind": "ep-device", "default": "Mem (DEFAULT)", "host_accessible": None}
HOST: Memory = {"kind": "host", "default": "host memory", "host_accessible": None}


def stage(name: str, repeat: int = 1, memory: Memory = DEVICE) -> ChainStage:
    ep = "CPUExecutionProvider" if memory is HOST else "SomeExecutionProvider"
    return {
        "name": name, "model": f"{name}.onnx", "sha256": "b" * 64, "ep": ep, "ep_version": "1.0",
        "device": {"type": "GPU", "vendor": "Some", "vendor_id": 1, "device_id": 2}, "memory": memory, "repeat": repeat,
        "feedback": [["out", "in"]] if repeat > 1 else [], "keep": [], "session_ns": 1, "first_run_ns": 1, "settings": {},
    }  # fmt: skip


def link(source: str, to: str, size: int, why: str | None = None, crossings: tuple[int, int] = (1, 1)) -> ChainLink:
    return {
        "from": source, "to": to, "bytes": size, "stays": why is None, "why": why, "memory": "Mem (DEFAULT)",
        "downloads": crossings[0], "uploads": crossings[1], "download_ns": 30 * US, "upload_ns": 20 * US,
    }  # fmt: skip


def chain(
    *links: ChainLink,
    resident_ms: tuple[float, float] = (1, 5),
    stages: tuple[ChainStage, ...] = (),
    rounds: int = 6,
    run_id: str | None = None,
) -> Result:
    """Two stages, of 2 ms and 8 ms with cpu, in blocks of three chains."""
    cpu = measured("cpu", total=steady([10 * MS] * rounds))
    resident = measured("device-resident", total=steady([round(sum(resident_ms) * MS)] * rounds))
    for case, parts in ((cpu, (2.0, 8.0)), (resident, resident_ms)):
        case.samples_ns["stage"] = [round(ms * MS) for ms in parts] * 3 * rounds
        case.blocks["stage"] = [[number, 6, 0] for number in range(rounds)]
        case.phases["inference"] = None
        case.bytes_in, case.bytes_out, case.outputs_match = 3000, 4000, True
        case.stage_bytes = {"text": {"bytes_in": 1000, "bytes_out": 0}, "image": {"bytes_in": 2000, "bytes_out": 4000}}
    resident.bytes_in = 0
    result = result_of(cpu, resident, run_id=run_id)
    result.kind = "chain"
    result.chain = {"stages": list(stages or (stage("text"), stage("image", 4))), "links": list(links)}
    derive(result)
    return result


STAYING = link("text.condition", "image.condition", 64_000, crossings=(1, 4))
CROSSING = link("text.mask", "image.mask", 8, "text has it in host memory, image wants it in Mem (DEFAULT)", (0, 1))


# Loads


ROUNDS = 8
# By what a block is off the level's figure, round by round: they cancel out.
WOBBLE = (1.01, 0.99, 1.02, 0.98, 1.01, 0.99, 1.0, 1.0)


def latency(p50_ms: float, p99_ms: float | None = None) -> Latency:
    """Latencies, of which p95 lies halfway between p50 and p99 (twice p50 unless it is given), and the most is twice p99."""
    p50, p99 = round(p50_ms * MS), round((2 * p50_ms if p99_ms is None else p99_ms) * MS)
    return {"mean": p50, "p50": p50, "p95": (p50 + p99) // 2, "p99": p99, "max": 2 * p99}


def level_blocks(
    runs_per_s: float, of: Latency, rounds: int = ROUNDS, wobble: Sequence[float] = WOBBLE
) -> list[LevelBlock]:
    """Blocks whose runs/s and latencies wobble around a level's, in opposite directions."""
    found: list[LevelBlock] = []
    for number in range(rounds):
        off = wobble[number % len(wobble)]
        scaled = cast(Latency, {name: round(cast(int, ns) / off) for name, ns in of.items()})
        found.append({"round": number, "n": 100, "runs_per_s": runs_per_s * off, "latency_ns": scaled})
    return found


def closed(
    mode: str, callers: int, runs_per_s: float, p50_ms: float, p99_ms: float | None = None, **changed: Any
) -> Level:
    """A level of so many callers; its runs/s are known to 1 %, and wobble otherwise than those of other levels."""
    of, turn = latency(p50_ms, p99_ms), callers % len(WOBBLE)
    made = {
        "mode": mode, "sessions": "shared", "concurrency": callers, "status": "ok", "reason": None, "runs_per_s": runs_per_s,
        "ci95": [runs_per_s * 0.99, runs_per_s * 1.01], "latency_ns": of, "n": 100 * ROUNDS, "outputs_match": True,
        "cpu_cores": 0.5 * callers, "lock_wait": 0.01, "fairness": 1.0, "clock_mhz": None,
        "blocks": level_blocks(runs_per_s, of, wobble=WOBBLE[turn:] + WOBBLE[:turn]),
    }  # fmt: skip
    return cast(Level, made | changed)


def opened(mode: str, rate: float, p50_ms: float, p99_ms: float | None = None, **changed: Any) -> Level:
    """A level of so many requests a second, which all are served: they wait 0.1 ms, and take the rest."""
    of = latency(p50_ms, p99_ms)
    service = of["p50"] - MS // 10
    made = {
        "mode": mode, "sessions": "shared", "rate": rate, "status": "ok", "reason": None, "runs_per_s": rate,
        "ci95": [rate * 0.99, rate * 1.01], "latency_ns": of, "n": 100 * ROUNDS, "outputs_match": True, "cpu_cores": 0.5,
        "lock_wait": 0.0, "wait_ns": {"mean": MS // 10, "ci95": [MS // 12, MS // 8], "p99": MS}, "late": 0.0,
        "late_ns": {"max": 20_000, "p99": 5_000}, "utilisation": rate * service / 1e9,
        "service_ns": {"mean": service, "p50": service}, "slo_held": None, "clock_mhz": None, "blocks": level_blocks(rate, of),
    }  # fmt: skip
    return cast(Level, made | changed)


def failed_level(level: Level, reason: str = "the worker was ended by SIGSEGV") -> Level:
    """A level that failed before anything was measured of it."""
    nothing = dict.fromkeys(
        ("runs_per_s", "ci95", "latency_ns", "outputs_match", "cpu_cores", "lock_wait", "clock_mhz")
    )
    kept = {key: level[key] for key in ("mode", "sessions", "concurrency", "rate") if key in level}
    return cast(Level, {**kept, "status": FAILED, "reason": reason, **nothing, "n": 0})


def alone(p50_ms: float, sm: int | None = None) -> BackToBack:
    """Runs back to back, and the clock meanwhile."""
    return {"n": 500, "latency_ns": latency(p50_ms), "clock_mhz": None if sm is None else {"sm": sm}}


def load_result(
    *levels: Level,
    back_to_back: dict[str, BackToBack] | None = None,
    slo: dict[str, int] | None = None,
    found: dict[str, SloRate | None] | None = None,
    run_id: str | None = None,
    **setup: Any,
) -> Result:
    """A result of a load on an NVIDIA GPU.

    Args:
        levels: of it.
        back_to_back: of open loops, by mode.
        slo: the most that each statistic may be, ns.
        found: of ``--rate auto``.
        run_id: of the run.
        setup: of the load, instead of what is here.
    """
    modes = dict.fromkeys(level["mode"] for level in levels)
    made = nvidia_result(*(measured(mode, total=steady([MS] * 24)) for mode in modes))
    for case in made.cases:
        case.outputs_match = True
    made.command = ["ortbench", "load", "m.onnx", "--ep", "some"]
    made.kind, made.levels, made.stopped = "load", list(levels), "duration: 2 s per level"
    has_rates = any("rate" in level for level in levels)
    known: dict[str, Any] = {
        "sessions": "shared", "duration_s": 2.0, "arrivals": "poisson" if has_rates else None, "file": None, "seed": 0,
        "callers": 1, "slo": slo,
    }  # fmt: skip
    made.load = cast(LoadSetup, known | setup)
    made.knee = knees(levels)
    made.back_to_back = back_to_back
    if found is not None:
        made.slo = {"asked": slo or {}, "found": found}
    if run_id is not None:
        made.setup["run_id"] = run_id
    return made


def serving(factor: float = 1.0, **more: Any) -> Result:
    """Two modes of up to eight callers, of which four are worth it, and with `device` two; `factor` times as slow."""
    cpu = [(1, 100, 10.0), (2, 190, 10.5), (4, 388, 10.3), (8, 400, 20.0)]
    device = [(1, 200, 5.0), (2, 380, 5.3), (4, 390, 10.3), (8, 388, 20.6)]
    levels = [
        closed(mode, callers, rate / factor, p50 * factor)
        for mode, found in (("cpu", cpu), ("device", device))
        for callers, rate, p50 in found
    ]
    return load_result(*levels, **more)


def paced(factor: float = 1.0, **more: Any) -> Result:
    """One mode at 10, 30 and 90 requests a second, the last of which come faster than they are served; the GPU falls asleep at
    the lowest rate."""
    slow = {"clock_mhz": {"sm": 210}}
    levels = [
        opened("device", 10, 7.3 * factor, 12.0 * factor, slo_held=True, **slow),
        opened(
            "device", 30, 3.3 * factor, 14.0 * factor, slo_held=True, late=0.03, late_ns={"max": 4 * MS, "p99": 3 * MS}
        ),
        opened("device", 90, 900.0, 1900.0, slo_held=False, runs_per_s=80.0, ci95=[79.0, 81.0], utilisation=1.0),
    ]
    return load_result(
        *levels, back_to_back={"device": alone(3.0, 1725)}, slo=more.pop("slo", {"p99": 20 * MS}), **more
    )


# Sweeps


def of_batch(batch: int, *cases: Case, first_run_ns: int = 1_000 * US) -> Result:
    """The result of a shape, as it is when it has been measured."""
    made = nvidia_result(*cases)
    sizes = [batch, 1000]
    made.model["inputs"] = [
        {"name": "x", "type": "tensor(float)", "model_shape": ["batch", 1000], "shape": sizes, "bytes": batch * 4000}
    ]
    made.model["outputs"] = [
        {"name": "y", "type": "tensor(float)", "model_shape": ["batch", 10], "shape": [batch, 10], "bytes": batch * 40}
    ]
    made.command = ["ortbench", "sweep", "m.onnx", "--dim", "batch=1,2,4"]
    made.items = {"count": batch, "dim": "batch"}
    made.setup["run_id"] = "0" * 32
    made.setup["first_run_ns"] = first_run_ns
    derive(made)
    return made


def turns(mode: str, alone: Mapping[int, int], turned: Mapping[int, int], rounds: int = 6) -> Switching:
    """What switching shapes takes: µs of each shape by its number, one at a time and in turns."""
    found = switched(mode, [*alone], calls=2)
    for point in found["points"]:
        point["samples_ns"]["alone"] = [alone[point["point"]] * US] * 2 * rounds
        point["samples_ns"]["turns"] = [turned[point["point"]] * US] * 2 * rounds
    return found


# µs of a run by batch: a batch of 4 takes as long as one of 2 with cpu, and with device-resident it costs more.
USUAL = {"cpu": {1: 1000, 2: 1200, 4: 1600}, "device-resident": {1: 500, 2: 600, 4: 1500}}


def sweep_result(
    times: Mapping[str, Mapping[int, int]] = USUAL,
    slo: Slo | None = None,
    failed: Mapping[int, str] | None = None,
    switching: Sequence[Switching] | None = None,
    rounds: int = 40,
) -> Result:
    """A sweep over batches.

    Args:
        times: by mode and batch, µs.
        slo: what the best shape has to keep.
        failed: by batch, why a shape did not open.
        switching: else two modes, of which one takes twice as long when shapes change.
        rounds: of blocks.
    """
    batches = list(next(iter(times.values())))
    shapes = [
        Shape(f"batch={batch}", Plan("m.onnx", inputs=Inputs(dims={"batch": batch}), modes=(*times,)))
        for batch in batches
    ]
    results: list[Result | None] = []
    for batch in batches:
        cases = [measured(mode, total=steady([of[batch] * US] * rounds)) for mode, of in times.items()]
        for it in cases:
            it.bytes_in, it.bytes_out, it.outputs_match = 1000, 1000, True
        results.append(of_batch(batch, *cases, first_run_ns=batch * 5_000 * US))
    reasons: list[str | None] = [None] * len(batches)
    for batch, reason in (failed or {}).items():
        results[batches.index(batch)], reasons[batches.index(batch)] = None, reason
    if switching is None:
        there = {number: times["cpu"][batch] for number, batch in enumerate(batches) if batch not in (failed or {})}
        doubled = {number: us * 2 for number, us in there.items()}
        switching = [turns("cpu", there, doubled), turns("device-resident", there, there)]
    return together(shapes, results, reasons, slo, switching)


def without(result: Result, batch: int) -> Result:
    """The same sweep without a shape."""
    points = [point for point in result.points or [] if point.name != f"batch={batch}"]
    return replace(result, points=points, best=best_of(points, None), switching=[])


# Histories: results of many days


FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)
OLD, NEW = "1.30.0", "1.31.1"  # ONNX Runtimes, before and after a step


def noise(count: int, scale: float = 0.01, seed: int = 1) -> list[float]:
    """Factors about 1, as nights differ."""
    return [float(it) for it in np.random.default_rng(seed).lognormal(0, scale, count)]


def stepped(count: int, at: int, factor: float, seed: int = 1) -> list[float]:
    """Factors about 1, and from night `at` on about `factor`."""
    return [it * (factor if number >= at else 1) for number, it in enumerate(noise(count, seed=seed))]


def night(number: int, cpu: float, device: float | None = None, **changed: Any) -> Result:
    """The result of a night: `cpu` takes so many times 4 ms, `device`, if it is there, so many times 3 ms."""
    cases = [measured("cpu", total=steady(round(4 * MS * cpu * part) for part in (0.99, 1, 1.01) * 3))]
    if device is not None:
        cases.append(measured("device", total=steady(round(3 * MS * device * part) for part in (0.99, 1, 1.01) * 3)))
    made = result_of(*cases, environment__git_commit=f"{number:07x}{'0' * 33}", **changed)
    made.created = (FIRST + timedelta(days=number)).isoformat(timespec="seconds")
    return made


def nights(cpu: Sequence[float], device: Sequence[float] | None = None, upgraded: int | None = None) -> list[Result]:
    """The results of as many nights, with another ONNX Runtime from night `upgraded` on."""
    version: Callable[[int], str] = lambda number: OLD if upgraded is None or number < upgraded else NEW  # noqa: E731
    return [
        night(number, factor, None if device is None else device[number], environment__onnxruntime=version(number))
        for number, factor in enumerate(cpu)
    ]


def runs(results: Sequence[Result]) -> list[Run]:
    """As a history has them."""
    return [run_of(result, f"reports/{number:02}/result.json") for number, result in enumerate(results)]


def save_nights(results: Sequence[Result], folder: Path) -> None:
    """Each in a folder of its own."""
    for number, result in enumerate(results):
        place = folder / f"night-{number:02}"
        place.mkdir(parents=True)
        save(result, place / "result.json")
