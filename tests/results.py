"""Results of every kind, for tests of what is said about results: stored ones, and others whose times are written down.

Those in tests/stored are as a command saves them; what others have in common is in results.json. Nothing here is worked out by what
tests test: statistics are NumPy's and SciPy's, and what follows from them is plain arithmetic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from ortbench.analysis.series import Key, Series, value_of
from ortbench.core.eps import CPU_EP
from ortbench.core.stats import Stats, Value
from ortbench.facts import Fact, Quantity
from ortbench.facts.run import facts_of, findings_of
from ortbench.features.chain.model import ChainLink, ChainStage
from ortbench.features.load.model import SloRate
from ortbench.features.loop.model import Loop
from ortbench.model.metrics import figure
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import FAILED, Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Island, LoadBlock, MachineNoise, MemcpyNode, Memory, Nodes, Tensor

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
US, MS, MB = 1_000, 1_000_000, 1_000_000
EP = "SomeExecutionProvider"
CPU, RESIDENT = "cpu-tensors", "device-resident"


def data(name: str) -> Any:
    """A part of results.json, which the caller may change."""
    return deepcopy(_DATA[name])


def stored(name: str) -> Result:
    """A result of tests/stored."""
    return load(Path(__file__).parent / "stored" / f"{name}.json")


# What is said of results


def sentences(result: Result) -> list[str]:
    """All that is said of a result, in lines, the weightiest first: the sentence, and what to do next."""
    findings = findings_of(facts_of(result))
    return [line for it in findings for line in (it.text, *([f"Next: {it.next}"] if it.next else []))]


def keys(result: Result) -> list[tuple[str, str, str]]:
    """Code, verdict and mode of all facts of a result, the weightiest first."""
    return [(it.code, it.verdict, it.mode) for it in facts_of(result)]


def fact(result: Result, code: str, mode: str | None = None) -> Fact:
    """The one fact with a code, of a mode where several have it."""
    (found,) = (it for it in facts_of(result) if it.code == code and mode in (None, it.mode))
    return found


def values(of: Fact) -> dict[str, Any]:
    """The figures of a fact as numbers."""
    return {name: it.value if isinstance(it, Quantity) else it for name, it in of.values.items()}


# Cases from blocks

Blocks = dict[int, list[int]]  # round → samples, ns


def steady(medians: Iterable[int], first: int = 0) -> Blocks:
    """Blocks of three samples that are all the same, in consecutive rounds."""
    return {number: [value] * 3 for number, value in enumerate(medians, first)}


def described(samples: ArrayLike) -> Stats:
    """Statistics of samples; the interval of the median is from one of them to another, by the sign test."""
    x = np.sort(np.ravel(samples))
    at = max(int(binom.ppf(0.025, x.size, 0.5)) - 1, 0)
    spread, middle = x.std(ddof=1) if x.size > 1 else 0, np.median(x)
    figures = (x[0], x.mean(), *np.percentile(x, [50, 90, 95, 99]), x[-1], spread, np.median(abs(x - middle)))
    least, mean, median, p90, p95, p99, most, stdev, mad, low, high = (
        float(it) if x.dtype.kind == "f" else round(it) for it in (*figures, x[at], x[-1 - at])
    )
    return Stats(x.size, least, mean, median, p90, p95, p99, most, stdev, mad, (low, high))


def measured(mode: str, **phases: Blocks) -> Case:
    """A mode that is ok."""
    case = Case(mode)
    for phase, blocks in phases.items():
        case.samples[phase] = [sample for samples in blocks.values() for sample in samples]
        case.blocks[phase] = [[number, len(samples), 0] for number, samples in blocks.items()]
        case.metrics[phase] = described(case.samples[phase])
    if mode in (RESIDENT, "host-accessible") and LATENCY in case.metrics:
        case.metrics["inference"] = case.metrics[LATENCY]
    return following(case)


def following(case: Case) -> Case:
    """A case with what follows from its medians and bytes, which it gives back."""
    latency, copies, enqueue = case.stats(LATENCY), case.copy_ns(), case.median("enqueue")
    whole, sizes = case.median("inference") or case.median(LATENCY), (case.bytes_h2d, case.bytes_d2h)
    if latency is not None:
        case.set_metric("throughput", round(1e9 / max(latency.mean, 1), 3), derived=True)
    if enqueue is not None and whole:
        case.set_metric("enqueue_share", round(enqueue / whole, 6), derived=True)
    if copies is not None:
        case.set_metric("copies", copies, derived=True)
        case.set_metric("copy_share", None if not latency else min(copies / latency.median, 1), derived=True)
    took, size = case.value("copies") or 0, 0 if None in sizes else sum(it or 0 for it in sizes)
    case.set_metric("copy_rate", round(1e9 * size / took) if size and took > 0 else None, derived=True)
    return case


def series_of(case: Case, text: str = LATENCY) -> Series:
    """A figure of a case: ``latency.p99``."""
    of = figure(text)
    return Series(Key(case.mode, tuple(case.point.items()), of), case, value_of(case, of) or 0, result_of(case))


def broken(
    mode: str,
    status: Literal["unsupported", "failed", "not_measured"] = FAILED,
    reason: str | None = "it broke",
    **phases: Blocks,
) -> Case:
    """A mode that is not ok, with what was measured of it before."""
    case = measured(mode, **phases)
    case.status, case.reason = status, reason
    return case


def passed(case: Case) -> Case:
    """A case whose outputs are right, which it gives back."""
    case.checks["outputs"] = {"verdict": "passed"}
    return case


def with_bytes(case: Case, h2d: int | None, d2h: int | None) -> Case:
    """A case that copies so many bytes a run each way, which it gives back."""
    case.set_metric("bytes_h2d", h2d)
    case.set_metric("bytes_d2h", d2h)
    return following(case)


def copying(case: Case, copies: float, inference: float) -> Case:
    """A case of CPU tensors whose copies are derived, ns, which it gives back."""
    share = max(copies, 0) / (case.median(LATENCY) or 1)
    for metric, value in (("copies", copies), ("inference", inference), ("copy_share", share)):
        case.set_metric(metric, value, derived=True)
    return following(case)


def once(case: Case, h2d: float, d2h: float) -> Case:
    """A case of device-resident whose tensors were copied in and out in so many ns, which it gives back."""
    case.set_metric("once_h2d", h2d)
    case.set_metric("once_d2h", d2h)
    return case


def hosted(
    case: Case, runs: int, wall_ns: int, user_ns: int, system_ns: int = 0, still: Sequence[int] | None = None
) -> Case:
    """A case with what the host took for so many inferences of so much each, which it gives back; `still`: CPU time and latency
    where threads do not spin, and how many ns the interval of the former reaches each way."""
    case.host = {"runs": runs, "wall_ns": runs * wall_ns, "user_ns": runs * user_ns, "system_ns": runs * system_ns}
    case.set_metric("cpu_user", user_ns)
    case.set_metric("cpu_system", system_ns)
    case.set_metric("cpu_cores", round((user_ns + system_ns) / wall_ns, 4), derived=True)
    if still is not None:
        spent, latency, within = still
        case.set_metric("cpu_time_spin_off", spent, (spent - within, spent + within))
        case.set_metric("latency_spin_off", latency)
        case.set_metric("spin_share", max(0, 1 - spent / (user_ns + system_ns)), derived=True)
    return case


def drawing(case: Case, joules: float) -> Case:
    """A case that draws so many joules an inference, known to 2 %, which it gives back."""
    case.set_metric("energy", joules, (joules * 0.98, joules * 1.02))
    case.set_metric("power", 214.25)
    case.set_metric("idle_power", 72.125)
    case.set_metric("inferences_per_joule", 1 / joules)
    case.own["energy"] = {"how": "counter", "of": "GPU 0", "start_ns": 0, "parts": [], "idle": []}
    return case


def weighed(
    case: Case, device: int | None = None, host: int | None = None, *, failed: str | None = None, nodes: bool = False
) -> Case:
    """A case with its memory measured, bytes, which it gives back: half of the device's is bound and half the arena's, None where
    it has none; `failed` is why there is nothing, with `nodes` one holds most."""
    memory: dict[str, Any] = {"failed": failed, "device": None, "host": None, "arenas": [], "arenas_how": failed}
    case.own["memory"] = memory
    if failed is not None:
        return case
    memory["arenas_how"] = "as the profile has it"
    if host is not None:
        memory["host"] = "scripted too"
        for key, size in (("memory", host), ("memory_before", host // 4), ("memory_session", host // 2)):
            case.set_metric(f"host_{key}", size)
    if device is not None:
        held, in_use = device - device // 2, device // 4
        memory["device"], memory["arenas"] = "as it was scripted", [{"ep": EP, "held": held, "in_use": in_use}]
        sizes = {"device_memory": device, "device_memory_bound": device // 2, "pinned_memory": 0}
        for key, size in {**sizes, "arena_held": held, "arena_in_use": in_use}.items():
            case.set_metric(key, size)
    if nodes:
        conv = {"name": "/head/Conv_3", "op": "Conv", "ep": EP}
        memory["nodes"] = [{**conv, "allocated": 4 * MB, "output": 4 * MB, "weights": 1000}]
    return case


def noise_of(
    cores: int = 2, others: float = 0.0, waits: Sequence[float] = (), each: int = 1, **more: Any
) -> MachineNoise:
    """What a machine did of which others used so many cores for a second, and a worker waited such a share of each round's `each`
    blocks of 10 ms; `more`: of the reading, but ``limit``, ``threads`` and ``slices`` (of each block) and ``of``."""
    tail = [0, more.pop("threads", 1), more.pop("slices", 1)]
    blocks = [
        [number, (number * each + at) * 10 * MS, 10 * MS, round(share * 10 * MS), *tail]
        for number, share in enumerate(waits)
        for at in range(each)
    ]
    own = {key: more.pop(key) for key in ("limit", "of") if key in more}
    reading = {"at_ns": 0, "took_ns": 1000 * MS, "others": others, **more}
    return cast(MachineNoise, {"cores": cores, "blocks": blocks, "readings": [reading], **own})


# Cases of whose phases only the statistics are known


def stats(median: int, n: int = 200) -> Stats:
    """Statistics whose percentiles follow from the median: p95 is 10 % above it, p99 20 %."""
    percentiles = (median * 105 // 100, median * 11 // 10, median * 12 // 10, median * 2)
    within = (median * 99 // 100, median * 101 // 100)
    return Stats(n, median * 9 // 10, median, median, *percentiles, median // 100, median // 200, within)


def ratio_value(ratio: Sequence[float] | None) -> Value | None:
    """A speedup from (ratio, low, high), or (ratio,) without an interval."""
    return None if ratio is None else Value(ratio[0], (ratio[1], ratio[2]) if ratio[1:] else None)


def case(mode: str, n: int = 200, ratio: Sequence[float] | None = None, **phases: int) -> Case:
    """A case from the medians of its phases, and its speedup."""
    made = passed(Case(mode, speedup=ratio_value(ratio)))
    made.metrics |= {name: stats(median, n) for name, median in phases.items()}
    return with_bytes(made, 0, 0)


# Results


def tensor(name: str, shape: list[int], size: int | None = None) -> Tensor:
    """An input or output of `size` bytes."""
    return {"name": name, "type": "tensor(float)", "model_shape": [*shape], "shape": shape, "bytes": size}


def result_of(*cases: Case, run_id: str | None = None, **changed: Any) -> Result:
    """A result of a GPU with these modes; `changed`: instead of what is in results.json, see `change`."""
    result = Result(**data("result"), cases=[*cases])
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
    """A result of an NVIDIA GPU that was proved to wait; `target`: instead of what is in results.json, or besides."""
    made = result_of(*cases)
    made.command = ["ortbench", "run", "m.onnx", "--ep", "some"]
    made.model["inputs"] = [tensor("x", [1, 3]), tensor("s", [])]
    cast(dict[str, Any], made.target).update(data("target of an NVIDIA GPU") | target)
    made.stopped = {"reason": "precision", "value": 0.01}
    return made


def on_host(made: Result) -> Result:
    """The same with an EP that computes in host memory."""
    made.target["memory"] = data("memory of the host")
    return made


def published(ratio: Sequence[float] = (2.4, 2.3, 2.5)) -> Result:
    """The figures of ONNX Runtime's device tensor sample: 7.2 ms with CPU tensors, 3.0 ms with device tensors."""
    made = stored("run")
    made.cases[2].speedup = ratio_value(ratio)
    return made


