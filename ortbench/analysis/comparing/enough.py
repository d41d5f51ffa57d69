"""How much of a run a comparison takes, and what to do about a result that has less. Pure.

What a default run measures at least follows from it (`ortbench.measure.schedule`), so that its result can be compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ortbench.core.units import count
from ortbench.model.modes import COSTS

if TYPE_CHECKING:
    from ortbench.model.result import Result

PARTS = 8  # of consecutive blocks into which each of two runs is cut: their spread is its noise
PAIRS = 9  # of blocks of one run, which decide a gate's limit where all of them say the same
ROUNDS = max(PARTS, PAIRS)  # that a run has at least, unless it was told to measure less

TOO_FEW = "too few blocks for an interval"


def lack(name: str, result: Result, blocks: int, together: int = 1) -> str | None:
    """That a result has too few blocks of a phase for a comparison, and what gives them, in a sentence; None if it has
    not.

    `together`: how many results took turns in its run.
    """
    if blocks >= PARTS:
        return None
    return f"{name} has {count(blocks, 'block')} and a comparison takes {PARTS}: {remedy(result, PARTS, together)}"


def without_interval(result: Result) -> str:
    """What there is to say of a ratio that has no interval, and what gives one."""
    return f"{TOO_FEW}: {remedy(result, PAIRS)}"


def remedy(result: Result, rounds: int, together: int = 1) -> str:
    """How to measure anew what a result has too few rounds of; of several that took turns each has its own share of the
    time."""
    ended_by = None if result.stopped is None else result.stopped["reason"]
    if ended_by == "iterations":
        return "measure it again without --iterations"
    if ended_by == "duration":
        return f"measure it again with --duration {_duration_s(result, rounds, together)}"
    if rounds > ROUNDS:
        return "measure it again with --precision 0, which lasts as long as --duration"
    return f"measure it again, a run has {ROUNDS} or more now"


def _duration_s(result: Result, rounds: int, together: int) -> int:
    """What `--duration` so many rounds take, whole seconds: by the time that the rounds took which there are, and a quarter
    more."""
    begun: list[int] = []
    ended: list[float] = []
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
                ended.append(start_ns + sum(case.samples[phase][at : at + n]) * case.inferences(phase))
                at += n
    if not begun:
        return 1
    round_s = (max(ended) - min(begun)) / 1e9 / lanes / together / max(counts)
    return max(1, math.ceil(round_s * rounds * 1.25))
