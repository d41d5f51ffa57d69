"""The timeline of a load: each client a track, each run on it a slice, each request due a mark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.features.load.analysis import LoadPoint, load_cases
from ortbench.features.load.analysis.blocks import ClosedLoopBlock
from ortbench.features.load.analysis.samples import LoadSamples, load_blocks
from ortbench.features.trace.report import chrome_trace, trace_json
from ortbench.model.result_file import load
from ortbench.model.timeline import Span, Timeline
from tests import traceformat
from tests.conftest import MODELS, ortbench
from tests.expect import there
from tests.queues import MS, served, steady
from tests.results import serving
from tests.traceformat import Trace

ORIGIN = 5_000_000_000


def whole(**arguments: Any) -> Trace:
    """Two clients of three runs of 2 ms each, then three requests of 5 ms each, of which the second waits."""
    ends = ORIGIN + 10 * MS + np.array([2, 4, 6], np.int64) * MS
    burst = ClosedLoopBlock(
        [ends - 2 * MS] * 2, [ends] * 2, ORIGIN + 15 * MS, cpu_ns=0, wall_ns=1, begin_ns=ORIGIN + 9 * MS, round=3
    )
    requests = replace(served([0, 3 * MS, 20 * MS], steady(5 * MS)), begin_ns=ORIGIN + 100 * MS)
    opened = LoadSamples("cpu-tensors", LoadPoint("rate", 90.0), blocks=[requests])
    timeline = Timeline(stages=[Span("loading", ORIGIN, 2_000)])
    timeline.load += load_blocks([opened, LoadSamples("cpu-tensors", LoadPoint("concurrency", 2), blocks=[burst])])
    return traceformat.read(trace_json(chrome_trace([serving()], [timeline], **arguments)))


def test_every_client_has_a_track_with_its_runs_in_its_blocks() -> None:
    trace = whole()
    (closed, *runs), opened = trace["client 2"], trace["client 1"][4:]
    assert (closed.name, closed.start, closed.duration) == ("cpu-tensors with 2 clients", 9 * MS, 7 * MS)
    assert closed.args == {"round": 3, "runs": 3}
    assert [(it.name, it.start, it.duration, it.parent) for it in runs] == [
        ("cpu-tensors/load", (10 + 2 * number) * MS, 2 * MS, closed) for number in range(3)
    ]
    assert [(it.name, it.start, it.duration) for it in opened] == [
        ("cpu-tensors at 90 requests/s", 100 * MS, 25 * MS),
        ("cpu-tensors/load", 100 * MS, 5 * MS), ("cpu-tensors/load", 105 * MS, 5 * MS), ("cpu-tensors/load", 120 * MS, 5 * MS),
    ]  # fmt: skip
    assert [it.args for it in opened[1:]] == [
        {"request": number, "waited_us": waited} for number, waited in enumerate((0, 2000, 0))
    ]


def test_a_mark_says_when_each_request_was_due() -> None:
    marks = [mark for found in whole().marks.values() for mark in found]
    assert [(name, at, args) for name, at, args in marks] == [
        ("due", at * MS, {"request": number, "level": "cpu-tensors at 90 requests/s"})
        for number, at in enumerate((100, 103, 120))
    ]


def test_of_too_many_runs_the_last_of_each_block_are_left_out_and_it_is_said() -> None:
    trace = whole(most=9)
    assert [it.args.get("shown") for it in trace["client 1"] if it.category == "block"] == [2, 2]
    assert trace.other["missing"] == [
        "of the load 4 runs and requests are left out, the last of each block, to keep the file small"
    ]


@pytest.mark.process
def test_the_timeline_of_a_load_says_what_its_result_says(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ran = ortbench(
        *("load", MODELS / "tiny.onnx", "--out", tmp_path / "out", "--trace", path),
        *[
            "--ep",
            "cpu",
            "--mode",
            "cpu-tensors",
            "--warmup",
            "1",
            "--rate",
            "40",
            "--workers",
            "2",
            "--arrivals",
            "uniform",
            "--duration",
            "0.5",
        ],
    )
    assert (ran.code, ran.err) == (0, "")
    assert f"Timeline in {path}" in ran.out
    trace = traceformat.read(path.read_text())
    (result,) = map(load, (tmp_path / "out").glob("load-*/result.json"))
    runs = [it for client in ("client 1", "client 2") for it in trace[client] if it.name == "cpu-tensors/load"]
    assert sorted(it.args["request"] for it in runs) == list(range(20))
    latency = there(load_cases(result)[0].stats("latency"))
    mean = sum(it.duration + it.args["waited_us"] * 1000 for it in runs) / len(runs)
    assert mean == pytest.approx(latency.mean, abs=1)  # which is kept to the nanosecond
