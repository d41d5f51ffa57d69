"""The models of `models/`: they are what `make.py` writes, and ONNX Runtime computes what is expected of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest

from models.make import CASES, write
from tests.conftest import MODEL_NAMES, MODELS

Arrays = Mapping[str, npt.NDArray[Any]]
LOOPS = [(name, kind) for name, make in CASES.items() for kind in make().loops]


def session(name: str) -> Any:
    return ort.InferenceSession(MODELS / f"{name}.onnx", providers=["CPUExecutionProvider"])


def outputs(session: Any, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def recorded(file: str) -> dict[str, npt.NDArray[Any]]:
    with np.load(MODELS / file) as arrays:
        return dict(arrays)


def step(arrays: Arrays, number: int) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """The inputs of one step that are not fed back, and its outputs."""
    its = {name.removeprefix(f"step{number}/"): array for name, array in arrays.items() if f"step{number}/" in name}
    inputs = {name.removeprefix("in/"): array for name, array in its.items() if name.startswith("in/")}
    return inputs, {name: array for name, array in its.items() if not name.startswith("in/")}


def check(got: Arrays, expected: Arrays) -> None:
    """Within the tolerances of models/README.md."""
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert (got[name].shape, got[name].dtype) == (array.shape, array.dtype), name
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(got[name], array, name)
        else:
            rtol, atol = (1e-2, 1e-3) if array.dtype == np.float16 else (1e-3, 1e-5)
            np.testing.assert_allclose(got[name], array, rtol, atol, err_msg=name)


@pytest.mark.process
def test_the_files_are_what_make_writes(tmp_path: Path) -> None:
    """Whatever the versions of onnx, numpy and zlib, of which the last digits and how they are packed depend."""
    made, again = tmp_path / "made", tmp_path / "again"
    subprocess.run([sys.executable, MODELS / "make.py", "--out", made], check=True)
    written = {path.name for path in made.iterdir()}
    assert written == {path.name for kind in ("onnx", "npz") for path in MODELS.glob(f"*.{kind}")}
    for path in made.glob("*.onnx"):
        assert onnx.load(path) == onnx.load(MODELS / path.name), path.name
    for path in made.glob("*.npz"):
        with np.load(path) as arrays:
            check(arrays, recorded(path.name))
    again.mkdir()
    write("decoder", CASES["decoder"](), again)
    for path in again.iterdir():
        assert path.read_bytes() == (made / path.name).read_bytes()


def test_all_models_are_there_and_small() -> None:
    assert sorted(CASES) == MODEL_NAMES
    table = (MODELS / "README.md").read_text(encoding="utf-8")
    assert [name for name in MODEL_NAMES if f"| `{name}.onnx` |" not in table] == []
    assert {path.name: path.stat().st_size for path in MODELS.iterdir() if path.stat().st_size > 150_000} == {}


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_one_run(name: str) -> None:
    check(outputs(session(name), recorded(f"{name}.inputs.npz")), recorded(f"{name}.expected.npz"))


@pytest.mark.parametrize(("name", "kind"), LOOPS)
def test_every_step_of_a_loop(name: str, kind: str) -> None:
    loop, steps, model = CASES[name]().loops[kind], recorded(f"{name}.{kind}.npz"), session(name)
    assert all(not array.any() for array in loop.state.values())
    state = dict(loop.state)
    for number in range(6):
        inputs, expected = step(steps, number)
        assert {value.name for value in model.get_inputs()} == inputs.keys() | state.keys()
        got = outputs(model, {**inputs, **state})
        check(got, expected)
        state = {target: got[source] for source, target in loop.feedback.items()}
    assert step(steps, 6) == ({}, {})
