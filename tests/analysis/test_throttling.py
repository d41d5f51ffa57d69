"""Which rounds were taken while a GPU was held back, from readings and blocks that are written down."""

from __future__ import annotations

from ortbench.analysis.throttling import leave_out, throttled_rounds
from ortbench.model.result import Case
from ortbench.model.schema import GpuReading
from tests.expect import there
from tests.results import broken

MS = 1_000_000
THERMAL, CAP, SET = 0x40, 0x04, 0x02


def lane(mode: str, rounds: int, offset_ms: int = 0, each_ms: int = 20) -> Case:
    """A mode with a block of two samples in each round, one round a 100 ms."""
    made = Case(mode)
    made.blocks = {"latency": [[number, 2, (number * 100 + offset_ms) * MS] for number in range(rounds)]}
    made.samples = {"latency": [each_ms * MS // 2 + number for number in range(rounds) for _ in range(2)]}
    return made


def readings(*reasons: int | None, gpu: int = 0, every_ms: int = 100) -> list[GpuReading]:
    """One reading after the other; None where the card does not tell."""
    found: list[GpuReading] = []
    for number, bits in enumerate(reasons):
        reading: GpuReading = {"at_s": number / 10, "gpu": gpu, "at_ns": number * every_ms * MS - MS}
        if bits is not None:
            reading["reasons"] = bits
        found.append(reading)
    return found


def rounds_of(taken: list[GpuReading], cases: list[Case], cards: set[int] | None = None) -> list[int]:
    found = throttled_rounds(taken, cases, cards)
    return [] if found is None else found["rounds"]


def test_rounds_are_found_by_the_readings_around_their_blocks() -> None:
    cases: list[tuple[list[int | None], list[int]]] = [
        ([0] * 12, []),
        ([0x01] * 12, []),  # idle
        ([SET] * 12, []),  # somebody's setting, the same all along
        ([None] * 12, []),
        # Between a clean reading and one that is not, nobody knows: the time counts as held back. Readings come a moment
        # before the blocks of their round.
        ([0, 0, 0, THERMAL, THERMAL, 0, 0, 0, 0, 0, 0, 0], [2, 3, 4]),
        ([CAP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0]),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, CAP], [10, 11]),
        # Set by another process meanwhile; an idle reading says nothing of it.
        ([0, 0, 0, SET, SET, 0, 0, 1, 0, 0, 0, 0], [2, 3, 4]),
        ([SET, SET, SET, 1, SET, SET, SET, SET, SET, SET, SET, SET], []),
    ]
    for reasons, rounds in cases:
        assert rounds_of(readings(*reasons), [lane("cpu-tensors", 12)]) == rounds
    for bit in [0x08, 0x10, 0x20, 0x80, 0x100]:
        assert rounds_of(readings(0, bit, 0, 0), [lane("cpu-tensors", 4)]) == [0, 1]
    others = [*readings(*[0] * 12), *readings(*[CAP] * 12, gpu=1)]
    assert rounds_of(others, [lane("cpu-tensors", 12)], cards={0}) == []
    assert rounds_of(others, [lane("cpu-tensors", 12)], cards=set()) == []
    assert len(rounds_of(others, [lane("cpu-tensors", 12)])) == 12
    assert rounds_of([{"at_s": 0.0, "gpu": 0, "reasons": CAP}], [lane("cpu-tensors", 12)]) == []


def test_a_round_is_left_out_for_all_that_alternate_in_it() -> None:
    """The block of one mode alone was held back; it is a long one, which only ends in that time."""
    cases = [lane("cpu-tensors", 12), lane("device-tensors", 12, offset_ms=30, each_ms=80)]
    found = throttled_rounds([{"at_s": 0.0, "gpu": 0, "at_ns": 505 * MS, "reasons": 0},
                       {"at_s": 0.0, "gpu": 0, "at_ns": 509 * MS, "reasons": CAP},
                       {"at_s": 0.0, "gpu": 0, "at_ns": 511 * MS, "reasons": 0}], cases)  # fmt: skip
    assert found == {"rounds": [4, 5], "of": 12, "reasons": ["the power cap"], "left_out": True}
    for case in cases:
        leave_out(case, {4, 5})
    assert [block[0] for block in cases[0].blocks["latency"]] == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert cases[0].samples["latency"] == [10 * MS + n for n in (0, 1, 2, 3, 6, 7, 8, 9, 10, 11) for _ in range(2)]
    assert cases[0].left_out == {
        "samples": {"latency": [10 * MS + 4] * 2 + [10 * MS + 5] * 2},
        "blocks": {"latency": [[4, 2, 400 * MS], [5, 2, 500 * MS]]},
    }


def test_rounds_stay_where_too_few_are_left_without_them() -> None:
    held = readings(0, 0, CAP, 0, 0, 0, 0, 0, 0, 0, 0)
    few = there(throttled_rounds(held, [lane("cpu-tensors", 10)]))
    assert (few["rounds"], few["left_out"]) == ([1, 2], False)
    # A mode that failed early is none that has to have enough.
    some = there(throttled_rounds(held, [lane("cpu-tensors", 11), broken("device-tensors", latency={0: [1]})]))
    assert some["left_out"] is True
