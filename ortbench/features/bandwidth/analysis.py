"""Bandwidth curves: results of kind ``bandwidth``, whose cases are copies of one size from and to one kind of host memory. Pure.

``bandwidth.json`` is a result file without a model (`ortbench.model.result`). A case has the metrics ``h2d`` and ``d2h``, of single
copies, and ``h2d_rate`` and ``d2h_rate``, bytes per second by their medians. A direction that failed has a check of its name,
and keeps what was measured before.

A run's result is compared with a curve of its device: `attach` puts a sweep's curves into its ``link`` before it is measured; see
`ortbench.analysis.link`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from ortbench.analysis.comparing.comparable import machine, short
from ortbench.analysis.comparing.pairs import blocks, ratio_of_medians
from ortbench.analysis.link import Curve, tensor_sizes
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.core.resampling import Ratio
from ortbench.core.stats import summarise
from ortbench.features.bandwidth.model import FILE_NAME, KIND
from ortbench.model.modes import COPY, D2H, DIRECTIONS, H2D, HOST_ACCESSIBLE, MEMORIES, ORDINARY
from ortbench.model.result import FAILED, Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import CopySync, Direction, Link, Peak, Peaks

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
    case.checks[way] = {"verdict": "failed", "how": reason}
    found = failures(case)
    same = len(found) == len(DIRECTIONS) and len(set(found.values())) == 1
    case.status, case.reason = FAILED, reason if same else "; ".join(f"{it}: {why}" for it, why in found.items())


def failures(case: Case) -> dict[Direction, str]:
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
    """How many times as fast HOST_ACCESSIBLE memory is, by medians, and at which size: the largest of both."""
    by_size = [{size_of(case): case for case in measured(result, way, memory)} for memory in MEMORIES]
    sizes = by_size[0].keys() & by_size[1].keys()
    if not sizes:
        return None
    ordinary, accessible = ((cases[max(sizes)], way) for cases in by_size)
    found = ratio_of_medians(ordinary, accessible)
    return None if found is None else (max(sizes), found)


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


_REACH = 4  # how far beyond its ends a sweep speaks: a step between its sizes


def attach(results: Sequence[Result], out: Path, named: Path | None) -> None:
    """Give each result the link of its device: from the newest sweep in `out` that fits and that this machine measured, or from the
    named one.

    Raises `BadInput` where the named sweep (a file or its folder) cannot be read, or fits no result.
    """
    found = _sweeps(out) if named is None else [_named(named)]
    for result in results:
        mine = found if named is not None else [it for it in found if _is_of_one_machine(it[1], result)]
        fitting = [(path, sweep) for path, sweep in mine if not misfits(sweep, result)]
        if fitting:
            result.link = link_of(*max(fitting, key=lambda item: item[1].created))
    if named is not None and all(result.link is None for result in results):
        reasons = "; ".join(misfits(found[0][1], results[0]))
        raise BadInput(f"--bandwidth {named} does not fit this run: {reasons}")


def _named(path: Path) -> tuple[Path, Result]:
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise BadInput(f"--bandwidth: no such file: {file}")
    return file, load(file, KIND.key)


def _sweeps(out: Path) -> list[tuple[Path, Result]]:
    """The sweeps in a folder of reports; a file that is none is nobody's wish, so it is passed over."""
    found = []
    for file in sorted(out.glob(f"*/{FILE_NAME}")):
        try:
            found.append((file, load(file, KIND.key)))
        except BadInput:
            continue
    return found


def _is_of_one_machine(sweep: Result, result: Result) -> bool:
    """Whether one machine measured both: another of the same hardware, as a shared folder of reports has it, is another link."""
    ours, theirs = (it.environment.get("host_id") for it in (sweep, result))
    return ours is not None and ours == theirs


def misfits(sweep: Result, result: Result) -> list[str]:
    """What makes a sweep say nothing about a result's copies, in words; empty if it was measured on the same device."""
    mine, theirs = machine(sweep.target, sweep.environment), machine(result.target, result.environment)
    mine["memory"], theirs["memory"] = (it.target["memory"]["kind"] for it in (sweep, result))
    found = [f"{name}: {short(mine[name])} and {short(theirs[name])}" for name in mine if mine[name] != theirs[name]]
    return found or [
        reason for way in DIRECTIONS if (reason := _out_of_range(curve(sweep, way, ORDINARY), result, way))
    ]


def _out_of_range(swept: Curve, result: Result, way: Direction) -> str | None:
    """Why a curve says nothing about the largest tensor that goes one way; None if it does."""
    if not swept:
        return f"it has no {way.upper()} copy of pageable memory"
    least, most, largest = swept[0][0], swept[-1][0], max(tensor_sizes(result, way), default=0)
    all_latency = least < half_rate_bytes(swept)  # then a smaller copy takes as long as the smallest
    if not largest or (largest <= most * _REACH and (all_latency or largest >= least / _REACH)):
        return None
    sizes = f"{units.size(least)} to {units.size(most)}"
    return f"its {way.upper()} copies are of {sizes}, the largest here is of {units.size(largest)}"


def link_of(path: Path, sweep: Result) -> Link:
    """A sweep as a result keeps it: the curves of ordinary memory, where runs have their arrays, and the peaks."""
    return {
        "from": str(path),
        "created": sweep.created,
        "memory": ORDINARY,
        "h2d": [list(point) for point in curve(sweep, H2D, ORDINARY)],
        "d2h": [list(point) for point in curve(sweep, D2H, ORDINARY)],
        "peak": peaks_of(sweep),
        "shares": {},
    }
