"""The figures of a result, from the samples of its cases; what a run takes of the host: until the call returns, CPU time, threads that spin; and
what a mode takes of memory. Pure."""

from __future__ import annotations

import math
from statistics import median

from ortbench.analysis.advice import again
from ortbench.analysis.copies import add_shares, least_ns
from ortbench.analysis.intervals import ABOVE, are_apart, by_round, quotient, ratio_of, verdict_of
from ortbench.analysis.items import put_throughput
from ortbench.analysis.noise import supports_speedup
from ortbench.analysis.speedups import is_only_host_accessible, other_work, shows_copies
from ortbench.core.eps import CAPTURING_EPS, CPU_EP
from ortbench.core.features import part_of
from ortbench.core.stats import (
    FEWEST,
    Blocks,
    Rounds,
    Stats,
    Value,
    by_few_rounds,
    by_processes,
    figure_of,
    median_interval,
    summarise,
)
from ortbench.model.kinds import kind_of
from ortbench.model.modes import (
    COPIES_HIDDEN,
    COPY_RATE,
    COPY_SHARE,
    COPY_TIME,
    COSTS,
    CPU,
    CPU_CORES,
    CPU_SYSTEM,
    CPU_TIME,
    CPU_USER,
    ENQUEUE,
    ENQUEUE_SHARE,
    HIDDEN_SHARE,
    LATENCY,
    MEMORY_OWNERS,
    MISSED_STARTS,
    MODES,
    NO_SPIN,
    PACED,
    PACED_CPU_TIME,
    PACED_RATIO,
    PHASE_NAMES,
    PIPELINE_SPEEDUP,
    SPIN_SHARE,
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
        if STEP not in case.blocks:
            put_pace(case, by_round(case, LATENCY) if LATENCY in case.blocks else {})
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
    for phase in (*PHASE_NAMES, *COSTS, PACED, PACED_CPU_TIME, MISSED_STARTS):
        if samples := case.samples.get(phase):
            found = summarise(samples, [size for _, size, _ in case.blocks[phase]])
            several = case.first_rounds
            case.metrics[phase] = by_processes(found, by_round(case, phase), several) if several else found
    only, latency = mode_of(case.mode).only, case.stats(LATENCY)
    if only and latency is not None and not {STEP, STAGE} & case.samples.keys():
        case.metrics[only] = latency


def put_pace(case: Case, back_to_back: Blocks) -> None:
    """Put into a case how many times as long a paced call takes as those `back_to_back`, by the rounds that have both."""
    paced = by_round(case, PACED)
    if paced.keys() & back_to_back.keys():
        found = by_few_rounds(paced, back_to_back, processes=case.first_rounds)
        found = found.scaled_to(figure_of(paced) / max(figure_of(back_to_back), 1))
        case.set_metric(PACED_RATIO, found.ratio, found.ci95, derived=True)


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


HOST_BOUND = 0.9  # of an inference: where submitting takes as much, the device has next to nothing left to do behind it
_WAITS = 1.3  # CPU cores; a host that waits for an H100 keeps 1.0 to 1.13 busy (reports/gpu-h100)
COMPUTES = 0.7  # of an inference: a device that computes for less of it waits for the host enough to say so
STILL = ("--session-config", "session.intra_op.allow_spinning=0")
# And what it has left at least: less of a wait is the sync's own time, and then it may be the run that waits (proofs of syncs
# go by as much).
_LEFT_NS = 20_000


def put_host(case: Case, steps: int | None) -> None:
    """Put into a case what the host takes for an inference, of all blocks: single ones are too short to count CPU time."""
    enqueue, whole = case.median(ENQUEUE), case.median(_whole(case))
    if enqueue is not None and whole:
        case.set_metric(ENQUEUE_SHARE, round(enqueue / whole, 6), derived=True)
    if case.host is not None:
        runs, spent = max(1, case.host["runs"]), case.host["user_ns"] + case.host["system_ns"]
        blocks = case.stats(CPU_TIME)
        each = spent / runs if blocks is None or case.downsampled else blocks.mean
        system = round(each * case.host["system_ns"] / max(1, spent))
        case.set_metric(CPU_USER, round(each) - system)
        case.set_metric(CPU_SYSTEM, system)
        case.set_metric(CPU_CORES, round(spent / max(1, case.host["wall_ns"]), 4), derived=True)
        if steps is not None:
            case.set_metric("step_cpu_time", round(each / steps), derived=True)


def put_spin_share(case: Case) -> None:
    """Put into a case which part of its CPU time threads spin away: it is not there where they do not spin."""
    spent, still = cpu_time_ns(case), case.value(f"{CPU_TIME}_{NO_SPIN}")
    if spent and still is not None:
        case.set_metric(SPIN_SHARE, round(max(0.0, 1 - still / spent), 6), derived=True)


def cpu_time_ns(case: Case) -> float | None:
    """CPU time per inference, user and system: the mean over blocks, as comparisons have it, or over all inferences where
    only some blocks were kept; None where it was not taken."""
    user, system = case.value(CPU_USER), case.value(CPU_SYSTEM)
    return None if user is None or system is None else user + system


def _whole(case: Case) -> str:
    """The phase whose calls enqueue is of."""
    return LATENCY if case.median("inference") is None else "inference"


def is_host_bound(case: Case) -> bool:
    """Whether enqueue is `HOST_BOUND` of an inference beyond doubt, over the rounds that both were taken in.

    On a busy machine a run that waits can go for one that does not; then enqueue is all of it and says nothing of the host.
    """
    enqueue, whole = (by_round(case, phase) for phase in (ENQUEUE, _whole(case)))
    rounds = Rounds(enqueue.keys() & whole.keys(), case.first_rounds)
    if not rounds.are_enough:
        return False
    enqueues, wholes = rounds.figures(enqueue), rounds.figures(whole)
    left = rounds.interval(wholes - enqueues, figure_of(whole) - figure_of(enqueue))
    interval = rounds.interval(enqueues / wholes, figure_of(enqueue) / figure_of(whole))
    cost = 0 if case.sync is None else case.sync["cost_ns"]
    # Behind work a sync takes longer than on an idle device, where its cost is known from: three times as long on an H100.
    return interval[0] >= HOST_BOUND and left[0] * case.inferences(_whole(case)) > _LEFT_NS + 3 * cost


def _still(case: Case) -> tuple[float, float] | None:
    """The interval of the CPU time of an inference whose threads do not spin; None where there are no blocks enough to tell."""
    still, spent = case.metrics.get(f"{CPU_TIME}_{NO_SPIN}"), case.stats(CPU_TIME)
    return still.ci95 if isinstance(still, Value) and spent is not None and spent.n >= FEWEST else None


def is_spinning(case: Case) -> bool:
    """Whether an inference takes less of the CPU without threads that spin, for certain."""
    spent, still = case.stats(CPU_TIME), _still(case)
    if spent is None or still is None:
        return False
    return verdict_of(quotient(spent.median, case.value(f"{CPU_TIME}_{NO_SPIN}") or 0, spent.ci95, still).ci95) == ABOVE


def may_spin(result: Result) -> bool:
    """Whether there are threads of the CPU EP that spin while they wait."""
    target, nodes = result.target, result.placement["nodes"] or {}
    is_off = (target.get("session_config") or {}).get(STILL[1].partition("=")[0]) == "0"
    return not is_off and target.get("intra_op_threads") != 1 and CPU_EP in nodes


def is_software_gpu(result: Result) -> Case | None:
    """The case by which a GPU is one that the CPU computes for, which ONNX Runtime does not tell: its host does more than to wait."""
    kept = (it for it in result.at_point() if mode_of(it.mode).on_device and not is_rate(it.mode, LATENCY))
    case = next((it for it in kept if it.status == OK and (it.value(CPU_CORES) or 0) >= _WAITS), None)
    is_alone = [*(result.placement["nodes"] or {})] == [result.target["ep"]] and not kind_of(result.kind).of_stages
    return case if result.target["device"].get("type") == "GPU" and is_alone else None


def what_helps(result: Result, case: Case) -> str:
    """What gives the device more to do for each call, of what the EP and the model have; empty where nothing does."""
    ep = result.target["ep"]
    if ep in CAPTURING_EPS and mode_of(case.mode).captured and not result.target.get("cuda_graph"):
        return again(result, "--cuda-graph")
    if result.items is not None and (dim := result.items["dim"]) is not None:
        return again(result, "--dim", f"{dim}={2 * result.items['count']}")
    return ""


DEVICE, HOST = MEMORY_OWNERS
KEY = "memory"  # of a case, of which it is known


def figure(case: Case, owner: str) -> int | None:
    """What a mode takes of the memory of `DEVICE` in all, or of `HOST` (the resident set at its peak), bytes, if known."""
    found = case.value(f"{owner}_memory")
    return None if found is None else int(found)


def why_unknown(case: Case, owner: str) -> str:
    """Why there is no `figure`, in words."""
    if KEY not in case.own:
        return "was not measured (--measure-memory)"
    memory = case.own[KEY]
    if memory["failed"] is not None:
        return f"could not be measured: {memory['failed']}"
    if owner == DEVICE:
        return memory["device"] or "the EP computes in host memory"
    return "the system does not tell"


def computes_on_host(case: Case) -> bool:
    """Whether a mode that was measured takes nothing of a device's memory since its EP computes in the host's."""
    return KEY in case.own and case.own[KEY]["failed"] is None and case.own[KEY]["device"] is None
