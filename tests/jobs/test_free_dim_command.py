"""`--free-dim` in every command that takes it: what is measured, what is said of it, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tests.conftest import MODELS, measure, ortbench
from tests.environments import with_onnxruntime_alone

pytestmark = pytest.mark.process

TEXT = "g (float[1,6,8] x) => (float[1,6,2,4] y) <int64[4] s = {1,6,2,4}> { a = Relu(x) y = Reshape(a, s) }"
CPU = ("--ep", "cpu", "--iterations", 3, "--warmup", 1)
FREE = ("--free-dim", "x:0=batch")
SAID = (
    "a copy of the model was measured, in which x:0 is batch (fixed at 1); changed for it: Reshape 'y'; verified: with "
    "batch=1 its outputs are those of the model"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """With a fixed batch, which a Reshape pins."""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {TEXT}'), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_run_is_of_the_copy_and_its_result_says_so(model: Path, tmp_path: Path) -> None:
    found = measure(model, *CPU, *FREE, "--dim", "batch=3", out=tmp_path / "out")
    assert found["model"]["path"] == str(model)
    assert found["model"]["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert found["model"]["freed"] == {
        "dims": [{"input": "x", "axis": 0, "size": 1, "name": "batch"}], "nodes": ["Reshape 'y'"],
    }  # fmt: skip
    assert [(it["model_shape"], it["shape"]) for it in (*found["model"]["inputs"], *found["model"]["outputs"])] == [
        (["batch", 6, 8], [3, 6, 8]), (["batch", 6, 2, 4], [3, 6, 2, 4]),
    ]  # fmt: skip
    assert found["target"]["free_dims"] == {"x:0": "batch"}
    assert found["items"] == {"count": 3, "dim": "batch"}
    assert {"code": "dims-freed", "message": SAID} in found["warnings"]
    assert {case["status"] for case in found["cases"]} <= {"ok", "unsupported"}


def test_a_fixed_batch_is_named_with_what_frees_it(model: Path) -> None:
    ran = ortbench("run", model, "--ep", "cpu", "--dim", "batch=8")
    assert (ran.code, ran.err) == (
        2,
        "ortbench: --dim batch: the model has no symbolic dimension; to free dimension 0 "
        "of x, fixed at 1, in a copy of the model: add --free-dim x:0=batch\n",
    )
    ran = ortbench("run", model, "--ep", "cpu", "--shape", "x:8x6x8")
    assert ran.err == (
        "ortbench: --shape x: 8x6x8 does not fit 1x6x8: the model fixes 1 (to free it: --free-dim x:0=NAME)\n"
    )


def test_a_run_that_only_another_size_breaks_is_refused(tmp_path: Path) -> None:
    dims = [word for name in ("input_ids", "position_ids", "past_key_values.0.key", "past_key_values.0.value")
            for word in ("--free-dim", f"{name}:0=batch")]  # fmt: skip
    ran = ortbench("run", MODELS / "decoder_shared.onnx", *CPU, *dims, "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("ortbench: --free-dim: the copy does not run with batch=2: ")
    assert not list((tmp_path / "out").glob("[!.]*"))


def test_every_command_measures_the_copy(model: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    lines: dict[str, list[Any]] = {
        "sweep": ["sweep", model, *CPU, "--dim", "batch=1,4"],
        "load": ["load", model, "--ep", "cpu", "--concurrency", 1, "--duration", 0.2, "--dim", "batch=2"],
        "profile": ["profile", model, "--ep", "cpu", "--iterations", 3, "--dim", "batch=2", "--attach-only"],
        "gate": ["gate", "--model", model, *CPU[:2], "--max-cpu-nodes", 9, "--duration", 0.2, "--dim", "batch=2"],
    }
    for name, line in lines.items():
        ran = ortbench(*line, *FREE, *out, "--json", tmp_path / f"{name}.json")
        assert ran.code == 0, (name, ran.err)
        assert '"free_dims"' in (tmp_path / f"{name}.json").read_text() or name == "gate", name
    loop = tmp_path / "l.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,8] s) => (float[1,8] t) { t = Relu(s) }'
    onnx.save(onnx.parser.parse_model(text), loop)
    more = ("--feedback", "t=s", "--steps", 2, "--free-dim", "s:0=batch", "--dim", "batch=2")
    ran = ortbench("loop", loop, *CPU, *more, *out, "--json", tmp_path / "loop.json")
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "loop.json").read_text())
    assert found["model"]["inputs"][0]["shape"] == [2, 8]


def test_compare_says_that_one_is_of_a_copy(model: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    measure(model, *CPU, out=plain)
    measure(model, *CPU, *FREE, out=tmp_path / "freed")
    folders = [next(it.glob("[!.]*")) for it in (plain, tmp_path / "freed")]
    ran = ortbench("compare", *folders, COLUMNS="200")
    assert re.search(r"\nmode +metric +default +x:0=batch +ratio ", ran.out)
    assert "• what differs (default → x:0=batch): freed dimensions: none → x:0 batch" in ran.out


def test_inspect_shows_the_copy_and_says_fixed_and_symbolic(model: Path) -> None:
    ran = ortbench("inspect", model, COLUMNS="200")
    assert "x  tensor(float)  1x6x8, 192 B (all fixed)" in ran.out
    assert "dimension 0 of x, fixed at 1; to measure batches with a copy of the model in which it is free:" in ran.out
    assert f"ortbench sweep {model} --free-dim x:0=batch --dim batch=1,8\n" in ran.out
    ran = ortbench("inspect", model, "--ep", "cpu", COLUMNS="200")
    assert f"ortbench sweep {model} --ep cpu --free-dim x:0=batch --dim batch=1,8\n" in ran.out
    assert "Memcpy" not in ran.out
    ran = ortbench("inspect", model, *FREE, "--dim", "batch=2", COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    assert "x  tensor(float)  [batch, 6, 8] as 2x6x8, 384 B (axis 0 symbolic; axes 1, 2 fixed)" in ran.out
    assert "a copy of the model was shown, in which x:0 is batch" in ran.out
    found = json.loads(ortbench("inspect", model, *FREE, "--json", "-").out)
    assert (found["path"], found["freed"]["nodes"]) == (str(model), ["Reshape 'y'"])


def test_code_says_why_it_takes_none(model: Path) -> None:
    ran = ortbench("code", model, "--mode", "cpu-tensors", *FREE)
    assert ran.code == 2
    assert "writes a program for the model as it is" in ran.err


def test_weights_beside_the_model_and_a_suite(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    made = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }')  # fmt: skip
    made.graph.initializer.append(weights)
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    suite = tmp_path / "s.toml"
    suite.write_text(
        '[[bench]]\nmodel = "m.onnx"\nep = "cpu"\niterations = 3\nfree-dim = {"x:0" = "batch"}\ndim = {batch = 4}\n'
    )
    ran = ortbench("suite", suite, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    (file,) = (tmp_path / "out").glob("*/result.json")
    assert json.loads(file.read_text())["model"]["inputs"][0]["shape"] == [4, 64]


@pytest.mark.wide
def test_an_environment_without_onnx_measures_the_copy(model: Path, tmp_path: Path) -> None:
    bare = with_onnxruntime_alone(tmp_path / "bare")
    found = measure(model, *CPU, *FREE, "--dim", "batch=3", "--python", bare.python, out=tmp_path / "out")
    assert found["model"]["outputs"][0]["shape"] == [3, 6, 2, 4]
    assert found["environment"]["onnxruntime"] == onnxruntime.__version__
