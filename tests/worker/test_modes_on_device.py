"""Modes on the reference device against its own trace: memory, synchronizations, and what an EP of that kind cannot do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparable import changes
from ortbench.core.errors import BENCHMARK_FAILED, DONE
from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import ASYNC, RESIDENT, USUAL_MODES
from ortbench.model.result import Case, Result
from ortbench.worker import providers
from tests import wrong_builds
from tests.conftest import modes, ortbench, since_runtime
from tests.expect import there
from tests.forks import WORKER
from tests.refdevice import MEMORIES, Config, Events, Honesty, Trace
from tests.results import fact, keys, result_of, values
from tests.truth import COPIES, differences, is_kind, recorded, relu_model, run_on_device
from tests.virtual import CALL_NS

SIZE = 1 << 16
FEW = ("--iterations", 12, "--warmup", 2)
PINNED = ("cpu-tensors-pinned", "device-tensors-pinned")
HOST, DEFAULT, SHARED = (MEMORIES.index(name) for name in ("host", "default", "host_accessible"))


def run(
    library: Path, folder: Path, *arguments: object, few: tuple[object, ...] = FEW, **knobs: Any
) -> tuple[Result, dict[str, Case], Trace]:
    config = Config(**{"trace": folder / "trace", "compute_us": 500, **knobs})
    model = relu_model(folder / "relu.onnx", SIZE)
    code, result, _, errors = run_on_device(library, model, config, folder, *arguments, *few)
    assert code == 0, errors
    assert {case.status for case in result.cases} == {"ok"}
    assert {case.checks["outputs"]["verdict"] for case in result.cases} == {"passed"}
    return result, {case.mode: case for case in result.cases}, Trace.read(folder / "trace")


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async"])
def test_copies_start_and_end_in_pinned_memory(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    result, found, trace = run(library, tmp_path, *modes("default", *PINNED), honesty=honesty)
    assert [*found] == [*USUAL_MODES, *PINNED]
    places = {
        "cpu-tensors": [(HOST, DEFAULT), (DEFAULT, HOST)],
        "device-tensors": [(HOST, DEFAULT), (DEFAULT, HOST)],
        "cpu-tensors-pinned": [(SHARED, DEFAULT), (DEFAULT, HOST)],
        "device-tensors-pinned": [(SHARED, DEFAULT), (DEFAULT, SHARED)],
        "host-accessible": [],
    }
    for mode, wanted in places.items():
        moved = SIZE if wanted else 0
        assert (found[mode].bytes_h2d, found[mode].bytes_d2h) == (moved, moved)
        for events in recorded(result, found[mode], "latency", trace):
            copies = events[is_kind(events, *COPIES) & (events["bytes"] == SIZE)]
            assert [(int(it["source"]), int(it["destination"])) for it in copies] == wanted, mode


@pytest.mark.process
def test_each_run_allocates_its_outputs_on_the_device(library: Path, tmp_path: Path) -> None:
    line = (*modes("default", *PINNED), "--dynamic-outputs")
    result, found, trace = run(library, tmp_path, *line, alignment=0)
    assert result.target["dynamic_outputs"] is True
    for mode in ("device-tensors", "device-resident", "device-tensors-pinned", "host-accessible"):
        for events in recorded(result, found[mode], "latency", trace):
            made = events[is_kind(events, "alloc") & (events["bytes"] == SIZE)]
            assert len(made) == (mode != "host-accessible"), mode


@pytest.mark.process
@pytest.mark.parametrize(
    ("outputs", "copies", "zero_copy"),
    [
        ("known", (False, False), "passed"),
        ("late", (True, True), "unclear"),
        pytest.param("preallocated", (False, True), "passed", marks=since_runtime(1, 30)),
    ],
)
def test_outputs_that_the_ep_copies_are_not_called_zero_copy(
    outputs: str, copies: tuple[bool, bool], zero_copy: str, library: Path, tmp_path: Path
) -> None:
    """An EP may learn the shape of an output when it has computed it, and so need a copy where nobody has bound memory for it, or in
    any case. The copy is part of the inference."""
    moved = dict.fromkeys(("cpu-tensors", "device-tensors"), SIZE)
    moved |= dict.fromkeys(("device-resident", "host-accessible"), 0)
    for arguments, is_copied in zip(((), ("--dynamic-outputs",)), copies, strict=True):
        folder = tmp_path / f"{len(arguments)}"
        folder.mkdir()
        result, found, trace = run(library, folder, *arguments, outputs=outputs, alignment=0)
        assert differences(result, trace) == {}
        assert {mode: (case.bytes_h2d, case.bytes_d2h) for mode, case in found.items()} == {
            mode: (size, size) for mode, size in moved.items()
        }
        assert found["host-accessible"].checks["zero_copy"]["verdict"] == zero_copy
        took = 500_000 + is_copied * Config().copy_ns("device", SIZE)
        assert set(found["device-resident"].samples["latency"]) == {took + 2 * CALL_NS}


def test_outputs_without_a_shape_are_a_change() -> None:
    assert "dynamic outputs: off → on" in changes(result_of(), result_of(target__dynamic_outputs=True))


def inferences(case: Case, trace: Trace, per_call: int) -> list[Events]:
    """The inferences of each call of a mode's blocks, in order."""
    events, found = trace.of("inference"), []
    for _, n, start in case.blocks["latency"]:
        count = (n + dropped_count(n)) * per_call
        mine = events[events["queued_ns"] >= start][:count]
        found += [mine[at : at + per_call] for at in range(0, count, per_call)]
    return found


