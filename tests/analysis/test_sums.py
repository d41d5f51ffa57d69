"""Parts that do not add up to the whole, and what the report says makes up for it."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.derive import REMAINDER, derive
from ortbench.model.modes import DEVICE, RESIDENT, STAGE, STEP
from ortbench.model.result import Case, Result
from tests.results import MS, US, chain, loop_of, loop_result, measured, result_of, steady, with_bytes


def of_steps(wholes: Sequence[int], steps: Sequence[Sequence[int]], part: str = STEP) -> Case:
    """Loops or chains in blocks of one, with the times of their parts, ns."""
    case = measured(RESIDENT, latency={number: [ns] for number, ns in enumerate(wholes)})
    case.samples[part] = [ns for of_one in steps for ns in of_one]
    case.blocks[part] = [[number, len(of_one), 0] for number, of_one in enumerate(steps)]
    return case


STEPS = [round(41.6 * US)] * 64


def remainder(result: Result) -> float | None:
    derive(result)
    return result.cases[0].value(REMAINDER)


def test_what_is_between_the_parts_is_a_part_of_its_own() -> None:
    assert remainder(loop_result(of_steps([11 * MS] * 9, [STEPS] * 9), loop=loop_of(64))) == 11 * MS - sum(STEPS)
    result = chain()
    result.cases = [of_steps([9 * MS] * 9, [[2 * MS, 3 * MS]] * 9, STAGE)]
    assert remainder(result) == 4 * MS


def of_phases(latency: int, *phases: int, samples: int = 12) -> Result:
    each = (steady([us * US] * samples) for us in (latency, *phases))
    made = dict(zip(("latency", "h2d", "inference", "d2h"), each, strict=True))
    return result_of(with_bytes(measured(DEVICE, **made), 1000, 1000))


def test_phases_are_timed_apart_from_latency() -> None:
    assert remainder(of_phases(6750, 2000, 1000, 1970)) == 1780 * US
