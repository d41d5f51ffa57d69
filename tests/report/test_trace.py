"""Timelines of runs, loops and loads: the format exactly, from scripted data; and of real runs that they say what the result says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.features.load.analysis import LoadPoint
from ortbench.features.load.analysis.blocks import ClosedLoopBlock
from ortbench.features.load.analysis.samples import LoadSamples, load_blocks
from ortbench.features.trace.report import chrome_trace, trace_json
from ortbench.model.modes import COSTS
from ortbench.model.protocol import Failure, Node, Span, TimedBlock, Timeline
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.model.schema import Sync as SyncRecord
from tests import traceformat
from tests.conftest import MODELS, ortbench
from tests.queues import MS, served, steady
from tests.refdevice import Config
from tests.refdevice import Trace as DeviceTrace
from tests.results import level, load_result, loop_result, measured, result_of, with_bytes
from tests.traceformat import Slice, Trace
from tests.truth import relu_model

NOISE = "noise of the machine"
ORIGIN = 5_000_000_000
LOADING = Span("loading", ORIGIN, 2_000_000)


def block(mode: str, phase: str, start: int, samples: Sequence[int], **changed: Any) -> TimedBlock:
    """A block of samples that follow each other without a gap, 2 µs after its start, and end 1 µs before its end."""
    starts = [start + 2_000 + sum(samples[:index]) for index in range(len(samples))]
    fields: dict[str, Any] = {"round": 0, "dropped": 1, "first": 0, "n": len(samples)} | changed
    return TimedBlock(mode, phase, start_ns=start, duration_ns=sum(samples) + 3_000, starts_ns=starts,
                      samples_ns=samples, **fields)  # fmt: skip


def scripted() -> tuple[Result, Timeline]:
    """A run of one mode with everything in it."""
    case = with_bytes(measured("device-tensors"), 100, 20)
    run: SyncRecord = {"kind": "run", "cost_ns": 0, "how": ""}
    case.sync = {"kind": "readback", "cost_ns": 500, "how": "", "h2d": run, "d2h": None}
    close_up = [Span("run", ORIGIN + 6_000_000, 10), Span("sync (readback)", ORIGIN + 6_000_020, 500)]
    timeline = Timeline(
        stages=[LOADING, Span("creating the session", ORIGIN + 1_000_000, 999_999)],
        blocks=[
            block("device-tensors", "h2d", ORIGIN + 3_000_000, [1_001, 999]),
            block("device-tensors", "latency", ORIGIN + 4_000_000, [5_000], first=2, round=1, dropped=3),
        ],
        failures=[Failure("device-tensors", ORIGIN + 5_000_000, "it broke")],
        close_ups={"device-tensors": [close_up]},
        profiled_runs=[Span("profiled run 1", ORIGIN + 7_000_000, 9_000)],
        nodes=[Node(Span("Relu", ORIGIN + 7_001_000, 3_000, {"node": "r"}), "SomeExecutionProvider", 17)],
        missing=["this and that"],
    )
    return result_of(case), timeline


def text_of(*made: tuple[Result, Timeline], **arguments: Any) -> str:
    return trace_json(chrome_trace([it for it, _ in made], [it for _, it in made], **arguments))


def trace_of(*made: tuple[Result, Timeline], **arguments: Any) -> Trace:
    return traceformat.read(text_of(*made, **arguments))


# The format


def test_every_event_of_a_scripted_run() -> None:
    trace = trace_of(scripted())
    assert trace.other == {
        "tool": "ortbench 0", "created": "2026-01-01T00:00:00Z", "command": "ortbench", "onnxruntime": "1.28.0",
        "clock": "time.perf_counter_ns", "origin_ns": ORIGIN, "missing": ["this and that"],
    }  # fmt: skip
    tracks = ["stages", "mode device-tensors", "close-up device-tensors", "profiled runs", "nodes on Some"]
    assert trace.order == {"SomeExecutionProvider · m.onnx": tracks}
    assert [(it.category, it.name, it.start, it.duration, it.args) for name in tracks for it in trace[name]] == [
        ("stage", "loading", 0, 2_000_000, {}),
        ("stage", "creating the session", 1_000_000, 999_999, {}),
        ("stage", "measuring", 3_000_000, 1_008_000, {}),
        ("block", "h2d block", 3_000_000, 5_000, {"round": 0, "n": 2, "dropped": 1, "sync": "run"}),
        ("block", "not recorded", 3_000_000, 2_000, {"iterations": 1}),
        ("sample", "device-tensors/h2d", 3_002_000, 1_001, {"iteration": 0, "bytes": 100}),
        ("sample", "device-tensors/h2d", 3_003_001, 999, {"iteration": 1, "bytes": 100}),
        ("block", "latency block", 4_000_000, 8_000, {"round": 1, "n": 1, "dropped": 3}),
        ("block", "not recorded", 4_000_000, 2_000, {"iterations": 3}),
        ("sample", "device-tensors/latency", 4_002_000, 5_000, {"iteration": 2, "bytes": 120}),
        ("close-up", "one inference", 6_000_000, 520, {"iteration": 0}),
        ("close-up", "run", 6_000_000, 10, {}),
        ("close-up", "sync (readback)", 6_000_020, 500, {}),
        ("profile", "profiled run 1", 7_000_000, 9_000, {}),
        ("node", "Relu", 7_001_000, 3_000, {"node": "r"}),
    ]
    marks = trace.marks[trace.process, "mode device-tensors"]
    assert marks == [("device-tensors failed", 5_000_000, {"reason": "it broke"})]


def test_the_text_has_an_event_a_line_and_no_escapes() -> None:
    """Perfetto's reader of the outer object knows no ``\\u`` escapes."""
    lines = text_of(scripted()).splitlines()
    assert lines[0].startswith('{"displayTimeUnit":"ms",')
    assert "SomeExecutionProvider · m.onnx" in lines[1]
    assert all(json.loads(line.rstrip(",")) for line in lines[1:-1])
    assert lines[-1] == "]}"


