"""`ortbench bandwidth` on the reference device: its own trace, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from ortbench.features.bandwidth.analysis import failures, measured_cases, memory_of, size_of
from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import DIRECTIONS, H2D, HOST_ACCESSIBLE, ORDINARY
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Direction
from tests.conftest import ortbench
from tests.refdevice import MEMORIES, Config, Events, Trace
from tests.truth import block_events, is_kind
from tests.virtual import CALL_NS


def figures(result: Result) -> dict[tuple[str, Direction, int], Case]:
    return {(memory_of(it), way, size_of(it)): it for way in DIRECTIONS for it in measured_cases(result, way)}


def recorded(way: Direction, case: Case, result: Result, trace: Trace) -> Events:
    """The copies of the recorded samples of a direction, as the device saw them."""
    starts = [start for it in result.cases for blocks in it.blocks.values() for _, _, start in blocks]
    host = MEMORIES.index("host" if memory_of(case) == ORDINARY else "host_accessible")
    members = []
    for _, n, start in case.blocks[way]:
        events, _ = block_events(trace, starts, start)
        events = events[is_kind(events, way) & (events["source" if way == H2D else "destination"] == host)]
        block = events[: n + dropped_count(n)]  # the check of the data follows the last one
        assert set(block["bytes"]) == {size_of(case)}
        assert len(block) == n + dropped_count(n)
        members.append(block[dropped_count(n) :])
    return np.concatenate(members)


def test_every_median_is_the_devices_and_two_calls_of_the_host(library: Path, tmp_path: Path) -> None:
    config = {"upload_latency_us": 30, "upload_gbps": 2, "download_latency_us": 60, "download_gbps": 1}
    knobs: dict[str, Any] = {"honesty": "async-old-api", "trace": tmp_path / "trace", **config}
    sizes = ("--min-size", "16kB", "--max-size", "4MB", "--iterations", 9)
    files = ("--quiet", "--out", tmp_path, "--json", tmp_path / "copy.json")
    ran = ortbench("bandwidth", "--ep-library", library, *sizes, *files, **Config(**knobs).environ())
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    result = load(tmp_path / "copy.json", kind="bandwidth")
    (file,) = tmp_path.glob("bandwidth-*/bandwidth.json")
    assert load(file, kind="bandwidth") == result
    assert figures(result).keys() == {
        (memory, way, size)
        for memory in (ORDINARY, HOST_ACCESSIBLE)
        for way in DIRECTIONS
        for size in (16e3, 64e3, 256e3, 1e6, 4e6)
    }
    trace = Trace.read(tmp_path / "trace")
    for (_, way, size), case in figures(result).items():
        events = recorded(way, case, result, trace)
        known = Config(**knobs).copy_ns(way, size)
        assert set(events["planned_end_ns"] - events["start_ns"]) == {known}
        assert case.median(way) == round(median(events["end_ns"] - events["queued_ns"])) + 2 * CALL_NS


@pytest.mark.parametrize(
    ("arguments", "knobs", "words"),
    [
        # Behind the trial of the memory.
        ((), {"fail_alloc": "2+:default"}, "no copy can be measured: copies of 4.00 kB and more (pageable memory) are left out"),
        (("--min-size", "100000GB", "--max-size", "100000GB"), {}, "would take more than half of the"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_a_line_and_leaves_nothing(
    arguments: tuple[str, ...], knobs: dict[str, Any], words: str, library: Path, tmp_path: Path
) -> None:
    ran = ortbench("bandwidth", "--ep-library", library, *arguments, "--out", tmp_path, **Config(**knobs).environ())
    assert (ran.code, words in ran.error_line) == (1, True)
    assert list(tmp_path.iterdir()) == []


# Proving syncs takes up to some thousands of copies; four times 3000 that are timed follow.
@pytest.mark.parametrize(("trigger", "reason"), [("5+", "1 byte"), ("9000+", "after the timed copies: 1 byte")])
def test_data_that_arrive_wrong_fail_the_copies(trigger: str, reason: str, library: Path, tmp_path: Path) -> None:
    line = ("bandwidth", "--ep-library", library, "--min-size", "4kB", "--max-size", "4kB", "--iterations", 3000)
    ran = ortbench(*line, "--out", tmp_path, **Config(wrong_copy=trigger).environ())
    assert ran.code == 1
    assert ran.error_line.endswith("differ after a copy to the device and back, first at 0")
    (file,) = tmp_path.glob("bandwidth-*/bandwidth.json")
    failed = [why for case in load(file, kind="bandwidth").cases for why in failures(case).values()]
    assert (len(failed), all(why.startswith(reason) for why in failed)) == (4, True)
    assert "✗ H2D copies of 4.00 kB (pageable memory), " in ran.out
