"""Blocks of the same round, side by side."""

from __future__ import annotations

from ortbench.analysis.pairs import block_medians, blocks, shared, timed_phase
from ortbench.result import Case
from tests.results import measured, steady

UNEVEN = {0: [5, 1, 3], 2: [8, 2], 7: [9]}
MODES_THAT_ARE_ALL_INFERENCE = ["device-resident", "host-accessible"]


def test_blocks_are_cut_from_the_samples_of_their_phase() -> None:
    case = measured("cpu", total=UNEVEN)
    assert case.samples_ns["total"] == [5, 1, 3, 8, 2, 9]
    assert blocks(case, "total") == [(0, [5, 1, 3]), (2, [8, 2]), (7, [9])]
    case = measured("device", total=UNEVEN, upload={4: [6, 6]})
    assert blocks(case, "upload") == [(4, [6, 6])]
    assert blocks(case, "total") == list(UNEVEN.items())
    assert blocks(measured("cpu", total=UNEVEN), "upload") == []
    assert blocks(Case("cpu"), "total") == []
    assert block_medians(Case("cpu"), "total") == {}


def test_medians_of_blocks() -> None:
    assert block_medians(measured("cpu", total=UNEVEN), "total") == {0: 3, 2: 5, 7: 9}
    assert block_medians(measured("cpu", total={0: [10, 11, 10**9]}), "total") == {0: 11}


def test_inference_is_timed_as_the_total_where_it_is_all_there_is() -> None:
    for mode in MODES_THAT_ARE_ALL_INFERENCE:
        assert timed_phase(mode, "inference") == "total"
        assert block_medians(measured(mode, total=UNEVEN), "inference") == {0: 3, 2: 5, 7: 9}
    for mode in ["cpu", "device"]:
        assert timed_phase(mode, "inference") == "inference"
    case = measured("device", total=steady([9, 9]), inference=steady([4, 5]))
    assert block_medians(case, "inference") == {0: 4, 1: 5}
    for phase in ["total", "upload", "download"]:
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
