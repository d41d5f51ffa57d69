"""The figures of a result, from the samples of its cases. Pure."""

from __future__ import annotations

import math
from statistics import median

from ortbench.analysis.copies import add_shares, least_ns
from ortbench.analysis.intervals import are_apart, by_round, ratio_of
from ortbench.analysis.items import put_throughput
from ortbench.analysis.noise import supports_speedup
from ortbench.analysis.resource_usage import put_host, put_spin_share
from ortbench.analysis.speedups import is_only_host_accessible, other_work, shows_copies
from ortbench.core.features import part_of
from ortbench.core.stats import Stats, Value, by_processes, median_interval, summarise
from ortbench.model.kinds import kind_of
from ortbench.model.modes import (
    COPIES_HIDDEN,
    COPY_RATE,
    COPY_SHARE,
    COPY_TIME,
    COSTS,
    CPU,
    HIDDEN_SHARE,
    LATENCY,
    MODES,
    PHASE_NAMES,
    PIPELINE_SPEEDUP,
    STAGE,
    STEP,
    is_rate,
    mode_of,
)
from ortbench.model.result import OK, Case, Result, work_of


def derive(result: Result) -> None:
    """Put every figure into a result that follows from its samples as they are now; it may have more of them later."""
    cases = [case for case in result.cases if case.load_blocks is None]  # load points have theirs from elsewhere
    for case in cases:  # found anew each time: a mode that has failed since takes no part
        case.speedup, case.noisy = None, False
        case.metrics = {key: it for key, it in case.metrics.items() if not (isinstance(it, Value) and it.derived)}
        _summarise(case)
        part_of(result.kind, "analysis", "put_figures", lambda *_: None)(case, result.part)
        put_remainder(case, work_of(result).count)
        put_throughput(case, result.items)
        put_host(case, work_of(result).steps)
        put_spin_share(case)
    _compare_with_cpu(result)
    _derive_copies(result)
    for case in cases:
        put_copies(case, least_ns(result, case) if _says_a_rate(result, case) else math.inf)
    _describe_pipeline(result)
    add_shares(result)


def _summarise(case: Case) -> None:
    """Statistics of each phase. A failed case keeps what was measured of it."""
    for phase in (*PHASE_NAMES, *COSTS):
        if samples := case.samples.get(phase):
            found = summarise(samples, [size for _, size, _ in case.blocks[phase]])
            several = case.first_rounds
            case.metrics[phase] = by_processes(found, by_round(case, phase), several) if several else found
    only, latency = mode_of(case.mode).only, case.stats(LATENCY)
    if only and latency is not None and not {STEP, STAGE} & case.samples.keys():
        case.metrics[only] = latency


def _compare_with_cpu(result: Result) -> None:
    """How many times as fast as `cpu-tensors` each mode is."""
    cpu = result.case(CPU)
    if cpu is None or cpu.stats(LATENCY) is None:
        return
    for case in result.cases:
        if case.status == OK and case.stats(LATENCY) is not None:
            case.speedup = ratio_of(cpu, case)
            case.noisy = case is not cpu and not supports_speedup(result, cpu, case, case.speedup)


def _derive_copies(result: Result) -> None:
    """What must be copies of a run with CPU tensors: what a mode without them has less."""
    if result.target["memory"]["kind"] == "host" or not kind_of(result.kind).derives_copies:
        return
    for name, mode in MODES.items():
        case = result.case(name)
        without = result.case(mode.without_copies)
        if case is None or without is None or not _takes_longer(case, without):
            continue  # a difference that noise may have made is of no copies
        total, inference = case.median(LATENCY), without.median(LATENCY)
        if is_only_host_accessible(result) and not shows_copies(result, name):
            continue
        nothing = case.bytes_h2d == case.bytes_d2h == 0  # then the difference is of something else
        if total is not None and inference is not None and not nothing:
            copies = total - inference
            case.set_metric(COPY_TIME, copies, derived=True)
            case.set_metric("inference", inference, derived=True)
            case.set_metric(COPY_SHARE, max(copies, 0) / total, derived=True)


def _takes_longer(case: Case, other: Case) -> bool:
    """Whether the inferences of a mode take longer than those of another for certain; of too few blocks, whether each does."""
    ratio = ratio_of(case, other)
    if ratio is not None and ratio.ci95 is not None:
        return ratio.ci95[0] > 1
    short, long = ([ns for block in by_round(it, LATENCY).values() for ns in block] for it in (other, case))
    return are_apart(short, long, 1.0)


def _says_a_rate(result: Result, case: Case) -> bool:
    """Whether a difference of latencies is the time of copies: not where most of it is other work, or where what is without copies
    is read back in their place."""
    without = result.case(mode_of(case.mode).without_copies)
    if without is None:
        return True
    return not without.is_read_back and other_work(result, case.value(COPY_TIME) or 0) is None


