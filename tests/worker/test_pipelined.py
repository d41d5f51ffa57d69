"""Mode `pipelined`: what it reports, compared with the reference device's trace, and what it refuses and survives."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from ortbench.analysis.comparable import changes
from ortbench.analysis.derive import put_hidden
from ortbench.core.stats import Stats, Value
from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import LATENCY, PIPELINED
from ortbench.model.result import OK, Case, Result
from tests.conftest import MODELS, modes, ortbench
from tests.refdevice import HONESTY, Config, Events, Honesty, Trace
from tests.results import fact, keys, measured, result_of, sentences, steady, values
from tests.truth import hidden_share, in_fork, relu_model, rounds, run_on_device
from tests.virtual import CALL_NS

US, MS = 1_000, 1_000_000
SIZE = 1 << 16
WORD = 4  # bytes of the word that tells of an arrival


def pipeline(
    h2d: int = 2 * MS, inference: int = 6 * MS, d2h: int = 2 * MS, latency: int = 6 * MS, depth: int = 3
) -> Case:
    """A pipeline whose samples of a phase are all the same."""
    times = {"h2d": h2d, "inference": inference, "d2h": d2h, "latency": latency}
    case = measured(PIPELINED, **{phase: steady([ns] * 40) for phase, ns in times.items()})
    case.pipeline = {"depth": depth, "items": 4, "distinct": 4, "host_memory": "Mem"}
    case.set_metric("copies", case.copy_ns(), derived=True)
    return case


def hidden(case: Case) -> tuple[Any, Any]:
    """What is found of a case: the time that copies hide, and their share."""
    put_hidden(case)
    return case.metrics.get("copies_hidden"), case.metrics.get("hidden_share")


@pytest.mark.parametrize(
    ("times", "saved", "share"),
    [
        ((2, 6, 2, 6), 4, 1.0),  # nothing but inference is left
        ((2, 6, 2, 7), 3, 0.75),
        ((5, 2, 5, 5), 7, 0.7),  # two copies beside each other, and the inference beside both
        ((2, 6, 2, 11), 0, 0.0),  # noise cannot make less than nothing of it
        ((2, 6, 2, 5), 4, 1.0),  # nor more than all
        ((0, 6, 2, 7), 1, 0.5),  # a model whose inputs stay on the host
    ],
)
def test_what_is_hidden(times: tuple[int, int, int, int], saved: int, share: float) -> None:
    found = Value(saved * MS, derived=True), Value(share, (share, share), derived=True)
    assert hidden(pipeline(*(ms * MS for ms in times))) == found


def test_the_interval_of_what_is_hidden_takes_all_medians_at_their_worst_ends() -> None:
    case = pipeline(latency=7 * MS)
    for phase, width in (("h2d", 100), ("inference", 200), ("d2h", 50), ("latency", 50)):
        stats = case.stats(phase)
        assert stats is not None
        low, high = stats.median - width * US, stats.median + width * US
        case.metrics[phase] = Stats(**{**vars(stats), "ci95": (low, high)})
    assert hidden(case)[1] == Value(0.75, (0.65, 0.85), derived=True)


@pytest.mark.parametrize("lacking", ["h2d", "inference", "d2h", "latency", "copies"])
def test_nothing_is_said_where_a_phase_was_not_timed_or_copies_take_no_time(lacking: str) -> None:
    case = pipeline(h2d=0, d2h=0) if lacking == "copies" else pipeline()
    if lacking != "copies":
        del case.metrics[lacking]
    assert hidden(case) == (None, None)


@pytest.mark.parametrize("ratio", [2.0, 0.9])
def test_a_rate_is_not_the_fastest_mode(ratio: float) -> None:
    case = pipeline()
    cpu, device = (measured(it, latency=steady([12 * MS] * 8)) for it in ("cpu-tensors", "device-tensors"))
    cpu.speedup, case.speedup = Value(1.0, (1.0, 1.0)), Value(ratio, (ratio - 0.1, ratio + 0.1))
    assert [it[:2] for it in keys(result_of(cpu, case)) if it[2] == PIPELINED] == []
    device.speedup = Value(1.0, (0.98, 1.02))
    assert "No mode is faster than cpu-tensors: at most 1.02×." in sentences(result_of(cpu, case, device))


def test_another_depth_is_a_change() -> None:
    assert changes(result_of(pipeline()), result_of(pipeline(depth=2))) == ["depth of pipelined: 3 → 2"]
    assert changes(result_of(pipeline()), result_of()) == []


def device(copy_ms: int, compute_ms: int, **knobs: Any) -> Config:
    """A device whose copies take so long each way, and its inference so long."""
    gbps = SIZE / (copy_ms * MS)
    return Config(upload_gbps=gbps, download_gbps=gbps, compute_us=compute_ms * 1000, **knobs)


def run_pipeline(library: Path, folder: Path, config: Config, *arguments: object) -> tuple[Result, Case, Trace]:
    folder.mkdir()
    model = relu_model(folder / "relu.onnx", SIZE)
    line = (*arguments, "--iterations", 6, "--warmup", 1)
    code, result, _, errors = run_on_device(library, model, config, folder, *line)
    assert code == 0, errors
    case = next(case for case in result.cases if case.mode == PIPELINED)
    assert config.trace is not None
    return result, case, Trace.read(config.trace)


def check_every_hand_over(case: Case, trace: Trace) -> None:
    """Nothing began before what it rests on was done."""
    assert case.pipeline is not None
    depth = case.pipeline["depth"]
    data = trace.events[trace.events["bytes"] != WORD]
    for _, n, start in case.blocks["latency"]:
        items = (dropped_count(n) + n) * depth
        uploads, downloads, inferences = (begun(data, trace, kind, start) for kind in ("h2d", "d2h", "inference"))
        inferences = inferences[:items]
        # An item's inputs have arrived, and the outputs that its buffer held have left.
        assert (inferences["start_ns"] >= uploads["end_ns"][:items]).all()
        assert (inferences["start_ns"] >= downloads["end_ns"][:items]).all()
        # Its outputs leave, and the inputs for the item after next arrive, when it is done.
        assert (downloads["start_ns"][depth : depth + items] >= inferences["end_ns"]).all()
        assert (uploads["start_ns"][depth : depth + items] >= inferences["end_ns"]).all()


def begun(data: Events, trace: Trace, kind: str, start: int) -> Events:
    """What was asked for after some time, in that order."""
    numbers = trace.of(kind)["kind"][:1]
    chosen: Events = data[(data["kind"] == numbers) & (data["queued_ns"] >= start)]
    return np.sort(chosen, order="queued_ns")


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_what_a_run_says_of_its_pipeline_is_what_the_trace_says(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    config = device(2, 6, honesty=honesty, trace=tmp_path / "run" / "trace")
    result, case, trace = run_pipeline(library, tmp_path / "run", config, "--mode", PIPELINED)
    check_every_hand_over(case, trace)
    assert (case.checks["outputs"]["verdict"], case.bytes_h2d, case.bytes_d2h) == ("passed", SIZE, SIZE)
    assert case.pipeline is not None
    assert (case.pipeline["depth"], case.pipeline["items"], case.pipeline["distinct"]) == (3, 4, 4)
    assert case.sync is not None
    assert case.sync["h2d"] is not None
    assert case.sync["h2d"]["kind"] == "stream"
    assert case.samples[LATENCY] == per_item(result, trace)
    # Derived from medians of phases that hold some calls of the host's each.
    true_share = median(hidden_share(trace, span) for span in rounds(result, trace))
    assert case.value("hidden_share") == pytest.approx(true_share, abs=0.003)
    assert true_share > 0.996


def per_item(result: Result, trace: Trace) -> list[int]:
    """What samples of the pipeline are in virtual time, ns; between one and the next the clock is read once more."""
    case = next(case for case in result.cases if case.mode == PIPELINED)
    assert case.pipeline is not None
    return [round((end - start - CALL_NS) / case.pipeline["depth"]) for start, end in rounds(result, trace)]


@pytest.mark.process
@pytest.mark.parametrize(("depth", "engines"), [(1, 0), (2, 1)], ids=["one item at a time", "one engine"])
def test_where_nothing_is_hidden_the_share_is_none(depth: int, engines: int, library: Path, tmp_path: Path) -> None:
    config = device(5, 2, engines=engines, trace=tmp_path / "run" / "trace")
    line = (*modes(PIPELINED, "device-tensors"), "--depth", depth)
    result, case, trace = run_pipeline(library, tmp_path / "run", config, *line)
    check_every_hand_over(case, trace)
    assert [hidden_share(trace, span) for span in rounds(result, trace)] == [0.0] * 6
    assert case.samples[LATENCY] == per_item(result, trace)
    assert case.status == OK
    found = values(fact(result, "pipeline"))
    assert found["rate"] == pytest.approx(83.0, abs=0.15)
    assert found["speedup"] == pytest.approx(0.999, abs=0.0006)
    assert (found["base"], found["depth"]) == ("device-tensors", depth)
    assert "faster" not in fact(result, "pipeline").verdict
    assert case.value("hidden_share") == pytest.approx(0, abs=0.001)


@pytest.mark.process
def test_a_pipeline_that_hands_on_too_early_is_found_out(library: Path, tmp_path: Path) -> None:
    found = in_fork("tests.pipeline_mutants:main", relu_model(tmp_path / "relu.onnx", 4096), library)
    right = {name: wrong for name, wrong in found.items() if name.startswith("PipelinedMode")}
    assert (right, len(right), len(found)) == (dict.fromkeys(right), 4, 14)
    for name in found.keys() - right:
        said = r"(10\d\d of 1024 values of )?output y of item \d (differ|was not written)"
        assert re.match(said, found[name] or ""), name


@pytest.mark.process
def test_what_stays_on_the_host(library: Path, tmp_path: Path) -> None:
    """Of one model an output; of the other all, as the device takes none of its nodes."""
    found: list[Case] = []
    for name in ("multi_output", "fp16"):
        (tmp_path / name).mkdir()
        line = (*modes(PIPELINED, "cpu-tensors"), "--iterations", 2, "--warmup", 1)
        code, result, _, errors = run_on_device(library, MODELS / f"{name}.onnx", Config(), tmp_path / name, *line)
        assert code == 0, errors
        found += [case for case in result.cases if case.mode == PIPELINED]
    copies, none = found
    assert (copies.status, copies.checks["outputs"]["verdict"]) == ("ok", "passed")
    assert (copies.bytes_h2d, copies.bytes_d2h, none.bytes_h2d, none.bytes_d2h) == (256, 1024, None, None)
    why = "all inputs and outputs of the session are in host memory: there are no copies to hide"
    assert (none.status, none.reason) == ("unsupported", why)


@pytest.mark.process
def test_where_there_is_no_copy_to_hide(tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "cpu", "--mode", PIPELINED, "--quiet", "--out", tmp_path)
    reason = "CPUExecutionProvider computes in host memory, so there are no copies to hide behind inference"
    assert ran.error_line == f"nothing was measured: no mode that was asked for is supported ({reason})"
    assert ran.code == 1


@pytest.mark.process
@pytest.mark.parametrize(
    ("knob", "trigger", "reason"),
    [
        ("fail_upload", "60+:default", "the reference device was told to fail this upload"),
        ("fail_alloc", "2:host_accessible", r"RefDeviceHostAccessible \(HOST_ACCESSIBLE\) could not allocate 4096"),
        ("abort_run", "60:default", "the worker was ended by SIGABRT"),
        ("wrong_run", "1+:default", r"1 of 1024 values of output y of item 0 differ from session.run with CPU tensors, first at \[0\]"),
    ],
)  # fmt: skip
def test_a_failure_costs_its_mode_and_no_other(
    knob: str, trigger: str, reason: str, library: Path, tmp_path: Path
) -> None:
    config = Config(compute_us=100, trace=tmp_path / "trace", **{knob: trigger})  # type: ignore[arg-type]
    line = (*modes(PIPELINED, "cpu-tensors"), "--iterations", 5, "--warmup", 1)
    code, result, _, errors = run_on_device(library, relu_model(tmp_path / "relu.onnx", 4096), config, tmp_path, *line)
    failed, cpu = result.cases
    assert (code, failed.mode, failed.status) == (1, PIPELINED, "failed")
    assert set(Trace.read(tmp_path / "trace").failures()) == {knob}
    assert re.match(reason, failed.reason or ""), failed.reason
    assert (cpu.status, len(cpu.samples[LATENCY])) == ("ok", 5)
    assert errors.splitlines() == [f"ortbench: pipelined failed: {failed.reason}"]
