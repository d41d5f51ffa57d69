"""How near a result's copies come to what its link can do, which a bandwidth curve in its ``link`` says. Pure.

``link["shares"]`` has, for mode ``device-tensors`` by direction and for mode ``cpu-tensors`` as ``both``:
``{bytes, copies, took_ns, sweep_ns, of_sweep, of_peak}``: how many bytes in how many tensors, the median of the phase (for
``cpu-tensors`` what its copies take by difference), what the curve has for the same tensors, one copy a tensor, and the shares of
what such copies reach and of the link's peak rate: 1 is as fast as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ortbench.model.hardware_names import is_on_nvidia
from ortbench.model.modes import COPY_RATE, COPY_TIME, DIRECTIONS, H2D, MODES, mode_of
from ortbench.model.result import Case, Result
from ortbench.model.schema import Direction, Link, LinkShare, Tensor

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


def _bytes_of(case: Case, way: Direction) -> int:
    return (case.bytes_h2d if way == H2D else case.bytes_d2h) or 0


def _copied(result: Result, case: Case, way: Direction) -> list[int]:
    """The bytes of each tensor that a case copies; all as one where some, which the result does not name, stay on the host."""
    copied = _bytes_of(case, way)
    sizes = tensor_sizes(result, way)
    return sizes if sum(sizes) == copied else [copied] if copied else []


def tensor_sizes(result: Result, way: Direction) -> list[int]:
    tensors: list[Tensor] = result.model["inputs"] if way == H2D else result.model["outputs"]
    return [tensor["bytes"] for tensor in tensors if tensor["bytes"]]
