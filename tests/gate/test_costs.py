"""Gates of what a run costs besides its time."""

from __future__ import annotations

import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.facts.checks import PASSED, UNCLEAR
from ortbench.features.gate.gates import BASELINE, CANDIDATE, regression_tests
from ortbench.features.gate.gates.baseline import LiveGate
from ortbench.features.gate.plan import Limits
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from tests.expect import refusal
from tests.results import measured, result_of, steady

CPU_TIME, ENQUEUE = parse_metric("cpu-tensors.cpu_time.median"), parse_metric("device-resident.enqueue")


def test_which_modes_have_them_and_what_has_to_be_timed() -> None:
    # They come with the blocks of other phases.
    assert Limits(0.1, (CPU_TIME,)).phases() == {"latency"}
    assert Limits(0.1, (ENQUEUE,)).phases() == {"latency", "inference"}
    modes = ["cpu-tensors", "device-tensors", "device-resident-async"]
    ratio_tests = regression_tests(Limits(0.1, (parse_metric("cpu_time"), parse_metric("enqueue"))), modes)
    assert [(it.over.mode, it.over.phase) for it in ratio_tests] == [
        *((mode, "cpu_time") for mode in modes), ("device-tensors", "enqueue"), ("device-resident-async", "enqueue"),
    ]  # fmt: skip
    with pytest.raises(
        BadInput, match=r"--metric enqueue\.median: no mode that is measured has it; measured: cpu-tensors$"
    ):
        regression_tests(Limits(0.1, (parse_metric("enqueue"),)), ["cpu-tensors"])


def timed(**phases: int) -> Result:
    """Both modes, each with these medians."""
    blocks = {name: steady([ns] * 20) for name, ns in phases.items()}
    return result_of(
        measured("cpu-tensors", latency=steady([9])), measured("device-resident", latency=steady([9]), **blocks)
    )


def test_where_the_run_is_the_wait_there_is_no_submit_to_judge() -> None:
    results = [timed(), timed()]
    alone = LiveGate(Limits(0.1, (ENQUEUE,)), ["cpu-tensors", "device-resident"], has_baseline=True)
    assert refusal(BenchmarkFailed, alone.checks, results) == (
        "nothing could be compared: device-resident: enqueue is not apart: its run waits until the device is done"
    )
    live = LiveGate(
        Limits(0.1, (ENQUEUE, parse_metric("cpu-tensors.latency"))),
        ["cpu-tensors", "device-resident"],
        has_baseline=True,
    )
    for number in range(50):
        for side in (CANDIDATE, BASELINE):
            live.add(side, "cpu-tensors", "latency", number, [1000] * 3)
            live.add(side, "device-resident", "latency", number, [1000] * 3)
    assert not any(map(live.needs_more, ["cpu-tensors", "device-resident"]))
    passed, untold = live.checks(results)
    assert (passed.name, passed.verdict) == ("cpu-tensors latency median", PASSED)
    assert (untold.name, untold.verdict, untold.text) == (
        "device-resident enqueue median",
        UNCLEAR,
        "device-resident enqueue median, candidate to baseline: enqueue is not apart: its run waits until the device is done",
    )