@pytest.mark.process
def test_only_the_option_lets_runs_overlap(library: Path, tmp_path: Path) -> None:
    _, found, trace = run(library, tmp_path, *modes(RESIDENT, ASYNC), honesty="async-wait", compute_us=1000)
    waited, free = found[RESIDENT], found[ASYNC]
    assert [there(case.sync)["kind"] for case in (waited, free)] == ["run", "synchronize_outputs"]
    for one, following in pairwise(inferences(waited, trace, 1)):
        assert following["queued_ns"][0] >= one["end_ns"][0]
    for burst in inferences(free, trace, there(free.inferences_per_sample)):
        assert (burst["queued_ns"][1:] < burst["end_ns"][:-1]).all()  # asked for while the one before was going on
        assert (burst["start_ns"][1:] == burst["end_ns"][:-1]).all()


# A device whose only memory is HOST_ACCESSIBLE, as OpenVINO's EP shows Intel's CPUs: ONNX Runtime hands arrays on as they are.
ON_CPU: Any = {"cpu": True, "default_memory": False}


@pytest.mark.process
def test_the_device_modes_copy_into_the_memory_that_the_session_wants(library: Path, tmp_path: Path) -> None:
    result, found, trace = run(library, tmp_path, *modes("default", *PINNED, ASYNC), **ON_CPU)
    shared = "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
    assert result.target["memory"] == {"kind": "ep-device", "default": None, "host_accessible": shared}
    assert result.target["device"]["type"] == "CPU"
    for mode in ("cpu-tensors", "device-tensors", "device-resident", "host-accessible", "cpu-tensors-pinned"):
        for events in recorded(result, found[mode], "latency", trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] == SIZE)]
            assert len(moved) == (2 if mode == "device-tensors" else 0), mode
    assert {mode: (case.bytes_h2d, case.bytes_d2h) for mode, case in found.items()} == {
        **dict.fromkeys(("cpu-tensors", "cpu-tensors-pinned"), (None, None)),  # not known before the times are
        **dict.fromkeys(("device-tensors", "device-tensors-pinned"), (SIZE, SIZE)),
        **dict.fromkeys(("device-resident", "host-accessible", ASYNC), (0, 0)),
    }


