"""What is derived: arrays that ONNX Runtime passes through or copies, copies from a difference, and what parts leave of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ortbench.analysis.derive import REMAINDER, derive
from ortbench.analysis.speedups import COPIED, HANDED_ON, UNCLEAR, handing_on
from ortbench.model.modes import DEVICE, RESIDENT, STAGE, STEP
from ortbench.model.result import Case, Result
from tests.expect import there
from tests.results import (
    MS,
    US,
    chain,
    fact,
    keys,
    loop_of,
    loop_result,
    measured,
    nvidia_result,
    result_of,
    steady,
    values,
    with_bytes,
)

SHARED = {"kind": "ep-device", "default": None, "host_accessible": "Shared (HOST_ACCESSIBLE)"}


def with_times(
    cpu: int, resident: int, copies: int, memory: Mapping[str, str | None] = SHARED, verified: bool = True
) -> Result:
    """Modes with these medians, ns; the copies are half up and half down."""
    half = steady([copies // 2] * 9)
    shared = measured("host-accessible", latency=steady([resident] * 9))
    shared.checks["zero_copy"] = {"verdict": "passed" if verified else "unclear", "how": "seen"}
    made = nvidia_result(
        measured("cpu-tensors", latency=steady([cpu] * 9)),
        measured(DEVICE, h2d=half, inference=half, d2h=half, latency=half),
        measured(RESIDENT, latency=steady([resident] * 9)),
        shared,
        memory=memory,
    )
    derive(made)
    return made


@pytest.mark.parametrize(
    ("cpu", "resident", "copies", "verdict"),
    [
        (10 * MS, 10 * MS, 4 * MS, HANDED_ON),
        (9 * MS, 10 * MS, 4 * MS, HANDED_ON),
        (10_999 * US, 10 * MS, 4 * MS, HANDED_ON),
        (11 * MS, 10 * MS, 4 * MS, UNCLEAR),  # a quarter of the copies
        (12 * MS, 10 * MS, 4 * MS, COPIED),
        (8 * US, 6 * US, 1 * US, UNCLEAR),  # what a call costs is not a copy
    ],
)
def test_whether_arrays_are_passed_through(cpu: int, resident: int, copies: int, verdict: str) -> None:
    made = with_times(cpu, resident, copies)
    assert there(handing_on(made)).verdict == verdict
    assert ("copies" in made.cases[0].metrics) == (verdict == COPIED)
    assert bool({code for code, *_ in keys(made)} & {"arrays", "copies"}) == (verdict != UNCLEAR)
    own = with_times(cpu, resident, copies, {**SHARED, "default": "Own (DEFAULT)"})
    assert handing_on(own) is None
    assert ("copies" in own.cases[0].metrics) == (cpu > resident)


def test_facts_of_arrays() -> None:
    made = with_times(10 * MS, 10 * MS, 4 * MS)
    made.cases[0].samples["latency"] = [7 * MS, 10 * MS, 14 * MS] * 9  # which spread too far
    derive(made)
    assert there(handing_on(made)).verdict == UNCLEAR
    made = with_times(10 * MS, 10 * MS, 4 * MS)
    assert keys(made)[0] == ("arrays", "in-place", "cpu-tensors")
    figures = {"ep": "SomeExecutionProvider", "with": 10 * MS, "without": 10 * MS, "copies": 4 * MS}
    assert values(fact(made, "arrays")) == figures
    assert fact(with_times(10 * MS, 10 * MS, 4 * MS, verified=False), "arrays").verdict == "passed"
    assert values(fact(with_times(14 * MS, 10 * MS, 4 * MS), "copies"))["share"] == pytest.approx(4 / 14)


def of_parts(whole: int, parts: Sequence[int], name: str) -> Case:
    """Nine loops or chains in blocks of one, with the times of their parts, ns."""
    case = measured(RESIDENT, latency={number: [whole] for number in range(9)})
    case.samples[name] = [*parts] * 9
    case.blocks[name] = [[number, len(parts), 0] for number in range(9)]
    return case


def test_what_is_between_the_parts_is_a_part_of_its_own() -> None:
    loop, stages = loop_result(of_parts(11 * MS, [41_600] * 64, STEP), loop=loop_of(64)), chain()
    stages.cases = [of_parts(9 * MS, [2 * MS, 3 * MS], STAGE)]
    phases = {"latency": 6750, "h2d": 2000, "inference": 1000, "d2h": 1970}  # timed apart from latency
    case = with_bytes(measured(DEVICE, **{it: steady([us * US] * 12) for it, us in phases.items()}), 1000, 1000)
    for result, remainder in ((loop, 11 * MS - 64 * 41_600), (stages, 4 * MS), (result_of(case), 1780 * US)):
        derive(result)
        assert result.cases[0].value(REMAINDER) == remainder
