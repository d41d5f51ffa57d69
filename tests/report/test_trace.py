"""The timeline of a run: the format exactly, from scripted data; and of real runs that it says what the result says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.features.trace.report import chrome_trace, trace_json
from ortbench.measure import extra_inferences
from ortbench.measure.configuration import Configuration
from ortbench.measure.process import Client, WorkerLost
from ortbench.model import schema
from ortbench.model.modes import COSTS, READBACK
from ortbench.model.protocol import NodeEvent
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.model.timeline import Failure, Node, Span, TimedBlock, Timeline
from ortbench.plan.plan import Plan
from ortbench.worker.measuring import step_times
from ortbench.worker.mode_base import Step
from ortbench.worker.sync import Sync
from tests import traceformat
from tests.conftest import MODELS, ortbench
from tests.refdevice import Config
from tests.refdevice import Trace as DeviceTrace
from tests.results import measured, result_of, with_bytes
from tests.traceformat import Slice, Trace
from tests.truth import relu_model
from tests.worker.test_timing import Script, ScriptedMode

NOISE = "noise of the machine"
ORIGIN = 5_000_000_000


def block(mode: str, phase: str, start: int, samples: Sequence[int], **changed: Any) -> TimedBlock:
    """A block of samples that follow each other without a gap, 2 µs after its start, and end 1 µs before its end."""
    starts = [start + 2_000 + sum(samples[:index]) for index in range(len(samples))]
    fields: dict[str, Any] = {"round": 0, "dropped": 1, "first": 0, "n": len(samples)} | changed
    return TimedBlock(mode, phase, start_ns=start, duration_ns=sum(samples) + 3_000, starts_ns=starts,
                      samples_ns=samples, **fields)  # fmt: skip


def scripted() -> tuple[Result, Timeline]:
    """A run of one mode with everything in it."""
    case = measured("device-tensors")
    with_bytes(case, 100, 20)
    case.sync = {"kind": "readback", "cost_ns": 500, "how": "", "h2d": {"kind": "run", "cost_ns": 0, "how": ""},
                  "d2h": None}  # fmt: skip
    timeline = Timeline(
        stages=[Span("loading", ORIGIN, 2_000_000), Span("creating the session", ORIGIN + 1_000_000, 999_999)],
        blocks=[
            block("device-tensors", "h2d", ORIGIN + 3_000_000, [1_001, 999]),
            block("device-tensors", "latency", ORIGIN + 4_000_000, [5_000], first=2, round=1, dropped=3),
        ],
        failures=[Failure("device-tensors", ORIGIN + 5_000_000, "it broke")],
        close_ups={
            "device-tensors": [[Span("run", ORIGIN + 6_000_000, 10), Span("sync (readback)", ORIGIN + 6_000_020, 500)]]
        },
        profiled_runs=[Span("profiled run 1", ORIGIN + 7_000_000, 9_000)],
        nodes=[Node(Span("Relu", ORIGIN + 7_001_000, 3_000, {"node": "r"}), "SomeExecutionProvider", 17)],
        missing=["this and that"],
    )
    return result_of(case), timeline


def whole(results: Sequence[Result], timelines: Sequence[Timeline], **arguments: Any) -> Trace:
    return traceformat.read(trace_json(chrome_trace(results, timelines, **arguments)))


# The format


def test_every_event_of_a_scripted_run() -> None:
    result, timeline = scripted()
    trace = chrome_trace([result], [timeline])
    assert trace["displayTimeUnit"] == "ms"
    assert trace["otherData"] == {
        "tool": "ortbench 0",
        "created": "2026-01-01T00:00:00Z",
        "command": "ortbench",
        "onnxruntime": "1.28.0",
        "clock": "time.perf_counter_ns",
        "origin_ns": ORIGIN,
        "missing": ["this and that"],
    }
    tracks = ["stages", "mode device-tensors", "close-up device-tensors", "profiled runs", "nodes on Some"]

    def described(tid: int, what: str, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": 1000, "tid": tid, "ts": 0, "args": args}

    def slice_(tid: int, cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        event = {"ph": "X", "name": name, "cat": cat, "pid": 1000, "tid": tid, "ts": ts, "dur": dur}
        return {**event, "args": args} if args else event

    assert trace["traceEvents"] == [
        described(1000, "process_name", name="SomeExecutionProvider · m.onnx"),
        described(1000, "process_sort_index", sort_index=1),
        *(
            event
            for tid, name in enumerate(tracks, 1001)
            for event in (described(tid, "thread_name", name=name), described(tid, "thread_sort_index", sort_index=tid))
        ),
        slice_(1001, "stage", "loading", 0.0, 2000.0),
        slice_(1001, "stage", "creating the session", 1000.0, 999.999),
        slice_(1001, "stage", "measuring", 3000.0, 1008.0),
        slice_(1002, "block", "h2d block", 3000.0, 5.0, round=0, n=2, dropped=1, sync="run"),
        slice_(1002, "block", "not recorded", 3000.0, 2.0, iterations=1),
        slice_(1002, "sample", "device-tensors/h2d", 3002.0, 1.001, iteration=0, bytes=100),
        slice_(1002, "sample", "device-tensors/h2d", 3003.001, 0.999, iteration=1, bytes=100),
        slice_(1002, "block", "latency block", 4000.0, 8.0, round=1, n=1, dropped=3),
        slice_(1002, "block", "not recorded", 4000.0, 2.0, iterations=3),
        slice_(1002, "sample", "device-tensors/latency", 4002.0, 5.0, iteration=2, bytes=120),
        {"ph": "i", "s": "t", "name": "device-tensors failed", "cat": "failure", "pid": 1000, "tid": 1002, "ts": 5000.0,
         "args": {"reason": "it broke"}},
        slice_(1003, "close-up", "one inference", 6000.0, 0.52, iteration=0),
        slice_(1003, "close-up", "run", 6000.0, 0.01),
        slice_(1003, "close-up", "sync (readback)", 6000.02, 0.5),
        slice_(1004, "profile", "profiled run 1", 7000.0, 9.0),
        slice_(1005, "node", "Relu", 7001.0, 3.0, node="r"),
    ]  # fmt: skip
    assert traceformat.read(trace_json(trace)).order == {"SomeExecutionProvider · m.onnx": tracks}


def test_the_text_has_an_event_a_line_and_no_escapes() -> None:
    """Perfetto's reader of the outer object knows no ``\\u`` escapes."""
    result, timeline = scripted()
    lines = trace_json(chrome_trace([result], [timeline])).splitlines()
    assert lines[0].startswith('{"displayTimeUnit":"ms",')
    assert "SomeExecutionProvider · m.onnx" in lines[1]
    assert all(json.loads(line.rstrip(",")) for line in lines[1:-1])
    assert lines[-1] == "]}"


