"""Modes on the reference device against its own trace: pinned memory, outputs without a shape, runs that nobody waits for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparable import changes
from ortbench.core.stats import Value
from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import ASYNC, RESIDENT, USUAL_MODES
from ortbench.model.result import Case, Result
from tests.conftest import modes
from tests.expect import there
from tests.refdevice import MEMORIES, Config, Events, Honesty, Trace
from tests.results import measured, result_of, sentences, steady
from tests.truth import COPIES, is_kind, recorded, relu_model, run_on_device

SIZE = 1 << 16
PINNED = ("cpu-tensors-pinned", "device-tensors-pinned")
HOST, DEFAULT, SHARED = (MEMORIES.index(name) for name in ("host", "default", "host_accessible"))


def run(library: Path, folder: Path, *arguments: object, **knobs: Any) -> tuple[Result, dict[str, Case], Trace]:
    config = Config(trace=folder / "trace", **knobs)
    line = (*arguments, "--iterations", 6, "--warmup", 2)
    code, result, _, errors = run_on_device(library, relu_model(folder / "relu.onnx", SIZE), config, folder, *line)
    assert code == 0, errors
    assert {case.status for case in result.cases} == {"ok"}
    assert {case.checks["outputs"]["verdict"] for case in result.cases} == {"passed"}
    return result, {case.mode: case for case in result.cases}, Trace.read(folder / "trace")


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async"])
def test_copies_start_and_end_in_pinned_memory(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    result, found, trace = run(library, tmp_path, *modes("default", *PINNED), honesty=honesty, compute_us=100)
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
    result, found, trace = run(library, tmp_path, *line, compute_us=500, alignment=0)
    assert result.target["dynamic_outputs"] is True
    for mode in ("device-tensors", "device-resident", "device-tensors-pinned", "host-accessible"):
        for events in recorded(result, found[mode], "latency", trace):
            made = events[is_kind(events, "alloc") & (events["bytes"] == SIZE)]
            assert len(made) == (mode != "host-accessible"), mode


def test_comparisons_and_advice_know_of_outputs_without_a_shape() -> None:
    plain, dynamic = result_of(), result_of(target__dynamic_outputs=True)
    assert "dynamic outputs: off → on" in changes(plain, dynamic)
    case = measured("device-resident", latency=steady([100]))
    case.speedup = Value(2.0, (1.9, 2.1))
    told = sentences(result_of(measured("cpu-tensors", latency=steady([200])), case, target__dynamic_outputs=True))
    assert any(it.startswith("Next: ortbench code ") and it.endswith(" --dynamic-outputs") for it in told)


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
