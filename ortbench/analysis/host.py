"""What the host takes for a run: until the call returns, CPU time, threads that spin. Pure."""

from __future__ import annotations

import math

from ortbench.analysis.comparing.pairs import PAIRS, by_round
from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.program import again
from ortbench.analysis.noise import more_rounds
from ortbench.core.ep_names import CAPTURING_EPS, CPU_EP
from ortbench.core.resampling import Rounds, figure_of
from ortbench.core.stats import FEWEST, Value
from ortbench.core.units import digits, duration, share
from ortbench.model.kinds import KINDS, RATE
from ortbench.model.modes import (
    CPU_CORES,
    CPU_SYSTEM,
    CPU_TIME,
    CPU_USER,
    ENQUEUE,
    ENQUEUE_SHARE,
    LATENCY,
    NO_SPIN,
    SERVICE_TIME,
    SPIN_SHARE,
    UTILISATION,
    is_rate,
    mode_of,
)
from ortbench.model.result import OK, Case, Result

HOST_BOUND = 0.9  # of an inference: where submitting takes as much, the device has next to nothing left to do behind it
_WAITS = 1.3  # CPU cores; a host that waits for an H100 keeps 1.0 to 1.13 busy (reports/gpu-h100)
COMPUTES = 0.7  # of an inference: a device that computes for less of it waits for the host enough to say so
_STILL = ("--session-config", "session.intra_op.allow_spinning=0")
_WAKING_S = 200e-6  # of CPU time that a request takes at most besides: ortbench wakes up and looks at the clock
# And what it has left at least: less of a wait is the sync's own time, and then it may be the run that waits (proofs of syncs
# go by as much).
_LEFT_NS = 20_000


def put_host(case: Case, steps: int | None) -> None:
    """Put into a case what the host takes for an inference, of all blocks: single ones are too short to count CPU time."""
    enqueue, whole = case.median(ENQUEUE), case.median(_whole(case))
    if enqueue is not None and whole:
        case.put(ENQUEUE_SHARE, round(enqueue / whole, 6), derived=True)
    if case.host is not None:
        runs, spent = max(1, case.host["runs"]), case.host["user_ns"] + case.host["system_ns"]
        blocks = case.stats(CPU_TIME)
        each = spent / runs if blocks is None or case.downsampled else blocks.mean
        system = round(each * case.host["system_ns"] / max(1, spent))
        case.put(CPU_USER, round(each) - system)
        case.put(CPU_SYSTEM, system)
        case.put(CPU_CORES, round(spent / max(1, case.host["wall_ns"]), 4), derived=True)
        if steps is not None:
            case.put("step_cpu_time", round(each / steps), derived=True)


def put_spin_share(case: Case) -> None:
    """Put into a case which part of its CPU time threads spin away: it is not there where they do not spin."""
    spent, still = cpu_time_ns(case), case.value(f"{CPU_TIME}_{NO_SPIN}")
    if spent and still is not None:
        case.put(SPIN_SHARE, round(max(0.0, 1 - still / spent), 6), derived=True)


def cpu_time_ns(case: Case) -> float | None:
    """CPU time per inference, user and system: the mean over blocks, as comparisons have it, or over all inferences where
    only some blocks were kept; None where it was not taken."""
    user, system = case.value(CPU_USER), case.value(CPU_SYSTEM)
    return None if user is None or system is None else user + system


def _whole(case: Case) -> str:
    """The phase whose calls enqueue is of."""
    return LATENCY if case.median("inference") is None else "inference"


def _is_host_bound(case: Case) -> bool:
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


def _is_spinning(case: Case) -> bool:
    """Whether an inference takes less of the CPU without threads that spin beyond doubt."""
    spent, still = case.stats(CPU_TIME), _still(case)
    return spent is not None and still is not None and spent.ci95[0] > still[1]


def host_findings(result: Result) -> list[Finding]:
    return [*_in_software(result), *(_waits_for_launches(result) or _host_bound(result)), *_spinning(result)]


def _in_software(result: Result) -> list[Finding]:
    """That a GPU is one that the CPU computes for, which ONNX Runtime does not tell: its host does more than to wait."""
    kept = (it for it in result.at_point() if mode_of(it.mode).on_device and not is_rate(it.mode, LATENCY))
    case = next((it for it in kept if it.status == OK and (it.value(CPU_CORES) or 0) >= _WAITS), None)
    is_alone = [*(result.placement["nodes"] or {})] == [result.target["ep"]] and not KINDS[result.kind].of_stages
    if case is None or result.target["device"].get("type") != "GPU" or not is_alone:
        return []
    cores = digits(case.value(CPU_CORES) or 0)
    busy = f"the CPU computes with {cores} cores during an inference with {case.mode}"
    evidence = f"{busy}, a host that waits for a GPU keeps one busy at most; the name above is of ONNX Runtime's list of devices"
    return [Finding("The GPU seems to be a software renderer", evidence, weight=Weight.DOUBT, tone="unclear")]