def with_failures() -> Result:
    """One mode of four that is ok."""
    return stored("failing")


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
    """A mode of a loop whose steps take so many ns in rounds of so many loops; of state and of all so many bytes are copied each way in
    a step, or by step; `overhead` is in none of the steps, and `wobble` by what they are off, round by round."""
    made, count = passed(Case(mode, speedup=ratio_value(ratio))), len(steps)
    of_rounds = [[round(ns * wobble[number % len(wobble)]) for ns in steps] for number in range(rounds)]
    taken = np.repeat(of_rounds, loops, axis=0)
    made.samples = {LATENCY: [int(it) + overhead for it in taken.sum(1)], STEP: taken.ravel().tolist()}
    for name, n in ((LATENCY, loops), (STEP, loops * count)):
        made.blocks[name] = [[number, n, number * 10**9] for number in range(rounds)]
        made.metrics[name] = described(made.samples[name])
    made.metrics |= {"loop": made.metrics[LATENCY], "first_step": described(taken[:, 0])}
    made.steps_ns = [round(it) for it in np.median(taken, 0)]
    made.set_metric("last_step", made.steps_ns[-1])
    made.set_metric(
        "step_throughput", round(count * 1e9 / max(float(np.mean(made.samples[LATENCY])), 1), 3), derived=True
    )
    made.step_bytes = {"state_h2d": state, "state_d2h": state, "step_h2d": copied, "step_d2h": copied}
    return made