def test_sides_are_processes_with_threads_of_their_own() -> None:
    (a, at), (b, bt) = scripted(), scripted()
    b.target["ep"] = "OtherExecutionProvider"
    trace = whole([a, b], [at, bt])
    assert list(trace.order) == ["SomeExecutionProvider · m.onnx", "OtherExecutionProvider · m.onnx"]
    assert trace.other["missing"] == ["this and that"] * 2
    first, second = (trace.tracks[process, "mode device-tensors"] for process in trace.order)
    assert first == second


@pytest.mark.parametrize(
    ("mode", "syncs"),
    [
        ("device-tensors", {"h2d": "run", "inference": "readback", "d2h": None, "latency": None}),
        ("device-resident", {"latency": "readback"}),
        ("cpu-tensors", {"latency": "readback"}),
        ("pipelined", {"latency": None}),
    ],
)
def test_blocks_name_the_sync_that_ends_their_samples(mode: str, syncs: dict[str, str | None]) -> None:
    """The latency of mode `device-tensors` ends with its download, which waits by itself."""
    case = measured(mode)
    upload: schema.Sync = {"kind": "run", "cost_ns": 0, "how": ""}
    case.sync = {"kind": "readback", "cost_ns": 0, "how": "", "h2d": upload if mode == "device-tensors" else None,
                  "d2h": None}  # fmt: skip
    blocks = [block(mode, phase, ORIGIN + 10 + 100_000 * number, [9]) for number, phase in enumerate(syncs)]
    trace = whole([result_of(case)], [Timeline(stages=[Span("loading", ORIGIN, 10)], blocks=blocks)])
    outer = [it for it in trace[f"mode {mode}"] if it.depth == 0]
    assert {it.name.removesuffix(" block"): it.args.get("sync") for it in outer} == syncs


