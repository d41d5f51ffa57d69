"""How much of a run a comparison takes, and what to do about a result that has less. Pure.

What a default run measures at least follows from it (`ortbench.measure.schedule`), so that its result can be compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ortbench.modes import COSTS

if TYPE_CHECKING:
    from ortbench.result import Result

PARTS = 8  # of consecutive blocks into which each of two runs is cut: their spread is its noise
PAIRS = 9  # of blocks of one run, which decide a gate's limit where all of them say the same
ROUNDS = max(PARTS, PAIRS)  # that a run has at least, unless it was told to measure less

# What a measurement ended by: how `stopped` of a result begins.
BY_ITERATIONS, BY_DURATION = "iterations", "duration"


def lack(name: str, result: Result, blocks: int) -> str | None:
    """That a result has too few blocks of a phase for a comparison, and what gives them, in a sentence; None if it has not.

    Args:
        name: what the result is called.
        result: that is to be compared.
        blocks: that it has.
    """
    if blocks >= PARTS:
        return None
    has = f"{blocks} block{'' if blocks == 1 else 's'}"
    return f"{name} has {has} and a comparison takes {PARTS}: {remedy(result, PARTS)}"


def without_interval(result: Result) -> str:
    """What there is to say of a ratio that has no interval, after a comma."""
    return f"by too few blocks for an interval: {remedy(result, ROUNDS)}"


def remedy(result: Result, rounds: int) -> str:
    """How to measure anew what a result has too few rounds of."""
    ended_by = (result.stopped or "").partition(":")[0]
    if ended_by == BY_ITERATIONS:
        return "measure it again without --iterations"
    if ended_by == BY_DURATION:
        return f"measure it again with --duration {_duration_s(result, rounds)}"
    if rounds > ROUNDS:
        return "measure it again with --precision 0, which lasts as long as --duration"
    return f"measure it again, a run has {ROUNDS} or more now"


def _duration_s(result: Result, rounds: int) -> int:
    """What `--duration` so many rounds take, whole seconds: by the time that the rounds took which there are, and a quarter
    more."""
    begun: list[int] = []
    ended: list[int] = []
    counts = [0]
    lanes = 0
    for case in result.cases:
        lanes += bool(case.blocks)
        for phase, taken in case.blocks.items():
            if phase in COSTS:  # taken in blocks of another
                continue
            counts.append(len(taken))
            at = 0
            for _, n, start_ns in taken:
                begun.append(start_ns)
                ended.append(start_ns + sum(case.samples_ns[phase][at : at + n]) * case.inferences(phase))
                at += n
    if not begun:
        return 1
    round_s = (max(ended) - min(begun)) / 1e9 / lanes / max(counts)
    return max(1, math.ceil(round_s * rounds * 1.25))