def level(mode: str, factor: float = 1.0, count: int = 4) -> Case:
    """A mode whose steps take about 1 ms, times a factor."""
    steps = [round(MS * factor)] * count
    return loop_case(mode, steps, rounds=24, loops=3, overhead=OVERHEAD, wobble=QUIET)


def loop_of(steps: int = 4, **changed: Any) -> Loop:
    """A loop of a cell."""
    return cast(Loop, data("loop of a cell") | {"steps": steps} | changed)


def loop_result(*cases: Case, loop: Loop | None = None, **changed: Any) -> Result:
    """A result of a loop on an NVIDIA GPU; of the first mode the steps are counted unless the loop is given."""
    made = nvidia_result(*cases)
    made.command = ["ortbench", "loop", "m.onnx", "--ep", "some", "--feedback", "present=past"]
    made.kind = "loop"
    made.own["loop"] = loop or loop_of(next((len(it.steps_ns) for it in cases if it.steps_ns), 1))
    return change(made, **changed)


def decoding(first: bool = False) -> Result:
    """A loop of 8 steps whose state grows by 1 kB in each: a step of `cpu-tensors` takes 10 µs longer each time, of the others none;
    the `first` step has a shape of its own, and takes 2 ms."""
    return stored("loop-first" if first else "loop")


