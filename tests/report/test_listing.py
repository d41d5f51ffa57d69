"""What `ortbench inspect` says of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.conftest import MODELS, ortbench

pytestmark = pytest.mark.process


BRANCHES = """(bool c, float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> {
    y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) {
        k = Constant <value = float[3] {1.0, 2.0, 3.0}> ()
        s = ReduceSum (k)
        b = Mul (w, s)
    }>
}"""
LONGER = "(float[n] x) => (float[n] y) { one = Constant <value = float[1] {1.0}> () y = Concat <axis = 0> (x, one) }"
TOKENS = ("input_ids", "token_type_ids", "attention_mask")


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("transformer_ids.onnx", ["--dim", "batch=2"], {
            "inputs": [(name, "tensor(int64)", [2, 1], 16) for name in TOKENS],
            "outputs": [("hidden_state", "tensor(float)", [2, 1, 32], 256)],
            "bytes_in": 48, "bytes_out": 256, "guessed_dims": ["sequence"], "opsets": {"ai.onnx": 17},
        }),
        # A mask over the cache and the new token is as long as the cache that comes out.
        ("decoder.onnx", [], {"guessed_dims": ["batch", "sequence", "past_length"]}),
        # A model whose output is always longer keeps 1.
        (LONGER, [], {
            "inputs": [("x", "tensor(float)", [1], 4)], "outputs": [("y", "tensor(float)", [2], 8)], "guessed_dims": ["n"],
        }),
        (BRANCHES, [], {
            "operators": {"If": 1, "Relu": 1, "Constant": 1, "ReduceSum": 1, "Mul": 1}, "parameters_bytes": 8 + 12,
            "inputs": [("c", "tensor(bool)", [], 1), ("x", "tensor(float)", [2], 8)],
        }),
    ],
    ids=["transformer", "decoder", "longer", "branches"],
)  # fmt: skip
def test_what_inspect_says(model: str, options: list[str], expected: dict[str, Any], tmp_path: Path) -> None:
    path = MODELS / model if model.endswith(".onnx") else tmp_path / "m.onnx"
    if path.parent == tmp_path:
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {model}'), path)
    found = json.loads(ortbench("inspect", path, *options, "--json", "-").out)
    shapes = {it["name"]: it["shape"] for it in (*found["inputs"], *found["outputs"])}
    for way in ("inputs", "outputs"):
        found[way] = [(it["name"], it["type"], it["shape"], it["bytes"]) for it in found[way]]
    assert {key: found[key] for key in expected} == expected
    if model == "decoder.onnx":
        names = ("attention_mask", "past_key_values.0.key", "present.0.key")
        assert [shapes[name] for name in names] == [[1, 2], [1, 2, 1, 16], [1, 2, 2, 16]]
