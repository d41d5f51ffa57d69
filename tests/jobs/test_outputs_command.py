"""Outputs of models, EPs and expected ones beside each other: figures, limits, and a lower precision that an EP chose."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import ONCE, Ran, ortbench

pytestmark = pytest.mark.process

ROWS, INPUTS, CLASSES = 16, 64, 10
WEIGHTS = np.random.default_rng(3).standard_normal((INPUTS, CLASSES)).astype(np.float32)
PLAIN = ("--opt-level", "disable")  # so that no fusion quantizes more
LOWER = ("--mode", "cpu-tensors", "--mode", "device-tensors", *ONCE)


def classifier(path: Path, *nodes: onnx.NodeProto, **weights: np.ndarray[Any, Any]) -> Path:
    """A model whose logits are x·w."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, size])
        for name, size in (("x", INPUTS), ("logits", CLASSES))
    )
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    whole = [*nodes, helper.make_node("MatMul", ["x", "w"], ["logits"])]
    model = helper.make_model(
        helper.make_graph(whole, "g", [x], [y], held), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)
    return path


@pytest.fixture
def float32(tmp_path: Path) -> Path:
    return classifier(tmp_path / "float32.onnx", w=WEIGHTS)


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, np.ndarray[Any, Any]]:
    """Inputs that are real, as a file and an array."""
    x = np.random.default_rng(4).standard_normal((ROWS, INPUTS)).astype(np.float32)
    np.savez(tmp_path / "inputs.npz", x=x)
    return tmp_path / "inputs.npz", x


def int8(path: Path) -> tuple[Path, np.ndarray[Any, Any]]:
    """The same model with weights of 8 bits, and what these stand for."""
    scale = np.float32(np.abs(WEIGHTS).max() / 127)
    whole = np.rint(WEIGHTS / scale).astype(np.int8)
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"])
    return classifier(path, node, q=whole, s=np.array(scale)), whole * scale


def float16(path: Path) -> tuple[Path, np.ndarray[Any, Any]]:
    """The same model with weights of 16 bits, and what these stand for."""
    half = WEIGHTS.astype(np.float16)
    node = helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT)
    return classifier(path, node, h=half), half.astype(np.float32)


