"""Bandwidth curves: results of kind ``bandwidth``, whose cases are copies of one size from and to one kind of host memory.

``bandwidth.json`` is a result file without a model (`ortbench.model.result`). A case has the metrics ``h2d`` and ``d2h``, of single
copies, and ``h2d_rate`` and ``d2h_rate``, bytes per second by their medians. A direction that failed has a check of its name,
and keeps what was measured before.

A run's copies are compared with a curve of its device, see `attach` and `ortbench.analysis.copies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

from ortbench.analysis.comparable import machine, short
from ortbench.analysis.copies import Curve, tensor_sizes
from ortbench.analysis.intervals import blocks, ratio_of_medians
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.core.stats import Ratio, summarise
from ortbench.features.bandwidth import FILE_NAME
from ortbench.features.bandwidth.model import KIND
from ortbench.model.modes import COPY, D2H, DIRECTIONS, H2D, HOST_ACCESSIBLE, MEMORIES, ORDINARY
from ortbench.model.result import FAILED, Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import CopySync, Direction, Link, Peak

KEPT_SAMPLES = 1000  # of a metric; small copies have many thousands, of which the blocks' medians say enough
TITLES = {ORDINARY: "pageable memory", HOST_ACCESSIBLE: "HOST_ACCESSIBLE memory"}


def copies(memory: str, size: int) -> Case:
    """The case of copies of a size, in bytes, from and to a kind of host memory."""
    return Case(COPY, point={"memory": memory, "size": size})


def memory_of(case: Case) -> str:
    return str(case.point["memory"])


def size_of(case: Case) -> int:
    return int(case.point["size"])


def gbps(case: Case, way: Direction) -> float:
    """The median rate in GB/s of 1e9 bytes; 0 where nothing was measured."""
    return (case.value(f"{way}_rate") or 0) / 1e9


def put_samples(case: Case, way: Direction, samples: list[int], timed_blocks: list[list[int]]) -> None:
    """Give a case what was measured in a direction: all samples, and the blocks that they are of."""
    stats = summarise(samples, [n for _, n, _ in timed_blocks])
    case.metrics[way], case.samples[way], case.blocks[way] = stats, [*samples], timed_blocks
    case.set_metric(f"{way}_rate", round(1e9 * size_of(case) / max(stats.median, 1)), derived=True)
    if len(samples) > KEPT_SAMPLES:
        medians = [round(median(block)) for _, block in blocks(case, way)]
        case.block_medians = {**(case.block_medians or {}), way: medians}
        del case.samples[way]


def fail(case: Case, way: Direction, reason: str) -> None:
    case.checks[way] = {"verdict": "failed", "how": reason}
    found = failures(case)
    same = len(found) == len(DIRECTIONS) and len(set(found.values())) == 1
    case.status, case.reason = FAILED, reason if same else "; ".join(f"{it}: {why}" for it, why in found.items())


def failures(case: Case) -> dict[Direction, str]:
    return {way: case.checks[way].get("how", "") for way in DIRECTIONS if way in case.checks}


def measured_cases(result: Result, way: Direction | None = None, memory: str | None = None) -> list[Case]:
    """The cases with figures of a direction that did not fail, by size; of any direction and memory where none is named."""
    ways = DIRECTIONS if way is None else (way,)
    cases = [case for case in result.cases if memory in (None, memory_of(case))]
    return sorted((it for it in cases if any(way in it.metrics and way not in it.checks for way in ways)), key=size_of)


def curve(result: Result, way: Direction, memory: str) -> list[tuple[int, float]]:
    """Size and median duration of what was measured, ascending."""
    return [(size_of(case), round(case.median(way) or 0)) for case in measured_cases(result, way, memory)]


def peak(result: Result, way: Direction) -> Case | None:
    """The case with the highest rate, from any memory: as much as the link was seen to carry."""
    return max(measured_cases(result, way), key=lambda case: gbps(case, way), default=None)


def advantage(result: Result, way: Direction) -> tuple[int, Ratio] | None:
    """How many times as fast HOST_ACCESSIBLE memory is, by medians, and at which size: the largest of both."""
    by_size = [{size_of(case): case for case in measured_cases(result, way, memory)} for memory in MEMORIES]
    sizes = by_size[0].keys() & by_size[1].keys()
    if not sizes:
        return None
    ordinary, accessible = ((cases[max(sizes)], way) for cases in by_size)
    ratio = ratio_of_medians(ordinary, accessible)
    return None if ratio is None else (max(sizes), ratio)


def sync_of(result: Result) -> CopySync:
    """What ends copies, by host memory and direction."""
    return result.target["copy_sync"]


def half_rate_bytes(curve: Curve) -> float:
    """From which size on copies reach half of the highest rate: Hockney's n½, in bytes; the smallest size if that does."""
    half = max(size / max(ns, 1) for size, ns in curve) / 2
    for (low, low_ns), (high, high_ns) in pairwise(curve):
        if low / max(low_ns, 1) >= half:
            return low
        if high / max(high_ns, 1) >= half:
            per_byte = (high_ns - low_ns) / (high - low)
            latency = low_ns - per_byte * low
            return latency * half / (1 - per_byte * half)
    return curve[-1][0]


