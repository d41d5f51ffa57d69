"""How long copies take by their size: the maths on the curve of a bandwidth sweep. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

# Medians of copies over sizes, ascending: (bytes, ns). From a file they are lists.
Curve = Sequence[Sequence[float]]


def expected_ns(curve: Curve, sizes: Iterable[float]) -> float:
    """How long copies of these sizes take one after the other, by a sweep, in ns.

    Between two points a copy takes a latency and a time per byte (the model of Hockney, Parallel Computing 20 (1994)
    389), so durations lie on a straight line through them; the last line goes on beyond the largest point. A copy below
    the smallest point takes as long as that one.

    Args:
        curve: at least one point, ascending.
        sizes: bytes of each copy.
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
    """The size from which on copies reach half of the curve's highest rate: Hockney's n½, in bytes.

    The smallest size of the curve if that does already.

    Args:
        curve: at least one point, ascending.
    """
    half = max(size / max(ns, 1) for size, ns in curve) / 2
    for (low, low_ns), (high, high_ns) in pairwise(curve):
        if low / max(low_ns, 1) >= half:
            return low
        if high / max(high_ns, 1) >= half:
            per_byte = (high_ns - low_ns) / (high - low)
            latency = low_ns - per_byte * low
            return latency * half / (1 - per_byte * half)
    return curve[-1][0]