def test_of_too_many_samples_whole_blocks_are_left_out_evenly() -> None:
    blocks = [
        block(
            mode, "latency", ORIGIN + 10 + 100_000 * (2 * number + second), [1_000] * 4, first=4 * number, round=number
        )
        for number in range(6)
        for second, mode in enumerate(["cpu-tensors", "device-tensors"])
    ]
    timeline = Timeline(stages=[Span("loading", ORIGIN, 10)], blocks=blocks)
    result = result_of(measured("cpu-tensors"), measured("device-tensors"))
    trace = whole([result], [timeline], most=16)
    assert trace.other["missing"] == ["of 48 samples 32 are left out, whole blocks of them, to keep the file small"]
    for mode in ("cpu-tensors", "device-tensors"):
        outer = [it for it in trace[f"mode {mode}"] if it.depth == 0]
        assert [it.args.get("samples") for it in outer] == ["left out", "left out", None] * 2
        assert [it.args["n"] for it in outer] == [4] * 6
        samples = [it for it in trace[f"mode {mode}"] if it.category == "sample"]
        assert [it.args["iteration"] for it in samples] == [8, 9, 10, 11, 20, 21, 22, 23]
    assert whole([result], [timeline], most=48).other["missing"] == []


def test_nodes_have_a_track_for_each_ep_and_thread() -> None:
    def node(ep: str, thread: int) -> Node:
        return Node(Span("Relu", ORIGIN + 100, 10), ep, thread)

    timeline = Timeline(
        stages=[Span("loading", ORIGIN, 10)],
        profiled_runs=[Span("profiled run 1", ORIGIN + 50, 100)],
        nodes=[node("WebGpuExecutionProvider", 7), node("CPUExecutionProvider", 7), node("CPUExecutionProvider", 8)],
    )
    trace = whole([result_of()], [timeline])
    assert trace.order[trace.process][2:] == ["nodes on WebGpu", "nodes on CPU, thread 7", "nodes on CPU, thread 8"]


def test_a_node_of_a_subgraph_ends_with_the_node_around_it() -> None:
    """ONNX Runtime's whole microseconds can make the inner one seem to end later."""
    spans = [
        Span("Shape", ORIGIN, 0),
        Span("If", ORIGIN, 9_000),
        Span("Add", ORIGIN + 1_000, 9_000),
        Span("Mul", ORIGIN + 9_000, 1_000),
    ]
    timeline = Timeline(
        stages=[Span("loading", ORIGIN, 10)],
        profiled_runs=[Span("profiled run 1", ORIGIN, 20_000)],
        nodes=[Node(span, "CPUExecutionProvider", 1) for span in reversed(spans)],
    )
    found = whole([result_of()], [timeline])["nodes on CPU"]
    assert [(it.name, it.start, it.end, it.depth) for it in found] == [
        ("Shape", 0, 0, 0), ("If", 0, 9_000, 0), ("Add", 1_000, 9_000, 1), ("Mul", 9_000, 10_000, 0)
    ]  # fmt: skip


def test_what_a_node_carries() -> None:
    event: NodeEvent = {
        "name": "conv1", "op": "Conv", "ep": "CPUExecutionProvider", "start_ns": 10, "duration_ns": 20, "run": 1,
        "thread": 3,
        "args": {
            "input_type_shape": [{"float": [1, 3, 8]}, {"int64": []}], "output_type_shape": [{"float": [1, 4, 8]}],
            "activation_size": "96", "parameter_size": "0", "output_size": "128", "node_index": "5",
        },
    }  # fmt: skip
    args = {"node": "conv1", "ep": "CPUExecutionProvider", "run": 2, "inputs": "float 1x3x8, int64",
            "outputs": "float 1x4x8", "input_bytes": 96, "weight_bytes": 0, "output_bytes": 128}  # fmt: skip
    assert Node.from_event(event) == Node(Span("Conv", 10, 20, args), "CPUExecutionProvider", 3)
    event["run"], event["args"] = 0, {"input_type_shape": []}  # less was recorded
    assert Node.from_event(event).span.args == {"node": "conv1", "ep": "CPUExecutionProvider", "run": 1}


# What the worker gives


class Steps(ScriptedMode):
    """A mode with a sync, whose steps take a known time."""

    sync = Sync(READBACK, lambda: None, 0, "")

    def steps(self) -> list[Step]:
        return [(name, partial(self._script.work, name, ns)) for name, ns in (("run", 10), ("f", 1000))]


