"""What a result says of a GPU that was throttled while it was measured, and which of its blocks are left out for it."""

from __future__ import annotations

import pytest

from ortbench.core.stats import summarise
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import describe_gpus
from ortbench.model.protocol import TimedBlock, Timeline
from ortbench.model.result import Result
from ortbench.model.result_file import parse, result_json
from ortbench.model.schema import GpuReading
from ortbench.plan.plan import Plan
from tests.expect import there
from tests.results import measured, nvidia_result, result_of, steady

MS = 1_000_000
THREE = "the GPU was throttled by the power cap in 3 of 12 rounds"


def result(mode: str, on_nvidia: bool = True) -> Result:
    """A mode of 12 rounds, a round each 100 ms."""
    case = measured(mode, latency=steady([MS] * 12))
    case.blocks["latency"] = [[number, 3, number * 100 * MS] for number in range(12)]
    return nvidia_result(case) if on_nvidia else result_of(case)


def readings(*held: int) -> list[GpuReading]:
    """One just before each round; the card is throttled in some of them, and its clocks are lower then."""
    return [
        {"at_s": n / 10, "gpu": 0, "at_ns": max(n * 100 * MS - MS, 0), "reasons": 4 * (n in held), "sm_mhz": 900 if n in held else 1980}
        for n in range(12)
    ]  # fmt: skip


def test_rounds_are_left_out_on_all_sides_kept_in_the_result_and_said_once() -> None:
    sides = [result("device-tensors"), result("cpu-tensors", on_nvidia=False)]
    describe_gpus(sides, readings(3, 4), decided=False)
    for made in sides:
        assert made.throttled == {"rounds": [2, 3, 4], "of": 12, "reasons": ["the power cap"], "left_out": True}
        assert [(it["code"], it["message"]) for it in made.warnings] == [
            ("throttled", f"{THREE}: left out of all figures, kept in the result")
        ]
        (case,) = made.cases
        assert len(case.samples["latency"]) == 27
        left_out = there(case.left_out)
        assert left_out["blocks"]["latency"] == [[n, 3, n * 100 * MS] for n in (2, 3, 4)]
        case.metrics["latency"] = summarise(case.samples["latency"])  # as the end of a measurement does
        again = parse(result_json(made).encode(), "result.json")
        assert (again.throttled, again.cases[0].left_out) == (made.throttled, left_out)


@pytest.mark.parametrize(
    ("held", "decided", "said"),
    [
        ((3, 4), True, f"{THREE}: all figures have them, as the gate was decided by all rounds"),
        ((3, 4, 6), False, "the GPU was throttled by the power cap in 5 of 12 rounds: all figures have them, too few are left without"),
        (range(12), False, "the GPU was throttled by the power cap in 12 of 12 rounds: all figures have them, too few are left without"),
    ],
)  # fmt: skip
def test_rounds_that_stay_are_warned_of_as_the_cards_state(held: tuple[int, ...], decided: bool, said: str) -> None:
    made = result("device-tensors")
    describe_gpus([made], readings(*held), decided)
    assert there(made.throttled)["left_out"] is False
    assert made.cases[0].left_out is None
    assert len(made.cases[0].samples["latency"]) == 36
    *moved, last = [(it["code"], it["message"]) for it in made.warnings]
    assert last == ("throttled", said)
    assert not any("power cap" in it for _, it in moved)  # which is said once


def test_what_runs_elsewhere_is_not_throttled_by_a_card() -> None:
    made = result("cpu-tensors", on_nvidia=False)
    describe_gpus([made], readings(3, 4), decided=False)
    assert made.throttled is None
    assert [it["code"] for it in made.warnings] == ["gpu-state", "gpu-state"]  # as ever


def test_a_timeline_has_the_blocks_that_the_result_has_and_says_what_it_lacks() -> None:
    side = Configuration(Plan("m.onnx"), timeline=Timeline())
    timeline = there(side.timeline)
    timeline.blocks += [
        TimedBlock("cpu-tensors", "latency", number, 1, number * 3, 3, 0, 1, [0] * 3, [1] * 3) for number in range(4)
    ]
    side.drop_left_out()
    assert len(timeline.blocks) == 4
    side.result.throttled = {"rounds": [1, 2], "of": 4, "reasons": ["the power cap"], "left_out": True}
    side.drop_left_out()
    assert [(block.round, block.first) for block in timeline.blocks] == [(0, 0), (3, 3)]
    assert timeline.missing == ["2 rounds of blocks while the GPU was throttled"]
