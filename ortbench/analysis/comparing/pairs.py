"""Blocks of the same round, side by side, and how many of them a comparison takes. Pure.

What a default run measures at least follows from that (`ortbench.measure.schedule`), so that its result can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ortbench.core.stats import Blocks, Ratio, Value, of_processes
from ortbench.core.stats import ratio_of as ratio_of_blocks
from ortbench.model.modes import COSTS, LATENCY, STAGE, mode_of, stage_in

if TYPE_CHECKING:
    from ortbench.model.result import Case, Result


_FEW = 3  # samples of each side that tell what is far apart


def by_round(case: Case, phase: str) -> Blocks:
    """The samples of every block of a phase, ns, by its round; of blocks whose samples are not kept the median."""
    if (kept := (case.block_medians or {}).get(phase)) is not None:
        return {number: [ns] for (number, *_), ns in zip(case.blocks[phase], kept, strict=True)}
    return dict(blocks(case, phase))


def by_process(case: Case, phase: str) -> list[list[float]]:
    """The samples of a phase, ns, of each process that it was measured in; empty of one."""
    taken = by_round(case, phase) if case.first_rounds else {}
    return [[ns for number in own for ns in taken[number]] for own in of_processes(taken, case.first_rounds)]


def are_apart(short: Sequence[float], long: Sequence[float], times: float) -> bool:
    """Whether each of some samples is so many times as long as any of others, or more: few of them tell that, which need no rounds."""
    return min(len(short), len(long)) >= _FEW and times * max(short) <= min(long)


def ratio_of_medians(over: tuple[Case, str], under: tuple[Case, str]) -> Ratio | None:
    """How many times as great the median of a phase of a case is as another, as both are printed; None without a common round.

    The interval is by the rounds that both have, or by the processes (`ortbench.core.stats`). Where one of them went on in
    processes without the other, it reaches as far around either ratio: of the rounds that both have, and of the medians as printed.
    """
    these, those = by_round(*over), by_round(*under)
    one, other = (case.median(phase) for case, phase in (over, under))
    if one is None or other is None or these.keys().isdisjoint(those):
        return None
    shared = ratio_of_blocks(these, those, processes=over[0].first_rounds)
    printed = shared.scaled_to(max(one, 1) / max(other, 1))
    if these.keys() == those.keys() or shared.ci95 is None or printed.ci95 is None:
        return printed
    return printed._replace(ci95=(min(shared.ci95[0], printed.ci95[0]), max(shared.ci95[1], printed.ci95[1])))


def blocks(case: Case, phase: str) -> list[tuple[int, list[int | float]]]:
    """The round and the samples (ns) of every block of a phase, in the order they were taken; ``stage.NAME`` is one too."""
    stage = stage_in(phase)
    if stage is not None:
        names = list(case.stages)
        if stage not in names:
            return []
        every = slice(names.index(stage), None, len(names))
        return [(number, samples[every]) for number, samples in blocks(case, STAGE)]
    return [(number, samples) for number, _, samples in taken_blocks(case, timed_phase(case.mode, phase, case.whole))]


def taken_blocks(case: Case, phase: str) -> Iterator[tuple[int, int, list[int | float]]]:
    """The round of each block of a phase, when it began (ns), and its samples."""
    at = 0
    for number, size, start_ns in case.blocks.get(phase, []):
        yield number, start_ns, case.samples[phase][at : at + size]
        at += size


def block_spans(case: Case, phase: str) -> Iterator[tuple[int, int, float]]:
    """The round of each block of a phase, when it began and when its last sample ended, ns."""
    for number, start_ns, samples in taken_blocks(case, phase):
        yield number, start_ns, start_ns + sum(samples) * case.inferences(phase)


def timed_phase(mode: str, phase: str, whole: str = LATENCY) -> str:
    """Under which phase samples were taken: what is all there is to a mode, a loop or a chain is timed as its latency."""
    if whole != LATENCY:
        return LATENCY if phase == whole else phase
    return mode_of(mode).timed_as(phase)


def ratio_of(base: Case, case: Case) -> Value | None:
    """How many times as fast as `base` a case is, by their medians; None without a common round."""
    found = ratio_of_medians((base, LATENCY), (case, LATENCY))
    if found is None:
        return None
    return Value(
        round(found.ratio, 4), None if found.ci95 is None else (round(found.ci95[0], 4), round(found.ci95[1], 4))
    )


ENDED_BY_TIME = ("duration", "agreement", "processes")  # a measurement that --duration makes longer
PARTS = 8  # of consecutive blocks into which each of two runs is cut: their spread is its noise
PAIRS = 9  # of blocks of one run, which decide a gate's limit where all of them say the same
ROUNDS = max(PARTS, PAIRS)  # that a run has at least, unless it was told to measure less


def duration_s(result: Result, rounds: int, together: int) -> int:
    """What `--duration` so many rounds take, whole seconds: by the time that those took which there are, and a quarter more."""
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
            for _, start_ns, end_ns in block_spans(case, phase):
                begun.append(start_ns)
                ended.append(end_ns)
    if not begun:
        return 1
    round_s = (max(ended) - min(begun)) / 1e9 / lanes / together / max(counts)
    return max(1, math.ceil(round_s * rounds * 1.25))