def generating() -> Result:
    """A prompt of 100 tokens in 50 ms and 8 tokens: each 5 ms with `cpu-tensors`, 2 ms where the cache stays on the device."""
    return stored("generation")


# Profiled nodes


def memcpy_node(tensor: str | None, direction: str, **changed: Any) -> MemcpyNode:
    """A Memcpy node that `Det` forces."""
    return cast(MemcpyNode, data("Memcpy node") | {"tensor": tensor, "direction": direction} | changed)


def island(op: str = "Det", count: int = 1, reads: str = "float[8]", **changed: Any) -> Island:
    """An island of so many nodes of an operator, with a copy in and one out."""
    nodes = [{"name": f"{op}_{n}", "op": op, "reads": [reads], "ns": 100_000} for n in range(count)]
    return cast(Island, data("island") | {"nodes": nodes} | changed)


def profiled(**changed: Any) -> Nodes:
    """A run of 1 ms, of which an island takes 0.18 ms."""
    copies = [memcpy_node("matrices", "to host"), memcpy_node("determinants", "from host", ns=400)]
    return cast(Nodes, data("nodes") | {"memcpy": copies, "islands": [island()]} | changed)


# Chains

DEVICE: Memory = {"kind": "ep-device", "default": "Mem (DEFAULT)", "host_accessible": None}
HOST: Memory = {"kind": "host", "default": "host memory", "host_accessible": None}