def test_a_close_up_times_every_step() -> None:
    script = Script()
    mode: Any = Steps(script)
    found = step_times(mode, most=2, clock=script.clock)
    assert found == [[("run", 1010, 11), ("f", 1021, 1001)], [("run", 2022, 12), ("f", 2034, 1002)]]
    assert script.log.count("run") == 3  # the first inference is not timed
    script = Script()  # a slow mode is looked at once
    mode = Steps(script)
    assert len(step_times(mode, most=5, budget_ns=0, clock=script.clock)) == 1


# Real runs


def traced(path: Path, *arguments: object, prefix: Sequence[str] = (), **environment: str) -> tuple[Trace, Result, str]:
    """Run with a trace: the trace, the result and what was printed."""
    ran = ortbench("run", *arguments, "--out", path, "--trace", path / "t.json.gz", prefix=prefix, **environment)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    (found,) = path.glob("*/result.json")
    return traceformat.load(path / "t.json.gz"), load(found), ran.out


def check_against(trace: Trace, result: Result) -> None:
    """The trace says of blocks and samples exactly what the result says, and what came after the measurement."""
    process = trace.process
    stages = {it.name: it for it in trace.tracks[process, "stages"]}
    for case in result.cases:
        slices = trace.tracks.get((process, f"mode {case.mode}"), [])
        for phase, samples in case.samples.items():
            if phase in COSTS:  # which are taken in the blocks of others
                continue
            found = [it for it in slices if it.name == f"{case.mode}/{phase}"]
            assert [it.duration for it in found] == samples
            assert [it.args["iteration"] for it in found] == list(range(len(samples)))
            blocks = [it for it in slices if it.name == f"{phase} block"]
            origin = trace.other["origin_ns"]
            assert [[it.args["round"], it.args["n"], it.start + origin] for it in blocks] == case.blocks[phase]
            assert [it.parent for it in found] == [it for it in blocks for _ in range(it.args["n"])]
            moved = {
                "h2d": case.bytes_h2d,
                "d2h": case.bytes_d2h,
                "latency": (case.bytes_h2d or 0) + (case.bytes_d2h or 0),
            }
            assert {it.args.get("bytes") for it in found} == {moved.get(phase) or None}
            assert all(stages["measuring"].holds(it) for it in blocks)
        if case.status == "ok":
            close_ups = trace.tracks[process, f"close-up {case.mode}"]
            assert 1 <= len([it for it in close_ups if it.depth == 0]) <= 8
            assert all(stages[f"close-up of {case.mode}"].holds(it) for it in close_ups)
            assert stages[f"close-up of {case.mode}"].start >= stages["measuring"].end
            assert stages[f"preparing {case.mode}"].end <= stages["measuring"].start


def check_nodes(trace: Trace, process: str, stages: dict[str, Slice]) -> None:
    """Every node lies in its run, and the runs after all that was measured. ONNX Runtime rounds to microseconds."""
    runs = trace.tracks[process, "profiled runs"]
    assert [it.name for it in runs] == ["profiled run 1", "profiled run 2", "profiled run 3"]
    for run in runs:
        assert stages["profiling nodes" if "profiling nodes" in stages else "profiled runs"].holds(run)
        assert run.start > stages["measuring"].end
    tracks = [name for name in trace.order[process] if name.startswith("nodes on ")]
    nodes = [it for name in tracks for it in trace.tracks[process, name]]
    assert {it.args["run"] for it in nodes} == {1, 2, 3}
    for node in nodes:
        run = runs[node.args["run"] - 1]
        assert run.start <= node.start
        assert node.end <= run.end + 1_000


def steps(trace: Trace, mode: str) -> list[str]:
    """The steps of a mode's close-up, which must be the same in every iteration."""
    slices = trace[f"close-up {mode}"]
    found = {tuple(it.name for it in slices if it.parent == outer) for outer in slices if outer.depth == 0}
    (names,) = found
    return list(names)


@pytest.mark.process
def test_a_run_on_the_cpu(tmp_path: Path) -> None:
    trace, result, printed = traced(
        tmp_path, MODELS / "image_classifier.onnx", "--ep", "cpu", "--iterations", 8, "--warmup", 1, "--measure-nodes"
    )
    check_against(trace, result)
    check_nodes(trace, trace.process, {it.name: it for it in trace["stages"]})
    assert steps(trace, "cpu-tensors") == steps(trace, "device-resident") == steps(trace, "host-accessible") == ["run"]
    assert steps(trace, "device-tensors") == ["h2d", "run", "d2h"]
    assert trace.other["missing"] == []
    assert printed.splitlines()[-1].startswith(f"Timeline in {tmp_path / 't.json.gz'}; open it at ")


