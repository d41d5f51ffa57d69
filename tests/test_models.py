"""The models of `models/`: they are what `make.py` writes, and ONNX Runtime computes what is expected of them.

tests/worker/test_loops.py compares every step of loops with what is recorded of them.
"""

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


def recorded(file: str) -> dict[str, npt.NDArray[Any]]:
    with np.load(MODELS / file) as arrays:
        return dict(arrays)


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
    session = ort.InferenceSession(MODELS / f"{name}.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, recorded(f"{name}.inputs.npz"))
    check(dict(zip(names, outputs, strict=True)), recorded(f"{name}.expected.npz"))
