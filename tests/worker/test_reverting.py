"""A change that is taken back: the copy is the baseline's model where the whole edit is, and one part of it where a part is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.features.why.worker import revert
from ortbench.worker import State
from tests.gate.edited import CONVS, EDITS, Edit, Net

pytestmark = pytest.mark.process


def taken_back(base: Path, own: Path, nodes: list[str], base_nodes: list[str]) -> Path:
    folder = own.parent / "reverted"
    folder.mkdir()
    return Path(revert(State(), str(own), str(base), nodes, base_nodes, str(folder))["path"])


def names(path: Path) -> list[str]:
    return [node.name for node in onnx.load(path).graph.node]


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def output(path: Path) -> np.ndarray:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    [given] = session.get_inputs()
    data = np.random.default_rng(2).standard_normal(given.shape).astype(np.float32)
    [found] = session.run(None, {given.name: data})
    return np.asarray(found)


def check_copy(copy: Path, base: Path) -> None:
    """That a copy is the baseline; of a weight that nothing reads ONNX Runtime refuses the model, if that is an old one."""
    graph = onnx.load(copy).graph
    assert operators(copy) == operators(base)
    assert {it.name for it in graph.initializer} <= {name for node in graph.node for name in node.input}
    assert output(copy).shape == output(base).shape


@pytest.mark.parametrize("edit", EDITS[::3], ids=lambda edit: edit.name.replace(" ", "-"))
def test_an_edit_that_is_taken_back_leaves_the_baseline(edit: Edit, tmp_path: Path) -> None:
    base, own = edit.base.save(tmp_path / "base.onnx"), edit.own.save(tmp_path / "own.onnx")
    copy = taken_back(base, own, names(own), names(base))
    check_copy(copy, base)
    if not any(it.startswith(("conv", "matmul", "gemm")) for it in edit.own.layers):  # whose weights are random
        np.testing.assert_allclose(output(copy), output(base), rtol=1e-3, atol=1e-4)


def test_of_two_edits_one_is_taken_back(tmp_path: Path) -> None:
    net = CONVS.insert(6, "Sin").insert(2, "Softplus", "Softplus")
    base, own = CONVS.save(tmp_path / "base.onnx"), net.save(tmp_path / "own.onnx")
    left = operators(taken_back(base, own, ["Softplus_0"], []))
    assert (left["Softplus"], left["Sin"]) == (0, 1)


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (CONVS, "the nodes are the same in both models' files"),
        (Net((1, 16, 64, 64), [*CONVS.layers, "Sin"], opset=18), "the models have other opsets"),
    ],
)
def test_what_cannot_be_taken_back_says_why(own: Net, reason: str, tmp_path: Path) -> None:
    base, other = CONVS.save(tmp_path / "base.onnx"), own.save(tmp_path / "own.onnx")
    with pytest.raises(BenchmarkFailed, match=reason):
        taken_back(base, other, names(other), names(base))


@pytest.mark.parametrize("location", ["weights.bin", "own.onnx", "data/own.onnx", 140 * "w"])
def test_a_copy_leaves_every_file_as_it_was(location: str, tmp_path: Path) -> None:
    """Also where a weight lies in a file of the model's own name, or in the model's file, and files have second names."""
    base, own = CONVS.save(tmp_path / "base.onnx"), CONVS.insert(2, "Softplus").save(tmp_path / "own.onnx")
    model, data = onnx.load(own), tmp_path / location
    weight = min(model.graph.initializer, key=lambda it: len(it.raw_data))
    data.parent.mkdir(exist_ok=True)
    if data != own:
        data.write_bytes(weight.raw_data)
    onnx.external_data_helper.set_external_data(weight, location, 0, len(weight.raw_data))
    weight.ClearField("raw_data")
    onnx.save(model, own)
    for place, file in enumerate({own, data}):
        (tmp_path / f"second-{place}").hardlink_to(file)
    before = {it: it.read_bytes() for it in tmp_path.rglob("*") if it.is_file()}
    copy = taken_back(base, own, ["Softplus_0"], [])
    check_copy(copy, base)
    assert {it: it.read_bytes() for it in before} == before
    with pytest.raises(BenchmarkFailed, match=r"no copy of .* can be made: .*File exists"):
        revert(State(), str(own), str(base), ["Softplus_0"], [], str(copy.parent.parent))