def stage(name: str, repeat: int = 1, memory: Memory = DEVICE) -> ChainStage:
    """A stage, which is fed back where it is repeated."""
    own = {
        "name": name, "model": f"{name}.onnx", "ep": CPU_EP if memory is HOST else EP, "memory": memory, "repeat": repeat,
        "feedback": [["out", "in"]] if repeat > 1 else [],
    }  # fmt: skip
    return cast(ChainStage, data("stage of a chain") | own)


def link(source: str, to: str, size: int, why: str | None = None, crossings: tuple[int, int] = (1, 1)) -> ChainLink:
    """A link that stays on the device unless there is a reason why not."""
    return {
        "from": source, "to": to, "bytes": size, "stays": why is None, "why": why, "memory": "Mem (DEFAULT)",
        "downloads": crossings[0], "uploads": crossings[1], "d2h_ns": 30 * US, "h2d_ns": 20 * US,
    }  # fmt: skip


def chain(
    *links: ChainLink, resident_ms: tuple[float, float] = (1, 5), stages: tuple[ChainStage, ...] = (), rounds: int = 6
) -> Result:
    """Two stages, of 2 ms and 8 ms with cpu, in blocks of three chains."""
    made = result_of()
    made.kind = "chain"
    made.own["chain"] = {"stages": list(stages or (stage("text"), stage("image", 4))), "links": list(links)}
    for mode, each_ms in ((CPU, (2.0, 8.0)), (RESIDENT, resident_ms)):
        whole, parts = round(sum(each_ms) * MS), [round(ms * MS) for ms in each_ms] * 3 * rounds
        case = passed(with_bytes(measured(mode, latency=steady([whole] * rounds)), 3000 * (mode == CPU), 4000))
        case.metrics.pop("inference", None)
        case.metrics["chain"] = case.metrics[LATENCY]
        case.samples["stage"], case.blocks["stage"] = [*parts], [[number, 6, 0] for number in range(rounds)]
        names = [it["name"] for it in made.part["stages"]]
        case.metrics |= {f"stage.{name}": described(parts[at :: len(names)]) for at, name in enumerate(names)}
        case.speedup = Value(ratio := round(10 * MS / max(whole, 1), 4), (ratio, ratio))
        case.stage_bytes = {
            "text": {"bytes_h2d": 1000, "bytes_d2h": 0},
            "image": {"bytes_h2d": 2000, "bytes_d2h": 4000},
        }
        made.cases.append(case)
    return made


STAYING = link("text.condition", "image.condition", 64_000, crossings=(1, 4))
CROSSING = link("text.mask", "image.mask", 8, "text has it in host memory, image wants it in Mem (DEFAULT)", (0, 1))


# Loads

ROUNDS = 8
# By what a block is off the level's figure, round by round: they cancel out.
WOBBLE = (1.01, 0.99, 1.02, 0.98, 1.01, 0.99, 1.0, 1.0)


