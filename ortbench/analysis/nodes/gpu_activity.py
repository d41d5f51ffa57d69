"""GPU copies and kernels as CUPTI recorded them: which run they belong to, and what they say of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from ortbench.core.errors import BenchmarkFailed
from ortbench.model.result import Case
from ortbench.model.schema import CaseCheck, Copied, Direction, HostEnd, Measured

H2D: Final = "h2d"
D2H: Final = "d2h"
KERNEL: Final = "kernel"
_DIRECTIONS: tuple[Direction, ...] = (H2D, D2H)
GAP_NS = 1_000_000  # kept between runs, so that a record whose time is off by microseconds still falls to its run


class Activity(NamedTuple):
    what: str  # `H2D`, `D2H` or `KERNEL`
    # start_ns, end_ns: on CUPTI's clock
    start_ns: int
    end_ns: int
    size: int = 0  # bytes of a copy
    memory: str = ""  # the host's side of a copy: ``pageable``, ``pinned``, ``managed`` or ``unknown``


class Moment(NamedTuple):
    """The same moment on CUPTI's clock and on that of the runs, ns."""

    theirs_ns: int
    ours_ns: int


def measured(
    runs: Sequence[tuple[int, int]], activities: Sequence[Activity], before: Moment, after: Moment
) -> Measured:
    """What the copies and kernels of a run took.

    Runs are start and end on our clock, ns, at least `GAP_NS` apart, at least one. What ended before the first is none
    of theirs. Both clocks were read before and after the runs, as they need not agree in rate either. Raises
    `BenchmarkFailed` where nothing was recorded, or something that fits no run.
    """
    by_run: list[list[Activity]] = [[] for _ in runs]
    outside = 0
    for activity in activities:
        middle = on_our_clock((activity.start_ns + activity.end_ns) // 2, before, after)
        if middle < runs[0][0] - GAP_NS // 2:
            continue
        number = next((number for number, span in enumerate(runs) if _holds(span, middle)), None)
        if number is None:
            outside += 1
        else:
            by_run[number].append(activity)
    if outside:
        raise BenchmarkFailed(f"{outside} of {len(activities)} records of CUPTI fit no run")
    if not any(by_run):
        raise BenchmarkFailed("CUPTI recorded no copy and no kernel in any run")
    return {
        "runs": len(runs),
        "run_ns": round(median(end - start for start, end in runs)),
        H2D: _copies(by_run, H2D),
        D2H: _copies(by_run, D2H),
        "kernels_ns": _median(by_run, KERNEL, lambda activity: activity.end_ns - activity.start_ns),
    }


def on_our_clock(theirs_ns: int, before: Moment, after: Moment) -> int:
    rate = (after.ours_ns - before.ours_ns) / max(after.theirs_ns - before.theirs_ns, 1)
    return before.ours_ns + round((theirs_ns - before.theirs_ns) * rate)


def _holds(span: tuple[int, int], at_ns: int) -> bool:
    return span[0] - GAP_NS // 2 <= at_ns <= span[1] + GAP_NS // 2


def _copies(by_run: Sequence[Sequence[Activity]], what: Direction) -> Copied:
    memory = dict.fromkeys(activity.memory for run in by_run for activity in run if activity.what == what)
    return {
        "n": _median(by_run, what, lambda _: 1),
        "bytes": _median(by_run, what, lambda activity: activity.size),
        "ns": _median(by_run, what, lambda activity: activity.end_ns - activity.start_ns),
        "memory": ", ".join(memory) or None,
    }


def _median(by_run: Sequence[Sequence[Activity]], what: str, value: Callable[[Activity], int]) -> int:
    """The median over the runs of a sum over their activities."""
    sums = [float(sum(value(it) for it in run if it.what == what)) for run in by_run]
    return round(median(sums))


def put_recorded(case: Case, found: Measured) -> None:
    case.set_metric("gpu_latency", found["run_ns"])
    case.set_metric("gpu_kernels", found["kernels_ns"])
    for way in _DIRECTIONS:
        case.set_metric(f"gpu_{way}", found[way]["ns"])
        case.set_metric(f"gpu_bytes_{way}", found[way]["bytes"])
    ends: dict[Direction, HostEnd] = {
        way: {"n": found[way]["n"], "memory": found[way]["memory"]} for way in _DIRECTIONS
    }
    case.recorded = {"runs": found["runs"], "h2d": ends[H2D], "d2h": ends[D2H]}
    if (claim := case.checks.get("zero_copy")) is not None:
        case.checks["zero_copy"] = zero_copy(claim, found)


def zero_copy(claim: CaseCheck, found: Measured) -> CaseCheck:
    """What CUPTI's records of a mode make of its verdict on zero-copy.

    A kernel that reads the host's memory over the link takes about as long as a copy would, so times alone cannot tell
    one from the other; records can.
    """
    if not claim.get("addresses"):
        return claim
    seen = [f"{found[what]['bytes']} bytes of {what}" for what in _DIRECTIONS if found[what]["memory"]]
    # In any run: where there was no copy at all there is no kind of memory.
    saw = f"{' and '.join(seen)} a run" if seen else f"no copy in {found['runs']} runs"
    return {
        **claim,
        "verdict": "unclear" if seen else "passed",
        "how": f"CUPTI saw {saw}; by times alone: {claim.get('how')}",
    }
