"""Mode `pipelined`: what it reports, compared with the reference device's trace, and what it refuses and survives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from ortbench.analysis.comparable import changes
from ortbench.analysis.derive import put_hidden
from ortbench.core.stats import Stats, Value
from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.services.report import action_json
from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import ASYNC, LATENCY, MODES, PIPELINED, is_rate
from ortbench.model.result import OK, Case, Result
from tests.conftest import MODELS, modes, ortbench
from tests.refdevice import HONESTY, Config, Events, Honesty, Trace
from tests.results import fact, keys, measured, result_of, sentences, steady, values
from tests.truth import hidden_share, in_fork, relu_model, rounds, run_on_device
from tests.virtual import CALL_NS

US, MS = 1_000, 1_000_000
SIZE = 1 << 16
WORD = 4  # bytes of the word that tells of an arrival


# What the figures say


def pipeline(
    h2d: int = 2 * MS, inference: int = 6 * MS, d2h: int = 2 * MS, latency: int = 6 * MS, depth: int = 3
) -> Case:
    """A pipeline whose samples of a phase are all the same."""
    times = {"h2d": h2d, "inference": inference, "d2h": d2h, "latency": latency}
    case = measured(PIPELINED, **{phase: steady([ns] * 40) for phase, ns in times.items()})
    case.pipeline = {"depth": depth, "items": 4, "distinct": 4, "host_memory": "Mem"}
    case.set_metric("copies", case.copy_ns(), derived=True)
    return case


def hidden(case: Case) -> dict[str, Value | Stats]:
    """What is found of a case."""
    put_hidden(case)
    return {key: case.metrics[key] for key in ("copies_hidden", "hidden_share") if key in case.metrics}


@pytest.mark.parametrize(
    ("times", "saved", "share"),
    [
        ((2, 6, 2, 6), 4, 1.0),  # nothing but inference is left
        ((2, 6, 2, 10), 0, 0.0),  # one after the other
        ((2, 6, 2, 7), 3, 0.75),
        ((5, 2, 5, 5), 7, 0.7),  # two copies beside each other, and the inference beside both
        ((1, 6, 2, 6), 3, 1.0),
        ((2, 6, 2, 11), 0, 0.0),  # noise cannot make less than nothing of it
        ((2, 6, 2, 5), 4, 1.0),  # nor more than all
        ((0, 6, 2, 7), 1, 0.5),  # a model whose inputs stay on the host
    ],
)
def test_what_is_hidden(times: tuple[int, int, int, int], saved: int, share: float) -> None:
    assert hidden(pipeline(*(ms * MS for ms in times))) == {
        "copies_hidden": Value(saved * MS, derived=True),
        "hidden_share": Value(share, (share, share), derived=True),
    }


def test_the_interval_of_what_is_hidden_takes_all_medians_at_their_worst_ends() -> None:
    case = pipeline(latency=7 * MS)
    for phase, width in (("h2d", 100), ("inference", 200), ("d2h", 50), ("latency", 50)):
        stats = case.stats(phase)
        assert stats is not None
        low, high = stats.median - width * US, stats.median + width * US
        case.metrics[phase] = Stats(**{**vars(stats), "ci95": (low, high)})
    assert hidden(case)["hidden_share"] == Value(0.75, (0.65, 0.85), derived=True)


@pytest.mark.parametrize("lacking", ["h2d", "inference", "d2h", "latency"])
def test_nothing_is_said_where_a_phase_was_not_timed(lacking: str) -> None:
    case = pipeline()
    del case.metrics[lacking]
    assert hidden(case) == {}


def test_nothing_is_said_of_copies_that_take_no_time() -> None:
    assert hidden(pipeline(h2d=0, d2h=0)) == {}


def test_only_the_total_of_a_pipeline_is_a_rate() -> None:
    assert [mode for mode in MODES if is_rate(mode, LATENCY)] == [PIPELINED, ASYNC]
    assert not is_rate(PIPELINED, "inference")


@pytest.mark.parametrize("ratio", [2.0, 0.9])
def test_a_rate_is_not_the_fastest_mode(ratio: float) -> None:
    case, cpu, device = (
        pipeline(),
        *(measured(it, latency=steady([12 * MS] * 8)) for it in ("cpu-tensors", "device-tensors")),
    )
    cpu.speedup, case.speedup = Value(1.0, (1.0, 1.0)), Value(ratio, (ratio - 0.1, ratio + 0.1))
    assert [it[:2] for it in keys(result_of(cpu, case)) if it[2] == PIPELINED] == []
    device.speedup = Value(1.0, (0.98, 1.02))
    assert "No mode is faster than cpu-tensors: at most 1.02×." in sentences(result_of(cpu, case, device))


def test_what_other_programs_read() -> None:
    result = result_of(pipeline())
    [outcome] = outcomes_of_run(result)
    assert outcome.text.endswith("median of 120 rounds with 3 inferences in flight, time per inference")
    extras = {entry["name"].rpartition(": ")[2]: entry["extra"] for entry in json.loads(action_json([result]))}
    wanted = "median of 120 rounds with 3 inferences in flight, time per inference, p95 –\n"
    assert extras["pipelined latency"].startswith(wanted)
    assert extras["pipelined h2d"].startswith("median of 120 samples, p95 2.00 ms\n")


def test_another_depth_is_a_change() -> None:
    assert changes(result_of(pipeline()), result_of(pipeline(depth=2))) == ["depth of pipelined: 3 → 2"]
    assert changes(result_of(pipeline()), result_of()) == []


# Against the trace


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


# Outputs


@pytest.mark.process
def test_a_pipeline_that_hands_on_too_early_is_found_out(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4096)
    found = in_fork("tests.pipeline_mutants:main", model, library)
    right = {name: wrong for name, wrong in found.items() if name.startswith("PipelinedMode")}
    assert right == dict.fromkeys(right)
    assert len(right) == 4
    mutants = {name: wrong for name, wrong in found.items() if name not in right}
    assert len(mutants) == 10
    for name, wrong in mutants.items():
        assert wrong is not None, name
        assert re.match(r"(10\d\d of 1024 values of )?output y of item \d (differ|was not written)", wrong), name


@pytest.mark.process
@pytest.mark.parametrize(
    ("model", "status", "distinct", "copied"),
    [
        ("multi_output", "ok", 4, (256, 1024)),  # one of its outputs stays in host memory
        ("fp16", "unsupported", None, (None, None)),  # the device takes none of its nodes: nothing is copied
    ],
)
def test_what_stays_on_the_host(
    model: str, status: str, distinct: int | None, copied: tuple[int | None, int | None], library: Path, tmp_path: Path
) -> None:
    arguments = (*modes(PIPELINED, "cpu-tensors"), "--iterations", 2, "--warmup", 1)
    code, result, _, errors = run_on_device(library, MODELS / f"{model}.onnx", Config(), tmp_path, *arguments)
    assert code == 0, errors
    case = next(case for case in result.cases if case.mode == PIPELINED)
    assert (case.status, case.bytes_h2d, case.bytes_d2h) == (status, *copied)
    if case.pipeline is not None:
        assert (case.checks["outputs"]["verdict"], case.pipeline["distinct"]) == ("passed", distinct)
    else:
        assert case.reason == "all inputs and outputs of the session are in host memory: there are no copies to hide"


# What cannot be done, and what fails


@pytest.mark.process
@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"fail_upload": "60+:default"}, "the reference device was told to fail this upload"),
        ({"fail_alloc": "2:host_accessible"}, r"RefDeviceHostAccessible \(HOST_ACCESSIBLE\) could not allocate 4096"),
        ({"abort_run": "60:default"}, "the worker was ended by SIGABRT"),
        (
            {"wrong_run": "1+:default"},
            r"1 of 1024 values of output y of item 0 differ from session.run with CPU tensors, first at \[0\]",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_failure_costs_the_pipeline_and_no_other(
    knobs: dict[str, str], reason: str, library: Path, tmp_path: Path
) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4096)
    config = Config(compute_us=100, trace=tmp_path / "trace", **knobs)  # type: ignore[arg-type]
    arguments = (*modes(PIPELINED, "cpu-tensors"), "--iterations", 5, "--warmup", 1)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *arguments)
    assert code == 1
    assert set(Trace.read(tmp_path / "trace").failures()) == set(knobs)
    failed, cpu = result.cases
    assert (failed.mode, failed.status) == (PIPELINED, "failed")
    assert re.match(reason, failed.reason or ""), failed.reason
    assert (cpu.status, len(cpu.samples[LATENCY])) == ("ok", 5)
    assert errors.splitlines() == [f"ortbench: pipelined failed: {failed.reason}"]


@pytest.mark.process
def test_where_there_is_no_copy_to_hide(tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "cpu", "--mode", PIPELINED, "--quiet", "--out", tmp_path)
    reason = "CPUExecutionProvider computes in host memory, so there are no copies to hide behind inference"
    assert ran.error_line == f"nothing was measured: no mode that was asked for is supported ({reason})"
    assert ran.code == 1
