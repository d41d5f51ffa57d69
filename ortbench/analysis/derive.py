"""The figures of a result, from the samples of its cases. Pure."""

from __future__ import annotations

from ortbench.analysis import loops
from ortbench.analysis.chains import summarise_stages
from ortbench.analysis.handing_on import is_only_host_accessible, shows_copies
from ortbench.analysis.hidden_copies import hidden
from ortbench.analysis.items import throughput
from ortbench.analysis.link import add_shares
from ortbench.analysis.pairs import block_medians, shared
from ortbench.modes import COSTS, CPU, MODES, PHASE_NAMES, STAGE, STEP, TOTAL, mode_of
from ortbench.result import OK, Case, Result
from ortbench.schema import Ratio
from ortbench.stats import paired_ratio, summarise


def derive(result: Result) -> None:
    """Put every figure into a result that follows from its samples as they are now; it may have more of them later."""
    for case in result.cases:
        _summarise(case)
        if result.loop is not None:
            loops.summarise_steps(case, result.loop["steps"])
        if result.chain is not None:
            summarise_stages(case, result.chain)
    for case in result.cases:  # found anew each time: a mode that has failed since takes no part
        case.vs_cpu = case.derived = None
        case.throughput = throughput(case, result.items)
    _compare_with_cpu(result)
    _derive_copies(result)
    _describe_pipeline(result)
    add_shares(result)


def _summarise(case: Case) -> None:
    """Statistics of each phase. A failed case keeps what was measured of it."""
    for phase in (*PHASE_NAMES, *COSTS):
        if samples := case.samples_ns.get(phase):
            case.phases[phase] = summarise(samples, [size for _, size, _ in case.blocks[phase]])
    if (only := mode_of(case.mode).only) and not {STEP, STAGE} & case.samples_ns.keys():
        case.phases[only] = case.phases[TOTAL]


def _compare_with_cpu(result: Result) -> None:
    """How many times as fast as `cpu` each mode is."""
    cpu = result.case(CPU)
    if cpu is None or cpu.phases[TOTAL] is None:
        return
    for case in result.cases:
        if case.status == OK and case.phases[TOTAL] is not None:
            case.vs_cpu = _ratio(cpu, case)


def _derive_copies(result: Result) -> None:
    """What must be copies of a run with CPU tensors: what a mode without them has less."""
    if result.target["memory"]["kind"] == "host" or result.loop is not None or result.chain is not None:
        return
    for name, mode in MODES.items():
        case, rest = result.case(name), result.case(mode.without_copies)
        total, inference = (None if it is None else it.median(TOTAL) for it in (case, rest))
        if is_only_host_accessible(result) and not shows_copies(result, name):
            continue
        nothing = case is not None and case.bytes_in == case.bytes_out == 0  # then the difference is of something else
        if case is not None and total is not None and inference is not None and not nothing:
            case.derived = {"copies_ns": total - inference, "inference_ns": inference}


def _describe_pipeline(result: Result) -> None:
    """What a pipeline hides, and how much that brings over one inference after the other."""
    for case in result.cases:
        if case.pipeline is None:
            continue
        device = result.case(mode_of(case.mode).like)
        against = None if device is None or case.status != OK else _ratio(device, case)
        case.pipeline = {**case.pipeline, **hidden(case), "vs_device": against}


def _ratio(base: Case, case: Case) -> Ratio | None:
    """How many times as fast as `base` a case is, over paired blocks; None without any."""
    pairs = shared(block_medians(base, TOTAL), block_medians(case, TOTAL))
    if not pairs[0]:
        return None
    ratio = paired_ratio(*pairs)
    return {"ratio": round(ratio.ratio, 4), "ci95": [round(x, 4) for x in ratio.ci95] if ratio.ci95 else None}
