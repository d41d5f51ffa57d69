"""What the host takes for a run: until the call returns, CPU time, threads that spin. Pure."""

from __future__ import annotations

from ortbench.analysis.pairs import block_medians, shared
from ortbench.ep_names import CAPTURING_EPS
from ortbench.modes import CPU_TIME, SUBMIT, TOTAL, mode_of
from ortbench.result import OK, Case, Result
from ortbench.schema import HostTime
from ortbench.stats import FEWEST, difference_interval, paired_ratio
from ortbench.units import duration, share

HOST_BOUND = 0.9  # of an inference: where submitting takes as much, the device has next to nothing left to do behind it
COMPUTES = 0.7  # of an inference: a device that computes for less of it waits for the host enough to say so
# And what it has left at least: less of a wait is the fence's own time, and then it may be the run that waits (proofs of fences
# go by as much).
_LEFT_NS = 20_000


def submit_share(case: Case) -> float | None:
    """Which part of an inference is over when its call returns, by the medians; None where the call is the wait."""
    submit, whole = case.median(SUBMIT), case.median(_whole(case))
    return None if submit is None or not whole else submit / whole


def _whole(case: Case) -> str:
    """The phase whose calls submit is of."""
    return TOTAL if case.median("inference") is None else "inference"


def _is_host_bound(case: Case) -> bool:
    """Whether submit is `HOST_BOUND` of an inference beyond doubt, over the blocks that both were taken in.

    On a busy machine a run that waits can go for one that does not; then submit is all of it and says nothing of the host.
    """
    submit, whole = shared(*(block_medians(case, phase) for phase in (SUBMIT, _whole(case))))
    left = difference_interval([a - b for a, b in zip(whole, submit, strict=True)])
    interval = paired_ratio(submit, whole).ci95 if submit else None
    if left is None or interval is None:
        return False
    cost = 0 if case.fence is None else case.fence["cost_ns"]
    # Behind work a fence takes longer than on an idle device, where its cost is known from: three times as long on an H100.
    return interval[0] >= HOST_BOUND and left[0] * case.inferences(_whole(case)) > _LEFT_NS + 3 * cost


def cpu_time_ns(found: HostTime) -> float:
    """CPU time per run, user and system, of all blocks together: single blocks are too short for the system's counting."""
    return (found["user_ns"] + found["system_ns"]) / max(1, found["runs"])


def cores(found: HostTime) -> float:
    """How many cores were in use on average."""
    return (found["user_ns"] + found["system_ns"]) / max(1, found["wall_ns"])


def spin_share(case: Case) -> float | None:
    """Which part of the CPU time of a run threads spin away: it is not there where they do not; None without ``--spin``."""
    if case.host is None or case.spin is None or not cpu_time_ns(case.host):
        return None
    return max(0.0, 1 - cpu_time_ns(case.spin) / cpu_time_ns(case.host))


def _is_spinning(case: Case) -> bool:
    """Whether a run takes less of the CPU without threads that spin beyond doubt."""
    spent, still = case.phases.get(CPU_TIME), case.spin and case.spin["cpu_time_ci95_ns"]
    return bool(spent and still and _shows(case) and spent.ci95_ns[0] > still[1])


def _shows(case: Case) -> bool:
    """Whether there are blocks enough to tell."""
    spent = case.phases.get(CPU_TIME)
    return (
        spent is not None and spent.n >= FEWEST and case.spin is not None and case.spin["cpu_time_ci95_ns"] is not None
    )


def host_sentences(result: Result) -> list[str]:
    """What a person can act on."""
    return [*(_waits_for_launches(result) or _host_bound(result)), *_spinning(result)]


def _waits_for_launches(result: Result) -> list[str]:
    """By CUPTI's records of kernels: an EP whose runs wait for the device by themselves hides in them how long they submit.

    That a device which computes the smaller part of an inference waits for its host the rest of it was seen on an H100: of a
    ResNet-50 whose kernels take 0.82 ms of 1.86 ms a captured graph takes 0.84 ms.
    """
    for case in result.cases:
        whole = case.median("inference") if mode_of(case.mode).times_copies else None
        if case.status != OK or case.measured is None or not whole:
            continue
        busy = case.measured["kernels_ns"]
        if 0 < busy <= COMPUTES * whole:
            said = f"In {case.mode} the GPU computes for {duration(busy)} of an inference of {duration(whole)} "
            said += f"({share(busy / whole)}) by CUPTI: the rest it waits for the host"
            helps = _what_helps(result, case)
            return [f"{said}; what helps: {', '.join(helps)}." if helps else f"{said}."]
    return []


def _host_bound(result: Result) -> list[str]:
    sure = [case for case in result.cases if case.status == OK and _is_host_bound(case)]
    bound = [(part, case) for case in sure if (part := submit_share(case)) is not None]
    if not bound:
        return []
    part, case = max(bound, key=lambda it: it[0])
    whole = "a run" if mode_of(case.mode).in_bursts else "an inference"
    said = f"Host-bound: submit is {share(min(part, 1.0))} of {whole} with {case.mode}"
    helps = _what_helps(result, case)
    return [f"{said}; what helps: {', '.join(helps)}." if helps else f"{said}."]


def _what_helps(result: Result, case: Case) -> list[str]:
    """Of what an EP and a model have."""
    found, ep = [], result.target["ep"]
    if ep in CAPTURING_EPS and mode_of(case.mode).captured and not result.target.get("cuda_graph"):
        found.append("--cuda-graph, which submits a run in one call")
    if result.items is not None and (dim := result.items["dim"]) is not None:
        found.append(f"a bigger batch (--dim {dim}=N), which gives the device more to do for each call")
    return found


def _spinning(result: Result) -> list[str]:
    asked = [case for case in result.cases if case.status == OK and case.spin is not None]
    sure = {case.mode: part for case in asked if _is_spinning(case) and (part := spin_share(case)) is not None}
    if not sure and any(map(_shows, asked)):
        return ["That threads of ONNX Runtime spin is no measurable part of the CPU time."]
    if not sure:
        return ["How much of the CPU time is threads that spin does not show in so few blocks."] if asked else []
    case = next(case for case in asked if sure.get(case.mode) == max(sure.values()))
    assert case.host is not None
    assert case.spin is not None
    total, still = case.median(TOTAL), case.spin["total_ns"]
    took = "" if total is None else f", and takes {duration(still)} in place of {duration(total)}"
    return [
        f"≈{share(sure[case.mode])} of the CPU time with {case.mode} is threads of ONNX Runtime that spin: with "
        f"--session-config session.intra_op.allow_spinning=0 a run has {duration(cpu_time_ns(case.spin))} of it in place of "
        f"{duration(cpu_time_ns(case.host))}{took}."
    ]
