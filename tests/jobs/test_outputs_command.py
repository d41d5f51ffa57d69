"""Outputs of models, EPs and expected ones beside each other: figures, limits, and a lower precision that an EP chose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import ONCE, Ran, ortbench
from tests.jobs.reports import json_in
from tests.worker import saved

ROWS, INPUTS, CLASSES = 16, 64, 10
WEIGHTS = np.random.default_rng(3).standard_normal((INPUTS, CLASSES)).astype(np.float32)


def classifier(path: Path, *nodes: onnx.NodeProto, **weights: np.ndarray[Any, Any]) -> Path:
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, size])
        for name, size in (("x", INPUTS), ("logits", CLASSES))
    )
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([*nodes, helper.make_node("MatMul", ["x", "w"], ["logits"])], "g", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def gate(model: Path, baseline: Path, *arguments: object, out: Path) -> Ran:
    line = ["gate", "--model", model, "--baseline-model", baseline, "--ep", "cpu", "--mode", "cpu-tensors"]
    rest = ["--opt-level", "disable", "--max-regression", "900%", "--warmup", 1, "--duration", 2, "--out", out]
    return ortbench(*line, *rest, *arguments, COLUMNS="120")


SAMPLES = 12


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A folder of inputs, each of which has other values, and files that are none."""
    folder = tmp_path / "samples"
    folder.mkdir()
    for number in range(SAMPLES):
        x = np.random.default_rng(number).standard_normal((ROWS, INPUTS)).astype(np.float32)
        np.savez(folder / f"{number:02}.npz", x=x)
    (folder / "labels.txt").write_text("cat")
    return folder


@pytest.mark.usefixtures("clock")
def test_a_gate_says_how_far_the_outputs_of_another_model_moved(samples: Path, tmp_path: Path) -> None:
    """Over all sets of inputs of a folder; synthetic inputs tell no agreement of classes."""
    scale = np.float32(np.abs(WEIGHTS).max() / 127)
    weights = np.rint(WEIGHTS / scale).astype(np.int8)
    float32 = classifier(tmp_path / "float32.onnx", w=WEIGHTS)
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"])
    int8 = classifier(tmp_path / "int8.onnx", node, q=weights, s=np.array(scale))
    x = np.concatenate([np.load(it)["x"] for it in sorted(samples.glob("*.npz"))]).astype(np.float64)
    y, r = (x @ w.astype(np.float64) for w in (weights * scale, WEIGHTS))
    sqnr, top1 = 10 * np.log10((r**2).sum() / ((y - r) ** 2).sum()), (y.argmax(1) == r.argmax(1)).mean()
    assert 0.5 < top1 < 0.999
    verdict = tmp_path / "gate.json"
    limits = ("--limit", f"outputs.sqnr={sqnr + 1:.1f}", "--limit", "outputs.top1=50%")
    ran = gate(int8, float32, "--input", samples, "--json", verdict, *limits, out=tmp_path / "out")
    assert ran.code == 3, ran.err
    (found,) = json.loads(verdict.read_text())["candidate"]["outputs"]
    assert (found["against"], found["doubt"]) == ("baseline", None)
    (moved,) = found["distances"]
    assert (moved["inputs"], moved["top1"]) == (SAMPLES, top1)
    assert moved["sqnr"] == pytest.approx(sqnr, abs=0.05)
    assert moved["max_error"] == pytest.approx(np.abs(y - r).max(), rel=0.01)
    assert f"✗ outputs.sqnr: {moved['sqnr']:.1f} dB over 12 inputs, must be at least {sqnr + 1:.1f} dB" in ran.out
    assert "✓ outputs.top1: " in ran.out
    ran = gate(int8, float32, "--limit", "outputs.sqnr=1", "--limit", "outputs.top1=10%", out=tmp_path / "synthetic")
    assert ran.code == 4
    assert "outputs.top1: synthetic inputs do not tell it; limit 10.0%" in ran.out
    assert " over 1 input, must be at least 1.0 dB" in ran.out
    negated = classifier(tmp_path / "negated.onnx", w=-WEIGHTS)
    ran = gate(negated, float32, out=tmp_path / "negated")
    assert "the two models compute different functions" in " ".join(ran.out.split())


