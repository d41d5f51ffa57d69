"""Outputs bound without a shape: allocated by ORT in each run, on the device, whatever shape they turn out to have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from ortbench.analysis.comparable import changes
from ortbench.core.stats import Value
from ortbench.model.modes import DEVICE, RESIDENT, USUAL_MODES
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session
from ortbench.worker.modes import make_mode
from ortbench.worker.proofs import check_outputs
from tests.conftest import cases, measure, modes
from tests.refdevice import Config, Trace
from tests.results import measured, result_of, sentences, steady
from tests.truth import is_kind, recorded, relu_model, run_on_device

SIZE = 1 << 16
PINNED = ("cpu-tensors-pinned", "device-tensors-pinned")


def nonzero(path: Path) -> Path:
    """A model whose first output has a shape that depends on the data; the second has that of the input."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[8] x) => (int64[1, N] where, float[8] y) { where = NonZero(x)  y = Relu(x) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.process
def test_each_run_allocates_its_outputs_on_the_device(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=500, alignment=0, trace=tmp_path / "trace")
    model = relu_model(tmp_path / "relu.onnx", SIZE)
    arguments = ["--iterations", 6, "--warmup", 2, *modes("default", *PINNED), "--dynamic-outputs"]
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *arguments)
    assert code == 0, errors
    trace = Trace.read(tmp_path / "trace")
    assert result.target["dynamic_outputs"] is True
    assert {case.mode: case.status for case in result.cases} == dict.fromkeys((*USUAL_MODES, *PINNED), "ok")
    for mode, allocations in (
        ("device-tensors", 1),
        ("device-resident", 1),
        ("device-tensors-pinned", 1),
        ("host-accessible", 0),
    ):
        case = next(case for case in result.cases if case.mode == mode)
        assert case.checks["outputs"]["verdict"] == "passed"
        for events in recorded(result, case, "latency", trace):
            made = events[is_kind(events, "alloc") & (events["bytes"] == SIZE)]
            assert len(made) == allocations, mode


@pytest.mark.process
def test_on_webgpu(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ["--ep", "webgpu", "--dynamic-outputs", "--iterations", 2, "--warmup", 1]
    model = nonzero(tmp_path / "nonzero.onnx")
    found = cases(measure(model, *arguments, out=tmp_path / "out", prefix=software_gpu))
    for mode in ("device-tensors", "device-resident"):
        assert (found[mode]["status"], found[mode]["checks"]["outputs"]["verdict"]) == ("ok", "passed"), found[mode][
            "reason"
        ]
    assert (
        found["device-tensors"]["metrics"]["bytes_d2h"]["value"] == 32
    )  # NonZero stays on the CPU, and so does its output


@pytest.mark.parametrize("mode", [DEVICE, RESIDENT])
def test_a_shape_that_changes_with_the_data(mode: str, tmp_path: Path) -> None:
    target = Target(ep="cpu", dynamic_outputs=True)
    model = session.open_model(str(nonzero(tmp_path / "nonzero.onnx")), target, providers.find(target))
    data = first_run.make_data(model=model, path=str(tmp_path / "nonzero.onnx"), request=Inputs())
    made = make_mode(mode, model, data)
    check_outputs(made, None, None)
    for values in ([0, 1, 0, 0, 2, 0, 0, 3], [1] * 8, [0] * 8):
        data.arrays["x"][...] = values
        made._upload()  # type: ignore[attr-defined]
        call, a, b = made.phases()["latency"]
        call(a, b)
        where, y = made.outputs()
        assert where.tolist() == [np.flatnonzero(values).tolist()]
        assert y.tolist() == values


def test_comparisons_and_advice_know_of_it() -> None:
    plain, dynamic = result_of(), result_of(target__dynamic_outputs=True)
    assert "dynamic outputs: off → on" in changes(plain, dynamic)
    case = measured("device-resident", latency=steady([100]))
    case.speedup = Value(2.0, (1.9, 2.1))
    told = sentences(result_of(measured("cpu-tensors", latency=steady([200])), case, target__dynamic_outputs=True))
    assert any(it.startswith("Next: ortbench code ") and it.endswith(" --dynamic-outputs") for it in told)
