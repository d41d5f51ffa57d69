"""What noise of the machine comes to: when it is said and how, which rounds are quiet, and which claims it leaves."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from ortbench.analysis.derive import derive
from ortbench.analysis.noise import (
    Policy,
    join_noise,
    rounds,
    supports_better,
    supports_speedup,
)
from ortbench.analysis.speedups import ALIKE, FASTER, NOISY, SLOWER, claim_between, claim_of, fastest, speedup_between
from ortbench.core.stats import Value
from ortbench.facts.common import busy_fact
from ortbench.facts.comparison import mode_facts
from ortbench.facts.findings import facts_of
from ortbench.facts.sentences import large_figures, sentence
from ortbench.features.sweep.analysis import is_noisy
from ortbench.model.modes import CPU, DEVICE, RESIDENT
from ortbench.model.result import Result
from ortbench.model.schema import MachineNoise
from tests.conftest import ROOT
from tests.results import (
    MS,
    US,
    fact,
    keys,
    measured,
    noise_of,
    result_of,
    serving,
    steady,
    sweep_result,
)

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
            "Busy machine: other processes used 61% of 2 cores.",
        ),
        (noise_of(2, 0.06, HALF), "Busy machine: this process waited for a CPU in 50% of blocks."),  # short bursts
        (noise_of(2, 0.0, HALF), None),  # nobody is there that it could wait for
        (noise_of(2, 0.06, [0.5]), None),  # one block tells nothing
        (noise_of(2, 0.06, [0.01] * 50), None),  # too short a wait
        # More threads than cores wait for each other, unless others were at work then.
        (noise_of(2, 0.02, HALF, threads=8), None),
        (
            noise_of(2, 0.5, HALF, threads=8),
            "Busy machine: other processes used 25% of 2 cores.",
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
    fact = busy_fact(noise)
    assert (None if fact is None else sentence(fact)) == said


RUN = ("ortbench", "run", "m.onnx")


@pytest.mark.parametrize(
    ("noise", "command", "verdict", "mended"),
    [
        (noise_of(2, 1.0), RUN, "others", "ortbench run m.onnx --wait-quiet 60s"),
        (noise_of(2, 1.0), ("ortbench", "gate", "m.onnx"), "others", "measure again with --wait-quiet 60s"),
        (noise_of(2, 1.0), (*RUN, "--wait-quiet=60s"), "others", "ps -eo pcpu,pid,comm --sort=-pcpu | head"),
        (noise_of(2, 0.0, gpu_processes=1), (*RUN, "--wait-quiet", "60s"), "gpu", "nvidia-smi"),
        (
            noise_of(4, 0.0, throttled_ns=400 * MS, limit=2.5),
            RUN,
            "stopped",
            "ortbench run m.onnx --intra-op-threads 2",
        ),
        (noise_of(4, 0.0, stolen=1.0), RUN, "stolen", "ortbench run m.onnx --wait-quiet 60s"),
        (noise_of(2, 0.06, HALF), RUN, "waited", "ortbench run m.onnx --wait-quiet 60s"),
    ],
)
def test_the_fact_and_one_command_that_mends_it(
    noise: MachineNoise, command: tuple[str, ...], verdict: str, mended: str
) -> None:
    result = result_of(measured(CPU, latency=steady([1])))
    result.noise, result.command = noise, [*command]
    found = fact(result, "busy-machine")
    assert (found.verdict, found.next) == (verdict, mended)


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


ALL, MOST, FEW = [0.5] * 40, [0.0] * 20 + [0.5] * 20, [0.0] * 8 + [0.5] * 32


@pytest.mark.parametrize(
    ("noise", "quick", "least", "holds"),
    [
        (None, 0.98, 1.01, True),  # nothing is known
        (noise_of(2, 0.1, [0.0] * 40), 0.98, 1.01, True),  # a quiet machine
        (noise_of(2, 1.0, ALL, threads=2), 0.5, 1.9, False),  # that others took half could be all of it
        (noise_of(2, 1.0, ALL, threads=2), 0.1, 9.0, True),  # 9 times is more than that
        (
            noise_of(2, 2.0, [1.5] * 40, threads=2),
            0.4,
            2.4,
            True,
        ),  # all that one thread does alone takes twice as long at most
        (noise_of(2, 2.0, [1.5] * 40, threads=2), 0.5, 1.9, False),
        (
            noise_of(2, 1.6, [3.0] * 40, threads=4, slices=9),
            0.05,
            20.0,
            True,
        ),  # others took 80 %, which five times can be due to
        (noise_of(2, 1.6, [3.0] * 40, threads=4, slices=9), 0.1, 10.0, False),
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
    assert supports_better(result, resident, cpu, least) is holds


@pytest.mark.parametrize(("low", "high", "holds"), [(0.95, 1.05, True), (0.988, 1.67, False), (0.6, 1.01, False)])
def test_that_modes_do_not_differ_is_claimed_of_a_narrow_interval_alone(low: float, high: float, holds: bool) -> None:
    result = of_two(noise_of(2, 1.0, ALL, threads=2))
    cpu, resident = result.cases
    assert supports_speedup(result, cpu, resident, Value(1.0, (low, high))) is holds
    result.noise = None
    assert supports_speedup(result, cpu, resident, Value(1.0, (low, high)))


def test_claims_by_the_time_for_an_item_and_by_throughput() -> None:
    result = of_two(noise_of(2, 1.0, MOST, threads=2), quick=4.0, times=40)
    one, eight = result.cases
    assert supports_better(result, eight, one, 1.01, items=(8, 1))
    assert not supports_better(result, eight, one, 1.01, items=(4, 1))
    load = serving()
    load.noise = noise_of(2, 1.0, ALL)
    better, worse = load.cases[-1], load.cases[0]
    assert not supports_better(load, better, worse, 1.01)


def test_the_noise_of_several_results_is_that_of_all_their_blocks() -> None:
    one, other = noise_of(2, 1.0, [0.0, 0.5]), noise_of(2, 1.0, [0.5, 0.0])
    for block in other["blocks"]:
        block[1] += MS
    other["of"] = 9
    made = join_noise([one, None, other])
    assert made is not None
    assert [block[:2] for block in made["blocks"]] == [[0, 0], [0, MS], [1, 10 * MS], [1, 11 * MS]]
    assert (made["of"], made["readings"]) == (11, one["readings"])
    assert join_noise([None]) is None


# What is said where noise leaves no claim

BUSY = noise_of(2, 1.0, [0.5] * 16)


def noisy(quick: float = 0.98) -> Result:
    result = of_two(BUSY, quick)
    derive(result)
    return result


@pytest.mark.parametrize(("quick", "said"), [(0.98, NOISY), (1.0, ALIKE), (1.02, NOISY), (1.5, SLOWER), (0.5, FASTER)])
def test_claims_of_a_busy_machine(quick: float, said: str) -> None:
    result = noisy(quick)
    cpu, resident = result.cases
    assert claim_of(resident) == claim_between(result, cpu, resident, speedup_between(cpu, resident)) == said
    assert resident.noisy is (said == NOISY)
    best = fastest(result)
    assert best is not None
    assert (best.claim, best.is_faster) == (said, said == FASTER)


def test_a_mode_that_noise_may_have_made_slower_is_a_rival() -> None:
    result = of_two(BUSY, quick=0.5)
    result.cases.append(replace(result.cases[1], mode=DEVICE))
    result.cases[2].samples = {"latency": [ns + US for ns in result.cases[1].samples["latency"]]}
    derive(result)
    best = fastest(result)
    assert best is not None
    assert (best.mode, best.claim, best.ties, best.rivals) == (RESIDENT, FASTER, (), (DEVICE,))


def test_large_figures_and_several_side_by_side() -> None:
    result = noisy()
    names = [it.name for it in large_figures(facts_of(result))]
    assert "Tensors on the device" not in names
    assert "Copies" not in names
    assert mode_facts([result], ["a"]) == []


def test_which_shape_is_the_best_cannot_be_told() -> None:
    result = sweep_result({CPU: {1: 100, 8: 780}})
    assert not is_noisy(result, CPU)
    result.noise = BUSY
    assert is_noisy(result, CPU)
    assert ("best-shape", "noise", CPU) in keys(result)
    result.command = ["ortbench", "sweep", "m.onnx", "--dim", "batch=1,8", "--wait-quiet", "60s"]
    result.stopped = {"reason": "duration", "value": 2.0, "per": "shape and mode"}
    assert fact(result, "best-shape").next == "ortbench sweep m.onnx --dim batch=1,8 --wait-quiet 60s --duration 8s"


def test_each_number_of_the_policy_has_a_source_that_is_there() -> None:
    for number in fields(Policy):
        source = number.metadata["source"]
        assert source
        assert all((ROOT / name).is_file() for name in re.findall(r"(?:docs|reports)/[\w.-]+", source)), number.name
