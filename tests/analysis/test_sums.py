"""Parts that do not add up to the whole, and what the report says makes up for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ortbench.analysis.derive import derive
from ortbench.analysis.sums import REMAINDER, sum_findings
from ortbench.model.modes import DEVICE, LATENCY, RESIDENT, STAGE, STEP
from ortbench.model.result import Case, Result
from tests.results import MS, US, chain, loop_of, loop_result, measured, noise_of, result_of, steady, with_bytes


def of_steps(wholes: Sequence[int], steps: Sequence[Sequence[int]], part: str = STEP) -> Case:
    """Loops or chains in blocks of one, with the times of their parts, ns."""
    case = measured(RESIDENT, latency={number: [ns] for number, ns in enumerate(wholes)})
    case.samples[part] = [ns for of_one in steps for ns in of_one]
    case.blocks[part] = [[number, len(of_one), 0] for number, of_one in enumerate(steps)]
    return case


def said(result: Result) -> list[str]:
    derive(result)
    return [it.text for it in sum_findings(result)]


STEPS = [round(41.6 * US)] * 64


def test_what_is_between_the_steps_of_a_loop_is_a_part_of_its_own() -> None:
    result = loop_result(of_steps([11 * MS] * 9, [STEPS] * 9), loop=loop_of(64))
    assert said(result) == [
        "A loop takes 11.0 ms with device-resident: the medians of 64 steps add up to 2.66 ms and 8.34 ms lie outside of steps."
    ]
    assert result.cases[0].value(REMAINDER) == 11 * MS - sum(STEPS)


def test_a_few_steps_that_take_longer_are_a_part_too() -> None:
    """As where others have the CPU now and then: the median step knows nothing of it."""
    steps = [[*STEPS[:number], 5 * MS, *STEPS[number + 1 :]] for number in range(9)]
    wholes = [sum(of_one) + 3 * MS for of_one in steps]
    (text,) = said(loop_result(of_steps(wholes, steps), loop=loop_of(64)))
    parts = "the medians of 64 steps add up to 2.66 ms, slow steps add 4.96 ms and 3.00 ms lie outside of steps"
    assert text == f"A loop takes 10.6 ms with device-resident: {parts}."


def test_steps_that_grow_add_up() -> None:
    steps = [[number * US for number in range(1, 65)]] * 9
    assert said(loop_result(of_steps([sum(steps[0]) + 1 * US] * 9, steps), loop=loop_of(64))) == []


def test_what_is_between_the_stages_of_a_chain() -> None:
    result = chain()
    result.cases = [of_steps([9 * MS] * 9, [[2 * MS, 3 * MS]] * 9, STAGE)]
    assert said(result) == [
        "A chain takes 9.00 ms with device-resident: the medians of 2 stages add up to 5.00 ms and 4.00 ms lie outside of stages."
    ]


def of_phases(latency: int, *phases: int, samples: int = 12) -> Result:
    each = (steady([us * US] * samples) for us in (latency, *phases))
    made = dict(zip(("latency", "h2d", "inference", "d2h"), each, strict=True))
    return result_of(with_bytes(measured(DEVICE, **made), 1000, 1000))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (of_phases(6750, 2000, 1000, 3150), []),  # 9 % apart
        (of_phases(6750, 2000, 1000, 1970, samples=1), []),  # a round has one, so these are too few for an interval
        (of_phases(6750, 2000, 1000, 1970), [
            "With device-tensors a program waits 6.75 ms, the latency, not the 4.97 ms that H2D, inference and D2H add up to: 1.78 ms more; each is "
            "timed in blocks of its own, so caches and clocks differ."]),
        (of_phases(4000, 2000, 1000, 2000), [
            "With device-tensors a program waits 4.00 ms, the latency, not the 5.00 ms that H2D, inference and D2H add up to: 1.00 ms less: a "
            "whole inference waits for the device once, its parts, which are timed apart, more often."]),
    ],
)  # fmt: skip
def test_phases_against_latency(result: Result, text: list[str]) -> None:
    assert said(result) == text


def test_a_busy_machine_is_a_reason_of_its_own() -> None:
    result = of_phases(6750, 2000, 1000, 1970)
    result.noise = noise_of(2, 1.0)
    assert said(result)[0].endswith("; noise of the busy machine may be the reason.")
    assert result.cases[0].value(REMAINDER) == 1780 * US
    assert LATENCY in result.cases[0].metrics
