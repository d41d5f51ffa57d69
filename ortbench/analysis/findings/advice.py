"""The sentences under the table: what a person can act on, from the result alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ortbench.analysis.comparing.pairs import TOO_FEW, is_faster, without_interval
from ortbench.analysis.engines import engine_sentences
from ortbench.analysis.findings.chain_advice import chain_headline, chain_sentences
from ortbench.analysis.findings.load_advice import load_headline, load_sentences
from ortbench.analysis.findings.loop_advice import loop_headline, loop_sentences
from ortbench.analysis.findings.node_advice import node_sentences
from ortbench.analysis.findings.phrases import NOTHING, times_as_fast
from ortbench.analysis.findings.program import how_to_write
from ortbench.analysis.findings.sweep_advice import sweep_headline, sweep_sentences
from ortbench.analysis.host import host_sentences
from ortbench.analysis.loads.levels import is_measured, load_cases
from ortbench.analysis.nodes.gpu_activity import cupti_sentences
from ortbench.analysis.nodes.handing_on import COPIED, HANDED_ON, UNCLEAR, handing_on, is_only_host_accessible, once_ns
from ortbench.analysis.nodes.node_shares import (
    bytes_inside,
    copies_inside,
    missed,
    mostly_on_cpu,
    placed_sentences,
)
from ortbench.analysis.tensor_memory import elsewhere_sentences
from ortbench.core.stats import Value
from ortbench.core.units import digits, duration, rate, ratio, share, size
from ortbench.model.kinds import KINDS
from ortbench.model.modes import (
    COPIES_HIDDEN,
    COPY_SHARE,
    COPY_TIME,
    CPU,
    HIDDEN_SHARE,
    LATENCY,
    MODES,
    PER_ITEM,
    PER_RUN,
    PIPELINE_SPEEDUP,
    is_rate,
    mode_of,
)
from ortbench.model.result import CHAIN, LOAD, LOOP, OK, SWEEP, Case, Result
from ortbench.model.schema import CaseCheck, LinkShare

_RUNS = 100  # the loop of the published device tensor sample, and a length people can picture
_VAGUE = 0.5  # an interval that is wider says nothing about a share


def sentences(result: Result) -> list[str]:
    """What the figures mean, most important first. Empty when nothing was measured."""
    if not _is_measured(result):
        return [*engine_sentences(result), *node_sentences(result)]
    return [said for key in KINDS[result.kind].advice for said in _SENTENCES[key](result)]


def superseded(result: Result) -> set[str]:
    """The codes of warnings of which `sentences` says as much."""
    if not _is_measured(result):
        return set()
    return {*KINDS[result.kind].replaced_warnings, *(["cpu-nodes"] if placed_sentences(result) else [])}


def _is_measured(result: Result) -> bool:
    return _MEASURED.get(result.kind, _has_latencies)(result)


def _has_latencies(result: Result) -> bool:
    return any(case.median(LATENCY) is not None for case in result.cases)


_MEASURED: dict[str, Callable[[Result], bool]] = {
    LOAD: lambda result: any(map(is_measured, load_cases(result))),
    SWEEP: lambda result: True,
}


def _program(result: Result) -> list[str]:
    best = fastest(result)
    return how_to_write(result, best.mode) if best is not None and is_faster(best) else []


def _of_modes(result: Result) -> list[str]:
    if result.target["memory"]["kind"] == "host":
        return [_on_host(result), *_fastest(result), *_external(result)]
    return [
        *(_handing_on(result) if is_only_host_accessible(result) else ()),
        *_copy_share(result),
        *cupti_sentences(result),
        *_fastest(result),
        *_residency(result),
        *_pinned(result),
        *_pipeline(result),
        *_throughput(result),
        *_zero_copy(result),
        *_external(result),
        *_graphs(result),
        *_link(result),
    ]


_SENTENCES: dict[str, Callable[[Result], list[str]]] = {
    "placement": placed_sentences,
    "places": elsewhere_sentences,
    "modes": _of_modes,
    "loop": lambda result: loop_sentences(result, result.part),
    "program": _program,
    "chain": lambda result: chain_sentences(result, result.part),
    "load": load_sentences,
    "sweep": sweep_sentences,
    "host": host_sentences,
    "engine": engine_sentences,
    "nodes": lambda result: [] if copies_inside(result) else node_sentences(result),
}


def headline(result: Result) -> str:
    """What there is to say first, in a few words."""
    said = _HEADLINES.get(result.kind, _headline)(result)
    if KINDS[result.kind].many_shapes:
        return said
    if _is_measured(result) and (off := missed(result) or mostly_on_cpu(result)):
        return off
    if not copies_inside(result) or not _is_measured(result):
        return said
    moved = bytes_inside(result)
    return f"{said}; {'more' if moved is None else size(moved)} is copied inside the graph"


def _headline(result: Result) -> str:
    measured = {case.mode: ns for case in result.at_point() if case.status == OK and (ns := case.median(LATENCY))}
    if not measured:
        return NOTHING
    if result.target["memory"]["kind"] == "host":
        return f"{result.target['ep']} computes in host memory: no copies to a device"
    handed = handing_on(result)
    if handed is not None and handed.verdict == HANDED_ON:
        if not handed.proved:
            return "ONNX Runtime hands your arrays on as they are"
        return f"{result.target['ep']} takes your arrays as they are: no copies with CPU tensors"
    copied = copy_share(result)
    if copied is None:
        timed = [mode for mode in measured if not is_rate(mode, LATENCY)]
        mode = min(timed or measured, key=lambda name: measured[name])
        if not timed:
            return f"{rate(1e9 / measured[mode])} inferences a second with {mode}"
        return f"One inference takes {duration(measured[mode])} with {mode}"
    if copied == 0:
        return f"Copies{_where(result)} are not a measurable part of a run with CPU tensors"
    unsure = "" if _has_interval(_with_and_without_copies(result)[1]) else f"; {TOO_FEW}"
    return f"≈{share(copied)} of a run with CPU tensors is copies{_where(result)}{unsure}"


_HEADLINES: dict[str, Callable[[Result], str]] = {
    LOOP: loop_headline,
    CHAIN: lambda result: chain_headline(result, result.part),
    LOAD: load_headline,
    SWEEP: sweep_headline,
}


def _where(*results: Result) -> str:
    """Which copies they are that modes make, where there are others."""
    return " at the edges" if any(map(copies_inside, results)) else ""


def headline_of_many(results: Sequence[Result]) -> str:
    """What there is to say first of several results, in a few words."""
    off = [found for result in results if _is_measured(result) and (found := missed(result))]
    if off:
        if len(off) == len(results) and len(set(off)) == 1:
            return off[0]
        return f"In {len(off)} of {len(results)} results nothing, or nearly nothing, ran on the EP that was asked for"
    shares = sorted(copied for result in results if (copied := copy_share(result)))
    if not shares:
        return f"{len(results)} results side by side"
    least, most = f"≈{share(shares[0])}", f"≈{share(shares[-1])}"
    found = f"Up to {most}" if len(shares) < len(results) else most if least == most else f"{least} to {most}"
    return f"{found} of a run with CPU tensors is copies{_where(*results)}"


def _on_host(result: Result) -> str:
    said = f"{result.target['ep']} computes in host memory: nothing is copied to a device."
    if all(mode_of(case.mode).of_cpu_tensors for case in result.cases if case.median(LATENCY) is not None):
        return said
    outputs = "outputs that ONNX Runtime allocates" if result.target.get("dynamic_outputs") else "preallocated outputs"
    return (
        f"{said} The device modes are IO binding with {outputs}, their copies are numpy's, so the differences show the cost "
        "of calls, of allocating outputs and of host copies, not of a transfer."
    )


def _handing_on(result: Result) -> list[str]:
    found, ep = handing_on(result), result.target["ep"]
    if found is None or found.verdict == COPIED:
        return []
    times = (
        f"a run takes {duration(found.with_arrays)} with them and {duration(found.without)} with tensors that are in "
        f"{ep}'s memory, copying in and out {duration(found.copies)}"
    )
    if found.verdict == UNCLEAR:
        return [f"Whether ONNX Runtime copies the arrays of mode cpu-tensors does not show in the times: {times}."]
    meaning = f"it adds no copies to those that {ep} may make itself"
    if found.proved:
        meaning = "mode cpu-tensors is zero-copy already on this EP"
    return [f"ONNX Runtime hands your arrays on as they are, {meaning}: {times}."]


def _copy_share(result: Result) -> list[str]:
    copied = copy_share(result)
    if copied is None:
        return []
    cpu, resident = _with_and_without_copies(result)
    copies = None if cpu is None else cpu.value(COPY_TIME)
    if copied == 0 or cpu is None or copies is None:
        return [
            f"Copies{_where(result)} are not a measurable part of a run with CPU tensors here, so keeping tensors on the "
            "device does not pay."
        ]
    total = cpu.median(LATENCY)
    assert total is not None
    unsure = "" if _has_interval(resident) else f"; {TOO_FEW}"
    return [
        f"With CPU tensors ≈{share(copies / total)} of a run is copies{_where(result)} (≈{duration(copies)} of "
        f"{duration(total)}: its latency less that of device-resident{unsure})."
    ]


def copy_share(result: Result) -> float | None:
    """Which share of a run with CPU tensors is copies: 0 where they cannot be measured, None where nobody can tell."""
    cpu, resident = _with_and_without_copies(result)
    copied = None if cpu is None or resident is None else cpu.value(COPY_SHARE)
    return copied if copied is None or resident is None or is_faster(resident) else 0.0


def _with_and_without_copies(result: Result) -> tuple[Case | None, Case | None]:
    """The mode that all are held against, and the one whose latency is this one's without its copies."""
    return result.case(CPU), result.case(MODES[CPU].without_copies)