@pytest.mark.process
def test_a_session_may_want_host_accessible_memory_though_there_is_default_memory(
    library: Path, tmp_path: Path
) -> None:
    """As `OrtEp::GetDefaultMemoryDevice` says: arrays are copied in, and outputs are arrays over what the device wrote."""
    result, found, trace = run(library, tmp_path, accessible_io=True)
    asked = trace.of("host-copy", *COPIES)["queued_ns"]
    each = {("cpu-tensors", "latency"): 1, ("device-tensors", "latency"): 2}
    each |= {("device-tensors", way): 1 for way in ("h2d", "d2h")}
    blocks = sorted(
        (start, n, (case.mode, phase))
        for case in result.cases
        for phase in case.blocks
        for _, n, start in case.blocks[phase]
    )
    for (start, n, what), (stop, *_) in pairwise(blocks):
        assert sum((asked >= start) & (asked < stop)) == each.get(what, 0) * (n + dropped_count(n)), what
    assert [(case.bytes_h2d, case.bytes_d2h) for case in found.values()] == [(None, None), (SIZE, SIZE), (0, 0), (0, 0)]
    assert found["host-accessible"].checks["zero_copy"]["verdict"] == "unclear"


@pytest.mark.process
def test_copies_that_onnx_runtime_makes_show_in_the_times(library: Path, tmp_path: Path) -> None:
    """On a GPU of this kind ONNX Runtime copies the inputs of a run with arrays."""
    result, found, _ = run(library, tmp_path, few=("--duration", 1), default_memory=False, upload_latency_us=20_000)
    cpu, copies = found["cpu-tensors"], fact(result, "copies")
    assert found["host-accessible"].checks["zero_copy"]["verdict"] == "passed"
    assert (cpu.bytes_h2d, copies.verdict, copies.mode) == (None, "measured", "cpu-tensors")
    assert values(copies)["copies"] == cpu.value("copies") == 20_000_000 + SIZE // 4 + CALL_NS
    assert "arrays" not in {code for code, *_ in keys(result)}


def device_of(library: Path, main: Mapping[str, str] | None = None, **knobs: Any) -> dict[str, Any]:
    """What `devices` says of the reference device."""
    environment = {**Config(**knobs).environ(), **(main or {})}
    ran = ortbench("devices", "--ep-library", library, "--json", "-", **environment)
    assert (ran.code, ran.err) == (0, "")
    (ep,) = (it for it in json.loads(ran.out)["eps"] if it["library"] == str(library))
    device: dict[str, Any] = ep["devices"][0]
    return device


# The sync at the end of a measurement


MODES = ("device-tensors", "device-resident", "host-accessible")
SYNCS = {"sync": "run", "async-wait": "run", "async": "synchronize_outputs"}


def measure_modes(library: Path, folder: Path, config: Config, *asked: str, **environment: str) -> tuple[int, Result]:
    folder.mkdir()
    line = (*modes(*asked), "--iterations", 40, "--warmup", 1, "--quiet")
    model = relu_model(folder / "relu.onnx", 1 << 12)
    code, result, _, _ = run_on_device(library, model, config, folder, *line, **environment)
    return code, result


