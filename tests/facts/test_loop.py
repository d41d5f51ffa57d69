"""The facts of loops, of synthetic results whose figures are known."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import ArrayLike

from ortbench.facts.run import facts_of
from ortbench.facts.sentences import sentence
from ortbench.features.loop.analysis import jumps
from ortbench.model.modes import SHARED
from ortbench.model.result import Case, Result
from tests.results import MS, US, decoding, fact, generating, keys, loop_case, loop_result, noise_of, on_host, values

CPU, RESIDENT, SHARING = "cpu-tensors", "device-resident", "host-accessible"


def fixed(ratio: tuple[float, ...] = (2.0, 1.9, 2.1), kept: int = 0) -> Result:
    """A loop of 4 steps of 1 ms with `cpu-tensors`, whose state of 40 kB has always the same shape."""
    return loop_result(
        loop_case(CPU, [1 * MS] * 4, (1.0, 1.0, 1.0), 40_000, 40_000),
        loop_case(RESIDENT, [500 * US] * 4, ratio, 0, kept),
    )


def test_a_state_that_grows_and_what_it_costs() -> None:
    both = [("residency", "faster", RESIDENT), ("beside-state", "copied", RESIDENT)]
    assert keys(decoding()) == keys(decoding(first=True)) == both
    assert values(fact(decoding(), "beside-state")) == {"h2d": 100, "d2h": 100}
    assert keys(fixed(kept=300)) == both


def test_residency_beside_another_mode() -> None:
    for mode, us, found in (
        (SHARING, 500, ("residency", "no-faster-than-other", RESIDENT)),
        (SHARING, 900, ("residency", "faster-on-top", RESIDENT)),
        (SHARED.name, 250, ("one-buffer", "faster", SHARED.name)),
        (SHARED.name, 500, None),
        (SHARED.name, 900, ("one-buffer", "slower", SHARED.name)),
    ):
        result = fixed()
        faster = 1000 / us
        result.cases.append(loop_case(mode, [us * US] * 4, (faster, faster - 0.05, faster + 0.05)))
        seen = [key for key in keys(result) if key[0] in ("residency" if mode == SHARING else "one-buffer")]
        assert seen == ([] if found is None else [found])


def test_on_the_cpu_ep_it_is_about_steps_and_what_to_do() -> None:
    result = fixed(kept=100)
    result.target["memory"] = {"kind": "host", "default": "Cpu", "host_accessible": None}
    steps = fact(result, "steps")
    command = "ortbench loop m.onnx --ep some --feedback present=past --intra-op-threads 1,2,4"
    assert (steps.verdict, steps.next) == ("known", command)
    assert re.search(r" ms \(median\) with .* steps/s \(mean\)\.$", sentence(steps))
    assert ("beside-state", "copied", RESIDENT) not in keys(result)  # nothing crosses a link
    result.target["intra_op_threads"] = 1
    assert fact(result, "steps").next == command.replace("--intra-op-threads 1,2,4", "--every 32ms")
    result.setup["every_ns"] = 32 * MS
    assert fact(result, "steps").next.startswith("ortbench inspect m.onnx")


def test_of_tokens_the_rates_come_first() -> None:
    assert keys(generating())[0] == ("tokens", "known", SHARED.name)
    tokens = fact(generating(), "tokens")
    expected = {"prefill": 2000, "decode": 500, "first_token": 50 * MS, "choosing": 3 * US}
    assert expected.items() <= values(tokens).items()
    assert tokens.next == "ortbench run m.onnx --measure-nodes"
    assert fact(on_host(generating()), "tokens").next.startswith("ortbench loop m.onnx ")
    assert not any(code in ("beside-state", "steps") for code, *_ in keys(generating()))


# Jumps over depth


def stepping(steps: ArrayLike, loops: int = 4, noise: float = 0.01, seed: int = 1) -> Case:
    """A case of loops whose steps take so many ns, and one of a shape of its own before them."""
    random = np.random.default_rng(seed)
    case = loop_case(CPU, [1], rounds=1)
    mean = np.asarray(steps)
    times = [[50 * MS, *mean * random.normal(1, noise, mean.size)] for _ in range(loops)]
    case.samples["step"] = [round(ns) for loop in times for ns in loop]
    case.steps_ns = [round(float(ns)) for ns in np.median(times, 0)]
    return case


@pytest.mark.parametrize(("count", "at"), [(63, 20), (200, 100), (4095, 2047)])
@pytest.mark.parametrize("each", [0, 0.0002])  # steps that also grow, in all by up to 80 %
def test_a_jump_over_depth_is_found_where_it_is(count: int, at: int, each: float) -> None:
    steps = MS * (1 + each * np.arange(count) + 0.5 * (np.arange(count) >= at))
    (found,) = jumps(stepping(steps), first=True)
    assert found.step == at + 1
    assert found.before == pytest.approx(MS * (1 + each * at), rel=0.02)
    assert found.after == pytest.approx(MS * (1.5 + each * at), rel=0.02)


NUMBER = np.arange(300)
UP = MS * (1 + 0.5 * (NUMBER >= 150))
WARMING = np.array([53.9, 49.7, 48.1, 47.0, 47.0, 46.8, *(46.5 + 0.05 * (at % 3) for at in range(57))]) * MS / 50


def test_what_is_no_jump_is_none() -> None:
    for steps, loops, noise in (
        (MS * np.ones(300), 4, 0.02),
        (MS * (1 + 0.01 * np.maximum(0, NUMBER - 150)), 4, 0.02),  # it bends
        (MS * (1 + 0.03 * (NUMBER >= 150)), 4, 0.02),  # too little
        (UP, 1, 0.01),  # the machine may have been busy from there on
        (UP[:8], 4, 0.01),
        (WARMING, 4, 0.01),  # warm only after some steps
    ):
        assert all(jumps(stepping(steps, loops, noise, seed), first=True) == [] for seed in range(3))


def put_steps(case: Case, *parts: tuple[int, float]) -> None:
    """Give a case so many steps of so many ms each."""
    made = stepping([ms * MS for count, ms in parts for _ in range(count)], noise=0)
    case.steps_ns, case.samples["step"] = made.steps_ns, made.samples["step"]


def test_a_jump_has_its_depth_and_what_shows_why() -> None:
    result = generating()
    result.part["generation"]["context"] = 900
    for case, ms in zip(result.cases, (5, 2), strict=True):
        put_steps(case, (20, ms), (20, 1.5 * ms))
    jump = fact(result, "jump", SHARED.name)
    assert (jump.verdict, values(jump)["step"]) == ("longer", 1020)
    assert (values(jump)["before"], values(jump)["after"]) == (pytest.approx(2 * MS), pytest.approx(3 * MS))
    after = [it.next for it in (jump, fact(result, "jump", CPU))]
    assert after.count("ortbench explain jump") == 1  # shapes stay the same


def test_where_the_state_grows_the_nodes_of_both_steps_of_the_greatest_jump_are_timed() -> None:
    for length, after in (
        # The past is 7 long before step 0.
        ("length", "ortbench run m.onnx --dim batch=2 --dim total=length+1 --dim length=47,48 --measure-nodes"),
        (None, "ortbench explain jump"),
    ):
        result = decoding()
        result.part["steps"], result.part["state_shapes"] = 60, [[[2, 7, 16], [2, 67, 16]]]
        result.model["inputs"] = [
            {"name": "mask", "type": "tensor(int64)", "model_shape": ["batch", "total"], "shape": [2, 67], "bytes": 1},
            {"name": "past", "type": "tensor(float)", "model_shape": ["batch", length, 16], "shape": [2, 66, 16], "bytes": 1},
        ]  # fmt: skip
        put_steps(result.cases[0], (20, 1), (20, 1.2), (19, 2))
        found = [(values(it)["step"], it.next) for it in facts_of(result) if it.code == "jump"]
        assert sorted(found) == [(21, ""), (41, after)]


@pytest.mark.parametrize(
    ("quiet", "up", "certain"), [(12, 1.3, True), (5, 1.3, False), (9, 0.7, False), (0, 4.0, True)]
)
def test_on_a_busy_machine_a_jump_is_one_where_quiet_rounds_show_it_or_it_is_great(
    quiet: int, up: float, certain: bool
) -> None:
    """Rounds that are not quiet show a jump of 30 %, or a greater one; the quiet ones show `up`."""
    random, rounds = np.random.default_rng(1), 40
    result = generating()
    result.cases = result.cases[:1]
    (case,) = result.cases
    case.samples["step"], case.blocks["step"] = [], []
    for number in range(rounds):
        times = np.array([50.0, *[5.0] * 20, *[5.0 * (up if number < quiet else max(up, 1.3))] * 20]) * MS
        case.samples["step"] += [round(ns) for ns in times * random.normal(1, 0.005, times.size)]
        case.blocks["step"].append([number, times.size, number * 10 * MS])
    case.steps_ns = [round(float(ns)) for ns in np.median(np.reshape(case.samples["step"], (rounds, -1)), 0)]
    assert fact(result, "jump").verdict == "longer"
    result.noise = noise_of(2, 1.0, [0.0] * quiet + [0.5] * (rounds - quiet))
    assert (("jump", "longer", case.mode) in keys(result)) is certain
