"""What is said of a loop: its headline and its findings, of synthetic results whose figures are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike

from ortbench.analysis.findings.advice import findings, headline
from ortbench.analysis.steps_and_stages import jumps, summarise_steps
from ortbench.model.modes import SHARED
from ortbench.model.result import Case, Result
from ortbench.report.page.facts import facts
from tests.results import MS, US, decoding, generating, loop_case, loop_result, noise_of, sentences

NEEDS = "if the host does not need the state between steps"
STATE = "device-resident is 2.07× as fast as cpu-tensors (95% CI 2.00 to 2.10)"


def told(result: Result) -> list[str]:
    """What is said of a loop, but for the command that writes its program, of which tests/report/test_programs.py has more."""
    return [it for it in sentences(result) if not it.startswith("Next: ortbench code ")]


GROWING = [
    f"{STATE}, {NEEDS}: 4.00 ms instead of 8.28 ms; 23.0 kB of state per step on average stay on the device; 100 B H2D and 100 B D2H "
    "per step cross the link and count as copied.",
    "A step of device-resident copies 100 B H2D and 100 B D2H, of other tensors than the state.",
    "Next: add --resident IN for an input that is the same in all steps, add --keep OUT for an output that the host needs after the "
    "last step only",
    "Steps get longer over depth after the first step, on average by 10.0 µs per step with cpu-tensors: the state grows by 1.00 kB per step; with device-resident no "
    "growth can be measured.",
]


def fixed(ratio: tuple[float, ...], resident: int = 500 * US, kept: int = 0) -> Result:
    """A loop of 4 steps of 1 ms with `cpu-tensors`, whose state of 40 kB has always the same shape."""
    return loop_result(
        loop_case("cpu-tensors", [1 * MS] * 4, (1.0, 1.0, 1.0), 40_000, 40_000),
        loop_case("device-resident", [resident] * 4, ratio, 0, kept),
    )


def test_state_that_grows_and_what_it_costs() -> None:
    assert told(decoding()) == GROWING
    assert (
        headline(decoding())
        == "device-resident runs the loop 2.07× as fast as cpu-tensors with its state on the device"
    )
    found = told(decoding(first=True))
    assert found[1:4] == [
        it.replace(" after the first step", "") for it in GROWING[1:]
    ]  # it is no part of what each step adds
    assert found[4] == (
        "The first step (sequence=5) takes 2.00 ms with cpu-tensors, 2.00 ms with device-resident: a later step 1.04 ms with "
        "cpu-tensors, 500 µs with device-resident."
    )


def test_state_of_one_shape() -> None:
    for ratio, expected, first in [
        (
            (2.0, 1.9, 2.1),
            [f"device-resident is 2.00× as fast as cpu-tensors (95% CI 1.90 to 2.10), {NEEDS}: 2.00 ms instead of 4.00 ms; 80.0 kB of "
             "state per step stay on the device."],
            "device-resident runs the loop 2.00× as fast as cpu-tensors with its state on the device",
        ),
        (
            (1.01, 0.98, 1.04),
            ["No mode is measurably more than 2% faster than cpu-tensors: device-resident 1.01× (95% CI 0.980 to 1.04).", "Next: ortbench run m.onnx --measure-nodes"],
            "2.00k steps/s with device-resident; no mode is measurably more than 2% faster",
        ),
        (
            (0.8, 0.75, 0.85),
            ["No mode is measurably more than 2% faster than cpu-tensors: device-resident is slower, 0.800× (95% CI 0.750 to 0.850).", "Next: ortbench run m.onnx --measure-nodes"],
            "2.00k steps/s with device-resident; no mode is measurably more than 2% faster",
        ),
        (
            (2.0,),
            [f"device-resident is 2.00× as fast as cpu-tensors, {NEEDS}: too few blocks for a 95% CI.",
             "Next: measure again; a measurement now takes 9 rounds or more"],
            "2.00k steps/s with device-resident",
        ),
    ]:  # fmt: skip
        assert told(fixed(ratio)) == expected
        assert headline(fixed(ratio)) == first


def test_a_mode_that_takes_new_inputs_in_each_step_comes_first() -> None:
    result = fixed((2.0, 1.9, 2.1))
    result.cases.append(loop_case("host-accessible", [250 * US] * 4, (4.0, 3.9, 4.1)))
    first, second = told(result)
    assert first.startswith(
        "host-accessible is 4.00× as fast as cpu-tensors (95% CI 3.90 to 4.10) with the state readable by the host in each step"
    )
    assert second.startswith("device-resident is 2.00× as fast as cpu-tensors but slower than host-accessible: ")
    assert headline(result) == "host-accessible runs the loop 4.00× as fast as cpu-tensors"


def test_the_mode_that_is_named_first_can_replace_the_others_unless_another_is_faster() -> None:
    for resident, first in ((1, "host-accessible"), (0.9, "device-resident")):
        result = fixed((4.0, 3.9, 4.1), resident=round(resident * 250 * US))
        result.cases.append(loop_case("host-accessible", [250 * US] * 4, (3.9, 3.8, 4.0)))
        assert headline(result).startswith(f"{first} runs the loop ")


def test_other_modes_and_other_copies() -> None:
    for took, expected in [
        (250 * US, "shared is 2.00× as fast as device-resident (95% CI 2.00 to 2.00): one buffer for past and present, not two in turns."),
        (500 * US, "shared (one buffer for past and present) and device-resident (two in turns): no measurable difference."),
    ]:  # fmt: skip
        result = fixed((2.0, 1.9, 2.1))
        result.cases.append(loop_case(SHARED.name, [took] * 4, (4.0, 3.9, 4.1)))
        assert told(result)[-1] == expected
    result = fixed((2.0, 1.9, 2.1))
    copied = result.cases[1].step_bytes
    assert copied is not None
    copied["step_d2h"] = 300
    assert told(result)[1:] == [
        "A step of device-resident copies 300 B D2H, of other tensors than the state.",
        "Next: add --keep OUT for an output that the host needs after the last step only",
    ]
    alone = loop_result(loop_case("device-resident", [500 * US] * 4))
    assert headline(alone) == "2.00k steps/s with device-resident"
    assert told(alone) == []
    assert headline(loop_result()) == "Nothing was measured"


def test_on_the_cpu_ep_it_is_about_steps_and_what_to_do() -> None:
    result = fixed((2.0, 1.9, 2.1), kept=100)
    result.target["memory"] = {"kind": "host", "default": "Cpu", "host_accessible": None}
    found = told(result)
    assert found[:2] == [
        "cpu-tensors runs 1.00k steps/s on SomeExecutionProvider: 4.00 ms per loop.",
        "Next: ortbench loop m.onnx --ep some --feedback present=past --intra-op-threads 1,2,4",
    ]
    assert found[2] == (
        "device-resident is 2.00× as fast as cpu-tensors (95% CI 1.90 to 2.10), if the host does not need the state between steps, or "
        "reads it in place: 2.00 ms instead of 4.00 ms."
    )
    assert not any("device" in it for it in found[3:])
    assert headline(result) == "device-resident runs the loop 2.00× as fast as cpu-tensors"


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


def test_a_jump_is_said_with_its_depth() -> None:
    result = generating()
    assert result.generation is not None
    result.generation["context"] = 900
    for case, ms in zip(result.cases, (5, 2), strict=True):
        made = stepping([ms * MS] * 20 + [1.5 * ms * MS] * 20, noise=0)
        case.steps_ns, case.samples["step"] = made.steps_ns, made.samples["step"]
    said = (
        "Inter-token latency jumps from 5.00 ms to 7.50 ms with cpu-tensors, from 2.00 ms to 3.00 ms with shared, at depth 1,020: "
        "cpu-tensors 1.50× (95% CI 1.50 to 1.50); shared 1.50× (95% CI 1.50 to 1.50)."
    )
    assert said in told(result)
    assert told(result)[told(result).index(said) + 1] == "Next: ortbench explain jump"  # shapes stay the same
    assert headline(result).startswith("shared: pp100 @ d900 2.00k tokens/s, tg8 @ d900 500 tokens/s")


def test_where_the_state_grows_the_nodes_of_both_steps_of_the_greatest_jump_are_timed() -> None:
    result = decoding()
    assert result.loop is not None
    result.loop["steps"], result.loop["state_shapes"] = 60, [[[2, 7, 16], [2, 67, 16]]]
    result.model["inputs"] = [
        {"name": "mask", "type": "tensor(int64)", "model_shape": ["batch", "total"], "shape": [2, 67], "bytes": 1},
        {
            "name": "past",
            "type": "tensor(float)",
            "model_shape": ["batch", "length", 16],
            "shape": [2, 66, 16],
            "bytes": 1,
        },
    ]
    case = result.cases[0]
    made = stepping([1 * MS] * 20 + [1.2 * MS] * 20 + [2 * MS] * 19, noise=0)
    case.steps_ns, case.samples["step"] = made.steps_ns, made.samples["step"]
    found = told(result)
    (first, second) = (it for it in found if it.startswith("The time of a step jumps "))
    assert (first.partition(", at ")[2][:7], second.partition(", at ")[2][:7]) == ("step 21", "step 41")
    assert not found[found.index(first) + 1].startswith("Next")
    assert found[found.index(second) + 1] == (  # past is 7 long before step 0
        "Next: ortbench run m.onnx --dim batch=2 --dim total=length+1 --dim length=47,48 --measure-nodes"
    )
    result.model["inputs"][1]["model_shape"][1] = None
    assert "Next: ortbench explain jump" in told(result)


@pytest.mark.parametrize(
    ("quiet", "up", "certain"), [(12, 1.3, True), (5, 1.3, False), (9, 0.7, False), (0, 4.0, True)]
)
def test_on_a_busy_machine_a_jump_is_said_where_quiet_rounds_show_it_or_it_is_great(
    quiet: int, up: float, certain: bool
) -> None:
    """Rounds that are not quiet show a jump of 30 %, or a greater one; the quiet ones show `up`."""
    random, rounds = np.random.default_rng(1), 40
    result = generating()
    assert result.generation is not None
    result.cases = result.cases[:1]
    (case,) = result.cases
    case.samples["step"], case.blocks["step"] = [], []
    for number in range(rounds):
        times = np.array([50.0, *[5.0] * 20, *[5.0 * (up if number < quiet else max(up, 1.3))] * 20]) * MS
        case.samples["step"] += [round(ns) for ns in times * random.normal(1, 0.005, times.size)]
        case.blocks["step"].append([number, times.size, number * 10 * MS])
    case.steps_ns = [round(float(ns)) for ns in np.median(np.reshape(case.samples["step"], (rounds, -1)), 0)]
    (said,) = (it for it in told(result) if it.startswith("Inter-token latency jumps from "))
    result.noise = noise_of(2, 1.0, [0.0] * quiet + [0.5] * (rounds - quiet))
    assert (said in told(result)) is certain
    doubt = "The machine was too busy to tell whether inter-token latency jumps at depth 120: from "
    assert any(it.startswith(doubt) for it in told(result)) is not certain


def slowed(is_slow: Callable[[int, int], bool]) -> Result:
    """Forty generations of which some steps, by generation and step, take three times as long."""
    result = generating()
    assert result.generation is not None
    case = result.cases[1]
    random = np.random.default_rng(1)
    times = [
        [50.0, *(2.0 * (3 if is_slow(number, step) else 1) * random.normal(1, 0.02) for step in range(7))]
        for number in range(40)
    ]
    case.samples["step"] = [round(ms * MS) for loop in times for ms in loop]
    summarise_steps(case, 8, True, result.generation)
    return result


def test_both_decode_rates_are_said_where_times_are_bimodal() -> None:
    each = slowed(lambda number, step: (number * 7 + step) % 5 < 2)
    rates = "shared: pp100 2.00k tokens/s, tg8 278 tokens/s, bimodal: 501 tokens/s in 60% of steps and 167 tokens/s in 40%, first token after 50.0 ms"
    assert headline(each) == rates
    (first, *_) = findings(each)
    assert first.text.startswith(rates.replace("278 tokens/s", "278 tokens/s (95% CI 263 to 295)"))
    assert first.tone == "unclear"
    (large,) = (it for it in facts(each) if it.name == "Decode tokens/s")
    assert (large.value, "501 tokens/s in 60% of steps" in large.note) == ("278", True)
    whole = slowed(lambda number, step: number % 4 == 3)
    assert "tg8 334 tokens/s, bimodal: 501 tokens/s in 75% of generations and 167 tokens/s in 25%, first" in headline(
        whole
    )
    one = slowed(lambda number, step: False)
    assert "tg8 501 tokens/s" in headline(one)
    assert findings(one)[0].tone == ""


def test_of_tokens_the_rates_come_first() -> None:
    rates = "shared: pp100 2.00k tokens/s, tg8 500 tokens/s, first token after 50.0 ms"
    assert headline(generating()) == rates
    rates += "; choosing the next token on the host takes 3.00 µs"
    found = told(generating())
    assert found[0] == f"{rates}."
    assert not any(word in it for it in found for word in ("--keep", "--resident", "The first step"))
    assert found[1] == "Next: ortbench run m.onnx --measure-nodes"
    assert found != told(generating(on_host=True))
    assert told(generating(on_host=True))[1].startswith("Next: ortbench loop m.onnx ")
