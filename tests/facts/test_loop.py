"""The facts of loops, of synthetic results whose figures are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from ortbench.facts.findings import headline
from ortbench.features.loop.analysis import jumps
from ortbench.model.modes import SHARED
from ortbench.model.result import Case, Result
from tests.results import MS, US, decoding, fact, generating, keys, loop_case, loop_result, noise_of, values

CPU, RESIDENT, SHARING = "cpu-tensors", "device-resident", "host-accessible"


def fixed(ratio: tuple[float, ...], resident: int = 500 * US, kept: int = 0) -> Result:
    """A loop of 4 steps of 1 ms with `cpu-tensors`, whose state of 40 kB has always the same shape."""
    return loop_result(
        loop_case(CPU, [1 * MS] * 4, (1.0, 1.0, 1.0), 40_000, 40_000),
        loop_case(RESIDENT, [resident] * 4, ratio, 0, kept),
    )


def test_a_state_that_grows_and_what_it_costs() -> None:
    assert keys(decoding()) == [
        ("residency", "faster", RESIDENT), ("beside-state", "copied", RESIDENT),
    ]  # fmt: skip
    assert values(fact(decoding(), "beside-state")) == {"h2d": 100, "d2h": 100}
    assert keys(decoding(first=True)) == keys(decoding())  # the first is no part of what each step adds
    made = decoding()
    made.cases[1].step_bytes = made.cases[0].step_bytes
    assert ("beside-state", "copied", RESIDENT) in keys(made)


@pytest.mark.parametrize(
    ("ratio", "found"),
    [
        ((2.0, 1.9, 2.1), ("residency", "faster", RESIDENT)),
        ((1.01, 0.98, 1.04), ("modes", "little", "")),
        ((1.01, 0.98, 1.06), ("modes", "open", "")),
        ((1.0, 0.97, 1.02), ("modes", "none-faster", "")),
        ((0.8, 0.75, 0.85), ("modes", "none-faster", "")),
        ((2.0,), ("residency", "few-samples", RESIDENT)),
    ],
)
def test_a_state_of_one_shape(ratio: tuple[float, ...], found: tuple[str, str, str]) -> None:
    assert keys(fixed(ratio)) == [found]


@pytest.mark.parametrize(
    ("host_us", "verdict"), [(250, "no-faster-than-other"), (500, "no-faster-than-other"), (900, "faster-on-top")]
)
def test_residency_beside_a_mode_that_can_replace_cpu_tensors(host_us: int, verdict: str) -> None:
    result = fixed((2.0, 1.9, 2.1))
    faster = 1000 / host_us
    result.cases.append(loop_case(SHARING, [host_us * US] * 4, (faster, faster - 0.05, faster + 0.05)))
    assert ("replacement", "faster", SHARING) in keys(result) or ("replacement", "tied", SHARING) in keys(result)
    assert ("residency", verdict, RESIDENT) in keys(result)


def test_one_buffer_beside_two_and_other_copies() -> None:
    for took, verdict in [(250 * US, "faster"), (500 * US, "same"), (900 * US, "slower")]:
        result = fixed((2.0, 1.9, 2.1))
        result.cases.append(loop_case(SHARED.name, [took] * 4, (4.0, 3.9, 4.1)))
        assert (("one-buffer", verdict, SHARED.name) in keys(result)) is (verdict != "same")
    result = fixed((2.0, 1.9, 2.1))
    copied = result.cases[1].step_bytes
    assert copied is not None
    copied["step_d2h"] = 300
    assert ("beside-state", "copied", RESIDENT) in keys(result)
    assert keys(loop_result(loop_case(RESIDENT, [500 * US] * 4))) == []
    assert headline(loop_result()) == "Nothing was measured"


def test_on_the_cpu_ep_it_is_about_steps_and_what_to_do() -> None:
    result = fixed((2.0, 1.9, 2.1), kept=100)
    result.target["memory"] = {"kind": "host", "default": "Cpu", "host_accessible": None}
    steps = fact(result, "steps")
    assert (steps.verdict, steps.next) == (
        "known",
        "ortbench loop m.onnx --ep some --feedback present=past --intra-op-threads 1,2,4",
    )
    assert ("beside-state", "copied", RESIDENT) not in keys(result)  # nothing crosses a link


def stepping(steps: ArrayLike, loops: int = 4, noise: float = 0.01, seed: int = 1) -> Case:
    """A case of loops whose steps take so many ns, and one of a shape of its own before them."""
    random = np.random.default_rng(seed)
    case = loop_case("cpu-tensors", [1], rounds=1)
    values = np.asarray(steps)
    times = [[50 * MS, *values * random.normal(1, noise, values.size)] for _ in range(loops)]
    case.samples["step"] = [round(ns) for loop in times for ns in loop]
    case.steps_ns = [round(float(ns)) for ns in np.median(times, 0)]
    return case


@pytest.mark.parametrize(("count", "at"), [(63, 20), (63, 50), (200, 100), (4095, 2047), (4095, 100)])
def test_a_jump_over_depth_is_found_where_it_is(count: int, at: int) -> None:
    for each in (0, 0.0002):  # steps that also grow, in all by up to 80 %
        steps = MS * (1 + each * np.arange(count) + 0.5 * (np.arange(count) >= at))
        (found,) = jumps(stepping(steps), first=True)
        assert found.step == at + 1
        assert found.before == pytest.approx(MS * (1 + each * at), rel=0.02)
        assert found.after == pytest.approx(MS * (1.5 + each * at), rel=0.02)


def test_a_jump_is_where_it_is_also_where_ranks_alone_would_say_a_step_later() -> None:
    steps = MS * (1 + 0.2 * (np.arange(300) >= 20))
    assert [
        jump.step for seed in (11, 14, 15) for jump in jumps(stepping(steps, noise=0.02, seed=seed), first=True)
    ] == [21] * 3


def test_in_noise_alone_there_is_seldom_a_jump() -> None:
    series = [stepping(MS * np.ones(n), noise=0.05, seed=seed) for n in (30, 60, 100) for seed in range(20)]
    assert sum(bool(jumps(it, first=True)) for it in series) <= 1


def test_what_is_no_jump_is_none() -> None:
    number = np.arange(300)
    for seed in range(3):
        for steps in (
            MS * np.ones(300),
            MS * (1 + 0.01 * number),
            MS * (1 + 0.01 * np.maximum(0, number - 150)),  # it bends
            MS * (1 + 0.03 * (number >= 150)),  # too little
        ):
            assert jumps(stepping(steps, noise=0.02, seed=seed), first=True) == []
    steps = MS * (1 + 0.5 * (number >= 150))
    assert jumps(stepping(steps, loops=1), first=True) == []  # the machine may have been busy from there on
    assert jumps(stepping(steps[:8]), first=True) == []
    falls = [
        53.9,
        49.7,
        48.1,
        47.0,
        47.0,
        46.8,
        *(46.5 + 0.05 * (number % 3) for number in range(57)),
    ]  # warm only after some steps
    assert jumps(stepping(np.array(falls) * MS / 50), first=True) == []
    alone = stepping(MS * np.ones(300), loops=3)
    alone.steps_ns = [round(ns) for ns in (50 * MS, *steps)]  # loops do not show what their medians do
    assert jumps(alone, first=True) == []


def test_a_jump_has_its_depth_and_what_shows_why() -> None:
    result = generating()
    result.part["generation"]["context"] = 900
    for case, ms in zip(result.cases, (5, 2), strict=True):
        made = stepping([ms * MS] * 20 + [1.5 * ms * MS] * 20, noise=0)
        case.steps_ns, case.samples["step"] = made.steps_ns, made.samples["step"]
    jump = fact(result, "jump", SHARED.name)
    assert (jump.verdict, values(jump)["step"]) == ("longer", 1020)
    assert (values(jump)["before"], values(jump)["after"]) == (pytest.approx(2 * MS), pytest.approx(3 * MS))
    assert [it.next for it in (jump, fact(result, "jump", CPU))].count(
        "ortbench explain jump"
    ) == 1  # shapes stay the same


def test_where_the_state_grows_the_nodes_of_both_steps_of_the_greatest_jump_are_timed() -> None:
    result = decoding()
    result.part["steps"], result.part["state_shapes"] = 60, [[[2, 7, 16], [2, 67, 16]]]
    result.model["inputs"] = [
        {"name": "mask", "type": "tensor(int64)", "model_shape": ["batch", "total"], "shape": [2, 67], "bytes": 1},
        {"name": "past", "type": "tensor(float)", "model_shape": ["batch", "length", 16], "shape": [2, 66, 16], "bytes": 1},
    ]  # fmt: skip
    case = result.cases[0]
    made = stepping([1 * MS] * 20 + [1.2 * MS] * 20 + [2 * MS] * 19, noise=0)
    case.steps_ns, case.samples["step"] = made.steps_ns, made.samples["step"]
    command = "ortbench run m.onnx --dim batch=2 --dim total=length+1 --dim length=47,48 --measure-nodes"  # past is 7 long before step 0
    assert jumps_of(result) == [(21, ""), (41, command)]
    result.model["inputs"][1]["model_shape"][1] = None
    assert jumps_of(result) == [(21, ""), (41, "ortbench explain jump")]


def jumps_of(result: Result) -> list[tuple[object, str]]:
    from ortbench.facts.findings import facts_of

    return sorted((it.values["step"], it.next) for it in facts_of(result) if it.code == "jump")


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


def test_of_tokens_the_rates_come_first() -> None:
    first, *_ = keys(generating())
    assert first == ("tokens", "known", SHARED.name)
    tokens = fact(generating(), "tokens")
    assert {"prefill": 2000, "decode": 500, "first_token": 50 * MS, "choosing": 3 * US}.items() <= values(
        tokens
    ).items()
    assert tokens.next == "ortbench run m.onnx --measure-nodes"
    assert fact(generating(on_host=True), "tokens").next.startswith("ortbench loop m.onnx ")
    assert not any(code in ("beside-state", "steps") for code, *_ in keys(generating()))
