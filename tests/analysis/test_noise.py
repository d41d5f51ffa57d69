"""What noise of the machine comes to: when it is said and how, which rounds are quiet, and which claims it leaves."""

from __future__ import annotations

import pytest

from ortbench.analysis.derive import derive
from ortbench.analysis.findings.advice import sentences
from ortbench.analysis.findings.load_advice import load_sentences
from ortbench.analysis.findings.sweep_advice import sweep_sentences
from ortbench.analysis.noise import (
    allows,
    joined,
    quiet_cases,
    remedy,
    rounds,
    sentence,
    summary,
)
from ortbench.analysis.sweep import is_noisy
from ortbench.model.modes import CPU, RESIDENT
from ortbench.model.result import Result
from ortbench.model.schema import MachineNoise
from tests.results import MS, US, measured, noise_of, result_of, serving, steady, sweep_result

HALF = [0.0, 0.5] * 8  # rounds of which every other one waits


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        (None, None),
        (noise_of(2), None),
        (noise_of(2, 0.12), None),  # what the system itself does
        (noise_of(2, 0.2), "Busy machine: other processes used 10% of 2 cores."),
        (noise_of(1, 0.61), "Busy machine: other processes used 61% of 1 core."),
        (
            noise_of(2, 1.22, [0.0] * 62 + [0.5] * 38),
            "Busy machine: other processes used 61% of 2 cores; this process waited for a CPU in 38% of blocks.",
        ),
        (noise_of(2, 0.06, HALF), "Busy machine: this process waited for a CPU in 50% of blocks."),  # short bursts
        (noise_of(2, 0.0, HALF), None),  # nobody is there that it could wait for
        (noise_of(2, 0.06, [0.5]), None),  # one block tells nothing
        (noise_of(2, 0.06, [0.01] * 50), None),  # too short a wait
        # More threads than cores wait for each other, unless others were at work then.
        (noise_of(2, 0.02, HALF, threads=8), None),
        (
            noise_of(2, 0.5, HALF, threads=8),
            "Busy machine: other processes used 25% of 2 cores; this process waited for a CPU in 50% of blocks.",
        ),
        # Of a machine that is larger than what may be used of it others have the rest.
        (noise_of(64, 30.0, limit=2.0), None),
        (noise_of(64, 63.0, limit=2.0), "Busy machine: other processes used 50% of 2 cores."),
        (noise_of(4, 0.0, stolen=1.0), "Busy machine: the hypervisor took 25% of 4 cores."),
        (noise_of(2, 0.0, throttled_ns=400 * MS, limit=1.5), "Busy machine: a CPU limit stopped this process for 20% of the time."),
        (noise_of(2, 0.0, gpu_processes=1), "Busy machine: 1 other process computed on the GPU."),
        (noise_of(2, 0.0, gpu_processes=2), "Busy machine: 2 other processes computed on the GPU."),
    ],
)  # fmt: skip
def test_what_is_said_of_a_machine(noise: MachineNoise | None, said: str | None) -> None:
    assert sentence(noise) == said


def test_readings_count_by_their_time() -> None:
    noise = noise_of(2, 2.0)
    noise["readings"].append({"at_ns": 1000 * MS, "took_ns": 3000 * MS, "others": 0.0})
    assert summary(noise).others == 0.25


@pytest.mark.parametrize(
    ("noise", "command", "mended"),
    [
        (noise_of(2, 1.0), ["ortbench", "run", "m.onnx"], "the same command with --wait-quiet 60s"),
        (noise_of(2, 1.0), ["ortbench", "run", "--wait-quiet=60s"], "ps -eo pcpu,pid,comm --sort=-pcpu | head"),
        (noise_of(2, 1.0, gpu_processes=1), ["--wait-quiet", "60s"], "nvidia-smi"),
        (noise_of(4, 0.0, throttled_ns=400 * MS, limit=2.5), [], "the same command with --threads 2"),
    ],
)
def test_one_command_mends_it(noise: MachineNoise, command: list[str], mended: str) -> None:
    assert remedy(noise, command) == mended


def of_two(noise: MachineNoise, quick: float = 0.5, times: int = 16, busy_ns: int = 0) -> Result:
    """A run of two modes that take 100 µs and so many times as long, in rounds of which every other one is longer by `busy_ns`."""
    made = [100 * US + (number % 2) * busy_ns for number in range(times)]
    modes = (
        measured(CPU, latency=steady(made)),
        measured(RESIDENT, latency=steady([round(ns * quick) for ns in made])),
    )
    for case in modes:
        case.blocks["latency"] = [[number, 3, number * 10 * MS] for number in range(times)]
    result = result_of(*modes)
    result.noise = noise
    return result


def test_a_round_is_quiet_if_all_its_blocks_were() -> None:
    noise = noise_of(2, 1.0, [0.0, 0.0, 0.5, 0.0], each=2)
    noise["blocks"][1][3] = 5 * MS
    assert rounds(noise) == {0: False, 1: True, 2: False, 3: True}


