"""Inputs in another library's memory: bound without a copy, and what is said where that is not so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortbench.core.errors import BadInput, Unsupported
from ortbench.model.modes import RESIDENT
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session, streams
from ortbench.worker.modes import make_mode
from ortbench.worker.proofs import check_outputs
from ortbench.worker.tensors import host_value
from tests.conftest import MODELS, ONCE, cases, measure


def opened(path: Path, body: str, library: str = "numpy") -> tuple[Any, Any, Any]:
    """A model of ONNX's text form on the CPU EP, with device-resident inputs in a library's memory."""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {body}'), path)
    target = Target(ep="cpu", input_memory=library)
    model = session.open_model(str(path), target, providers.find(target))
    data = first_run.make_data(str(path), model, Inputs())
    return model, data, make_mode(RESIDENT, model, data)


RELU = "g (float[8] x, bool[8] b) => (float[8] y) { z = Relu(x)  c = Cast<to = 1>(b)  y = Mul(z, c) }"


def test_numpy_is_not_copied(tmp_path: Path) -> None:
    _, data, made = opened(tmp_path / "m.onnx", RELU)
    check_outputs(made, None, None)
    assert made.external.same_addresses()
    found = made.check_inputs(made.external.write, None, None)
    assert (found.verified, found.evidence) == (True, "the outputs followed inputs that were written in place")
    assert np.array_equal(made.run_as_bound()[0], data.reference[0])


def test_a_copy_is_found_by_address_and_by_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copying(self: streams.ExternalInputs, spec: Any, array: Any) -> Any:
        value = host_value(spec, array.copy())
        self._held[spec.name] = array.copy(), value
        return value

    monkeypatch.setattr(streams.ExternalInputs, "wrap", copying)
    *_, made = opened(tmp_path / "m.onnx", RELU.replace("bool[8] b", "float[8] b").replace("Cast<to = 1>", "Abs"))
    assert not made.external.same_addresses()
    found = made.check_inputs(made.external.write, None, None)
    assert not found.verified
    assert found.wrong is not None


def test_what_cannot_be_told_is_not_claimed(tmp_path: Path) -> None:
    *_, made = opened(tmp_path / "m.onnx", "g (float[1] x) => (float[1] y) { y = Relu(x) }")
    found = made.check_inputs(made.external.write, None, None)
    assert (found.verified, found.wrong) == (False, None)
    assert "nothing would show" in found.evidence


@pytest.mark.process
def test_a_device_cannot_read_numpys_memory(library: Path, tmp_path: Path) -> None:
    line = ("--input-memory", "numpy", "--ep-option", "compute_us=100", *ONCE)
    found = cases(measure(MODELS / "tiny.onnx", "--ep-library", library, *line, out=tmp_path))
    assert {mode for mode, case in found.items() if case["status"] == "ok"} == {"cpu-tensors", "host-accessible"}
    reason = "numpy's arrays are in host memory, and RefDeviceExecutionProvider computes on a device"
    assert {found[mode]["reason"] for mode in ("device-tensors", "device-resident")} == {reason}


def test_cupy_is_for_cuda_alone() -> None:
    with pytest.raises(Unsupported, match=r"^cupy has no memory of the device that CPUExecutionProvider computes on$"):
        streams._cuda_index("cupy", providers.Provider("CPUExecutionProvider"))
    assert streams._cuda_index("cupy", providers.Provider("CUDAExecutionProvider", device_index=1)) == 1
    with pytest.raises(BadInput, match=r"^--input-memory no_such: it cannot be imported here: No module named"):
        streams.check("no_such")
