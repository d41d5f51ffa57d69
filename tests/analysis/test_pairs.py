"""Blocks of the same round, side by side."""

from __future__ import annotations

from ortbench.analysis.comparing.pairs import block_medians, blocks, shared, timed_phase
from ortbench.model.result import Case
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
    assert block_medians(Case("cpu-tensors"), "latency") == {}


def test_medians_of_blocks() -> None:
    assert block_medians(measured("cpu-tensors", latency=UNEVEN), "latency") == {0: 3, 2: 5, 7: 9}
    assert block_medians(measured("cpu-tensors", latency={0: [10, 11, 10**9]}), "latency") == {0: 11}


def test_inference_is_timed_as_the_total_where_it_is_all_there_is() -> None:
    for mode in MODES_THAT_ARE_ALL_INFERENCE:
        assert timed_phase(mode, "inference") == "latency"
        assert block_medians(measured(mode, latency=UNEVEN), "inference") == {0: 3, 2: 5, 7: 9}
    for mode in ["cpu-tensors", "device-tensors"]:
        assert timed_phase(mode, "inference") == "inference"
    case = measured("device-tensors", latency=steady([9, 9]), inference=steady([4, 5]))
    assert block_medians(case, "inference") == {0: 4, 1: 5}
    for phase in ["latency", "h2d", "d2h"]:
        for mode in MODES_THAT_ARE_ALL_INFERENCE:
            assert timed_phase(mode, phase) == phase


def test_shared_rounds() -> None:
    for one, other, found in [
        ({0: 1.0, 1: 2.0}, {0: 3.0, 1: 4.0}, ([1.0, 2.0], [3.0, 4.0])),
        ({16: 1.0, 9: 2.0, 1: 9.0}, {9: 3.0, 16: 4.0, 5: 9.0}, ([2.0, 1.0], [3.0, 4.0])),  # by round, common ones only
        ({0: 1.0}, {1: 1.0}, ([], [])),
        ({}, {1: 1.0}, ([], [])),
    ]:
        assert shared(one, other) == found
        assert shared(other, one) == found[::-1]