def test_of_too_many_samples_whole_blocks_are_left_out_evenly() -> None:
    starts = [ORIGIN + 100_000 * number for number in range(6)]
    blocks = [block("cpu-tensors", "latency", at, [1_000] * 4, first=4 * number) for number, at in enumerate(starts)]
    made = result_of(measured("cpu-tensors")), Timeline(stages=[LOADING], blocks=blocks)
    trace = trace_of(made, most=8)
    assert trace.other["missing"] == ["of 24 samples 16 are left out, whole blocks of them, to keep the file small"]
    outer = [it for it in trace["mode cpu-tensors"] if it.depth == 0]
    assert [(it.args["n"], it.args.get("samples")) for it in outer] == [(4, "left out"), (4, "left out"), (4, None)] * 2
    samples = [it for it in trace["mode cpu-tensors"] if it.category == "sample"]
    assert [it.args["iteration"] for it in samples] == [8, 9, 10, 11, 20, 21, 22, 23]
    assert trace_of(made, most=24).other["missing"] == []


def test_a_node_of_a_subgraph_ends_with_the_node_around_it() -> None:
    """ONNX Runtime's whole microseconds can make the inner one seem to end later."""
    spans = [("Mul", 9_000, 1_000), ("Add", 1_000, 9_000), ("If", 0, 9_000), ("Shape", 0, 0)]
    nodes = [Node(Span(name, ORIGIN + at, took), "CPUExecutionProvider", 1) for name, at, took in spans]
    runs = [Span("profiled run 1", ORIGIN, 20_000)]
    trace = trace_of((result_of(), Timeline(stages=[LOADING], profiled_runs=runs, nodes=nodes)))
    assert [(it.name, it.start, it.end, it.depth) for it in trace["nodes on CPU"]] == [
        ("Shape", 0, 0, 0), ("If", 0, 9_000, 0), ("Add", 1_000, 9_000, 1), ("Mul", 9_000, 10_000, 0)
    ]  # fmt: skip


# Loops and loads


def loop_block(number: int) -> TimedBlock:
    """Two loops, which begin 500 ns before their first step and end 250 ns after the last; their three steps take 1 µs."""
    start = ORIGIN + 2_000_000 * (number + 1)
    starts = [start + 2_000, start + 5_750]
    steps = [begun + 500 + 1_000 * step for begun in starts for step in range(3)]
    whole = ("cpu-tensors", "latency", number, 1, 2 * number, 2, start, 10_500)
    return TimedBlock(*whole, starts, [3_750] * 2, steps, [1_000] * 6)


def test_steps_lie_in_their_loops_and_count_among_the_slices_that_are_too_many() -> None:
    """Two blocks are 16 slices: with at most 8 one of them has neither its loops nor its steps."""
    made = loop_result(level("cpu-tensors", count=3)), Timeline(stages=[LOADING], blocks=[*map(loop_block, range(2))])
    tracks = [trace_of(made, most=most)["mode cpu-tensors"] for most in (16, 8)]
    blocks, loops, steps = (
        [it for it in tracks[0] if it.name == name] for name in ("loop block", "cpu-tensors/loop", "cpu-tensors/step")
    )
    assert [(it.start, it.duration, it.args) for it in loops[:2]] == [
        (2_002_000, 3_750, {"iteration": 0}), (2_005_750, 3_750, {"iteration": 1}),
    ]  # fmt: skip
    assert [it.parent for it in loops] == [blocks[0]] * 2 + [blocks[1]] * 2
    assert [it.args for it in steps] == [{"step": at % 3, "iteration": at} for at in range(12)]
    assert [(it.start, it.duration) for it in steps[:2]] == [(2_002_500, 1_000), (2_003_500, 1_000)]
    assert [it.parent for it in steps] == [loop for loop in loops for _ in range(3)]
    kept = [it.args["iteration"] for it in tracks[1] if it.category == "sample"]
    assert sorted(kept) == [2, 3, *range(6, 12)]


