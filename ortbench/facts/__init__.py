"""A fact: one thing that a result says, with its figures; programs read it in ``findings`` of a result, people its sentence. And the facts that
results of several kinds have: a busy machine, doubtful outputs, where nodes and tensors are, the host, engines. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ortbench.analysis.advice import again, inspection, node_times
from ortbench.analysis.derive import (
    COMPUTES,
    STILL,
    cpu_time_ns,
    is_host_bound,
    is_software_gpu,
    is_spinning,
    what_helps,
)
from ortbench.analysis.noise import WHO, busy_reasons, certificates, quiet_options, summary
from ortbench.analysis.outputs import reference_of, worst
from ortbench.analysis.placement import (
    bytes_inside,
    copies_inside,
    count_operators,
    fell_back,
    is_much_inside,
    share_inside,
)
from ortbench.analysis.speedups import residency_condition
from ortbench.core.eps import BUILDERS, CPU_EP
from ortbench.core.stats import Value
from ortbench.model.modes import CPU_CORES, CPU_TIME, ENQUEUE_SHARE, LATENCY, NO_SPIN, SPIN_SHARE, mode_of
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import Certificate, Figure, Finding, Island, MachineNoise


class Quantity(NamedTuple):
    value: float
    unit: str  # one of those that `ortbench.model.schema.Figure` lists
    ci95: tuple[float, float] | None = None
    derived: bool = False  # it follows from other figures and was not measured


Known = Quantity | str | int | Sequence[str]
Values = dict[str, Known]


class Fact(NamedTuple):
    code: str  # what it is about
    verdict: str  # what it comes to; with the code it is the key of its sentence
    mode: str = ""
    values: Mapping[str, Known] = {}
    next: str = ""  # a command to copy
    point: Mapping[str, int | float | str] = {}

    @property
    def key(self) -> tuple[str, str]:
        return self.code, self.verdict


class Explanation(NamedTuple):
    """What makes the difference of two results, as a feature says it."""

    facts: Sequence[Fact]  # what it comes to first
    text: str  # their sentences, a line each
    others: Sequence[str]  # what else differs, in words
    data: Mapping[str, Any]  # for JSON
    parts: Sequence[Sequence[Any]]  # blocks of a report, what it comes to first


def ns(value: float, ci95: Sequence[float] | None = None, *, derived: bool = False) -> Quantity:
    return Quantity(value, "ns", None if ci95 is None else (ci95[0], ci95[1]), derived)


def latency(case: Case | None) -> Quantity:
    """The median latency of a case; 0 where there is none."""
    return ns(0 if case is None else case.median(LATENCY) or 0)


def share(value: float, *, derived: bool = False) -> Quantity:
    return Quantity(value, "share", None, derived)


def times(speedup: Value | float) -> Quantity:
    return Quantity(speedup.value, "×", speedup.ci95) if isinstance(speedup, Value) else Quantity(speedup, "×")


def bytes_of(value: float) -> Quantity:
    return Quantity(value, "B")


def per_s(value: float, ci95: Sequence[float] | None = None, what: str = "inferences") -> Quantity:
    return Quantity(value, f"{what}/s", None if ci95 is None else (ci95[0], ci95[1]))


def record(fact: Fact) -> Finding:
    """A fact as a result file has it."""
    return {
        "code": fact.code,
        "verdict": fact.verdict,
        "mode": fact.mode or None,
        "point": dict(fact.point),
        "values": {name: _json_value(value) for name, value in fact.values.items()},
        "next": fact.next or None,
    }


def _json_value(value: Known) -> Figure | str | int | list[str]:
    if isinstance(value, Quantity):
        ends = None if value.ci95 is None else list(value.ci95)
        return {"value": value.value, "unit": value.unit, "ci95": ends, "derived": value.derived}
    return value if isinstance(value, (str, int)) else [*value]


def condition(result: Result, mode: str) -> Values:
    """What has to hold for a mode that keeps tensors on the device; nothing for others."""
    return {"needs": residency_condition(result)} if mode_of(mode).on_device else {}


def busy_fact(noise: MachineNoise | None) -> Fact | None:
    """What made a machine a busy one, the reason that matters most; None of a quiet one."""
    if noise is None or not (found := busy_reasons(noise)):
        return None
    of = summary(noise)
    values: Values = {
        "reasons": found, "cores": Quantity(of.cores, "1"), "others": share(of.others or 0.0), "stolen": share(of.stolen), "stopped": share(of.stopped),
        "waited": share(of.waited / of.blocks if of.blocks else 0.0), "gpu_processes": of.gpu_processes,
    }  # fmt: skip
    return Fact("busy-machine", found[0], "", values)


def noise_facts(result: Result) -> Iterator[Fact]:
    """What a reader of the figures should know first."""
    if (busy := busy_fact(result.noise)) is not None:
        yield busy._replace(next=_quieter(result, busy.verdict))


def _quieter(result: Result, why: str) -> str:
    if why == "stopped":
        assert result.noise is not None
        return again(result, "--intra-op-threads", str(max(1, int(summary(result.noise).cores))))
    if waits := quiet_options(result):
        return again(result, *waits)
    return "nvidia-smi" if why == "gpu" else WHO


_CITED_S = 10.0  # what a certificate says of gates of so long


def certificate_facts(results: Sequence[Result]) -> list[Fact]:
    """How small a difference a gate tells on the machine, by the certificate that it had; at most one."""
    return [certificate_fact(it) for it in certificates(results)[:1]]


def certificate_fact(certificate: Certificate) -> Fact:
    """How small a difference a gate tells, by a certificate."""
    values: Values = {
        "date": certificate["created"][:10],
        "gates": certificate["gates"],
        "alarms": certificate["alarms"],
    }
    shares = {it["within_s"]: it["share"] for it in certificate["detectable"] if it["share"] is not None}
    if not shares:
        return Fact("certificate", "nothing", "", values)
    within = _CITED_S if _CITED_S in shares else min(shares)
    values |= {"least": certified_share(shares[within]), "within": Quantity(within, "1")}
    return Fact("certificate", "tells", "", values)


def certified_share(value: float) -> Quantity:
    """A share that nothing below is told of, in percent, rounded up to two digits."""
    step = 10.0 ** (math.floor(math.log10(max(value * 100, 1e-9))) - 1)
    return Quantity(round(math.ceil(round(value * 100 / step, 6)) * step, 6), "%")


def doubt_facts(result: Result, configuration: str = "") -> Iterator[Fact]:
    """That the figures, of one of several configurations, are of other outputs than the model's, by a precision that the EP chose; at
    most one."""
    for outputs in result.outputs or ():
        if outputs["doubt"] is not None:
            found = worst(outputs["distances"])
            values: Values = {
                "ep": outputs["doubt"]["ep"],
                "against": reference_of(outputs),
                "error": Quantity(found["max_error"], "1"),
            }
            if "sqnr" in found:
                values["sqnr"] = Quantity(found["sqnr"], "dB")
            values["configuration"] = configuration
            yield Fact("precision", "lower-of" if configuration else "lower", "", values, outputs["doubt"]["mends"])
            return


def placement_facts(result: Result) -> Iterator[Fact]:
    """That nodes are not where they were asked for, or that copies are inside the graph."""
    operators = count_operators(Counter(result.placement.get("cpu_operators") or {}))
    nodes, ep = result.placement["nodes"] or {}, result.target["ep"]
    if (off := fell_back(result)) is not None:
        where = "the CPU" if nodes.keys() <= {ep, CPU_EP} else "other EPs"
        count, whole = sum(nodes.values()) - nodes.get(ep, 0), sum(nodes.values())
        values: Values = {"ep": ep, "nodes": count, "of": whole, "where": where, "operators": operators}
        if off == "most" and result.nodes is not None:
            off, on_cpu = "most-time", (row["share"] for row in result.nodes["eps"] if row["ep"] == CPU_EP)
            values["share"] = share(sum(on_cpu), derived=True)
        yield Fact("fallback", off, "", values, inspection(result))
    if copies_inside(result) and result.nodes is None:
        moved, count = bytes_inside(result), result.placement["memcpy_nodes"] or 0
        values = {"nodes": count, "cpu_nodes": nodes.get(CPU_EP, 0), "operators": operators}
        if moved is not None:
            values["bytes"] = bytes_of(moved)
        part, much = share_inside(result), "much" if is_much_inside(result) else "some"
        if part is not None and part < _LITTLE:
            yield Fact("memcpy", "little", "", values)
        else:
            yield Fact("memcpy", much if moved is not None else "unknown", "", values, node_times(result))


_POSITIONS = {"start": "at the start", "end": "at the end", "apart": "apart from the device"}
_LITTLE, _MUCH = 0.02, 0.1  # of an inference: not worth a change to a model, and what comes before all else


def node_facts(result: Result) -> Iterator[Fact]:
    """What nodes on the CPU cost inside the graph of another EP; on the CPU EP which operator takes most."""
    nodes = result.nodes
    if nodes is None:
        return
    if result.target["ep"] == CPU_EP:
        if nodes["operators"]:
            most = max(nodes["operators"], key=lambda row: row["share"])
            part = share(most["share"], derived=True)
            values: Values = {"operator": most["op"], "nodes": most["nodes"], "share": part}
            yield Fact("operator", "most", "", values)
        return
    for island in nodes["islands"]:
        if island["to_host"] + island["from_host"] and (island["share"] or 0) >= _LITTLE:
            yield _island(island, result.target["ep"])


def _island(island: Island, ep: str) -> Fact:
    part = island["share"] or 0.0
    operators = count_operators(Counter(node["op"] for node in island["nodes"]))
    values: Values = {
        "ep": ep, "operators": operators, "copies": island["to_host"] + island["from_host"], "share": share(part, derived=True),
        "memcpy": ns(island["memcpy_ns"] or 0), "nodes_time": ns(island["node_ns"] or 0), "position": _POSITIONS.get(island["position"] or "", "inside"),
    }  # fmt: skip
    if island["bytes"] is not None:
        values["bytes"] = bytes_of(island["bytes"])
    return Fact("cpu-fallback", "much" if part >= _MUCH else "some", "", values)


def thread_facts(result: Result) -> Iterator[Fact]:
    """More threads of ONNX Runtime than there are cores for them."""
    threads, cores = threads_and_cores(result)
    if threads > cores:
        values: Values = {"threads": threads, "cores": Quantity(cores, "1")}
        fewer = again(result, "--intra-op-threads", str(max(1, int(cores))))
        verdict = "beyond-cores" if result.target.get("intra_op_threads") else "of-the-host"
        yield Fact("threads", verdict, "", values, fewer)


def threads_and_cores(result: Result) -> tuple[int, float]:
    """The threads of a session on the CPU EP, none on another, and the cores for them. Unless told otherwise ONNX Runtime takes as many as the
    machine has physical cores, and on Linux pins each to one: those that the process may not use are pinned to as well, and no limit of a
    container is heeded."""
    if result.target["ep"] != CPU_EP:
        return 0, 0
    cpu = result.environment["cpu"]
    threads = result.target.get("intra_op_threads") or cpu.get("physical_cores") or 1
    return threads, min(filter(None, (cpu.get("usable_cores"), cpu.get("core_limit"))), default=threads)


def host_facts(result: Result) -> Iterator[Fact]:
    if (renderer := result.target["device"].get("software")) is not None:
        yield Fact("software-gpu", "known", "", {"renderer": renderer})
    elif (case := is_software_gpu(result)) is not None:
        yield Fact("software-gpu", "likely", case.mode, {"cores": Quantity(case.value(CPU_CORES) or 0, "1")})
    yield from _waits_for_host(result)
    asked = [it for it in result.cases if it.status == OK and f"{CPU_TIME}_{NO_SPIN}" in it.metrics]
    sure = [it for it in asked if is_spinning(it) and it.value(SPIN_SHARE) is not None]
    if sure:
        most = max(sure, key=lambda it: it.value(SPIN_SHARE) or 0)
        values: Values = {
            "share": share(most.value(SPIN_SHARE) or 0, derived=True), "cpu_time": ns(cpu_time_ns(most) or 0),
            "without": ns(most.value(f"{CPU_TIME}_{NO_SPIN}") or 0), "latency": ns(most.median(LATENCY) or 0),
            "latency_without": ns(most.value(f"{LATENCY}_{NO_SPIN}") or 0),
        }  # fmt: skip
        yield Fact("spinning", "burns", most.mode, values, again(result, *STILL))


def _waits_for_host(result: Result) -> Iterator[Fact]:
    """That the device waits for its host: by CUPTI's records of kernels, else by how long the host enqueues."""
    for case in result.cases:
        whole = case.median("inference") if mode_of(case.mode).times_copies else None
        busy = case.value("gpu_kernels")
        if case.status == OK and busy and whole and busy <= COMPUTES * whole:
            values: Values = {"share": share(busy / whole), "kernels": ns(busy)}
            yield Fact("host-bound", "gpu-waits", case.mode, values, what_helps(result, case))
            return
    bound = [case for case in result.cases if case.status == OK and is_host_bound(case)]
    if bound:
        most = max(bound, key=lambda it: it.value(ENQUEUE_SHARE) or 0)
        values = {"share": share(min(most.value(ENQUEUE_SHARE) or 0, 1.0))}
        yield Fact("host-bound", "enqueues", most.mode, values, what_helps(result, most))


def engine_facts(result: Result) -> Iterator[Fact]:
    """How long the engine took, of EPs that build one."""
    if result.target["ep"] in BUILDERS and result.setup.get("engine_cache") is None:
        values = {"session": ns(result.setup["session_ns"]), "first": ns(result.setup["first_inference_ns"])}
        yield Fact("engine", "built", "", values, again(result, "--engine-cache", "DIR"))
