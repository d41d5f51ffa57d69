"""Blocks of the same round, side by side."""

from __future__ import annotations

import pytest

from ortbench.analysis.intervals import blocks, by_round, ratio_of_medians, timed_phase
from ortbench.core.stats import summarise
from ortbench.model.result import Case
from tests.expect import there
from tests.results import measured, steady

UNEVEN = {0: [5, 1, 3], 2: [8, 2], 7: [9]}
MODES_THAT_ARE_ALL_INFERENCE = ["device-resident", "host-accessible"]


def test_blocks_are_cut_from_the_samples_of_their_phase() -> None:
    case = measured("cpu-tensors", latency=UNEVEN)
    assert case.samples["latency"] == [5, 1, 3, 8, 2, 9]
    assert blocks(case, "latency") == [(0, [5, 1, 3]), (2, [8, 2]), (7, [9])]
    case = measured("device-tensors", latency=UNEVEN, h2d={4: [6, 6]})
    assert blocks(case, "h2d") == [(4, [6, 6])]
    assert blocks(case, "latency") == list(UNEVEN.items())
    assert blocks(measured("cpu-tensors", latency=UNEVEN), "h2d") == []
    assert blocks(Case("cpu-tensors"), "latency") == []
    assert by_round(Case("cpu-tensors"), "latency") == {}


def test_of_blocks_without_samples_there_are_the_medians() -> None:
    case = measured("cpu-tensors", latency=UNEVEN)
    assert by_round(case, "latency") == UNEVEN
    del case.samples["latency"]
    case.block_medians = {"latency": [3, 5, 9]}
    assert by_round(case, "latency") == {0: [3], 2: [5], 7: [9]}


def test_a_ratio_is_that_of_the_medians_beside_it() -> None:
    """Pairs say twice as long, in nine of ten rounds; the medians of all samples do not, and they are what a table prints."""
    rounds = range(10)
    over = measured("cpu-tensors", latency={it: [20 + it, 20 + it, 300] for it in rounds})
    under = measured("device-tensors", latency={it: [10, 30, 31] for it in rounds})
    for case in (over, under):
        case.metrics["latency"] = summarise(case.samples["latency"], [3] * 10)
    found = there(ratio_of_medians((over, "latency"), (under, "latency")))
    assert found.ratio == there(over.median("latency")) / there(under.median("latency")) < 1
    low, high = there(found.ci95)
    assert low <= found.ratio <= high
    under.blocks["latency"] = [[number + 10, n, start] for number, n, start in under.blocks["latency"]]
    assert ratio_of_medians((over, "latency"), (under, "latency")) is None  # no round in common


def test_inference_is_timed_as_the_total_where_it_is_all_there_is() -> None:
    for mode in MODES_THAT_ARE_ALL_INFERENCE:
        assert timed_phase(mode, "inference") == "latency"
        assert by_round(measured(mode, latency=UNEVEN), "inference") == UNEVEN
    for mode in ["cpu-tensors", "device-tensors"]:
        assert timed_phase(mode, "inference") == "inference"
    case = measured("device-tensors", latency=steady([9, 9]), inference=steady([4, 5]))
    assert by_round(case, "inference") == steady([4, 5])
    for phase in ["latency", "h2d", "d2h"]:
        for mode in MODES_THAT_ARE_ALL_INFERENCE:
            assert timed_phase(mode, phase) == phase


def test_where_one_goes_on_in_more_processes_the_interval_holds_both_ratios() -> None:
    """That of the rounds of both, and that of the medians as they are printed."""
    over = measured("cpu-tensors", latency=steady([1000, 1010, 990, 2000, 2000]))
    under = measured("device-tensors", latency=steady([500, 505, 495]))
    over.processes, under.processes = [0, 1, 2, 3, 4], [0, 1, 2]
    for case in (over, under):
        case.metrics["latency"] = summarise(case.samples["latency"])
    found = there(ratio_of_medians((over, "latency"), (under, "latency")))
    low, high = there(found.ci95)
    assert found.ratio == pytest.approx(1010 / 500)
    assert low <= 2.0 <= high
    assert low <= found.ratio <= high