def test_every_client_has_a_track_with_its_runs_in_its_blocks_and_each_request_a_mark() -> None:
    """Two clients of three runs of 2 ms each, then three requests of 5 ms each, of which the second waits."""
    ends = ORIGIN + 10 * MS + np.array([2, 4, 6], np.int64) * MS
    clients: dict[str, Any] = {"starts": [ends - 2 * MS] * 2, "ends": [ends] * 2, "until_ns": ORIGIN + 15 * MS}
    closed = ClosedLoopBlock(**clients, cpu_ns=0, wall_ns=1, begin_ns=ORIGIN + 9 * MS, round=3)
    opened = replace(served([0, 3 * MS, 20 * MS], steady(5 * MS)), begin_ns=ORIGIN + 100 * MS)
    samples = [LoadSamples("cpu-tensors", LoadPoint("rate", 90.0), blocks=[opened]),
               LoadSamples("cpu-tensors", LoadPoint("concurrency", 2), blocks=[closed])]  # fmt: skip
    trace = trace_of((load_result(), Timeline(stages=[LOADING], load=[*load_blocks(samples)])))
    (whole, *runs), requests = trace["client 2"], trace["client 1"][4:]
    assert (whole.name, whole.start, whole.duration) == ("cpu-tensors with 2 clients", 9 * MS, 7 * MS)
    assert whole.args == {"round": 3, "runs": 3}
    load = "cpu-tensors/load"
    assert [(it.name, it.start, it.duration, it.parent) for it in runs] == [
        (load, (10 + 2 * number) * MS, 2 * MS, whole) for number in range(3)
    ]
    rate = "cpu-tensors at 90 requests/s"
    assert [(it.name, it.start, it.duration) for it in requests] == [
        (rate, 100 * MS, 25 * MS), (load, 100 * MS, 5 * MS), (load, 105 * MS, 5 * MS), (load, 120 * MS, 5 * MS),
    ]  # fmt: skip
    assert [it.args for it in requests[1:]] == [{"request": at, "waited_us": us} for at, us in enumerate((0, 2000, 0))]
    assert [mark for marks in trace.marks.values() for mark in marks] == [
        ("due", at * MS, {"request": number, "level": rate}) for number, at in enumerate((100, 103, 120))
    ]


# Real runs


def traced(path: Path, *arguments: object, code: int = 0, config: Config | None = None) -> tuple[Trace, Result, str]:
    """Run with a trace: the trace, the result and what was printed on stderr."""
    knobs = {} if config is None else config.environ()
    ran = ortbench("run", *arguments, "--out", path, "--trace", path / "t.json.gz", "--quiet", **knobs)
    assert ran.code == code, ran.err
    (found,) = path.glob("*/result.json")
    return traceformat.load(path / "t.json.gz"), load(found), ran.err


def check_against(trace: Trace, result: Result) -> None:
    """The trace says of blocks and samples exactly what the result says, and what came after the measurement."""
    stages = {it.name: it for it in trace["stages"]}
    for case in result.cases:
        close_up = stages[f"close-up of {case.mode}"]
        assert all(close_up.holds(it) for it in trace[f"close-up {case.mode}"])
        assert stages[f"preparing {case.mode}"].end <= stages["measuring"].start
        assert close_up.start >= stages["measuring"].end
        slices = trace[f"mode {case.mode}"]
        for phase in {*case.samples} - {*COSTS}:  # which are taken in the blocks of others
            found = [it for it in slices if it.name == f"{case.mode}/{phase}"]
            blocks = [it for it in slices if it.name == f"{phase} block"]
            assert [it.duration for it in found] == case.samples[phase]
            assert [it.args["iteration"] for it in found] == [*range(len(found))]
            assert [it.parent for it in found] == [it for it in blocks for _ in range(it.args["n"])]
            begun = [[it.args["round"], it.args["n"], it.start + trace.other["origin_ns"]] for it in blocks]
            assert begun == case.blocks[phase]
            assert all(stages["measuring"].holds(it) for it in blocks)