_REACH = 4  # how far beyond its ends a curve speaks: a step between its sizes


def attach(results: Sequence[Result], out: Path, named: Path | None) -> None:
    """Give each result the link of its device: from the newest curve in `out` that fits and that this machine measured, or from the
    named one.

    Raises `BadInput` where the named curve (a file or its folder) cannot be read, or fits no result.
    """
    curves = _curves(out) if named is None else [_named_curve(named)]
    for result in results:
        host = result.environment.get("host_id")  # another machine of the same hardware has another link
        fitting = [
            (path, curve_result)
            for path, curve_result in curves
            if (named is not None or (host is not None and curve_result.environment.get("host_id") == host))
            and not misfits(curve_result, result)
        ]
        if fitting:
            result.link = link_of(*max(fitting, key=lambda item: item[1].created))
    if named is not None and all(result.link is None for result in results):
        raise BadInput(f"--bandwidth {named} does not fit this run: {misfits(curves[0][1], results[0])[0]}")


def _named_curve(path: Path) -> tuple[Path, Result]:
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise BadInput(f"--bandwidth: no such file: {file}")
    return file, load(file, KIND.key)


def _curves(out: Path) -> list[tuple[Path, Result]]:
    """The curves in a folder of reports; a file that is none is nobody's wish, so it is passed over."""
    found = []
    for file in sorted(out.glob(f"*/{FILE_NAME}")):
        with suppress(BadInput):
            found.append((file, load(file, KIND.key)))
    return found


def misfits(curve_result: Result, result: Result) -> list[str]:
    """What makes a curve say nothing about a result's copies, in words; empty if it was measured on the same device."""
    own, other = (
        machine(one.target, one.environment) | {"memory": one.target["memory"]["kind"]}
        for one in (curve_result, result)
    )
    found = [f"{name}: {short(own[name])} and {short(other[name])}" for name in own if own[name] != other[name]]
    ranges = (_out_of_range(curve(curve_result, way, ORDINARY), result, way) for way in DIRECTIONS)
    return found or [*filter(None, ranges)]


def _out_of_range(points: Curve, result: Result, way: Direction) -> str | None:
    """Why a curve says nothing about the largest tensor that goes one way; None if it does."""
    if not points:
        return f"it has no {way.upper()} copy of pageable memory"
    least, most, largest = points[0][0], points[-1][0], max(tensor_sizes(result, way), default=0)
    all_latency = least < half_rate_bytes(points)  # then a smaller copy takes as long as the smallest
    if not largest or (largest <= most * _REACH and (all_latency or largest >= least / _REACH)):
        return None
    sizes = f"{units.size(least)} to {units.size(most)}"
    return f"its {way.upper()} copies are of {sizes}, the largest here is of {units.size(largest)}"


def link_of(path: Path, measured_curve: Result) -> Link:
    """A curve as a result keeps it: of ordinary memory, where runs have their arrays, and the peaks."""
    return {
        "from": str(path),
        "created": measured_curve.created,
        "memory": ORDINARY,
        "h2d": [list(point) for point in curve(measured_curve, H2D, ORDINARY)],
        "d2h": [list(point) for point in curve(measured_curve, D2H, ORDINARY)],
        "peak": {"h2d": _peak(measured_curve, H2D), "d2h": _peak(measured_curve, D2H)},
        "shares": {},
    }


def _peak(result: Result, way: Direction) -> Peak | None:
    if (case := peak(result, way)) is None:
        return None
    return {"gbps": round(gbps(case, way), 6), "bytes": size_of(case), "memory": memory_of(case)}
