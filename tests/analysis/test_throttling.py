"""Which rounds were taken while a GPU was throttled, from readings and blocks that are written down."""

from __future__ import annotations

import pytest

from ortbench.measure.gpus import leave_out, throttled_rounds
from ortbench.model.result import Case
from ortbench.model.schema import GpuReading
from tests.expect import there
from tests.results import MS, broken

IDLE, THERMAL, CAP, SET = 0x01, 0x40, 0x04, 0x02


def case_of(mode: str, rounds: int, offset_ms: int = 0, each_ms: int = 20) -> Case:
    """A mode with a block of two samples in each round, one round a 100 ms."""
    made = Case(mode)
    made.blocks = {"latency": [[number, 2, (number * 100 + offset_ms) * MS] for number in range(rounds)]}
    made.samples = {"latency": [each_ms * MS // 2 + number for number in range(rounds) for _ in range(2)]}
    return made


def reading(at_ms: int, reasons: int | None, gpu: int = 0) -> GpuReading:
    """None where the card does not tell."""
    made: GpuReading = {"at_s": at_ms / 1000, "gpu": gpu, "at_ns": at_ms * MS}
    return made if reasons is None else {**made, "reasons": reasons}


def readings(*reasons: int | None, gpu: int = 0) -> list[GpuReading]:
    """A moment before the blocks of each round."""
    return [reading(number * 100 - 1, it, gpu) for number, it in enumerate(reasons)]


@pytest.mark.parametrize(
    ("reasons", "rounds"),
    [
        ([0] * 12, []),
        ([SET] * 12, []),  # somebody's setting, the same all along
        ([None] * 12, []),
        # Between a clean reading and one that is not, nobody knows: the time counts as throttled.
        ([0, 0, 0, THERMAL, THERMAL, 0, 0, 0, 0, 0, 0, 0], [2, 3, 4]),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, CAP], [10, 11]),
        # Set by another process meanwhile; an idle reading says nothing of it.
        ([0, 0, 0, SET, SET, 0, 0, IDLE, 0, 0, 0, 0], [2, 3, 4]),
        *(([0, bit, 0, 0], [0, 1]) for bit in (0x08, 0x10, 0x20, 0x80, 0x100)),
    ],
)
def test_rounds_are_found_by_the_readings_around_their_blocks(reasons: list[int | None], rounds: list[int]) -> None:
    found = throttled_rounds(readings(*reasons), [case_of("cpu-tensors", len(reasons))], None)
    assert (found["rounds"] if found else []) == rounds


def test_readings_of_other_cards_and_without_a_time_tell_nothing() -> None:
    others, cases = [*readings(*[0] * 12), *readings(*[CAP] * 12, gpu=1)], [case_of("cpu-tensors", 12)]
    assert throttled_rounds(others, cases, {0}) is throttled_rounds(others, cases, set()) is None
    assert len(there(throttled_rounds(others, cases, None))["rounds"]) == 12
    assert throttled_rounds([{"at_s": 0.0, "gpu": 0, "reasons": CAP}], cases, None) is None


def test_a_round_is_left_out_for_all_that_alternate_in_it() -> None:
    """The block of one mode alone was throttled; it is a long one, which only ends in that time."""
    cases = [case_of("cpu-tensors", 12), case_of("device-tensors", 12, offset_ms=30, each_ms=80)]
    found = throttled_rounds([reading(505, 0), reading(509, CAP), reading(511, 0)], cases)
    assert found == {"rounds": [4, 5], "of": 12, "reasons": ["the power cap"], "left_out": True}
    leave_out(cases[0], {4, 5})
    kept = [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert [block[0] for block in cases[0].blocks["latency"]] == kept
    assert cases[0].samples["latency"] == [10 * MS + n for n in kept for _ in range(2)]
    assert cases[0].left_out == {
        "samples": {"latency": [10 * MS + 4] * 2 + [10 * MS + 5] * 2},
        "blocks": {"latency": [[4, 2, 400 * MS], [5, 2, 500 * MS]]},
    }


def test_rounds_stay_where_too_few_are_left_without_them() -> None:
    throttled = readings(0, 0, CAP, 0, 0, 0, 0, 0, 0, 0, 0)
    failed = broken("device-tensors", latency={0: [1]})  # early, so that it is none that has to have enough
    for cases, is_left_out in (([case_of("cpu-tensors", 10)], False), ([case_of("cpu-tensors", 11), failed], True)):
        found = there(throttled_rounds(throttled, cases))
        assert (found["rounds"], found["left_out"]) == ([1, 2], is_left_out)
