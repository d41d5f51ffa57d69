"""How near copies come to what their link can do, which a bandwidth curve in a result's ``link`` says, and those that CUPTI recorded. Pure.

``link["shares"]`` has, for mode ``device-tensors`` by direction and for mode ``cpu-tensors`` as ``both``:
``{bytes, copies, took_ns, sweep_ns, of_sweep, of_peak}``: how many bytes in how many tensors, the median of the phase (for
``cpu-tensors`` what its copies take by difference), what the curve has for the same tensors, one copy a tensor, and the shares of
what such copies reach and of the link's peak rate: 1 is as fast as that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from ortbench.core.errors import BenchmarkFailed
from ortbench.model.modes import COPY_RATE, COPY_TIME, D2H, DIRECTIONS, H2D, MODES, mode_of
from ortbench.model.result import Case, Result
from ortbench.model.schema import CaseCheck, Copied, Direction, HostEnd, Link, LinkShare, Measured, Tensor, is_on_nvidia

# Medians of copies over sizes, ascending: (bytes, ns). From a file they are lists.
Curve = Sequence[Sequence[float]]


def expected_ns(curve: Curve, sizes: Iterable[float]) -> float:
    """How long copies of these sizes, in bytes, take one after the other by a sweep of at least one point, in ns.

    Between two points a copy takes a latency and a time per byte (the model of Hockney, Parallel Computing 20 (1994)
    389), so durations lie on a straight line through them; the last line goes on beyond the largest point. A copy below
    the smallest point takes as long as that one.
    """
    return sum(_one_ns(curve, size) for size in sizes)


def _one_ns(curve: Curve, size: float) -> float:
    if size <= curve[0][0]:
        return curve[0][1]
    if len(curve) == 1:
        return curve[0][1] * size / curve[0][0]
    lines = list(pairwise(curve))
    (low, low_ns), (high, high_ns) = next((line for line in lines if size <= line[1][0]), lines[-1])
    return low_ns + (high_ns - low_ns) * (size - low) / (high - low)


def add_shares(result: Result) -> None:
    """Say how near to the link's limit a result's copies are, by its figures as they are now."""
    if result.link is None:
        return
    shares: dict[str, dict[str, LinkShare]] = {}
    # The curves are of ordinary memory, one copy at a time.
    ordinary = [name for name, mode in MODES.items() if not mode.pinned and not mode.is_rate]
    cases = [case for name in ordinary if (case := result.case(name)) is not None]
    for case in (case for case in cases if mode_of(case.mode).times_copies):
        found = {way: _share(result, case, (way,), case.median(way)) for way in DIRECTIONS}
        shares[case.mode] = {way: share for way, share in found.items() if share is not None}
    for case in (case for case in cases if mode_of(case.mode).of_cpu_tensors and COPY_TIME in case.metrics):
        known = COPY_RATE in case.metrics  # else the difference is less than the copies can take
        both = _share(result, case, DIRECTIONS, case.value(COPY_TIME) if known else None)
        shares[case.mode] = {} if both is None else {"both": both}
    result.link["shares"] = shares


def least_ns(result: Result, case: Case) -> float:
    """What a case's copies take at the highest rate that is known of the link: by its curve, else by its PCI Express, or by copies
    that were timed; 0 where neither is known."""
    rates = {way: _highest_gbps(result, way) for way in DIRECTIONS}
    return sum(_bytes_of(case, way) / rate for way, rate in rates.items() if rate)


def _highest_gbps(result: Result, way: Direction) -> float:
    """The highest rate of a direction that is known, GB/s (bytes per ns); 0 where none is, or where there is no limit."""
    link = result.link
    if link is not None:
        known = [_peak_gbps(link, way)]
        if len(link[way]) > 1:  # beyond the last size: the slope of the line that ends there
            (low, low_ns), (high, high_ns) = link[way][-2:]
            if high_ns <= low_ns:
                return 0.0
            known.append((high - low) / (high_ns - low_ns))
    else:
        known = [it["link_bytes_per_s"] / 1e9 for it in result.environment.get("gpus", []) if "link_bytes_per_s" in it]
        if not known or not is_on_nvidia(result.target):
            return 0.0
    timed = [(_bytes_of(case, way), case.median(way)) for case in result.cases]
    return max(*known, *(count / ns for count, ns in timed if count and ns), 0.0)


def _share(result: Result, case: Case, ways: Sequence[Direction], took_ns: float | None) -> LinkShare | None:
    """The share of copies that took `took_ns` together; None where nothing was copied or it is not known."""
    link = result.link
    assert link is not None
    parts = [_copied_sizes(result, case, way) for way in ways]
    if took_ns is None or took_ns <= 0 or not any(sum(sizes) for sizes in parts):
        return None
    sweep_ns = sum(expected_ns(link[way], sizes) for way, sizes in zip(ways, parts, strict=True))
    peak_ns = sum(sum(sizes) / _peak_gbps(link, way) for way, sizes in zip(ways, parts, strict=True))
    return {
        "bytes": sum(map(sum, parts)),
        "copies": sum(map(len, parts)),
        "took_ns": round(took_ns),
        "sweep_ns": round(sweep_ns),
        "of_sweep": round(sweep_ns / took_ns, 4),
        "of_peak": round(peak_ns / took_ns, 4),
    }


def _peak_gbps(link: Link, way: Direction) -> float:
    peak = link["peak"][way]
    assert peak is not None  # there is a curve
    return peak["gbps"]


def _bytes_of(case: Case, way: Direction) -> int:
    return (case.bytes_h2d if way == H2D else case.bytes_d2h) or 0


def _copied_sizes(result: Result, case: Case, way: Direction) -> list[int]:
    """The bytes of each tensor that a case copies; all as one where some, which the result does not name, stay on the host."""
    copied = _bytes_of(case, way)
    sizes = tensor_sizes(result, way)
    return sizes if sum(sizes) == copied else [copied] if copied else []


def tensor_sizes(result: Result, way: Direction) -> list[int]:
    tensors: list[Tensor] = result.model["inputs"] if way == H2D else result.model["outputs"]
    return [tensor["bytes"] for tensor in tensors if tensor["bytes"]]


# Copies and kernels as CUPTI recorded them


KERNEL: Final = "kernel"
LAUNCH: Final = "launch"  # a call of CUDA's runtime or driver, on the host
GAP_NS = 1_000_000  # kept between runs, so that a record whose time is off by microseconds still falls to its run


class Activity(NamedTuple):
    what: str  # `H2D`, `D2H`, `KERNEL` or `LAUNCH`
    # start_ns, end_ns: on CUPTI's clock
    start_ns: int
    end_ns: int
    size: int = 0  # bytes of a copy
    memory: str = ""  # the host's side of a copy: ``pageable``, ``pinned``, ``managed`` or ``unknown``
    correlation: int = 0  # that a kernel and the call that launched it have in common


class Moment(NamedTuple):
    """The same moment on CUPTI's clock and on that of the runs, ns."""

    theirs_ns: int
    ours_ns: int


def summarise_activities(
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
        spans = enumerate((start - GAP_NS // 2, end + GAP_NS // 2) for start, end in runs)
        number = next((number for number, (start, end) in spans if start <= middle <= end), None)
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
    for way in DIRECTIONS:
        case.set_metric(f"gpu_{way}", found[way]["ns"])
        case.set_metric(f"gpu_bytes_{way}", found[way]["bytes"])
    ends: dict[Direction, HostEnd] = {way: {"n": found[way]["n"], "memory": found[way]["memory"]} for way in DIRECTIONS}
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
    seen = [f"{found[what]['bytes']} bytes of {what}" for what in DIRECTIONS if found[what]["memory"]]
    # In any run: where there was no copy at all there is no kind of memory.
    saw = f"{' and '.join(seen)} a run" if seen else f"no copy in {found['runs']} runs"
    return {
        **claim,
        "verdict": "unclear" if seen else "passed",
        "how": f"CUPTI saw {saw}; by times alone: {claim.get('how')}",
    }