def _waits_for_launches(result: Result) -> list[Finding]:
    """By CUPTI's records of kernels: an EP whose inferences wait for the device by themselves hides in them how long they enqueue.

    That a device which computes the smaller part of an inference waits for its host the rest of it was seen on an H100: of a
    ResNet-50 whose kernels take 0.82 ms of 1.86 ms a captured graph takes 0.84 ms.
    """
    for case in result.cases:
        whole = case.median("inference") if mode_of(case.mode).times_copies else None
        busy = case.value("gpu_kernels")
        if case.status != OK or busy is None or not whole:
            continue
        if 0 < busy <= COMPUTES * whole:
            what = f"The GPU computes for {share(busy / whole)} of an inference with {case.mode}, the rest it waits for the host"
            evidence = f"{duration(busy)} of {duration(whole)}, measured by CUPTI"
            return [Finding(what, evidence, _what_helps(result, case))]
    return []


def _host_bound(result: Result) -> list[Finding]:
    sure = [case for case in result.cases if case.status == OK and _is_host_bound(case)]
    bound = [(part, case) for case in sure if (part := case.value(ENQUEUE_SHARE)) is not None]
    if not bound:
        return []
    part, case = max(bound, key=lambda it: it[0])
    what = f"{case.mode} is host-bound"
    return [Finding(what, f"enqueue takes {share(min(part, 1.0))} of an inference", _what_helps(result, case))]


def _what_helps(result: Result, case: Case) -> str:
    """What gives the device more to do for each call, of what the EP and the model have; empty where nothing does."""
    ep = result.target["ep"]
    if ep in CAPTURING_EPS and mode_of(case.mode).captured and not result.target.get("cuda_graph"):
        return again(result, "--cuda-graph")
    if result.items is not None and (dim := result.items["dim"]) is not None:
        return again(result, "--dim", f"{dim}={2 * result.items['count']}")
    return ""


def _spinning(result: Result) -> list[Finding]:
    asked = [case for case in result.cases if case.status == OK and f"{CPU_TIME}_{NO_SPIN}" in case.metrics]
    sure = {case.mode: part for case in asked if _is_spinning(case) and (part := case.value(SPIN_SHARE)) is not None}
    if not sure and any(map(_still, asked)):
        what = "Back to back, spinning threads of ONNX Runtime take no measurable part of the CPU time"
        return [Finding(what, "ortbench load --rate measures what they take between requests", weight=Weight.DETAIL)]
    if not sure:
        what = "Too few blocks to tell how much CPU time threads spend spinning"
        return [Finding(what, "", more_rounds(result, PAIRS), Weight.DETAIL, "unclear")] if asked else []
    case = next(case for case in asked if sure.get(case.mode) == max(sure.values()))
    total, still = case.median(LATENCY), case.value(f"{LATENCY}_{NO_SPIN}") or 0
    took = "" if total is None else f", latency {duration(still)} instead of {duration(total)}"
    spent, quiet = cpu_time_ns(case) or 0, case.value(f"{CPU_TIME}_{NO_SPIN}") or 0
    return [
        Finding(
            f"Spinning threads of ONNX Runtime take ≈{share(sure[case.mode])} of the CPU time of {case.mode} back to back",
            f"without spinning CPU time is {duration(quiet)} instead of {duration(spent)}{took}",
            again(result, *_STILL),
            Weight.COST,
        )
    ]


def idle_findings(result: Result) -> list[Finding]:
    """That threads spin between the requests of a load, at the rate where that is most beyond what requests can take themselves."""
    target, nodes = result.target, result.placement["nodes"] or {}
    config = target.get("session_config") or {}
    if config.get(_STILL[1].partition("=")[0]) == "0" or target.get("intra_op_threads") == 1 or CPU_EP not in nodes:
        return []
    found: list[tuple[float, str, str]] = []
    for case in result.cases:
        cores, busy, rate = case.metrics.get(CPU_CORES), case.value(UTILISATION), case.point.get(RATE.name)
        if not isinstance(cores, Value) or cores.ci95 is None or busy is None or not isinstance(rate, (int, float)):
            continue
        most = _most_cores(result, case, rate)
        if case.status == OK and cores.ci95[0] > most:
            taken = f"{digits(cores.value)} cores busy at {share(busy)} utilisation"
            at_most = f"with {case.mode} at {rate:g} requests/s, whose inferences take {digits(most)} cores at most"
            found.append((cores.ci95[0] / most, taken, at_most))
    if not found:
        return []
    _, taken, at_most = max(found)
    is_tried = any(_STILL[1] in word for word in result.command)
    what = f"Threads of ONNX Runtime spin between requests: {taken}"
    return [Finding(what, at_most, "" if is_tried else again(result, *_STILL), Weight.COST)]


def _most_cores(result: Result, case: Case, rate: float) -> float:
    """How many CPU cores a load can keep busy whose threads sleep between requests: all of them while a worker is busy, and what waking
    up takes."""
    cpu, service = result.environment["cpu"], case.stats(SERVICE_TIME)
    cores = cpu.get("usable_cores") or cpu.get("cores")
    if service is None or cores is None:
        return math.inf
    return min(1.0, rate * service.mean / 1e9) * cores + rate * _WAKING_S
