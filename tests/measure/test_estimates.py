"""What is known so far, on a scripted clock: what is said, and when."""

from __future__ import annotations

import pytest

from ortbench.features.gate.gates import BASELINE, CANDIDATE, RatioTest, SequentialTests, Stream
from ortbench.measure.progress import Estimates


def test_a_look_is_due_at_once_and_then_each_quarter_of_a_second() -> None:
    times = (100.0, 100.01, 100.24, 100.25, 100.3, 100.5, 104.0, 104.2)
    clock = iter((100.0, *times))
    estimates = Estimates(lambda: next(clock))
    assert [estimates.is_due() for _ in times] == [True, False, False, True, False, True, True, False]


def test_rows_are_in_the_order_of_names_and_say_what_blocks_gave() -> None:
    estimates = Estimates(lambda: 0.0)
    for name in ("cpu-tensors", "device-resident"):
        estimates.series(name)
    estimates.add("device-resident", [76_000, 75_000, 990_000])
    estimates.add("cpu-tensors", [])
    assert estimates.rows() == [("cpu-tensors", "–"), ("device-resident", "76.0 µs")]
    for number in range(6):
        estimates.add("cpu-tensors", [4_200_000 + 10_000 * number, 0, 9_000_000])
    assert estimates.rows()[0] == ("cpu-tensors", "4.22 ms (95% CI 4.20–4.25)")
    estimates.add("load", [1240.0], "inferences/s")
    assert estimates.rows()[2] == ("load", "1.24k inferences/s")


@pytest.mark.parametrize(
    ("rounds", "row"),
    [
        (0, []),
        (3, [("cpu-tensors latency", "ratio 1.020, must be at most 1.05")]),
        (40, [("cpu-tensors latency", "ratio 1.020 (1.020–1.020), must be at most 1.05")]),
    ],
)
def test_of_a_gate_the_ratio_is_known_and_no_look_decides_it(rounds: int, row: list[tuple[str, str]]) -> None:
    over, under = (Stream(side, "cpu-tensors", "latency", "median") for side in (CANDIDATE, BASELINE))
    tests = SequentialTests([RatioTest("cpu-tensors latency", over, under, 1.05, True, "latency")])
    for number in range(rounds):
        for side, ns in ((BASELINE, 1_000_000), (CANDIDATE, 1_020_000)):
            tests.add(side, "cpu-tensors", "latency", number, [ns])
    assert tests.progress_rows() == row
    assert not tests._decided
