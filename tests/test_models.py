"""The models of `models/`: they are what `make.py` writes, and ONNX Runtime computes what is expected of them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest

from models.make import CASES, REPEATS, write
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
    # A second time the bytes are the same.
    again.mkdir()
    for name in ("decoder", "loop_on_device", "denoiser"):
        write(name, CASES[name](), again)
    files = [path.name for path in again.iterdir()]
    assert len(files) == 3 * 5 + 1
    assert [name for name in files if (made / name).read_bytes() != (again / name).read_bytes()] == []


def test_all_models_are_there_and_small() -> None:
    assert sorted(CASES) == MODEL_NAMES
    assert len(CASES) == 16
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


def test_what_a_loop_is_given_in_every_step_is_in_a_file_of_its_own() -> None:
    for name in [name for name, kind in LOOPS if kind == "loop"]:
        given = recorded(f"{name}.loop.inputs.npz")
        steps = recorded(f"{name}.loop.npz")
        changing = {
            "decoder": {"attention_mask", "position_ids"},
            "decoder_shared": {"position_ids"},
            "denoiser": {"timestep"},
        }
        for number in range(6):
            inputs, _ = step(steps, number)
            assert inputs.keys() - given.keys() == changing.get(name, set())
            check({key: inputs[key] for key in given}, given)


def test_the_chain() -> None:
    """Its file names models, inputs and outputs that are there, and the models give what is expected of it."""
    chain = tomllib.loads((MODELS / "text_to_image.toml").read_text(encoding="utf-8"))
    sessions = {stage["name"]: session(Path(stage["model"]).stem) for stage in chain["stage"]}
    links = {link["to"]: link["from"] for link in chain["link"]}
    expected = recorded("text_to_image.expected.npz")
    values = {"text.ids": expected["text/in/ids"]}
    for stage in chain["stage"]:
        name, model = stage["name"], sessions[stage["name"]]
        feedback = dict(pair.split("=") for pair in stage.get("feedback", ()))
        fills = stage.get("fill", {})
        assert set(fills.values()) <= {"step"}
        inputs = {
            value.name: values[links.get(f"{name}.{value.name}", f"{name}.{value.name}")]
            for value in model.get_inputs()
            if value.name not in {*fills, *feedback.values()}
        }
        state = {target: np.zeros((1, 4, 32, 32), np.float32) for target in feedback.values()}
        for number in range(stage.get("repeat", 1)):
            filled = {target: np.array([number], np.float32) for target in fills}
            got = outputs(model, {**inputs, **state, **filled})
            state = {target: got[source] for source, target in feedback.items()}
        values |= {f"{name}.{output}": array for output, array in got.items()}
    check({key.replace(".", "/", 1): value for key, value in values.items() if key != "text.ids"},
          {key: value for key, value in expected.items() if "/in/" not in key})  # fmt: skip
    assert chain["stage"][1]["repeat"] == REPEATS
    np.testing.assert_array_equal(expected["text/in/ids"], recorded("text_encoder.inputs.npz")["ids"])