def test_the_sets_of_a_folder_are_compared_with_the_outputs_beside_them(samples: Path, tmp_path: Path) -> None:
    line = ("run", classifier(tmp_path / "m.onnx", w=WEIGHTS), "--ep", "cpu", "--mode", "cpu-tensors", *ONCE)
    for number in (1, 5, 7):
        y = np.load(samples / f"{number:02}.npz")["x"] @ WEIGHTS
        np.savez(samples / f"{number:02}.expected.npz", logits=y)
    ran = ortbench(*line, "--input", samples, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    (found,) = json_in(tmp_path / "out")["outputs"]
    assert (found["against"], [it["inputs"] for it in found["distances"]]) == ("--expect", [3])
    np.savez(samples / "07.expected.npz", logits=y + np.float32(9))
    ran = ortbench(*line, "--input", samples, "--out", tmp_path)
    assert (ran.code, "the outputs are not the expected ones: " in ran.error_line) == (1, True)
    np.savez(samples / "03.npz", x=np.zeros((ROWS, 3), np.float32))
    for more, said in (((), "03.npz"), (("--expect", samples / "07.expected.npz"), "has 12 sets")):
        ran = ortbench(*line, "--input", samples, *more, "--out", tmp_path)
        assert (ran.code, said in ran.error_line) == (2, True)


# A lower precision


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    return saved(tmp_path / "relu.onnx", "g (float[64,32] x) => (float[64,32] y) { y = Relu(x) }")


def test_strict_outputs_refuse_another_eps(relu: Path, library: Path, tmp_path: Path) -> None:
    eps = ("--ep", library, "--ep", "cpu", "--ep-option", f"{library}:bfloat16=1")
    ran = ortbench("run", relu, *eps, "--mode", "cpu-tensors", *ONCE, "--strict-outputs", "--out", tmp_path)
    assert ran.code == 1
    assert f"failed: the outputs of {library.stem} are not those of cpu: " in ran.error_line
    assert "a likely cause is that an EP computes in reduced precision" in ran.error_line


@pytest.fixture
def lines(relu: Path, library: Path, tmp_path: Path) -> dict[str, list[Any]]:
    """Commands that compare with expected outputs, which are ``near`` or ``far``, by the names of what they compare."""
    x = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    for name, y in (("near", np.maximum(x, 0)), ("far", np.maximum(x, 0) + np.float32(1))):
        np.savez(tmp_path / f"run-{name}.npz", y=y)
        steps: dict[str, Any] = dict.fromkeys(("step0/y", "step2/y"), y)
        np.savez(tmp_path / f"loop-{name}.npz", **steps)
        (tmp_path / name).mkdir()
        for data in ("one", "two"):
            np.savez(tmp_path / name / f"{data}.npz", x=x)
            np.savez(tmp_path / name / f"{data}.expected.npz", y=y)
    device = [relu, "--ep", library, "--ep-option", "bfloat16=1"]
    fed = ["--feedback", "y=x", "--steps", 3]
    return {
        "y": ["run", *device, "--input", "x.npz", "--expect", "run-{}.npz"],
        "y of step 0, y of step 2": ["loop", *device, *fed, "--input", "x.npz", "--expect", "loop-{}.npz"],
        "y at one, y at two": ["sweep", *device, "--data", "{}"],
    }


def test_all_kinds_are_measured_beside_expected_outputs(lines: dict[str, list[Any]], tmp_path: Path) -> None:
    for names, line in lines.items():
        for what, how in (("near", ()), ("far", ()), ("near", ("--strict-outputs",))):
            asked = [str(it).format(what) for it in line]
            out = tmp_path / f"{line[0]}-{what}{len(how)}"
            ran = ortbench(*asked, *how, "--mode", "cpu-tensors", *ONCE, "--out", out, cwd=tmp_path)
            if what == "far" or how:
                assert ran.code == 1, ran.out
                assert "the outputs are not the expected ones: " in ran.error_line
                continue
            assert (ran.code, ran.err) == (0, "")
            assert ran.out.count("is likely to compute in a lower precision: the outputs differ from the expected") == 1
            result = json_in(out)
            (found,) = result["outputs"]
            assert (found["against"], found["doubt"] is None) == ("--expect", False)
            assert ", ".join(it["name"] for it in found["distances"]) == names
            assert {case["checks"]["outputs"]["verdict"] for case in result["cases"]} == {"passed"}


def test_configurations_with_the_same_inputs_must_give_the_same_outputs(tmp_path: Path) -> None:
    """And those with others are not compared with each other."""
    model = saved(tmp_path / "model.onnx", "g (float[N] x) => (float[N] y) { y = RandomNormalLike(x) }")
    line = ("run", model, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--out", tmp_path / "out")
    ran = ortbench(*line, "--intra-op-threads", "1,2", "--dim", "N=4")
    assert "cpu-tensors failed: the outputs of intra-op-threads=2 are not those of intra-op-threads=1" in ran.err
    assert "are not those of" not in ortbench(*line, "--intra-op-threads", "1", "--dim", "N=4,8").err
