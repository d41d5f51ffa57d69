"""Soak runs: what is kept of more samples than a result holds."""

from __future__ import annotations

from random import Random

import pytest

from ortbench.measure.schedule import Thinning
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import Case

MODES = ("cpu-tensors", "device-tensors")
PHASES = {"cpu-tensors": (LATENCY,), "device-tensors": (LATENCY, "h2d")}
SIZES = {"cpu-tensors": 10, "device-tensors": 3}


def soak(rounds: int, most: int) -> dict[str, Case]:
    """Cases after so many rounds in a shuffled order; each sample is its round's number."""
    cases, thinning, order = {mode: Case(mode) for mode in MODES}, Thinning(most), Random(0)
    for round_ in range(rounds):
        keys = [(mode, phase) for mode in MODES for phase in PHASES[mode]]
        order.shuffle(keys)
        for mode, phase in keys:
            case = cases[mode]
            case.samples.setdefault(phase, []).extend([round_] * SIZES[mode])
            case.blocks.setdefault(phase, []).append([round_, SIZES[mode], 1000 * round_])
            thinning.add(case, phase, list(cases.values()))
            assert all(len(samples) <= most for it in cases.values() for samples in it.samples.values())
    return cases


@pytest.mark.parametrize(("rounds", "every"), [(11, 2), (20, 2), (21, 4), (100, 16), (999, 128)])
def test_rounds_are_kept_whole_and_evenly_and_what_was_taken_is_said(rounds: int, every: int) -> None:
    for case in soak(rounds, most=100).values():
        phases, kept = PHASES[case.mode], range(0, rounds, every)
        assert case.downsampled == {"every": every, "taken": dict.fromkeys(phases, rounds * SIZES[case.mode])}
        for phase in phases:
            assert [number for number, _, _ in case.blocks[phase]] == list(kept)
            assert case.samples[phase] == [number for number in kept for _ in range(SIZES[case.mode])]


STEPS = 4


def test_the_steps_of_loops_are_thinned_with_their_loops() -> None:
    """The steps are what there is most of, so they say when; a loop and its steps are kept or left out together."""
    case, thinning, rounds = Case("cpu-tensors"), Thinning(100), 60
    for round_ in range(rounds):
        for phase, n in ((LATENCY, 3), (STEP, 3 * STEPS)):
            case.samples.setdefault(phase, []).extend([round_] * n)
            case.blocks.setdefault(phase, []).append([round_, n, 1000 * round_])
        thinning.add(case, LATENCY, [case])
        assert len(case.samples[STEP]) == STEPS * len(case.samples[LATENCY]) <= 100
    kept = range(0, rounds, 8)
    assert case.downsampled == {"every": 8, "taken": {LATENCY: 3 * rounds, STEP: 3 * STEPS * rounds}}
    for phase, n in ((LATENCY, 3), (STEP, 3 * STEPS)):
        assert [number for number, _, _ in case.blocks[phase]] == [*kept]
        assert case.samples[phase] == [number for number in kept for _ in range(n)]