def gate(model: Path, baseline: Path, *arguments: object, out: Path) -> Ran:
    line = ["gate", "--model", model, "--baseline-model", baseline, "--ep", "cpu", "--mode", "cpu-tensors", *PLAIN]
    rest = ["--max-regression", "900%", "--warmup", 1, "--duration", 2, "--out", out, "--json", out / "gate.json"]
    out.mkdir()
    return ortbench(*line, *rest, *arguments, COLUMNS="120")


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("made", [int8, float16])
def test_a_gate_says_how_far_the_outputs_of_another_model_moved(
    made: Any, float32: Path, given: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    model, weights = made(tmp_path / "other.onnx")
    path, x = given
    y, r = (x.astype(np.float64) @ w.astype(np.float64) for w in (weights, WEIGHTS))
    sqnr = 10 * np.log10((r**2).sum() / ((y - r) ** 2).sum())
    near = f"outputs.sqnr={sqnr - 1:.1f}"
    ran = gate(model, float32, "--input", path, "--limit", near, "--limit", "outputs.top1=90%", out=tmp_path / "near")
    assert ran.code == 0, ran.out + ran.err
    verdict = json.loads((tmp_path / "near" / "gate.json").read_text())
    (found,) = verdict["candidate"]["outputs"]
    assert (found["against"], found["doubt"]) == ("baseline", None)
    (moved,) = found["distances"]
    assert moved["sqnr"] == pytest.approx(sqnr, abs=0.05)
    assert moved["max_error"] == pytest.approx(np.abs(y - r).max(), rel=0.01)
    assert moved["mean_error"] == pytest.approx(np.abs(y - r).mean(), rel=0.01)
    assert moved["cosine"] == pytest.approx((y * r).sum() / np.sqrt((y**2).sum() * (r**2).sum()), abs=1e-5)
    assert moved["top1"] == (y.argmax(axis=1) == r.argmax(axis=1)).mean()
    assert (
        f"logits {moved['sqnr']:.1f} dB".split()
        == [word for word in ran.out.split() if word in ("logits", f"{moved['sqnr']:.1f}", "dB")][:3]
    )
    assert f"✓ outputs.sqnr: {moved['sqnr']:.1f} dB, must be at least {sqnr - 1:.1f} dB" in ran.out
    assert "synthetic" not in ran.out
    far = gate(model, float32, "--input", path, "--limit", f"outputs.sqnr={sqnr + 1:.1f}", out=tmp_path / "far")
    assert far.code == 3
    assert f"✗ outputs.sqnr: {moved['sqnr']:.1f} dB, must be at least" in far.out


@pytest.mark.usefixtures("clock")
def test_limits_that_say_nothing(float32: Path, tmp_path: Path) -> None:
    ran = gate(float32, float32, "--limit", "outputs.sqnr=90", out=tmp_path / "same")
    assert ran.code == 0, ran.out + ran.err
    assert "outputs.sqnr: no output moved, must be at least 90.0 dB" in ran.out
    assert "max error" not in ran.out
    alone = ("gate", "--model", float32, "--ep", "cpu", "--mode", "cpu-tensors")
    assert ortbench(*alone, "--limit", "latency=3").error_line == (
        "--limit latency: choose from outputs.max_error, outputs.mean_error, outputs.sqnr, outputs.cosine, outputs.top1"
    )
    ran = ortbench(*alone, "--limit", "outputs.sqnr=30", "--duration", 0.2, "--out", tmp_path / "alone")
    assert (ran.code, ran.error_line.partition(":")[0]) == (2, "--limit outputs.sqnr")
    ran = gate(float32, float32, "--metric", "outputs.sqnr", out=tmp_path / "metric")
    assert ran.error_line == "--metric outputs.sqnr: it has no regression; limit it with --limit outputs.sqnr=X"


# A lower precision


def lowered(float32: Path, library: Path, *arguments: object, out: Path) -> Ran:
    eps = ("--ep", library, "--ep", "cpu", "--ep-option", f"{library}:bfloat16=1")
    return ortbench("run", float32, *eps, *LOWER, *arguments, "--out", out, COLUMNS="200")


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    """A model that the reference device takes."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[64,32] x) => (float[64,32] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "relu.onnx")
    return tmp_path / "relu.onnx"


def result(out: Path, side: str) -> dict[str, Any]:
    (path,) = out.glob(f"[!.]*/{side}*/result.json")
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def test_strict_outputs_refuse_them(relu: Path, library: Path, tmp_path: Path) -> None:
    ran = lowered(relu, library, "--strict-outputs", out=tmp_path)
    assert ran.code == 1
    assert f"failed: the outputs of {library.stem} are not those of cpu: " in ran.error_line
    assert "a likely cause is that an EP computes in reduced precision" in ran.error_line


def test_outputs_beside_expected_ones(relu: Path, library: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "y.npz", y=np.maximum(x, 0))
    np.savez(tmp_path / "far.npz", y=np.maximum(x, 0) + np.float32(1))
    line = ("run", relu, "--input", tmp_path / "x.npz", *LOWER, "--ep", library, "--ep-option", "bfloat16=1")
    ran = ortbench(*line, "--expect", tmp_path / "y.npz", "--json", "-", "--out", tmp_path / "a")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert [it["against"] for it in found["outputs"]] == ["--expect"]
    assert found["outputs"][0]["doubt"] is not None
    assert {case["checks"]["outputs"]["verdict"] for case in found["cases"]} == {"passed"}
    for refused in (("--expect", tmp_path / "y.npz", "--strict-outputs"), ("--expect", tmp_path / "far.npz")):
        ran = ortbench(*line, *refused, "--out", tmp_path / "b")
        assert ran.code == 1
        assert ran.error_line.startswith("the outputs are not the expected ones: ")


def test_loops_chains_and_sweeps_are_measured_beside_expected_ones_too(
    relu: Path, library: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    y = np.maximum(x, 0)
    np.savez(tmp_path / "x.npz", x=x)
    for name, far in (("near", 0), ("far", 1)):
        wanted: dict[str, Any] = {"step0/y": y + np.float32(far), "step2/y": y + np.float32(far)}
        np.savez(tmp_path / f"loop-{name}.npz", **wanted)
        wanted = {"b/y": y + np.float32(far)}
        np.savez(tmp_path / f"chain-{name}.npz", **wanted)
        (tmp_path / name).mkdir()
        for data in ("one", "two"):
            np.savez(tmp_path / name / f"{data}.npz", x=x)
            np.savez(tmp_path / name / f"{data}.expected.npz", y=y + np.float32(far))
    stage = f'[[stage]]\nname = "NAME"\nmodel = "{relu}"\nep = "{library}"\nep-option = {{bfloat16 = "1"}}\n'
    stages = f'{stage.replace("NAME", "a")}input = "{tmp_path}/x.npz"\n{stage.replace("NAME", "b")}'
    (tmp_path / "chain.toml").write_text(f'{stages}[[link]]\nfrom = "a.y"\nto = "b.x"\n')
    on_device = ("--ep", library, "--ep-option", "bfloat16=1")
    lines: list[tuple[Any, ...]] = [
        ("loop", relu, *on_device, "--input", tmp_path / "x.npz", "--feedback", "y=x", "--steps", 3, "--expect", "loop-{}.npz"),
        ("chain", tmp_path / "chain.toml", "--expect", "chain-{}.npz"),
        ("sweep", relu, *on_device, "--data", "{}"),
    ]  # fmt: skip
    for line in lines:
        for name in ("near", "far", "strict"):
            how = ["--strict-outputs"] if name == "strict" else []
            what = "far" if name == "far" else "near"
            asked = [str(it).format(what) for it in line]
            ran = ortbench(*asked, *how, "--mode", "cpu-tensors", *ONCE, "--out", f"{line[0]}-{name}", cwd=tmp_path)
            if name != "near":
                assert ran.code == 1, ran.out
                assert "the outputs are not the expected ones: " in ran.error_line
                continue
            assert (ran.code, ran.err) == (0, "")
            assert (
                ran.out.count(
                    "is likely to compute in a lower precision: the outputs differ from the expected ones by up to "
                )
                == 1
            )
            assert re.search(r"^compared with +output +max error", ran.out, re.MULTILINE)
            (path,) = (tmp_path / f"{line[0]}-{name}").glob("*/result.json")
            (found,) = json.loads(path.read_text())["outputs"]
            assert found["against"] == "--expect"
            assert found["doubt"] is not None
            names = {
                "loop": ["y of step 0", "y of step 2"],
                "chain": ["b.y"],
                "sweep": ["y at one", "y at two"],
            }
            assert [it["name"] for it in found["distances"]] == names[line[0]]