def test_without_a_trace_the_worker_sends_no_starts(tmp_path: Path) -> None:
    """What is measured must not depend on whether a timeline is written."""
    from ortbench.worker.state import Worker

    worker = Worker()
    plan = {
        "do": "open",
        "model": str(MODELS / "tiny.onnx"),
        "target": {"ep": "cpu"},
        "inputs": {"shapes": {}, "ranges": {}},
    }
    assert "ok" in worker.answer(plan)
    assert "ok" in worker.answer({"do": "prepare", "mode": "cpu-tensors", "warmup": 1})
    request = {"do": "block", "mode": "cpu-tensors", "phase": "latency", "n": 3, "drop": 1}
    assert set(worker.answer(request)["ok"]) == {"samples", "start_ns", "spent_ns", "cpu", "counts"}
    answer = worker.answer({**request, "timeline": True})["ok"]
    assert len(answer["starts_ns"]) == 3
    assert answer["calls_ns"] == answer["samples"]
    ends = [start + took for start, took in zip(answer["starts_ns"], answer["samples"], strict=True)]
    times = [answer["start_ns"], *(at for pair in zip(answer["starts_ns"], ends, strict=True) for at in pair)]
    assert [*times, answer["start_ns"] + answer["spent_ns"]] == sorted(
        [*times, answer["start_ns"] + answer["spent_ns"]]
    )


@pytest.mark.process
def test_a_run_on_the_reference_device_agrees_with_the_devices_own_trace(library: Path, tmp_path: Path) -> None:
    """What the device witnessed lies inside the slices that are about it: they are on one clock."""
    config = Config(honesty="async-old-api", compute_us=20_000, upload_gbps=1, trace=tmp_path / "device")
    arguments = [relu_model(tmp_path / "relu.onnx", 1 << 20), "--ep-library", library, "--mode", "device-tensors"]
    trace, result, _ = traced(tmp_path, *arguments, "--iterations", 6, "--warmup", 2, **config.environ())
    check_against(trace, result)
    names = steps(trace, "device-tensors")
    assert (names[0], names[-3:]) == ("h2d", ["run", "sync (readback)", "d2h"])  # the upload may have one too
    witness = DeviceTrace.read(tmp_path / "device")
    origin = trace.other["origin_ns"]

    def of_device(kind: str, within: Slice, least_bytes: int = 5) -> list[tuple[int, int]]:
        """What the device did in a slice, without the sync's 4 bytes."""
        events = witness.of(kind)
        chosen = (events["queued_ns"] - origin >= within.start) & (events["queued_ns"] - origin < within.end)
        return [
            (int(it["queued_ns"]) - origin, int(it["end_ns"]) - origin)
            for it in events[chosen]
            if kind == "inference" or it["bytes"] >= least_bytes
        ]

    def check(found: list[tuple[int, int]], within: Slice, until: Slice) -> None:
        ((queued, end),) = found
        assert within.start <= queued
        assert end <= until.end

    mode, closer = trace["mode device-tensors"], trace["close-up device-tensors"]
    for phase in ("h2d", "inference", "d2h"):
        for sample in (it for it in mode if it.name == f"device/{phase}"):
            check(of_device(phase, sample), sample, sample)
    totals = [it for it in mode if it.name == "device-tensors/latency"]
    assert len(totals) == 6
    for sample in totals:
        ups, works, downs = (of_device(kind, sample) for kind in ("h2d", "inference", "d2h"))
        for found in (ups, works, downs):
            check(found, sample, sample)
        assert ups[0][1] <= works[0][0]
        assert works[0][1] <= downs[0][1]
    still_at_it = []
    for outer in (it for it in closer if it.depth == 0):
        upload, *_, run, sync, download = (it for it in closer if it.parent == outer)
        check(of_device("h2d", upload), upload, upload)
        check(of_device("inference", run), run, sync)
        still_at_it.append(of_device("inference", run)[0][1] > run.end)
        check(of_device("d2h", download), download, download)
    assert any(still_at_it)  # a run had returned, and the device was still at it


# What goes wrong


