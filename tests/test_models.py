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

from models.make import CASES, REPEATS, run_loop, write
from models.parts import Case
from tests.conftest import MODEL_NAMES, MODELS

Arrays = Mapping[str, npt.NDArray[Any]]
LOOPS = [(name, kind) for name, make in CASES.items() for kind in make().loops]
DECODERS = {f"present.0.{kind}": f"past_key_values.0.{kind}" for kind in ("key", "value")}


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


@pytest.mark.parametrize(("name", "kind"), LOOPS)
def test_a_step_depends_on_those_before_it(name: str, kind: str) -> None:
    """A loop that hands on nothing, or only lengths, has other outputs, beyond the tolerances, in every step but the first."""
    case = CASES[name]()
    loop, steps = case.loops[kind], recorded(f"{name}.{kind}.npz")
    forgetful = {
        number: outputs(session(name), {**step(steps, number)[0], **_zeros(step(steps, number - 1)[1], loop.feedback)})
        for number in range(1, 6)
    }
    for number, got in forgetful.items():
        for output, array in step(steps, number)[1].items():
            assert not np.allclose(got[output], array, 1e-3, 1e-5), (output, number)


def _zeros(before: Arrays, feedback: Mapping[str, str]) -> dict[str, npt.NDArray[Any]]:
    return {target: np.zeros_like(before[source]) for source, target in feedback.items()}


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


def test_what_changes_from_step_to_step() -> None:
    growing, shared, denoiser = (recorded(f"{name}.loop.npz") for name in ("decoder", "decoder_shared", "denoiser"))
    for number in range(6):
        inputs, _ = step(growing, number)
        np.testing.assert_array_equal(inputs["attention_mask"], np.ones((1, number + 1), np.int64))
        np.testing.assert_array_equal(inputs["position_ids"], [[number]])
        np.testing.assert_array_equal(step(shared, number)[0]["position_ids"], [[number]])
        np.testing.assert_array_equal(step(denoiser, number)[0]["timestep"], np.array([number], np.float32))


def test_both_caches_give_the_same() -> None:
    growing, shared = recorded("decoder.loop.npz"), recorded("decoder_shared.loop.npz")
    for number in range(6):
        (inputs, grown), (_, written) = step(growing, number), step(shared, number)
        np.testing.assert_array_equal(inputs["input_ids"], shared[f"step{number}/in/input_ids"])
        np.testing.assert_allclose(grown["logits"], written["logits"], 1e-3, 1e-5)
        for name in DECODERS:
            np.testing.assert_allclose(grown[name], written[name][:, :, : number + 1], 1e-3, 1e-5)
            assert not written[name][:, :, number + 1 :].any()


def test_a_prompt_at_once_gives_what_its_tokens_give_one_by_one() -> None:
    model, ids = session("decoder"), recorded("decoder.prefill.npz")["step0/in/input_ids"]
    at_once = recorded("decoder.prefill.npz")
    state = {name: np.zeros((1, 2, 0, 16), np.float32) for name in DECODERS.values()}
    for number in range(5):
        inputs = {
            "input_ids": ids[:, number : number + 1],
            "attention_mask": np.ones((1, number + 1), np.int64),
            "position_ids": np.array([[number]], np.int64),
        }
        got = outputs(model, {**inputs, **state})
        np.testing.assert_allclose(got["logits"], at_once["step0/logits"][:, number : number + 1], 1e-3, 1e-5)
        state = {target: got[source] for source, target in DECODERS.items()}
    for source, target in DECODERS.items():
        np.testing.assert_allclose(state[target], at_once[f"step0/{source}"], 1e-3, 1e-5)


def test_padding_on_the_left_changes_nothing() -> None:
    """The second sentence of the recorded inputs is two tokens shorter than the first."""
    inputs, expected = recorded("decoder.inputs.npz"), recorded("decoder.expected.npz")
    alone = {name: array[1:] for name, array in inputs.items()}
    assert list(alone["attention_mask"][0]) == [0, 0, *[1] * 7]
    alone["attention_mask"] = alone["attention_mask"][:, 2:]
    for name in DECODERS.values():
        alone[name] = alone[name][:, :, 2:]
    np.testing.assert_allclose(outputs(session("decoder"), alone)["logits"], expected["logits"][1:], 1e-3, 1e-5)


def test_past_and_present_of_the_shared_cache_may_be_one_buffer() -> None:
    model, steps = session("decoder_shared"), recorded("decoder_shared.loop.npz")
    caches = {source: ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 2, 64, 16), np.float32)) for source in DECODERS}
    addresses = {source: cache.data_ptr() for source, cache in caches.items()}
    for number in range(6):
        inputs, expected = step(steps, number)
        binding = model.io_binding()
        for name, array in inputs.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("logits")
        for source, target in DECODERS.items():
            binding.bind_ortvalue_input(target, caches[source])
            binding.bind_ortvalue_output(source, caches[source])
        model.run_with_iobinding(binding)
        got = dict(zip(("logits", *DECODERS), binding.get_outputs(), strict=True))
        assert {source: got[source].data_ptr() for source in DECODERS} == addresses
        check({name: value.numpy() for name, value in got.items()}, expected)


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


def test_what_a_loop_records() -> None:
    """Two steps of a model that is understood at sight: what is fed back is not among a step's inputs."""
    case: Case = CASES["loop_on_device"]()
    x = np.full((1, 65536), 0.5, np.float32)
    loop = case.loops["loop"]._replace(steps=[{"x": x}, {"x": -x}])
    found = run_loop(case.model, loop)
    assert list(found) == [f"step{n}/{name}" for n in (0, 1) for name in ("in/x", "state_out", "y")]
    np.testing.assert_array_equal(found["step0/state_out"], x)
    np.testing.assert_array_equal(found["step1/state_out"], -x / 2)
    np.testing.assert_array_equal(found["step1/y"], np.full((1, 16384), -0.25 * 1.125, np.float32))
    assert loop.unchanging() == {}