def _has_interval(case: Case | None) -> bool:
    """Whether noise was told from what a mode gains over `cpu-tensors`."""
    return case is not None and case.speedup is not None and case.speedup.ci95 is not None


def fastest(result: Result) -> Case | None:
    """The mode with the greatest ratio to cpu-tensors of those that are faster beyond doubt, or else of all others.

    How often an inference is done says nothing about how long one takes, so it does not count.
    """
    timed = [case for case in result.at_point() if case.mode != CPU and not is_rate(case.mode, LATENCY)]
    ranked = [case for case in timed if case.status == OK and case.speedup]
    return max(ranked, key=lambda case: (is_faster(case), _times(case)), default=None)


def _times(case: Case) -> float:
    """How many times as fast as `cpu-tensors`."""
    return case.speedup.value if case.speedup is not None else 0.0


def _fastest(result: Result) -> list[str]:
    best = fastest(result)
    if best is None or best.speedup is None:
        return []
    if best.speedup.ci95 is None:
        return [f"{best.mode} is {times_as_fast(best.speedup, CPU)}; {without_interval(result)}."]
    if not is_faster(best):
        known = [case for case in result.cases if case.status == OK and is_faster(case)]
        rates = [case.mode for case in known if is_rate(case.mode, LATENCY)]
        none = f"Besides {' and '.join(rates)} no mode" if rates else "No mode"
        return [f"{none} is measurably faster than cpu-tensors."]
    is_most = all(_times(case) <= _times(best) for case in result.cases if not is_rate(case.mode, LATENCY))
    what = "fastest" if is_most else "measurably faster"
    return [f"{best.mode} is {what}: {times_as_fast(best.speedup, CPU)}.", *how_to_write(result, best.mode)]