def cpu_runs_on_device(library: Path, folder: Path, **knobs: Any) -> tuple[int, str, Trace, Result, DeviceTrace]:
    """Mode `cpu-tensors` with exactly three samples on the reference device, whose every run is witnessed."""
    folder.mkdir()
    config = Config(compute_us=100, trace=folder / "device-tensors", **knobs)
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep-library", library, "--mode", "cpu-tensors", "--iterations", 3, "--warmup", 1,
                   "--out", folder, "--trace", folder / "t.json", "--quiet", **config.environ())  # fmt: skip
    (found,) = folder.glob("*/result.json")
    return ran.code, ran.err, traceformat.load(folder / "t.json"), load(found), DeviceTrace.read(config.trace or folder)


@pytest.mark.process
def test_a_crash_after_the_measurement_costs_only_a_part_of_the_trace(library: Path, tmp_path: Path) -> None:
    code, errors, trace, result, witness = cpu_runs_on_device(library, tmp_path / "whole")
    assert (code, errors) == (0, "")
    ends = np.sort(witness.of("run")["end_ns"]) - trace.other["origin_ns"]
    before = {name: int(np.sum(ends < next(it for it in trace["stages"] if it.name == name).start))
              for name in ("close-up of cpu-tensors", "profiled runs")}  # fmt: skip
    for name, there in (("close-up of cpu-tensors", []), ("profiled runs", ["close-up cpu-tensors"])):
        folder = tmp_path / name.replace(" ", "-")
        code, errors, trace, again, _ = cpu_runs_on_device(library, folder, abort_run=str(before[name] + 2))
        assert code == 0
        assert errors.startswith(f"ortbench: --trace lacks: {name}: the worker was ended by SIGABRT")
        assert errors.count("\n") == 1
        assert trace.other["missing"] == [errors.removeprefix("ortbench: --trace lacks: ").rstrip()]
        assert trace.order[trace.process] == ["stages", NOISE, "mode cpu-tensors", *there]
        assert (again.stopped, again.warnings) == (result.stopped, result.warnings)
        assert [case.status for case in again.cases] == ["ok"]


def test_one_profile_that_fails_is_missed_in_the_trace_and_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Client):
        def __init__(self, plan: Plan) -> None: ...

        def ask(self, do: str, **arguments: Any) -> Any:
            assert (do, arguments["timeline"]) == ("nodes", True)
            raise WorkerLost("the worker was ended by SIGABRT")

        def close(self) -> None: ...

    monkeypatch.setattr(extra_inferences, "worker_for", Broken)
    one = Configuration(Plan(str(MODELS / "tiny.onnx"), nodes=True), timeline=Timeline())
    one.result = replace(result_of(), setup={"session_ns": 0, "first_inference_ns": 1000, "seed": 0})
    extra_inferences.profile_nodes(one, print)
    assert one.timeline is not None
    assert one.timeline.missing == ["profiled runs: the worker was ended by SIGABRT"]
    assert [it["code"] for it in one.result.warnings] == ["nodes-failed"]


@pytest.mark.process
def test_a_mode_that_fails_is_marked_and_the_rest_is_there(library: Path, tmp_path: Path) -> None:
    """Five runs prepare mode `cpu-tensors`, the next is the one that is not recorded, and the eighth dies in a sample."""
    config = Config(compute_us=100, abort_run="8:host")
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep-library", library, "--mode", "cpu-tensors", "--mode", "host-accessible",
                   "--iterations", 3, "--warmup", 1, "--out", tmp_path, "--trace", tmp_path / "t.json", "--quiet",
                   **config.environ())  # fmt: skip
    assert ran.code == 1
    trace = traceformat.load(tmp_path / "t.json")
    tracks = trace.order[trace.process]
    assert tracks[:5] == ["stages", NOISE, "mode cpu-tensors", "mode host-accessible", "close-up host-accessible"]
    ((name, at, args),) = trace.marks[trace.process, "mode cpu-tensors"]
    assert (name, trace["mode cpu-tensors"]) == ("cpu-tensors failed", [])
    assert "SIGABRT" in args["reason"]
    again = next(it for it in trace["stages"] if it.name == "loading again")
    assert [it.end <= at for it in trace["stages"] if it.name == "preparing cpu-tensors"] == [True]
    assert at <= again.start
    preparing = [it for it in trace["stages"] if it.name == "preparing host-accessible"]
    assert preparing[0].end <= at
    assert preparing[1].start >= again.end