@pytest.mark.process
@pytest.mark.parametrize("honesty", list(SYNCS))
def test_a_mode_whose_sync_no_longer_waits_has_failed(library: Path, tmp_path: Path, honesty: Honesty) -> None:
    trace = tmp_path / "before" / "trace"
    config = Config(compute_us=5000, honesty=honesty, trace=trace)
    code, result = measure_modes(library, tmp_path / "before", config, *MODES)
    assert (code, [case.reason for case in result.cases]) == (DONE, [None] * len(MODES))
    blocks = sorted(start for case in result.cases for it in case.blocks.values() for _, _, start in it)
    in_the_middle = int((Trace.read(trace).of("run")["queued_ns"] < blocks[len(blocks) // 2]).sum())
    config = replace(config, trace=None, later_runs=in_the_middle)
    code, result = measure_modes(library, tmp_path / "later", config, *MODES)
    assert code == BENCHMARK_FAILED
    sync = SYNCS[honesty]
    early = f"after the timed runs: the device was not done when the synchronization of inference ({sync}) returned"
    for case in result.cases:
        assert (case.status, case.samples["latency"][:1] != []) == ("failed", True), case
        # A run in HOST_ACCESSIBLE memory that nobody waits for leaves its outputs unwritten, which is found first.
        assert case.reason == early or "output" in str(case.reason), case.reason


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async", "async-old-api"])
def test_outputs_that_are_not_there_refuse_a_sync(library: Path, tmp_path: Path, honesty: Honesty) -> None:
    """Where its trials found nothing left: the host reads the outputs where the device writes them."""
    wrong = wrong_builds.build("finds_nothing_left")
    code, result = measure_modes(library, tmp_path / "wrong", Config(honesty=honesty), "host-accessible", **wrong)
    [case] = result.cases
    kind = {**SYNCS, "async-old-api": "readback"}[honesty]
    assert (code, case.checks["outputs"]["verdict"], there(case.sync)["kind"]) == (DONE, "passed", kind)


# Memory by trial: what a value and two copies show of an EP's memory decides which modes it can do

NOT_OFFERED = (
    "no device memory that can be used (no copies {} it: Data transfer implementation between source and destination device "
    "was not found.)"
)
FAILED = "RefDevice (DEFAULT) of RefDeviceExecutionProvider cannot be used: {}"


@pytest.mark.process
def test_a_trial_that_ends_the_worker_costs_the_modes_that_need_the_memory(library: Path, tmp_path: Path) -> None:
    model, config = relu_model(tmp_path / "relu.onnx", 4096), Config(abort_copy="1+:default")
    code, result, _, _ = run_on_device(library, model, config, tmp_path, "--iterations", 5, "--warmup", 1)
    why = "RefDevice (DEFAULT) of RefDeviceExecutionProvider cannot be used: the worker was ended by SIGABRT"
    assert (code, [case.reason for case in result.cases][:2]) == (1, [None, why])
    said = device_of(library, abort_copy="1+:default")["modes"]
    assert (said["cpu-tensors"], said["device-tensors"]) == (None, why)


@pytest.mark.process
@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"copies": "none"}, NOT_OFFERED.format("to and from")),
        ({"copies": "uploads"}, NOT_OFFERED.format("from")),
        ({"copies": "downloads"}, NOT_OFFERED.format("to")),
        ({"fail_alloc": "1+:default"}, FAILED.format("RefDevice (DEFAULT) could not allocate 64 bytes for 'word'")),
        ({"wrong_copy": "1+:default"}, FAILED.format("a copy to it and back gives other bytes")),
        ({"fail_download": "1+"}, FAILED.format("no copies from it: the reference device was told to fail this download")),
    ],
)  # fmt: skip
def test_memory_that_does_not_work_is_said_before_anything_is_run(
    knobs: dict[str, Any], why: str, library: Path
) -> None:
    """ONNX Runtime itself can run nothing on such an EP, as it cannot copy either."""
    said = device_of(library, **knobs)["modes"]
    assert (said["device-tensors"], said["device-resident"]) == (why, why)
    assert said["cpu-tensors"] == (why if "copies" in knobs else None)


def short_trials() -> None:
    providers.LIMIT_S = 0.5


@pytest.mark.process
def test_a_trial_that_hangs_is_ended(library: Path) -> None:
    main = {WORKER: f"{__name__}:short_trials"}
    said = device_of(library, main, fault="hang", fault_at="copy", fault_when="1+")["modes"]
    why = FAILED.format("the worker gave no answer for 0.5 s and was stopped")
    assert (said["cpu-tensors"], said["device-tensors"]) == (None, why)


@pytest.mark.process
def test_copies_inside_the_ep_are_not_called_zero_copy(library: Path, tmp_path: Path) -> None:
    """Every mode copies as much inside the EP: no times differ, and nothing is claimed."""
    result, found, _ = run(
        library, tmp_path, ha_copies=True, upload_latency_us=10_000, download_latency_us=10_000, **ON_CPU
    )
    assert found["host-accessible"].checks["zero_copy"]["verdict"] == "unclear"
    assert fact(result, "arrays").verdict == "passed"
