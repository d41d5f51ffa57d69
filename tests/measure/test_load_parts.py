"""What a load is put on with: looks at the GIL, packed numbers, samples."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.core.errors import BadInput
from ortbench.features.load.analysis import LoadPoint, read_samples
from ortbench.features.load.analysis.blocks import ClosedLoopBlock
from ortbench.features.load.analysis.samples import LoadSamples, write_samples
from ortbench.features.load.measure.client_pool import LockWatch
from ortbench.features.load.model import KIND
from tests.expect import refusal, there
from tests.queues import MS, served, steady

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells it on Linux alone")


@LINUX
def test_a_thread_waits_for_the_lock_where_its_place_says_so() -> None:
    """The lock has several places to sleep at."""
    watch = LockWatch(os.getpid(), [threading.get_native_id()], [202, 0x7F00_1000])
    for place, is_waiting in (
        ("202 0x7f001000 0x89 0x0 0x0", True), ("202 0x7f001010 0x89 0x0 0x0", True), ("202 0x7f009000 0x89 0x0 0x0", False),
        ("7 0x7f001000 0x89 0x0 0x0", False), ("running", False), ("-1 0x7ffc 0x7f", False),
    ):  # fmt: skip
        assert watch._is_waiting(f"{place}\n".encode()) is is_waiting, place


@pytest.mark.parametrize("place", [None, [202, 0]])
def test_nobody_looks_where_nothing_can_be_seen(place: list[int] | None) -> None:
    with LockWatch(2**30, [2**30], place) as watch:
        pass
    assert watch.count_waiting(0, time.perf_counter_ns()) is None


def test_samples_of_both_loops_are_beside_the_result(tmp_path: Path) -> None:
    ends = np.array([1, 2, 3, 4], np.int64) * MS
    burst = ClosedLoopBlock([ends - MS, ends - MS], [ends, ends], 3 * MS, cpu_ns=0, wall_ns=1, round=5)
    closed = LoadSamples("cpu-tensors", LoadPoint("concurrency", 2), blocks=[burst])
    opened = LoadSamples("cpu-tensors", LoadPoint("rate", 9.0), blocks=[served([0, MS], steady(3 * MS))])
    write_samples([closed, LoadSamples("cpu-tensors", LoadPoint("rate", 1.0), failed="gone"), opened], tmp_path)
    with np.load(tmp_path / KIND.samples) as found:
        assert {name: found[name].tolist() for name in found} == {
            "0/span_ns": [[MS, 3 * MS]],
            "0/latency_ns": [MS] * 4,
            "0/block": [5] * 4,
            "0/caller": [0, 0, 1, 1],
            "2/due_ns": [0, MS],
            "2/start_ns": [0, 3 * MS],
            "2/end_ns": [3 * MS, 6 * MS],
            "2/begin_ns": [0],
            "2/requests": [[2, 2]],
        }
    write_samples([], tmp_path / "nowhere")


OPEN: dict[str, Any] = {name: np.array([1, 2], np.int64) for name in ("0/due_ns", "0/start_ns", "0/end_ns")} | {
    "0/begin_ns": np.array([0], np.int64),
    "0/requests": np.array([[2, 2]], np.int64),
}


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("0/start_ns", None),
        ("0/end_ns", np.array([1], np.int64)),
        ("0/due_ns", np.array([1.0, float("nan")])),
        ("0/due_ns", np.array([[1, 2]], np.int64)),
        ("0/due_ns", np.array([-1, 2], np.int64)),
        ("0/requests", np.array([[1, 2]], np.int64)),
        ("0/latency_ns", np.array([1], np.int64)),
    ],
)
def test_samples_that_do_not_fit_together_are_bad_input(name: str, array: Any, tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / KIND.samples, **{key: it for key, it in {**OPEN, name: array}.items() if it is not None}
    )
    said = refusal(BadInput, read_samples, tmp_path)
    assert said.endswith("the arrays of load point 0 do not fit together")


def test_samples_that_are_cut_off_or_damaged_are_bad_input(tmp_path: Path) -> None:
    file = tmp_path / KIND.samples
    np.savez_compressed(file, **OPEN)
    assert read_samples(tmp_path) is not None
    whole, array = file.read_bytes(), io.BytesIO()
    np.save(array, np.array([1]))
    flipped = whole[:60] + b"\xff" * 40 + whole[100:]
    for damaged in (whole[:-40], whole[: len(whole) // 2], b"", array.getvalue(), flipped):
        file.write_bytes(damaged)
        assert "cannot be read: " in refusal(BadInput, read_samples, tmp_path)


@LINUX
def test_looks_are_counted_between_two_moments() -> None:
    start = time.perf_counter_ns()
    with LockWatch(os.getpid(), [threading.get_native_id()], [202, 0]) as watch:
        while watch.count_waiting(start, time.perf_counter_ns()) is None:
            time.sleep(0.001)
        end = time.perf_counter_ns()
    waiting, looked = there(watch.count_waiting(start, end))
    assert (looked > 0, waiting) == (True, 0)  # at address 0 nobody sleeps
    assert watch.count_waiting(0, 1) is None
