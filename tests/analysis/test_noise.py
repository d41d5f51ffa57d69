"""What noise of the machine comes to: when it is said and how, which rounds are quiet, and which claims it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ortbench.analysis.derive import derive
from ortbench.analysis.noise import join_noise, rounds, supports_better, supports_speedup
from ortbench.analysis.speedups import ALIKE, FASTER, NOISY, SLOWER, claim_between, claim_of, fastest, speedup_between
from ortbench.core.stats import Value
from ortbench.facts import busy_fact
from ortbench.facts.comparison import mode_facts
from ortbench.facts.run import facts_of
from ortbench.facts.sentences import large_figures
from ortbench.model.modes import CPU, DEVICE, RESIDENT
from ortbench.model.result import Result
from ortbench.model.schema import MachineNoise
from tests.expect import there
from tests.results import MS, US, fact, measured, noise_of, result_of, serving, steady, values

HALF = [0.0, 0.5] * 8  # rounds of which every other one waits


@pytest.mark.parametrize(
    ("noise", "verdict", "share"),
    [
        (None, None, 0),
        (noise_of(2, 0.2), "others", 0.1),
        (noise_of(2, 1.22, [0.0] * 62 + [0.5] * 38), "others", 0.61),
        (noise_of(2, 0.06, HALF), "waited", 0.5),  # short bursts
        (noise_of(2, 0.0, HALF), None, 0),  # nobody is there that it could wait for
        (noise_of(2, 0.06, [0.5]), None, 0),  # one block tells nothing
        (noise_of(2, 0.5, HALF, threads=8), "others", 0.25),
        # Of a machine that is larger than what may be used of it others have the rest.
        (noise_of(64, 63.0, limit=2.0), "others", 0.5),
        (noise_of(4, 0.0, stolen=1.0), "stolen", 0.25),
        (noise_of(2, 0.0, throttled_ns=400 * MS, limit=1.5), "stopped", 0.2),
    ],
)
def test_what_is_told_of_a_machine(noise: MachineNoise | None, verdict: str | None, share: float) -> None:
    found = busy_fact(noise)
    assert (found and found.verdict) == verdict
    if found is not None:
        assert values(found)[found.verdict] == pytest.approx(share)


def test_of_how_many_cores_and_processes_it_is_told() -> None:
    assert values(there(busy_fact(noise_of(64, 63.0, limit=2.0))))["cores"] == 2
    shared = there(busy_fact(noise_of(2, 0.0, gpu_processes=2)))
    assert (shared.verdict, values(shared)["cores"], values(shared)["gpu_processes"]) == ("gpu", 2, 2)


RUN = ("ortbench", "run", "m.onnx")


def test_one_command_mends_it() -> None:
    for noise, command, mended in (
        (noise_of(2, 1.0), RUN, "ortbench run m.onnx --wait-quiet 60s"),
        (noise_of(2, 1.0), ("ortbench", "gate", "m.onnx"), "measure again with --wait-quiet 60s"),
        (noise_of(2, 1.0), (*RUN, "--wait-quiet=60s"), "ps -eo pcpu,pid,comm --sort=-pcpu | head"),
        (noise_of(2, 0.0, gpu_processes=1), (*RUN, "--wait-quiet", "60s"), "nvidia-smi"),
        (noise_of(4, 0.0, throttled_ns=400 * MS, limit=2.5), RUN, "ortbench run m.onnx --intra-op-threads 2"),
    ):
        result = replace(result_of(measured(CPU, latency=steady([1]))), noise=noise, command=[*command])
        assert fact(result, "busy-machine").next == mended


def of_two(noise: MachineNoise | None, quick: float = 0.5, times: int = 16) -> Result:
    """A run of two modes that take 100 µs and so many times as long."""
    modes = (
        measured(CPU, latency=steady([100 * US] * times)),
        measured(RESIDENT, latency=steady([round(100 * US * quick)] * times)),
    )
    for case in modes:
        case.blocks["latency"] = [[number, 3, number * 10 * MS] for number in range(times)]
    return replace(result_of(*modes), noise=noise)


ALL, MOST, FEW = [0.5] * 40, [0.0] * 20 + [0.5] * 20, [0.0] * 8 + [0.5] * 32


@pytest.mark.parametrize(
    ("noise", "quick", "least", "holds"),
    [
        (noise_of(2, 0.1, [0.0] * 40), 0.98, 1.01, True),  # a quiet machine
        (noise_of(2, 1.0, ALL, threads=2), 0.5, 1.9, False),  # that others took half could be all of it
        (noise_of(2, 1.0, ALL, threads=2), 0.1, 9.0, True),  # 9 times is more than that
        # All that one thread does alone takes twice as long at most.
        # Others took 80 %, which five times can be due to.
        (noise_of(2, 1.6, [3.0] * 40, threads=4, slices=9), 0.1, 10.0, False),
        (noise_of(2, 1.0, MOST, threads=2), 0.98, 1.01, True),  # quiet rounds say so too
        (noise_of(2, 1.0, FEW, threads=2), 0.98, 1.01, False),  # too few of them
        (noise_of(2, 1.0, ALL), 0.5, 1.9, True),  # one thread, and few samples that waited: what the others took
        (noise_of(2, 1.0, ALL, slices=4), 0.5, 1.9, False),  # every sample may have waited
    ],
)
def test_claims_that_noise_leaves(noise: MachineNoise | None, quick: float, least: float, holds: bool) -> None:
    result = of_two(noise, quick, times=40)
    cpu, resident = result.cases
    assert supports_better(result, resident, cpu, least) is holds


def test_claims_of_intervals_by_the_time_for_an_item_and_by_throughput() -> None:
    busy = of_two(noise_of(2, 1.0, ALL, threads=2))
    for ends, holds in (((0.95, 1.05), True), ((0.988, 1.67), False)):  # that modes do not differ
        assert supports_speedup(busy, busy.cases[0], busy.cases[1], Value(1.0, ends)) is holds
    result = of_two(noise_of(2, 1.0, MOST, threads=2), quick=4.0, times=40)
    one, eight = result.cases
    assert supports_better(result, eight, one, 1.01, items=(8, 1))
    assert not supports_better(result, eight, one, 1.01, items=(4, 1))
    load = replace(serving(), noise=noise_of(2, 1.0, ALL))
    assert not supports_better(load, load.cases[-1], load.cases[0], 1.01)


def test_rounds_and_the_noise_of_several_results_are_of_all_their_blocks() -> None:
    noise = noise_of(2, 1.0, [0.0, 0.0, 0.5, 0.0], each=2)
    noise["blocks"][1][3] = 5 * MS
    assert rounds(noise) == {0: False, 1: True, 2: False, 3: True}
    one, other = noise_of(2, 1.0, [0.0, 0.5]), noise_of(2, 1.0, [0.5, 0.0])
    for block in other["blocks"]:
        block[1] += MS
    other["of"] = 9
    made = there(join_noise([one, None, other]))
    assert [block[:2] for block in made["blocks"]] == [[0, 0], [0, MS], [1, 10 * MS], [1, 11 * MS]]
    assert (made["of"], made["readings"], join_noise([None])) == (11, one["readings"], None)


BUSY = noise_of(2, 1.0, [0.5] * 16)


@pytest.mark.parametrize(("quick", "told"), [(0.98, NOISY), (1.0, ALIKE), (1.02, NOISY), (1.5, SLOWER), (0.5, FASTER)])
def test_claims_of_a_busy_machine(quick: float, told: str) -> None:
    result = of_two(BUSY, quick)
    derive(result)
    cpu, resident = result.cases
    assert claim_of(resident) == claim_between(result, cpu, resident, speedup_between(cpu, resident)) == told
    best = there(fastest(result))
    assert (resident.noisy, best.claim, best.is_faster) == (told == NOISY, told, told == FASTER)
    if told == NOISY:
        assert not {it.name for it in large_figures(facts_of(result))} & {"Tensors on the device", "Copies"}
        assert mode_facts([result], ["a"]) == []


def test_a_mode_that_noise_may_have_made_slower_is_a_rival() -> None:
    result = of_two(BUSY)
    result.cases.append(replace(result.cases[1], mode=DEVICE))
    result.cases[2].samples = {"latency": [ns + US for ns in result.cases[1].samples["latency"]]}
    derive(result)
    best = there(fastest(result))
    assert (best.mode, best.claim, best.ties, best.rivals) == (RESIDENT, FASTER, (), (DEVICE,))