def latency(p50_ms: float, p99_ms: float | None = None) -> Stats:
    """Latencies, of which p95 lies halfway between p50 and p99 (twice p50 unless it is given), and the most is twice p99."""
    p50, p99 = round(p50_ms * MS), round((2 * p50_ms if p99_ms is None else p99_ms) * MS)
    return replace(stats(p50, 100 * ROUNDS), p95=(p50 + p99) // 2, p99=p99, max=2 * p99)


def level_blocks(
    throughput: float, of: Stats, rounds: int = ROUNDS, wobble: Sequence[float] = WOBBLE
) -> list[LoadBlock]:
    """Blocks whose throughput and latencies wobble around those of a load point, in opposite directions."""
    found: list[LoadBlock] = []
    for number in range(rounds):
        off = wobble[number % len(wobble)]
        times = {name: round(getattr(of, name) / off) for name in ("mean", "median", "p95", "p99", "max")}
        found.append({"round": number, "n": 100, "throughput": throughput * off, "latency": times})
    return found


def load_point(
    mode: str, kind: str, at: float, throughput: float, of: Stats, blocks: list[LoadBlock], **values: float | None
) -> Case:
    """A load point whose throughput is known to 1 %, and other metrics that are one number."""
    case = passed(Case(mode, point={kind: at}, load_blocks=blocks))
    case.set_metric("throughput", throughput, (throughput * 0.99, throughput * 1.01))
    case.metrics[LATENCY] = of
    figures = {"p50": of.median, "mean": of.mean, "p95": of.p95, "p99": of.p99}
    case.latency_bounds = {
        stat: {"low": round(ns * 0.98), "high": round(ns * 1.02), "requests": of.n} for stat, ns in figures.items()
    }
    case.latency_bounds["max"] = {"low": round(of.max), "high": round(of.max), "requests": of.n}
    for metric, value in values.items():
        case.set_metric(metric, value)
    return case


def closed(
    mode: str,
    clients: int,
    throughput: float,
    p50_ms: float,
    blocks: list[LoadBlock] | None = None,
    **values: float | None,
) -> Case:
    """So many clients of a mode; their throughput wobbles otherwise than that of other numbers of clients."""
    of, turn = latency(p50_ms), clients % len(WOBBLE)
    wobbling = level_blocks(throughput, of, wobble=WOBBLE[turn:] + WOBBLE[:turn]) if blocks is None else blocks
    known = {"cpu_cores": 0.5 * clients, "gil_wait": 0.01, "fairness": 1.0}
    return load_point(mode, "concurrency", clients, throughput, of, wobbling, **known | values)


def opened(
    mode: str,
    rate: float,
    p50_ms: float,
    p99_ms: float | None = None,
    *,
    blocks: list[LoadBlock] | None = None,
    lag_ns: int = 20_000,
    slo: bool | None = None,
    **values: float | None,
) -> Case:
    """So many requests a second, which all are served: they wait 0.1 ms, and take the rest. `slo`: whether that is kept."""
    of = latency(p50_ms, p99_ms)
    service = round(of.median) - MS // 10
    known = {"cpu_cores": 0.5, "gil_wait": 0.0, "late_share": 0.0, "utilisation": rate * service / 1e9}
    wobbling = level_blocks(rate, of) if blocks is None else blocks
    case = load_point(mode, "rate", rate, values.pop("throughput", None) or rate, of, wobbling, **known | values)
    case.metrics["queue_delay"] = replace(stats(MS // 10), p99=MS, max=2 * MS)
    case.queue_delay_ci95 = [MS // 12, MS // 8]
    case.metrics["service_time"] = stats(service)
    case.metrics["generator_lag"] = replace(stats(lag_ns // 5), p99=lag_ns // 4, max=lag_ns)
    if slo is not None:
        case.checks["slo"] = {"verdict": "passed" if slo else "failed"}
    return case


def known_to(case: Case, ci95: tuple[float, float] | None) -> Case:
    """The same load point with another interval of its throughput, or none."""
    case.set_metric("throughput", case.value("throughput"), ci95)
    return case


def failed_level(case: Case) -> Case:
    """A load point that failed before anything was measured of it."""
    return Case(case.mode, FAILED, "the worker was ended by SIGSEGV", case.point, load_blocks=[])


def lose(result: Result, number: int) -> None:
    """One of the load points of a result failed."""
    at = [at for at, case in enumerate(result.cases) if case.load_blocks is not None][number]
    result.cases[at] = failed_level(result.cases[at])


def slo_rate(rate: float, violated_from: float | None = None) -> SloRate:
    """What a search for the highest rate found."""
    return {"rate": rate, "violated_from": violated_from, "requests": 1240, "latency": {"p99": 18 * MS}}


def load_result(
    *points: Case,
    alone: Sequence[Case] = (),
    slo: dict[str, int] | None = None,
    found: dict[str, SloRate | None] | None = None,
    run_id: str | None = None,
    **setup: Any,
) -> Result:
    """A result of a load on an NVIDIA GPU: `alone` are cases of one client; else those of modes with load points of so many clients have
    1 ms, others nothing. `slo` is in ns, `found` of ``--rate auto``, `setup` instead of what is in results.json."""
    given = {case.mode: case for case in alone}
    with_clients = {case.mode for case in points if "concurrency" in case.point}
    for mode in dict.fromkeys(case.mode for case in points if case.mode not in given):
        given[mode] = measured(mode, latency=steady([MS] * 24)) if mode in with_clients else Case(mode)
    made = nvidia_result(*(passed(given[mode]) for mode in dict.fromkeys(case.mode for case in points)), *points)
    made.command = ["ortbench", "load", "m.onnx", "--ep", "some"]
    made.kind, made.stopped = "load", {"reason": "completed", "per": "load point"}
    for name, unit in (("concurrency", "clients"), ("rate", "requests/s")):
        if values := sorted({case.point[name] for case in points if name in case.point}, key=float):
            made.axes.append({"name": name, "unit": unit, "values": values})
    arrivals = "poisson" if any("rate" in case.point for case in points) else None
    made.own["load"] = data("load") | {"arrivals": arrivals, "slo": slo} | setup
    if found is not None:
        made.own["slo"] = {"asked": slo or {}, "found": found}
    if run_id is not None:
        made.setup["run_id"] = run_id
    return made


def serving(factor: float = 1.0, **more: Any) -> Result:
    """Two modes of up to eight clients, of which four are worth it, and with `device-tensors` two; `factor` times as slow."""
    cpu = [(1, 100, 10.0), (2, 190, 10.5), (4, 388, 10.3), (8, 400, 20.0)]
    device = [(1, 200, 5.0), (2, 380, 5.3), (4, 390, 10.3), (8, 388, 20.6)]
    levels = [
        closed(mode, clients, rate / factor, p50 * factor, scaling=rate / found[0][1])
        for mode, found in ((CPU, cpu), ("device-tensors", device))
        for clients, rate, p50 in found
    ]
    return load_result(*levels, **more)


def paced(factor: float = 1.0, **more: Any) -> Result:
    """One mode at 10, 30 and 90 requests a second, the last of which come faster than they are served; the GPU falls asleep at
    the lowest rate."""
    levels = [
        opened("device-tensors", 10, 7.3 * factor, 12.0 * factor, slo=True, sm_clock=210),
        opened("device-tensors", 30, 3.3 * factor, 14.0 * factor, slo=True, late_share=0.03, lag_ns=4 * MS),
        opened("device-tensors", 90, 900.0, 1900.0, slo=False, throughput=80.0, utilisation=1.0),
    ]
    levels[2].metrics["service_time"] = levels[1].metrics["service_time"]
    alone = measured("device-tensors", latency=steady([3 * MS] * 24))
    alone.set_metric("sm_clock", 1725)
    return load_result(*levels, alone=[alone], slo=more.pop("slo", {"p99": 20 * MS}), **more)