def test_figures_of_the_quiet_rounds() -> None:
    found = quiet_cases(of_two(noise_of(2, 1.0, HALF), busy_ns=900 * US))
    assert [(it.case.mode, it.figure, it.rounds) for it in found] == [(CPU, 100 * US, 8), (RESIDENT, 50 * US, 8)]
    assert quiet_cases(of_two(noise_of(2, 1.0, [0.0] * 16))) == []
    assert quiet_cases(result_of(measured(CPU, latency=steady([1])))) == []


ALL, MOST, FEW = [0.5] * 40, [0.0] * 20 + [0.5] * 20, [0.0] * 8 + [0.5] * 32


@pytest.mark.parametrize(
    ("noise", "quick", "least", "holds"),
    [
        (None, 0.98, 1.01, True),  # nothing is known
        (noise_of(2, 0.1, [0.0] * 40), 0.98, 1.01, True),  # a quiet machine
        (noise_of(2, 1.0, ALL, threads=2), 0.5, 1.9, False),  # that others took half could be all of it
        (noise_of(2, 1.0, ALL, threads=2), 0.1, 9.0, True),  # 9 times is more than that
        (noise_of(2, 1.0, MOST, threads=2), 0.98, 1.01, True),  # quiet rounds say so too
        (noise_of(2, 1.0, MOST, threads=2), 1.0, 1.01, False),  # quiet rounds say otherwise
        (noise_of(2, 1.0, FEW, threads=2), 0.98, 1.01, False),  # too few of them
        (noise_of(2, 1.0, ALL), 0.5, 1.9, True),  # one thread, and few samples that waited: what the others took
        (noise_of(2, 1.0, ALL), 0.98, 1.01, False),
        (noise_of(2, 1.0, ALL, slices=4), 0.5, 1.9, False),  # every sample may have waited
    ],
)
def test_claims_that_noise_leaves(noise: MachineNoise | None, quick: float, least: float, holds: bool) -> None:
    result = of_two(noise_of(2), quick, times=40)
    result.noise = noise
    cpu, resident = result.cases
    assert allows(result, resident, cpu, least) is holds


def test_claims_by_the_time_for_an_item_and_by_throughput() -> None:
    result = of_two(noise_of(2, 1.0, MOST, threads=2), quick=4.0, times=40)
    one, eight = result.cases
    assert allows(result, eight, one, 1.01, items=(8, 1))
    assert not allows(result, eight, one, 1.01, items=(4, 1))
    load = serving()
    load.noise = noise_of(2, 1.0, ALL)
    better, worse = load.cases[-1], load.cases[0]
    assert not allows(load, better, worse, 1.01)


def test_the_noise_of_several_results_is_that_of_all_their_blocks() -> None:
    one, other = noise_of(2, 1.0, [0.0, 0.5]), noise_of(2, 1.0, [0.5, 0.0])
    for block in other["blocks"]:
        block[1] += MS
    other["of"] = 9
    made = joined([one, None, other])
    assert made is not None
    assert [block[:2] for block in made["blocks"]] == [[0, 0], [0, MS], [1, 10 * MS], [1, 11 * MS]]
    assert (made["of"], made["readings"]) == (11, one["readings"])
    assert joined([None]) is None


# What findings say where noise leaves no claim


def test_which_mode_is_faster_cannot_be_told() -> None:
    result = of_two(noise_of(2, 1.0, [0.5] * 16), quick=0.98)
    derive(result)
    assert result.cases[1].noisy
    assert sentences(result)[1] == (
        "Cannot tell: whether device-resident is faster than cpu-tensors, on so busy a machine (1.02 times as fast as cpu-tensors (95 %: 1.02 to 1.02))."
    )
    result.noise = noise_of(2)
    derive(result)
    assert not result.cases[1].noisy
    assert sentences(result)[1] == "device-resident is fastest: 1.02 times as fast as cpu-tensors (95 %: 1.02 to 1.02)."


def test_a_slower_mode_is_one_only_as_far_as_noise_allows() -> None:
    result = of_two(noise_of(2, 1.0, [0.5] * 16), quick=1.02)
    derive(result)
    assert result.cases[1].noisy
    result = of_two(noise_of(2, 1.0, [0.5] * 16), quick=1.5)
    derive(result)
    assert not result.cases[1].noisy


def test_which_shape_is_the_best_cannot_be_told() -> None:
    result = sweep_result({CPU: {1: 100, 8: 780}})
    assert not is_noisy(result, CPU)
    result.noise = noise_of(2, 1.0, [0.5] * 16)
    assert is_noisy(result, CPU)
    said = "Cannot tell: which shape is best with cpu-tensors, on so busy a machine (batch=8: 10256 items/s)."
    assert said in sweep_sentences(result)


def test_which_mode_brings_most_cannot_be_told() -> None:
    result = serving()
    assert load_sentences(result)[0] == "cpu-tensors brings most: 400 runs/s with 8 callers."
    result.noise = noise_of(2, 1.0, [0.5] * 16)
    said = "Cannot tell: which mode brings most runs/s, on so busy a machine (cpu-tensors: 400 with 8 callers)."
    assert load_sentences(result)[0] == said