def steps(trace: Trace, mode: str) -> list[str]:
    """The steps of a mode's close-up, which must be the same in every iteration."""
    slices = trace[f"close-up {mode}"]
    (names,) = {tuple(it.name for it in slices if it.parent == outer) for outer in slices if outer.depth == 0}
    return list(names)


@pytest.mark.process
def test_every_node_lies_in_its_run_behind_all_that_was_measured(tmp_path: Path) -> None:
    arguments = ("--ep", "cpu", "--iterations", 8, "--warmup", 1, "--measure-nodes")
    trace, result, errors = traced(tmp_path, MODELS / "tiny.onnx", *arguments)
    check_against(trace, result)
    runs, stages = trace["profiled runs"], {it.name: it for it in trace["stages"]}
    assert len(runs) == 3
    assert all(stages["profiling nodes"].holds(run) and run.start > stages["measuring"].end for run in runs)
    nodes = [it for name in trace.order[trace.process] if name.startswith("nodes on ") for it in trace[name]]
    assert {it.args["run"] for it in nodes} == {1, 2, 3}
    for node in nodes:
        run = runs[node.args["run"] - 1]
        assert run.start <= node.start <= node.end <= run.end + 1_000  # ONNX Runtime rounds to microseconds
    assert steps(trace, "cpu-tensors") == steps(trace, "device-resident") == ["run"]
    assert steps(trace, "device-tensors") == ["h2d", "run", "d2h"]
    assert (trace.other["missing"], errors) == ([], "")


@pytest.mark.process
def test_a_run_on_the_reference_device_agrees_with_the_devices_own_trace(library: Path, tmp_path: Path) -> None:
    """What the device witnessed of a close-up lies inside the slices that are about it: they are on one clock."""
    config = Config(honesty="async-old-api", compute_us=20_000, upload_gbps=1, trace=tmp_path / "device")
    arguments = [relu_model(tmp_path / "relu.onnx", 1 << 20), "--ep-library", library, "--mode", "device-tensors"]
    trace, result, _ = traced(tmp_path, *arguments, "--iterations", 6, "--warmup", 2, config=config)
    check_against(trace, result)
    names = steps(trace, "device-tensors")
    assert (names[0], names[-3:]) == ("h2d", ["run", "sync (readback)", "d2h"])  # the upload may have one too
    witness, origin = DeviceTrace.read(tmp_path / "device"), trace.other["origin_ns"]

    def seen(kind: str, within: Slice, until: Slice) -> int:
        """When the one thing of a kind ended that the device began in a slice and ended in another, without the sync's 4 bytes."""
        events = witness.of(kind)
        queued = events["queued_ns"] - origin
        events = events[(queued >= within.start) & (queued < within.end)]
        (event,) = [it for it in events if kind == "inference" or it["bytes"] >= 5]
        assert event["end_ns"] - origin <= until.end
        return int(event["end_ns"] - origin)

    close_up, still_computing = trace["close-up device-tensors"], []
    for outer in (it for it in close_up if it.depth == 0):
        upload, *_, run, sync, download = (it for it in close_up if it.parent == outer)
        seen("h2d", upload, upload)
        still_computing.append(seen("inference", run, sync) > run.end)
        seen("d2h", download, download)
    assert any(still_computing)  # a run had returned, and the device was still at it


@pytest.mark.process
def test_a_crash_after_the_measurement_costs_only_a_part_of_the_trace(library: Path, tmp_path: Path) -> None:
    def run(folder: Path, **knobs: Any) -> tuple[Trace, Result, str, DeviceTrace]:
        folder.mkdir()
        config = Config(compute_us=100, trace=folder / "device", **knobs)
        arguments = ("--ep-library", library, "--mode", "cpu-tensors", "--iterations", 3, "--warmup", 1)
        found = traced(folder, MODELS / "tiny.onnx", *arguments, config=config)
        return (*found, DeviceTrace.read(folder / "device"))

    trace, result, errors, witness = run(tmp_path / "whole")
    assert errors == ""
    (begun,) = [it.start for it in trace["stages"] if it.name == "close-up of cpu-tensors"]
    before = int(np.sum(witness.of("run")["end_ns"] - trace.other["origin_ns"] < begun))
    trace, again, errors, _ = run(tmp_path / "crash", abort_run=str(before + 2))
    missing = "close-up of cpu-tensors: the worker was ended by SIGABRT"
    assert errors.startswith(f"ortbench: --trace lacks: {missing}")
    assert [it.partition(",")[0].partition(";")[0] for it in trace.other["missing"]] == [missing]
    assert trace.order[trace.process] == ["stages", NOISE, "mode cpu-tensors"]
    assert (again.stopped, again.warnings, again.cases[0].status) == (result.stopped, result.warnings, "ok")
