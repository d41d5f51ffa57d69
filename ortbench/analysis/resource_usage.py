"""What a run takes of the host: until the call returns, CPU time, threads that spin; and what a mode takes of memory. Pure."""

from __future__ import annotations

from ortbench.analysis.advice import again
from ortbench.analysis.intervals import ABOVE, by_round, quotient, verdict_of
from ortbench.core.eps import CAPTURING_EPS
from ortbench.core.stats import FEWEST, Rounds, Value, figure_of
from ortbench.model.kinds import kind_of
from ortbench.model.modes import (
    CPU_CORES,
    CPU_SYSTEM,
    CPU_TIME,
    CPU_USER,
    ENQUEUE,
    ENQUEUE_SHARE,
    LATENCY,
    MEMORY_OWNERS,
    NO_SPIN,
    SPIN_SHARE,
    is_rate,
    mode_of,
)
from ortbench.model.result import OK, Case, Result

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


# Memory


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
