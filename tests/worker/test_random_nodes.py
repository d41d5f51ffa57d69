"""Outputs that differ because the model draws them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from ortbench.worker.tensors import random_nodes, random_nodes_note
from tests.conftest import ortbench

HEAD = '<ir_version: 8, opset_import: ["" : 17, "f" : 1, "com.microsoft" : 1]>'
NONE = "(float[4] x, bool t) => (float[4] y) { y = Relu(x) }"


def model(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} g {body}")


INSIDE = """(float[4] x, bool c) => (float[4] y) <bool t = {0}> { y = If (c) <
    then_branch = a () => (float[4] p) { p = RandomUniformLike(x) }, else_branch = b () => (float[4] q) { q = Dropout(x, , t) }> }"""
NOISY = """(float[4] x) => (float[4] y) { y = f.noisy(x) }
    <domain: "f", opset_import: ["" : 17]> noisy (a) => (b) { r = RandomNormalLike(a) b = Add(a, r) }"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (NONE, []),
        ("(float[4] x) => (float[4] y) { y = RandomNormal<shape=[4]>() }", ["RandomNormal 'y'"]),
        ("(float[4] x) => (float[4] y) { y = RandomNormalLike<seed=1.0>(x) }", ["RandomNormalLike 'y'"]),
        ("(float[4] x) => (float[4] y) { y = RandomUniform<shape=[4]>() }", ["RandomUniform 'y'"]),
        ("(float[4] x) => (float[4] y) { y = RandomUniformLike(x) }", ["RandomUniformLike 'y'"]),
        ("(float[4] x) => (float[4] y) { y = Bernoulli(x) }", ["Bernoulli 'y'"]),
        ("(float[1, 4] x) => (int32[1, 3] y) { y = Multinomial<sample_size=3>(x) }", ["Multinomial 'y'"]),
        # Dropout: a flag that is no constant may be true in a run.
        ("(float[4] x) => (float[4] y) { y = Dropout(x) }", []),
        ("(float[4] x) => (float[4] y) <bool t = {1}> { y = Dropout(x, , t) }", ["Dropout 'y'"]),
        ("(float[4] x) => (float[4] y) <bool t = {0}> { y = Dropout(x, , t) }", []),
        ("(float[4] x) => (float[4] y) { t = Constant<value = bool {1}>() y = Dropout(x, , t) }", ["Dropout 'y'"]),
        ("(float[4] x) => (float[4] y) { t = Constant<value = bool {0}>() y = Dropout(x, , t) }", []),
        ("(float[4] x, bool t) => (float[4] y) { y = Dropout(x, , t) }", ["Dropout 'y'"]),
        ("(float[4] x) => (float[4] y) { z = Relu(x) y = f.RandomNormal(z) }", []),  # another one of that name
        (INSIDE, ["RandomUniformLike 'p'"]),
        (NOISY, ["RandomNormalLike 'r' in function noisy"]),
    ],
)
def test_random_nodes_are_found(body: str, found: list[str]) -> None:
    assert list(random_nodes(model(body))) == found


def test_many_are_counted(tmp_path: Path) -> None:
    many = " ".join(f"n{i} = RandomNormalLike(x)" for i in range(7))
    onnx.save(
        model(f"(float[4] x) => (float[4] y) {{ {many} y = Sum(n0, n1, n2, n3, n4, n5, n6) }}"), tmp_path / "m.onnx"
    )
    assert "'n4' and 2 more (" in random_nodes_note(str(tmp_path / "m.onnx"))


@pytest.mark.process
def test_the_error_names_them(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model("(float[4] x) => (float[4] y) { r = RandomNormalLike(x) y = Add(x, r) }"), path)
    once = ("--ep", "cpu", "--iterations", 1, "--warmup", 0, "--out", tmp_path / "out")
    ran = ortbench("run", path, *once)
    assert ran.code == 1
    said = "; the model has random nodes, which draw anew in each inference: RandomNormalLike 'r' (a seed makes"
    assert len(ran.err.splitlines()) == 4
    assert all("values of output" in line and said in line for line in ran.err.splitlines())
    np.savez(tmp_path / "out.npz", y=np.zeros(4, np.float32))
    expected = ortbench("run", path, *once, "--expect", tmp_path / "out.npz")
    assert expected.code == 1
    assert "not the expected ones" in expected.error_line
    assert said in expected.error_line
