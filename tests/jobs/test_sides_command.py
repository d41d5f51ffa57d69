"""`ortbench run` with lists of settings, and gates whose baseline has another one: on real models and the reference device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.conftest import ONCE, ortbench
from tests.truth import relu_model

pytestmark = pytest.mark.process

CPU = ("--ep", "cpu", "--mode", "cpu-tensors")


def results(out: Path) -> dict[str, dict[str, Any]]:
    """What the only run in a folder saved, by the names of its sides."""
    (folder,) = out.glob("[!.]*")
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/result.json"))}


def test_a_load_of_several_sides_and_one_key_given_twice(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4000)
    options = ("--ep-option", "compute_us=1000", "--ep-option", "compute_us=3000", "--mode", "device-resident")
    line = ("load", model, "--ep-library", library, *options, "--concurrency", 1, "--duration", 0.3)
    ran = ortbench(*line, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    found = results(tmp_path / "out")
    assert list(found) == ["compute_us-1000", "compute_us-3000"]
    for name, it in found.items():
        (case,) = [case for case in it["cases"] if case["point"]]  # besides one client alone
        wanted = 1000 * int(name.removeprefix("compute_us-"))
        assert it["target"]["ep_options"]["compute_us"] == str(wanted // 1000)
        assert (case["status"], case["point"]) == ("ok", {"concurrency": 1})
        assert wanted <= case["metrics"]["latency"]["median"] <= wanted + 20_000  # and the host's calls
    assert re.search(r"concurrency=1 .* throughput .* 2\.9[0-9]", ran.out)
    ran = ortbench("load", model, "--ep", "cpu", "--intra-op-threads", "1,2", "--rate", "auto", "--slo", "p99=1s")
    said = "--rate auto: configurations are compared at the same rates: give the rates"
    assert (ran.code, ran.error_line) == (2, said)


def test_sides_with_the_same_inputs_must_give_the_same_outputs(tmp_path: Path) -> None:
    """And those with others are not compared with each other."""
    model = tmp_path / "model.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = RandomNormalLike(x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    arguments = ("run", model, *CPU, *ONCE, "--out", tmp_path / "out")
    ran = ortbench(*arguments, "--intra-op-threads", "1,2", "--dim", "N=4")
    assert "cpu-tensors failed: the outputs of intra-op-threads=2 are not those of intra-op-threads=1" in ran.err
    ran = ortbench(*arguments, "--dim", "N=4,8", "--intra-op-threads", "1")
    assert "are not those of" not in ran.err