def _residency(result: Result) -> list[str]:
    cpu, resident = _with_and_without_copies(result)
    once = None if resident is None else once_ns(resident)
    if cpu is None or resident is None or once is None or not is_faster(resident) or not _has_interval(resident):
        return []
    if (saved := cpu.value(COPY_TIME) or 0) <= 0:
        return []
    runs = math.floor(once / saved) + 1
    return [
        f"Keeping tensors on the device pays from run {runs} on: over {_RUNS} runs ≈{duration(saved * _RUNS)} of copies with "
        f"CPU tensors against {duration(once)} when copied in and out once."
    ]


def _of_figure(result: Result, figure: str) -> list[tuple[Case, float]]:
    """The modes with a figure of a kind that are ok and were measured, and the medians of it."""
    found = [case for name, mode in MODES.items() if mode.figure == figure and (case := result.case(name))]
    return [(case, total) for case in found if (total := case.median(LATENCY)) is not None]


def _pipeline(result: Result) -> list[str]:
    found = []
    for case, total in _of_figure(result, PER_ITEM):
        if case.pipeline is None or not total:
            continue
        said = f"{case.mode}: {rate(1e9 / total)} items/s with {case.pipeline['depth']} in flight"
        if isinstance(against := case.metrics.get(PIPELINE_SPEEDUP), Value):
            said += f", {times_as_fast(against, mode_of(case.mode).like)}"
        said += f"{_hidden(case)}. Its figure is time per item, not latency."
        if case.pipeline["distinct"] == 1:
            said += " All items had the same inputs: others could not be made, so a mix-up of items would not show."
        found.append(said)
    return found


