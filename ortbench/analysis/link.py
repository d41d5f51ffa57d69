"""How near a run's copies come to what the link can do: a run's result held against a bandwidth sweep of its device.

`attach` puts a sweep's curves into a result's ``link`` before the run is measured, `add_shares` the shares once there are
figures. ``link["shares"]`` has, for mode ``device-tensors`` by direction and for mode ``cpu-tensors`` as ``both``:
``{bytes, copies, took_ns, sweep_ns, of_sweep, of_peak}``: how many bytes in how many tensors, the median of the phase
(for ``cpu-tensors`` what its copies take by difference), what the sweep took for the same tensors, one copy a tensor, and the
shares of what such copies reach and of the link's peak rate: 1 is as fast as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortbench.analysis.bandwidth import FILE_NAME, Curve, curve, expected_ns, half_rate_bytes, peaks_of
from ortbench.analysis.comparing.comparable import machine, short
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.model.modes import COPY_TIME, D2H, DIRECTIONS, H2D, MODES, ORDINARY, mode_of
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Direction, Link, LinkShare, Tensor

_REACH = 4  # how far beyond its ends a sweep speaks: a step between its sizes


def attach(results: Sequence[Result], out: Path, named: Path | None) -> None:
    """Give each result the link of its device: from the newest sweep in `out` that fits it, or from the one that is
    named.

    Raises `BadInput` where the named sweep (a file or its folder) cannot be read, or fits no result.
    """
    found = _sweeps(out) if named is None else [_named(named)]
    for result in results:
        fitting = [(path, sweep) for path, sweep in found if not misfits(sweep, result)]
        if fitting:
            result.link = link_of(*max(fitting, key=lambda item: item[1].created))
    if named is not None and all(result.link is None for result in results):
        reasons = "; ".join(misfits(found[0][1], results[0]))
        raise BadInput(f"--bandwidth {named} does not fit this run: {reasons}")


def _named(path: Path) -> tuple[Path, Result]:
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise BadInput(f"--bandwidth: no such file: {file}")
    return file, load(file, bandwidth=True)


def _sweeps(out: Path) -> list[tuple[Path, Result]]:
    """The sweeps in a folder of reports; a file that is none is nobody's wish, so it is passed over."""
    found = []
    for file in sorted(out.glob(f"*/{FILE_NAME}")):
        try:
            found.append((file, load(file, bandwidth=True)))
        except BadInput:
            continue
    return found


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
        return f"it has no {way.upper()} copy of ordinary memory"
    least, most, largest = swept[0][0], swept[-1][0], max(_tensor_sizes(result, way), default=0)
    all_latency = least < half_rate_bytes(swept)  # then a smaller copy takes as long as the smallest
    if not largest or (largest <= most * _REACH and (all_latency or largest >= least / _REACH)):
        return None
    sizes = f"{units.size(least)} to {units.size(most)}"
    return f"its {way.upper()} copies are of {sizes}, the largest here is of {units.size(largest)}"


def link_of(path: Path, sweep: Result) -> Link:
    """A sweep as a result keeps it: the curves of ordinary memory, where runs have their arrays, and the link's
    peaks."""
    return {
        "from": str(path),
        "created": sweep.created,
        "memory": ORDINARY,
        "h2d": [list(point) for point in curve(sweep, H2D, ORDINARY)],
        "d2h": [list(point) for point in curve(sweep, D2H, ORDINARY)],
        "peak": peaks_of(sweep),
        "shares": {},
    }


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
        both = _share(result, case, DIRECTIONS, case.value(COPY_TIME))
        shares[case.mode] = {} if both is None else {"both": both}
    result.link["shares"] = shares


def _share(result: Result, case: Case, ways: Sequence[Direction], took_ns: float | None) -> LinkShare | None:
    """The share of copies that took `took_ns` together; None where nothing was copied or it is not known."""
    link = result.link
    assert link is not None
    parts = [_copied(result, case, way) for way in ways]
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


def _copied(result: Result, case: Case, way: Direction) -> list[int]:
    """The bytes of each tensor that a case copies; where some stay in host memory, which the result does not name,
    all that it copies as one."""
    copied = (case.bytes_h2d if way == H2D else case.bytes_d2h) or 0
    sizes = _tensor_sizes(result, way)
    return sizes if sum(sizes) == copied else [copied] if copied else []


def _tensor_sizes(result: Result, way: Direction) -> list[int]:
    tensors: list[Tensor] = result.model["inputs"] if way == H2D else result.model["outputs"]
    return [tensor["bytes"] for tensor in tensors if tensor["bytes"]]
