"""The sentences under the table: what a person can act on, from the result alone."""

from __future__ import annotations

import math

from ortbench import nodes
from ortbench.plan import ASYNC, CPU, DEVICE, DEVICE_PINNED, RESIDENT, is_rate
from ortbench.result import OK, Case, Result
from ortbench.schedule import TOTAL
from ortbench.units import duration, rate, ratio, share

_RUNS = 100  # the loop of the published device tensor sample, and a length people can picture


_CLEARLY_FASTER = 1.05  # without an interval; identical runs one after the other often differ by this much


def sentences(result: Result) -> list[str]:
    """What the figures mean, most important first. Empty when nothing was measured."""
    return [*_of_modes(result), *nodes.sentences(result)]


def _of_modes(result: Result) -> list[str]:
    if all(case.median("total") is None for case in result.cases):
        return []
    if result.target["memory"]["kind"] == "host":
        return [_on_host(result), *_fastest(result), *_external(result)]
    return [
        *_copy_share(result),
        *_fastest(result),
        *_residency(result),
        *_pinned(result),
        *_throughput(result),
        *_zero_copy(result),
        *_external(result),
        *_graphs(result),
    ]


def _on_host(result: Result) -> str:
    outputs = "outputs that ONNX Runtime allocates" if result.target.get("dynamic_outputs") else "preallocated outputs"
    return (
        f"{result.target['ep']} computes in host memory: nothing is copied to a device. The device modes are IO binding "
        f"with {outputs}, their copies are numpy's, so the differences show the cost of calls, of allocating "
        "outputs and of host copies, not of a transfer."
    )


def _copy_share(result: Result) -> list[str]:
    cpu, resident = result.case(CPU), result.case(RESIDENT)
    if cpu is None or resident is None or cpu.derived is None:
        return []
    total, copies = cpu.median("total"), cpu.derived["copies_ns"]
    assert total is not None
    if copies <= 0 or not _is_faster(resident):
        return [
            "Copies are not a measurable part of a run with CPU tensors here, so keeping tensors on the device does not pay."
        ]
    return [
        f"With CPU tensors ≈{share(copies / total)} of a run is copies (≈{duration(copies)} of {duration(total)}: its total "
        "less that of device-resident)."
    ]


def _is_faster(case: Case) -> bool:
    """Whether a mode is faster than cpu beyond doubt; with too few blocks for an interval, by more than a little."""
    if case.vs_cpu is None:
        return False
    if case.vs_cpu["ci95"] is None:
        return bool(case.vs_cpu["ratio"] > _CLEARLY_FASTER)
    return bool(case.vs_cpu["ci95"][0] > 1)


def _fastest(result: Result) -> list[str]:
    # How often a run is done says nothing about how long one takes.
    timed = [case for case in result.cases if case.mode != CPU and not is_rate(case.mode, TOTAL)]
    ranked = [case for case in timed if case.status == OK and case.vs_cpu]
    if not ranked:
        return []
    best = max(ranked, key=lambda case: case.vs_cpu["ratio"] if case.vs_cpu else 0)
    assert best.vs_cpu is not None
    interval = best.vs_cpu["ci95"]
    if interval is None:
        return [f"{best.mode} is {ratio(best.vs_cpu['ratio'])} times as fast as cpu; too few blocks for an interval."]
    if not _is_faster(best):
        return ["No mode is measurably faster than cpu."]
    low, high = map(ratio, interval)
    times = f"{ratio(best.vs_cpu['ratio'])} times as fast as cpu"
    return [f"{best.mode} is fastest: {times} (95 %: {low} to {high})."]


def _residency(result: Result) -> list[str]:
    cpu, resident = result.case(CPU), result.case(RESIDENT)
    if cpu is None or resident is None or resident.once is None or cpu.derived is None or not _is_faster(resident):
        return []
    saved = cpu.derived["copies_ns"]
    once = resident.once["upload_ns"] + resident.once["download_ns"]
    if saved <= 0:
        return []
    runs = math.floor(once / saved) + 1
    return [
        f"Keeping tensors on the device pays from run {runs} on: over {_RUNS} runs ≈{duration(saved * _RUNS)} of copies with "
        f"CPU tensors against {duration(once)} when copied in and out once."
    ]


def _throughput(result: Result) -> list[str]:
    case, resident = result.case(ASYNC), result.case(RESIDENT)
    total, waited = (None if it is None else it.median(TOTAL) for it in (case, resident))
    if case is None or total is None:
        return []
    said = f"{case.mode}: {rate(1e9 / max(total, 1))} runs/s with one wait for {case.runs_per_sample} runs"
    said += "" if waited is None else f", against {rate(1e9 / max(waited, 1))} with one for each"
    return [f"{said}. Its total is time per run, not latency."]


def _pinned(result: Result) -> list[str]:
    taken, pinned = (_copies_ns(result.case(mode)) for mode in (DEVICE, DEVICE_PINNED))
    if taken is None or pinned is None:
        return []
    return [
        f"Upload and download take {duration(taken)} from and to ordinary host memory, {duration(pinned)} from and to pinned "
        f"memory ({ratio(taken / max(pinned, 1))} times as fast)."
    ]


def _copies_ns(case: Case | None) -> int | None:
    """What upload and download take in sum, by their medians; None where one was not timed."""
    upload, download = (None, None) if case is None else (case.median("upload"), case.median("download"))
    return None if upload is None or download is None else upload + download


def _zero_copy(result: Result) -> list[str]:
    measured = [case for case in result.cases if case.status == OK and case.median("total") is not None]
    return [_zero_copy_of(case) for case in measured if case.zero_copy is not None]


def _external(result: Result) -> list[str]:
    found = [(case.mode, case.external) for case in result.cases if case.status == OK and case.external is not None]
    return [
        f"{mode}: inputs in {it['library']}'s memory ({it['place']}); that they are not copied is "
        f"{'' if it['proved'] else 'not '}proved ({it['how']})."
        for mode, it in found
    ]


def _graphs(result: Result) -> list[str]:
    found = [(case.mode, case.graph) for case in result.cases if case.status == OK and case.graph is not None]
    if not found:
        return []
    unproved = [f"{mode}: {graph['how']}" for mode, graph in found if not graph["proved"]]
    said = (
        f"Captured as graphs and replayed: {', '.join(mode for mode, _ in found)}; the other modes ran without capture."
    )
    return [said, *(f"That replays read new inputs is not proved ({words})." for words in unproved)]


def _zero_copy_of(case: Case) -> str:
    assert case.zero_copy is not None
    if case.zero_copy["proved"]:
        return f"{case.mode}: zero-copy is proved ({case.zero_copy['how']})."
    return f"{case.mode}: zero-copy is not proved ({case.zero_copy['how']})."
