"""All that is to be said of a result: its findings, the weightiest first, and its headline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.analysis.comparing.claims import BY_MARGIN, FASTER, NOISY, fastest
from ortbench.analysis.findings.chain_advice import chain_findings, chain_headline
from ortbench.analysis.findings.finding import Finding, Weight, by_weight, merged
from ortbench.analysis.findings.growth_advice import soak_findings, soak_headline, tried_findings
from ortbench.analysis.findings.hump_advice import hump_findings
from ortbench.analysis.findings.load_advice import load_findings, load_headline
from ortbench.analysis.findings.loop_advice import loop_findings, loop_headline
from ortbench.analysis.findings.node_advice import node_findings
from ortbench.analysis.findings.phrases import times
from ortbench.analysis.findings.run_advice import copy_share, run_findings, run_headline, where
from ortbench.analysis.findings.speedups import condition, kept_tensors, on_device, takes
from ortbench.analysis.findings.start_advice import engine_findings, start_findings, start_headline
from ortbench.analysis.findings.sweep_advice import sweep_findings, sweep_headline
from ortbench.analysis.host import host_findings, idle_findings
from ortbench.analysis.loads.levels import is_measured, load_cases
from ortbench.analysis.nodes.node_shares import bytes_inside, copies_inside, missed, mostly_on_cpu, placed_findings
from ortbench.analysis.outputs import doubt_findings
from ortbench.analysis.sums import sum_findings
from ortbench.analysis.tensor_memory import elsewhere_findings
from ortbench.core.units import duration, share, size
from ortbench.model.kinds import KINDS
from ortbench.model.modes import CPU, HOST_ACCESSIBLE, LATENCY
from ortbench.model.result import CHAIN, LOAD, LOOP, SOAK, START, SWEEP, Result


def findings(result: Result) -> list[Finding]:
    """What the figures mean and what to do, most important first. Empty when nothing was measured."""
    if not _is_measured(result):
        return by_weight([*engine_findings(result), *node_findings(result)])
    said = (it for key in KINDS[result.kind].advice for it in _FINDINGS[key](result))
    return by_weight([*doubt_findings(result), *said])


def superseded(result: Result) -> set[str]:
    """The codes of warnings of which `findings` says as much."""
    if not _is_measured(result):
        return set()
    return {*KINDS[result.kind].replaced_warnings, *(["cpu-nodes"] if placed_findings(result) else [])}


def _is_measured(result: Result) -> bool:
    return _MEASURED.get(result.kind, _has_latencies)(result)


def _has_latencies(result: Result) -> bool:
    return any(case.median(LATENCY) is not None for case in result.cases)


_MEASURED: dict[str, Callable[[Result], bool]] = {
    LOAD: lambda result: any(map(is_measured, load_cases(result))),
    SWEEP: lambda result: True,
}

_FINDINGS: dict[str, Callable[[Result], list[Finding]]] = {
    "placement": placed_findings,
    "places": elsewhere_findings,
    "modes": run_findings,
    "loop": lambda result: loop_findings(result, result.part),
    "sums": sum_findings,
    "chain": lambda result: chain_findings(result, result.part),
    "load": load_findings,
    "sweep": sweep_findings,
    "soak": lambda result: soak_findings(result, result.part),
    "start": lambda result: start_findings(result, result.part),
    "host": host_findings,
    "idle": idle_findings,
    "humps": hump_findings,
    "engine": engine_findings,
    "nodes": lambda result: [] if copies_inside(result) else node_findings(result),
}


# Headlines


def headline(result: Result) -> str:
    """What there is to say first, in a few words."""
    said = _HEADLINES.get(result.kind, run_headline)(result)
    if KINDS[result.kind].many_shapes:
        return said
    if _is_measured(result) and (off := missed(result) or mostly_on_cpu(result)):
        return off
    if not copies_inside(result) or not _is_measured(result):
        return said
    moved = bytes_inside(result)
    return f"{said}; Memcpy nodes copy{', too' if moved is None else f' {size(moved)}'}"


_HEADLINES: dict[str, Callable[[Result], str]] = {
    LOOP: loop_headline,
    CHAIN: lambda result: chain_headline(result, result.part),
    LOAD: load_headline,
    SWEEP: sweep_headline,
    START: start_headline,
    SOAK: soak_headline,
}


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
    found = f"up to {most}" if len(shares) < len(results) else most if least == most else f"{least} to {most}"
    return f"Copies{where(*results)} take {found} of the latency of {CPU}"


# Several configurations side by side

FEW_RESULTS = 6  # of which each mode that is the fastest is named


def side_findings(results: Sequence[Result], names: Sequence[str]) -> list[Finding]:
    """The two speedups of results side by side: the fastest mode of each that takes new inputs in each inference, and what it
    brings to keep tensors on the device; of soaks what each ends with."""
    if told := _SIDES.get(results[0].kind):
        return told(results, names)
    if len(results) > 1 and any(len({case.mode for case in it.cases}) < 2 for it in results):
        return []  # one has no mode to choose from: nothing is said of all
    found = []
    for group, title in (
        (False, f"Fastest mode with {takes(results[0])}"),
        (True, kept_tensors(results[0])),
    ):
        pairs = [(name, said) for name, it in zip(names, results, strict=True) if (said := _side(it, group))]
        said = "; ".join(f"with {of} {text}" if len(results) > 1 else text for of, _, text in merged(pairs))
        if said:
            found.append(Finding(title, said, weight=Weight.ANSWER))
    return found


_SIDES: dict[str, Callable[[Sequence[Result], Sequence[str]], list[Finding]]] = {SOAK: tried_findings}


def _side(result: Result, group: bool) -> str:
    if result.axes:
        return ""
    best, other = fastest(result, on_device=group), fastest(result, on_device=False)
    if best is None:
        return ""
    if best.claim == NOISY:
        return f"{NOISY} whether {best.mode} is faster than {CPU}"
    if best.claim != FASTER:
        return f"no mode {BY_MARGIN} faster than {CPU}" if not group else ""
    ns = best.case.median(LATENCY)
    took = "" if ns is None else f" {duration(ns)}"
    said, on_top = on_device(result, best, other) if group else (f"{times(best.speedup)} as fast as {CPU}", True)
    if not on_top:
        return ""
    untimed = ", what the host writes and reads in bound tensors not timed" * (best.mode == HOST_ACCESSIBLE)
    return f"{best.mode}{took}, {said}{untimed}{condition(result, best.mode)}"
