"""Made-up results, for tests of what is said about results: whole ones, their cases, and the other parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, cast

from ortbench.analysis.bandwidth import DIRECTIONS, CopySweep, Point
from ortbench.analysis.loops import summarise_steps
from ortbench.modes import HOST_ACCESSIBLE, RESIDENT, STEP, TOTAL
from ortbench.plan import CPU_EP
from ortbench.result import FAILED, UNSUPPORTED, Case, Result
from ortbench.schema import (
    Direction,
    Fence,
    HostTime,
    Island,
    Loop,
    Measured,
    MemcpyNode,
    NodeReference,
    Nodes,
    Spin,
    Tensor,
)
from ortbench.stats import Stats, summarise

US, MS = 1_000, 1_000_000
MB = 1_000_000
EP = "SomeExecutionProvider"
DET: NodeReference = {"name": "/head/Det_7", "op": "Det", "ep": CPU_EP}

Blocks = dict[int, list[int]]  # round → samples, ns


# Cases whose every block is written down


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
        changed: instead of what is here: ``environment__cpu__model="other"``.
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
    made.created = "2026-01-01T00:00:00+00:00"
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


def loop_case(
    mode: str,
    steps: Sequence[int],
    ratio: Sequence[float] | None = None,
    state: int | list[int] | None = 0,
    copied: int | list[int] | None = 0,
    rounds: int = 20,
) -> Case:
    """A mode of a loop that is the same in every round, and brings its first state there in no time.

    Args:
        mode: its name.
        steps: what each takes, ns.
        ratio: as of `case`.
        state: what is copied each way in a step because of the state, bytes, or by step.
        copied: the same of all.
        rounds: blocks, of a loop each.
    """
    made = Case(mode, outputs_match=True)
    made.samples_ns = {TOTAL: [sum(steps)] * rounds, STEP: [*steps] * rounds}
    made.blocks = {
        TOTAL: [[number, 1, number * 10**9] for number in range(rounds)],
        STEP: [[number, len(steps), number * 10**9] for number in range(rounds)],
    }
    made.phases[TOTAL] = summarise(made.samples_ns[TOTAL])
    made.state_bytes_in = made.state_bytes_out = state
    made.step_bytes_in = made.step_bytes_out = copied
    if ratio is not None:
        made.vs_cpu = {"ratio": ratio[0], "ci95": list(ratio[1:]) or None}
    summarise_steps(made, len(steps))
    return made


def loop_result(*cases: Case, **loop: Any) -> Result:
    """A result of a loop on an NVIDIA GPU.

    Args:
        cases: its modes, as `loop_case` makes them; of the first the steps are counted.
        loop: instead of what is here.
    """
    made = nvidia_result(*cases)
    made.command = ["ortbench", "loop", "m.onnx", "--ep", "some", "--feedback", "present=past"]
    made.kind = "loop"
    steps = next((len(it.steps_ns) for it in cases if it.steps_ns), 1)
    known = {"steps": steps, "feedback": [["present", "past"]], "first": None, "grows": [],
             "state_shapes": [[[1, 4], [1, 4]]], "fill": {}, "keep": [], "resident": []}  # fmt: skip
    made.loop = cast(Loop, known | loop)
    return made


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
        first={"sequence": 5} if first else None,
        grows=["past"],
        state_shapes=[[[1, 0, 250], [1, 8, 250]]],
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
