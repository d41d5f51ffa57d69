"""Pinned host memory: where the copies of `cpu-tensors-pinned` and `device-tensors-pinned` come from and go to, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.model.modes import USUAL_MODES
from tests.conftest import MODELS, ONCE, cases, measure, modes, ortbench
from tests.refdevice import Config, Honesty, Trace
from tests.refdevice.refdevice import MEMORIES
from tests.truth import COPIES, is_kind, recorded, relu_model, run_on_device

SIZE = 1 << 16
FAST = ("--ep-option", "compute_us=100")
PINNED = modes("default", "cpu-tensors-pinned", "device-tensors-pinned")
HOST, DEFAULT, SHARED = (MEMORIES.index(name) for name in ("host", "default", "host_accessible"))


@pytest.mark.process
@pytest.mark.parametrize("honesty", ["sync", "async"])
def test_copies_start_and_end_in_pinned_memory(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    config = Config(honesty=honesty, compute_us=100, trace=tmp_path / "trace")
    model = relu_model(tmp_path / "relu.onnx", SIZE)
    few = ("--iterations", 8, "--warmup", 2)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *few, *PINNED)
    assert code == 0, errors
    trace = Trace.read(tmp_path / "trace")
    assert [case.mode for case in result.cases] == [*USUAL_MODES, "cpu-tensors-pinned", "device-tensors-pinned"]
    places = {
        "cpu-tensors": (HOST, HOST),
        "device-tensors": (HOST, HOST),
        "cpu-tensors-pinned": (SHARED, HOST),
        "device-tensors-pinned": (SHARED, SHARED),
    }
    for mode, (source, target) in places.items():
        case = next(case for case in result.cases if case.mode == mode)
        assert (case.bytes_h2d, case.bytes_d2h, case.checks["outputs"]["verdict"]) == (SIZE, SIZE, "passed")
        for events in recorded(result, case, "latency", trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] == SIZE)]
            found = [(int(event["source"]), int(event["destination"])) for event in moved]
            assert found == [(source, DEFAULT), (DEFAULT, target)], mode
    shared = next(case for case in result.cases if case.mode == "host-accessible")
    for events in recorded(result, shared, "latency", trace):
        assert not (is_kind(events, *COPIES) & (events["bytes"] == SIZE)).any()


@pytest.mark.process
def test_an_ep_without_pinned_memory_says_so_and_measures_the_rest(tmp_path: Path) -> None:
    found = cases(measure(MODELS / "tiny.onnx", "--ep", "cpu", *PINNED, *ONCE, out=tmp_path))
    for mode in ("cpu-tensors-pinned", "device-tensors-pinned"):
        assert found[mode]["status"] == "unsupported"
        assert "offers no pinned memory (it needs none)" in found[mode]["reason"]
    assert {found[mode]["status"] for mode in USUAL_MODES} == {"ok"}


@pytest.mark.process
def test_a_pinned_mode_can_be_named_alone(library: Path, tmp_path: Path) -> None:
    arguments = [*modes("cpu-tensors-pinned", "device-resident"), "--iterations", 4, "--warmup", 1, *FAST]
    copies = ("--ep-option", "upload_latency_us=5000")  # so that its inferences are the longer ones for certain
    result = measure(MODELS / "tiny.onnx", "--ep-library", library, *arguments, *copies, out=tmp_path)
    assert list(cases(result)) == ["cpu-tensors-pinned", "device-resident"]
    resident = cases(result)["device-resident"]["metrics"]["latency"]["median"]
    pinned = cases(result)["cpu-tensors-pinned"]
    derived = pinned["metrics"]["latency"]["median"] - resident
    assert pinned["metrics"]["copies"] == {"value": derived, "ci95": None, "derived": True}


@pytest.mark.process
def test_a_wrong_output_of_a_pinned_run_is_found(library: Path, tmp_path: Path) -> None:
    arguments = ["--mode", "device-tensors-pinned", *ONCE, "--ep-option", "wrong_run=2+", *FAST]
    result = measure(MODELS / "tiny.onnx", "--ep-library", library, *arguments, out=tmp_path, code=1)
    case = cases(result)["device-tensors-pinned"]
    assert (case["status"], case["checks"]["outputs"]["verdict"]) == ("failed", "failed")


@pytest.mark.process
def test_gate_and_suite_take_it(library: Path, tmp_path: Path) -> None:
    model = MODELS / "tiny.onnx"
    live = ortbench(
        "gate", "--model", model, "--ep-library", library, "--min-speedup", "device-tensors-pinned=0.01",
        "--mode", "cpu-tensors", "--duration", 5, "--warmup", 1, *FAST, "--out", tmp_path / "gate", "--quiet",
    )  # fmt: skip
    assert live.code == 0, live.err
    file = tmp_path / "s.toml"
    file.write_text(
        f'[defaults]\nmode = ["default", "cpu-tensors-pinned", "device-tensors-pinned"]\niterations = 1\nwarmup = 1\nep = "cpu"\n[[bench]]\nmodel = "{model}"\n'
        'gate = {require-mode = ["device-tensors-pinned"]}\n'
    )
    ran = ortbench("suite", file, "--out", tmp_path / "suite")
    assert ran.code == 3, ran.err
    assert "pinned" in ran.out