def _hidden(case: Case) -> str:
    part, hidden_ns, copies_ns = case.metrics.get(HIDDEN_SHARE), case.value(COPIES_HIDDEN), case.value(COPY_TIME)
    if not isinstance(part, Value) or part.ci95 is None or hidden_ns is None or copies_ns is None:
        return ""
    low, high = part.ci95
    if high - low > _VAGUE:
        return f"; what share of its copies ({duration(copies_ns)} an item) is hidden cannot be told from noise"
    of = f"≈{duration(hidden_ns)} of {duration(copies_ns)} an item"
    return f"; ≈{share(part.value)} of its copies are hidden (95 %: {share(low)} to {share(high)}; {of})"


def _throughput(result: Result) -> list[str]:
    found = []
    for case, total in _of_figure(result, PER_RUN):
        said = f"{case.mode}: {rate(1e9 / max(total, 1))} runs/s with one wait for {case.inferences_per_sample} runs"
        if (waited := result.median(mode_of(case.mode).like, LATENCY)) is not None:
            said += f", against {rate(1e9 / max(waited, 1))} with one for each"
        found.append(f"{said}. Its figure is time per run, not latency.")
    return found


def _pinned(result: Result) -> list[str]:
    pairs = [
        [None if case is None else case.copy_ns() for case in (result.case(mode.like), result.case(mode.name))]
        for mode in MODES.values()
        if mode.pinned and mode.times_copies
    ]
    return [
        f"Upload and download take {duration(taken)} from and to ordinary host memory, {duration(pinned)} from and to pinned "
        f"memory ({ratio(taken / max(pinned, 1))} times as fast)."
        for taken, pinned in pairs
        if taken is not None and pinned is not None
    ]


def _checked(result: Result, name: str) -> list[tuple[str, CaseCheck]]:
    """What was verified under a name, with the mode."""
    return [(case.mode, it) for case in result.cases if case.status == OK and (it := case.checks.get(name)) is not None]


def _zero_copy(result: Result) -> list[str]:
    measured = [(mode, it) for mode, it in _checked(result, "zero_copy") if result.median(mode, LATENCY) is not None]
    return [
        f"{mode}: zero-copy is {'' if it['verdict'] == 'passed' else 'not '}proved ({it.get('how')})."
        for mode, it in measured
    ]


def _external(result: Result) -> list[str]:
    found = _checked(result, "external")
    return [
        f"{mode}: inputs in {it['library']}'s memory ({it['place']}); that they are not copied is "
        f"{'' if it['verdict'] == 'passed' else 'not '}proved ({it['how']})."
        for mode, it in found
    ]


def _graphs(result: Result) -> list[str]:
    found = _checked(result, "graph")
    if not found:
        return []
    unproved = [f"{mode}: {graph['how']}" for mode, graph in found if graph["verdict"] != "passed"]
    modes = ", ".join(mode for mode, _ in found)
    said = f"Captured as graphs and replayed: {modes}; the other modes ran without capture."
    return [said, *(f"That replays read new inputs is not proved ({words})." for words in unproved)]


_STALE = 1.2  # copies this much faster than a sweep's say that it no longer holds


def _link(result: Result) -> list[str]:
    """How near to the link's limit the copies are, where a bandwidth sweep says what that is."""
    if result.link is None:
        return []
    shares = result.link.get("shares", {})
    said: list[str] = []
    for way, found in (item for of_mode in shares.values() for item in of_mode.items()):
        if way == "both":
            said.append(f"copies inside a run with CPU tensors run at {_reach(found, '≈', not said)}")
        else:
            said.append(f"{way.upper()} copies of {_amount(found)} run at {_reach(found, '', not said)}")
    if not said:
        return []
    swept = f"bandwidth sweep of {result.link['created'][:10]}"
    stale = any(share["of_sweep"] > _STALE for modes in shares.values() for share in modes.values())
    more = ", which no longer holds: measure it again with 'ortbench bandwidth'" if stale else ""
    text = "; ".join(said)
    return [f"{text[0].upper()}{text[1:]} ({swept}{more})."]


def _amount(share: LinkShare) -> str:
    """How much was copied: one tensor's bytes, or those of several."""
    amount = size(share["bytes"])
    return amount if share["copies"] == 1 else f"{share['copies']} tensors, {amount} in all,"


def _reach(share: LinkShare, mark: str, in_full: bool) -> str:
    """The rate of copies and its shares, explained where they come first; `mark` stands before what was derived."""
    rate = f"{mark}{digits(share['bytes'] / share['took_ns'])} GB/s"
    of_sweep, of_peak = f"{mark}{share['of_sweep']:.0%}", f"{mark}{share['of_peak']:.0%}"
    if in_full:
        return f"{rate}, {of_sweep} of what single copies of that size reach here and {of_peak} of the link's peak"
    return f"{rate}, {of_sweep} and {of_peak}"
