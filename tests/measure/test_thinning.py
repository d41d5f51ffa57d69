"""Soak runs: what is kept of more samples than a result holds."""

from __future__ import annotations

from random import Random

import pytest

from ortbench.measure.schedule import Thinning
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import Case

# Of a block of each phase; the steps of loops are what there is most of, so they say when.
SIZES = {"cpu-tensors": {STEP: 12, LATENCY: 3}, "device-tensors": {LATENCY: 3, "h2d": 3}}


def soak(rounds: int, most: int) -> dict[str, Case]:
    """Cases after so many rounds in a shuffled order; each sample is its round's number."""
    cases, thinning, order = {mode: Case(mode) for mode in SIZES}, Thinning(most), Random(0)
    for round_ in range(rounds):
        keys = [(mode, phase) for mode, sizes in SIZES.items() for phase in sizes if phase != STEP]
        order.shuffle(keys)
        for mode, phase in keys:
            case = cases[mode]
            for timed in (STEP, phase) if STEP in SIZES[mode] else (phase,):
                case.samples.setdefault(timed, []).extend([round_] * SIZES[mode][timed])
                case.blocks.setdefault(timed, []).append([round_, SIZES[mode][timed], 1000 * round_])
            thinning.add(case, phase, list(cases.values()))
            assert all(len(samples) <= most for it in cases.values() for samples in it.samples.values())
    return cases


@pytest.mark.parametrize(("rounds", "every"), [(9, 2), (16, 2), (17, 4), (100, 16), (999, 128)])
def test_rounds_are_kept_whole_and_evenly_and_what_was_taken_is_said(rounds: int, every: int) -> None:
    """A loop and its steps are kept or left out together."""
    for mode, case in soak(rounds, most=100).items():
        kept = range(0, rounds, every)
        taken = {phase: rounds * size for phase, size in SIZES[mode].items()}
        assert case.downsampled == {"every": every, "taken": taken}
        for phase, size in SIZES[mode].items():
            assert [number for number, _, _ in case.blocks[phase]] == list(kept)
            assert case.samples[phase] == [number for number in kept for _ in range(size)]
