"""Blocks of the same round, side by side: what two cases of one run gave at the same time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from ortbench.model.modes import LATENCY, STAGE, mode_of, stage_in
from ortbench.model.result import Case

_CLEARLY_FASTER = 1.05  # without an interval; identical runs one after the other often differ by this much


def block_medians(case: Case, phase: str) -> dict[int, float]:
    """The median of every block of a phase, ns, by its round."""
    if (kept := (case.block_medians or {}).get(phase)) is not None:
        return {number: ns for (number, *_), ns in zip(case.blocks[phase], kept, strict=True)}
    return {number: median(samples) for number, samples in blocks(case, phase)}


def blocks(case: Case, phase: str) -> list[tuple[int, list[int | float]]]:
    """The round and the samples (ns) of every block of a phase, in the order they were taken; ``stage.NAME`` is one too."""
    stage = stage_in(phase)
    if stage is not None:
        names = list(case.stages)
        if stage not in names:
            return []
        every = slice(names.index(stage), None, len(names))
        return [(number, samples[every]) for number, samples in blocks(case, STAGE)]
    found, at = [], 0
    phase = timed_phase(case.mode, phase, case.whole)
    for number, size, _ in case.blocks.get(phase, []):
        found.append((number, case.samples[phase][at : at + size]))
        at += size
    return found


def timed_phase(mode: str, phase: str, whole: str = LATENCY) -> str:
    """Under which phase samples were taken.

    Where inference is all there is to a mode, it is timed as its latency, and so is a whole loop or chain (see
    `Case.whole`).
    """
    if whole != LATENCY:
        return LATENCY if phase == whole else phase
    return mode_of(mode).timed_as(phase)


def is_faster(case: Case) -> bool:
    """Whether a mode is faster than cpu-tensors beyond doubt; with too few blocks for an interval, by more than a little."""
    if case.speedup is None:
        return False
    if case.speedup.ci95 is None:
        return bool(case.speedup.value > _CLEARLY_FASTER)
    return bool(case.speedup.ci95[0] > 1)


def shared(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[list[float], list[float]]:
    """The values of both sides in the rounds that both have, in their order."""
    rounds = sorted(one.keys() & other.keys())
    return [one[number] for number in rounds], [other[number] for number in rounds]
