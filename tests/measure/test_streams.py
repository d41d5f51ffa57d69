"""What a block gives besides the samples of its phase."""

from __future__ import annotations

from ortbench.measure.schedule import add_host_time, streams
from ortbench.model.protocol import Samples
from ortbench.model.result import Case

PLAIN: Samples = {"samples": [10, 20], "start_ns": 5, "spent_ns": 40}


def test_a_block_of_samples_alone() -> None:
    assert streams(PLAIN, "h2d", 2) == {"h2d": [10, 20]}


def test_when_calls_returned_and_what_runs_took_of_the_cpu() -> None:
    """The CPU time is that of one run, however many of them a sample has."""
    answer: Samples = {**PLAIN, "enqueues": [3, 4], "cpu": {"user_ns": 90, "system_ns": 13, "wall_ns": 80}}
    assert streams(answer, "latency", 8) == {"latency": [10, 20], "enqueue": [3, 4], "cpu_time": [13]}


def test_the_parts_of_loops_and_chains() -> None:
    answer: Samples = {**PLAIN, "steps": [1, 2, 3, 4]}
    assert streams(answer, "latency", 2) == {"latency": [10, 20], "step": [1, 2, 3, 4]}
    assert streams(answer, "latency", 2, part="stage") == {"latency": [10, 20], "stage": [1, 2, 3, 4]}


def test_all_blocks_together() -> None:
    case = Case("cpu-tensors")
    add_host_time(case, PLAIN, 2)
    assert case.host is None
    for runs in (2, 6):
        add_host_time(case, {**PLAIN, "cpu": {"user_ns": 90, "system_ns": 13, "wall_ns": 80}}, runs)
    assert case.host == {"runs": 8, "wall_ns": 160, "user_ns": 180, "system_ns": 26}