def put_copies(case: Case, least_ns: float = 0) -> None:
    """What its copies take where they are timed by themselves, and how fast they are; that of a difference of medians only where the
    link can do it, by which they take `least_ns`."""
    timed, latency = case.copy_ns(), case.median(LATENCY)
    if timed is not None:
        case.set_metric(COPY_TIME, timed, derived=True)
        if latency and not is_rate(case.mode, LATENCY):
            case.set_metric(COPY_SHARE, min(timed / latency, 1.0), derived=True)
    took, copied = case.value(COPY_TIME) or 0, (case.bytes_h2d or 0) + (case.bytes_d2h or 0)
    known = took > 0 and copied > 0 and None not in (case.bytes_h2d, case.bytes_d2h)
    known = known and (timed is not None or took >= least_ns)
    case.set_metric(COPY_RATE, round(copied / took * 1e9) if known else None, derived=True)


def _describe_pipeline(result: Result) -> None:
    """What a pipeline hides, and how much that brings over one inference after the other."""
    for case in result.cases:
        if case.pipeline is None:
            continue
        put_hidden(case)
        device = result.case(mode_of(case.mode).like)
        against = None if device is None or case.status != OK else ratio_of(device, case)
        if against is not None:
            case.set_metric(PIPELINE_SPEEDUP, against.value, against.ci95, derived=True)


def put_hidden(case: Case) -> None:
    """Put into a case what a pipeline does not have to wait for of its copies; nothing where that is not known.

    One item after the other would take the sum of its phases, each timed on its own with the device idle. In the pipeline
    an item takes `latency`. What is missing was hidden: it went on while something else did, another item's inference or,
    where the device copies both ways at a time, another copy. ::

        hidden = (h2d + inference + d2h - latency) / (h2d + d2h)

    All four are medians of mode `pipelined` itself, in ns, so the result is derived and not measured. What the copies take
    from the inference that they run beside (bandwidth of memory, say) counts against it: it is what the pipeline saves.
    It cannot be below 0 or above 1; where noise puts it there it is cut off. The ends of its interval are with all medians at
    those ends of their own 95 % intervals that make it least, and most.
    """
    copies = case.copy_ns()
    found = [case.stats(phase) for phase in ("h2d", "inference", "d2h") if not case.copies_nothing(phase)]
    phases, total = [item for item in found if item is not None], case.stats(LATENCY)
    if copies is None or copies <= 0 or len(phases) < len(found) or total is None:
        return
    saved = sum(item.median for item in phases) - total.median
    least = sum(item.ci95[0] for item in phases) - total.ci95[1]
    most = sum(item.ci95[1] for item in phases) - total.ci95[0]
    case.set_metric(COPIES_HIDDEN, min(max(saved, 0), copies), derived=True)
    share, *ends = (round(min(max(part / copies, 0.0), 1.0), 4) for part in (saved, least, most))
    case.set_metric(HIDDEN_SHARE, share, ends, derived=True)


# Parts that do not add up to the whole

REMAINDER = "remainder"
_TITLES = {"h2d": "H2D", "inference": "inference", "d2h": "D2H"}


def put_remainder(case: Case, parts: int) -> None:
    """Put into a case what of its latency is in none of its parts: of loops and chains of so many parts measured, one by one, else
    by the medians of phases, which are timed in blocks of their own."""
    if (left := _loop_remainders(case, parts)) is not None:
        case.set_metric(
            REMAINDER, median(left), median_interval(left, [size for _, size, _ in case.blocks[LATENCY]]), derived=True
        )
    elif (phases := _phases(case)) and (latency := case.median(LATENCY)) is not None:
        case.set_metric(REMAINDER, latency - sum(it.median for it in phases.values()), derived=True)


_APART = 0.1  # of the latency: a sum that is farther from it says nothing of what it consists of


def adds_up(case: Case) -> bool:
    """Whether phases, which are timed by themselves, each with a synchronization, add up to the latency about as it is."""
    if not _phases(case):
        return True
    latency = case.median(LATENCY) or 0
    return abs(sum(case.median(name) or 0 for name in _TITLES) - latency) <= _APART * latency


def _loop_remainders(case: Case, parts: int) -> list[int] | None:
    """Of each loop or chain what is in none of its parts, ns; None where they were not timed."""
    whole = case.samples.get(LATENCY, [])
    taken = case.samples.get(STEP) or case.samples.get(STAGE)
    if not taken or not whole or len(taken) != len(whole) * parts:
        return None
    return [round(ns - sum(taken[at * parts : (at + 1) * parts])) for at, ns in enumerate(whole)]


def _phases(case: Case) -> dict[str, Stats]:
    """The phases that a latency consists of, where they are timed by themselves; none where one was not."""
    if not mode_of(case.mode).times_copies or is_rate(case.mode, LATENCY):
        return {}
    found = {name: case.stats(name) for name in _TITLES if not case.copies_nothing(name)}
    return {name: it for name, it in found.items() if it is not None} if None not in found.values() else {}
