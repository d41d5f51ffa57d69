"""Bandwidth curves: results of kind ``bandwidth``, whose cases are copies of one size from and to one kind of host memory. Pure.

``bandwidth.json`` is a result file without a model (`ortbench.model.result`). A case has the metrics ``h2d`` and ``d2h``, of single
copies, and ``h2d_rate`` and ``d2h_rate``, bytes per second by their medians. A direction that failed has a check of its name,
and keeps what was measured before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from ortbench.analysis.comparing.pairs import block_medians, blocks, shared
from ortbench.core.stats import Ratio, paired_ratio, summarise
from ortbench.model.modes import COPY, DIRECTIONS, HOST_ACCESSIBLE, MEMORIES, ORDINARY
from ortbench.model.result import FAILED, Case, Result
from ortbench.model.schema import CopySync, Direction, Peak, Peaks

FILE_NAME = "bandwidth.json"
KEPT_SAMPLES = 1000  # of a metric; small copies have many thousands, of which the blocks' medians say enough
TITLES = {ORDINARY: "ordinary memory", HOST_ACCESSIBLE: "HOST_ACCESSIBLE memory"}


def copies(memory: str, size: int) -> Case:
    """The case of copies of a size, in bytes, from and to a kind of host memory."""
    return Case(COPY, point={"memory": memory, "size": size})


def memory_of(case: Case) -> str:
    """The kind of host memory that is copied from and to."""
    return str(case.point["memory"])


def size_of(case: Case) -> int:
    """The bytes of one copy."""
    return int(case.point["size"])


def gbps(case: Case, way: Direction) -> float:
    """The median rate in GB/s of 1e9 bytes; 0 where nothing was measured."""
    return (case.value(f"{way}_rate") or 0) / 1e9


def put_samples(case: Case, way: Direction, samples: list[int], of: list[list[int]]) -> None:
    """Give a case what was measured in a direction: all samples, and the blocks that they are of."""
    stats = summarise(samples, [n for _, n, _ in of])
    case.metrics[way], case.samples[way], case.blocks[way] = stats, [*samples], of
    case.put(f"{way}_rate", round(1e9 * size_of(case) / max(stats.median, 1)), derived=True)
    if len(samples) > KEPT_SAMPLES:
        medians = [round(median(block)) for _, block in blocks(case, way)]
        case.block_medians = {**(case.block_medians or {}), way: medians}
        del case.samples[way]


def fail(case: Case, way: Direction, reason: str) -> None:
    """Say why a direction failed."""
    case.checks[way] = {"verdict": "failed", "how": reason}
    found = failures(case)
    same = len(found) == len(DIRECTIONS) and len(set(found.values())) == 1
    case.status, case.reason = FAILED, reason if same else "; ".join(f"{it}: {why}" for it, why in found.items())


def failures(case: Case) -> dict[Direction, str]:
    """Why directions failed."""
    return {way: case.checks[way].get("how", "") for way in DIRECTIONS if way in case.checks}


def measured(result: Result, way: Direction | None = None, memory: str | None = None) -> list[Case]:
    """The cases with figures of a direction that did not fail, by size; of any direction and memory where none is named."""
    ways = DIRECTIONS if way is None else (way,)
    found = [case for case in result.cases if any(it in case.metrics and it not in case.checks for it in ways)]
    return sorted((case for case in found if memory in (None, memory_of(case))), key=size_of)


def curve(result: Result, way: Direction, memory: str) -> list[tuple[int, float]]:
    """Size and median duration of what was measured, ascending."""
    return [(size_of(case), round(case.median(way) or 0)) for case in measured(result, way, memory)]


def peak(result: Result, way: Direction) -> Case | None:
    """The case with the highest rate, from any memory: as much as the link was seen to carry."""
    return max(measured(result, way), key=lambda case: gbps(case, way), default=None)


def peaks_of(result: Result) -> Peaks:
    """The highest rates as the link of a run's result has them."""
    return {"h2d": _peak(result, "h2d"), "d2h": _peak(result, "d2h")}


def _peak(result: Result, way: Direction) -> Peak | None:
    if (case := peak(result, way)) is None:
        return None
    return {"gbps": round(gbps(case, way), 6), "bytes": size_of(case), "memory": memory_of(case)}


def advantage(result: Result, way: Direction) -> tuple[int, Ratio] | None:
    """How many times as fast HOST_ACCESSIBLE memory is as ordinary memory, over paired blocks, and at which size.

    At the largest size that both were measured at; None where there is none.
    """
    by_size = [{size_of(case): case for case in measured(result, way, memory)} for memory in MEMORIES]
    sizes = by_size[0].keys() & by_size[1].keys()
    if not sizes:
        return None
    ordinary, accessible = shared(*(block_medians(cases[max(sizes)], way) for cases in by_size))
    return (max(sizes), paired_ratio(ordinary, accessible)) if ordinary else None


def sync_of(result: Result) -> CopySync:
    """What ends copies, by host memory and direction."""
    return result.target["copy_sync"]


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


def half_rate_bytes(curve: Curve) -> float:
    """The size from which on copies reach half of the curve's highest rate: Hockney's n½, in bytes; the smallest size
    if that does."""
    half = max(size / max(ns, 1) for size, ns in curve) / 2
    for (low, low_ns), (high, high_ns) in pairwise(curve):
        if low / max(low_ns, 1) >= half:
            return low
        if high / max(high_ns, 1) >= half:
            per_byte = (high_ns - low_ns) / (high - low)
            latency = low_ns - per_byte * low
            return latency * half / (1 - per_byte * half)
    return curve[-1][0]
