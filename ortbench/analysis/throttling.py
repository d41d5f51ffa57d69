"""Rounds that were measured while a GPU was held back, by what NVML read meanwhile. Pure.

Readings come between blocks, ten a second: the time between two of them counts as held back if one of them says so. A round is
left out whole, with all its modes and sides, so that blocks that alternated stay pairs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from ortbench.analysis.intervals import ROUNDS, block_spans, taken_blocks
from ortbench.model.result import OK, Case
from ortbench.model.schema import GpuReading, Throttled

IDLE = 0x01
# Bits of nvmlClocksEventReasons in NVML's API reference that mean: slower than the GPU was asked to be.
THROTTLES = {
    0x04: "the power cap",
    0x08: "a hardware slowdown",
    0x10: "another GPU of its boost group",
    0x20: "its temperature (software)",
    0x40: "its temperature (hardware)",
    0x80: "the power brake",
    0x100: "the clocks of its display",
}
# What somebody set for the card holds back where it came or went meanwhile: then somebody else set it.
_SET = 0x02
WATCHED = sum(THROTTLES) | _SET
_SET_WORDS = "clocks that another process set"

Span = tuple[float, float]


def held_by(reasons: int) -> list[str]:
    """What holds a GPU back by NVML's bits, in words."""
    return [words for bit, words in THROTTLES.items() if reasons & bit]


def throttling_bits(readings: Sequence[GpuReading]) -> int:
    """Which bits of a GPU's readings hold it back: those that always do, and a setting that came or went."""
    busy = [reading["reasons"] for reading in readings if "reasons" in reading and not reading["reasons"] & IDLE]
    changed = len({reasons & _SET for reasons in busy}) > 1
    return sum(THROTTLES) | (_SET if changed else 0)


def throttled_rounds(
    readings: Sequence[GpuReading], cases: Sequence[Case], cards: Collection[int] | None = None
) -> Throttled | None:
    """Which rounds were measured while a GPU was held back, and whether the others suffice; None where none was.

    Readings are of all GPUs, in order; those of `cards` count, which were measured, or of all where nobody knows (None).
    """
    spans: list[Span] = []
    reasons: dict[str, None] = {}
    for card in sorted({reading["gpu"] for reading in readings} if cards is None else {*cards}):
        own = [reading for reading in readings if reading["gpu"] == card]
        bits = throttling_bits(own)
        spans += _spans(own, bits)
        for reading in own:
            reasons |= dict.fromkeys(held_by(reading.get("reasons", 0)))
            reasons |= dict.fromkeys([_SET_WORDS] if reading.get("reasons", 0) & bits & _SET else [])
    taken = [span for case in cases for phase in case.blocks for span in block_spans(case, phase)]
    starts, ends = _merge_spans(spans)
    found = sorted({number for number, begin, end in taken if _touches(begin, end, starts, ends)})
    if not found:
        return None
    every = {number for number, _, _ in taken}
    return {"rounds": found, "of": len(every), "reasons": list(reasons), "left_out": _suffices(cases, set(found))}


def _spans(readings: Sequence[GpuReading], bits: int) -> Iterator[Span]:
    """When a GPU was held back, ns."""
    known = [(reading["at_ns"], bool(reading["reasons"] & bits)) for reading in readings
             if "at_ns" in reading and "reasons" in reading]  # fmt: skip
    if known and known[0][1]:
        yield float("-inf"), known[0][0]
    for (begin, one), (end, other) in pairwise(known):
        if one or other:
            yield begin, end
    if known and known[-1][1]:
        yield known[-1][0], float("inf")


def _merge_spans(spans: Sequence[Span]) -> tuple[list[float], list[float]]:
    """The same without overlaps: where they begin, and where they end."""
    starts: list[float] = []
    ends: list[float] = []
    for begin, end in sorted(spans):
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(begin)
            ends.append(end)
    return starts, ends


def _touches(begin: float, end: float, starts: Sequence[float], ends: Sequence[float]) -> bool:
    at = bisect_right(starts, end) - 1
    return at >= 0 and ends[at] >= begin


def _suffices(cases: Sequence[Case], rounds: Collection[int]) -> bool:
    """Whether every mode that is ok keeps as many rounds of each phase as a comparison takes."""
    left = [
        sum(number not in rounds for number, _, _ in blocks)
        for case in cases
        if case.status == OK
        for blocks in case.blocks.values()
    ]
    return bool(left) and min(left) >= ROUNDS


def leave_out(case: Case, rounds: Collection[int]) -> None:
    """Put the blocks of some rounds aside, with their samples."""
    aside: dict[str, list[list[int]]] = {}
    samples: dict[str, list[int | float]] = {}
    for phase, blocks in case.blocks.items():
        away: list[int | float] = []
        kept: list[int | float] = []
        for number, _, own in taken_blocks(case, phase):
            (away if number in rounds else kept).extend(own)
        aside[phase], samples[phase] = [it for it in blocks if it[0] in rounds], away
        case.blocks[phase], case.samples[phase] = [it for it in blocks if it[0] not in rounds], kept
    if any(aside.values()):
        case.left_out = {"samples": samples, "blocks": aside}


def sentence(found: Throttled, decided: bool = False) -> str:
    """What a reader should know of it; a gate that was `decided` rests on all rounds, so none is left out."""
    said = f"the GPU was throttled by {', '.join(found['reasons'])} in {len(found['rounds'])} of {found['of']} rounds"
    if found["left_out"]:
        return f"{said}: left out of all figures, kept in the result"
    why = "as the gate was decided by all rounds" if decided else "too few are left without"
    return f"{said}: all figures have them, {why}"
