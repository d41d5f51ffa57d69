"""Dimensions as models of other projects have them: without a name, or with odd characters in it or in that of the input."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import ortbench as api
from ortbench.model.result_file import load
from tests.conftest import ONCE, ortbench

pytestmark = pytest.mark.process


def relu(path: Path, name: str, *dims: int | str | None) -> Path:
    """A Relu whose input has this name and these dimensions."""
    tensors = [helper.make_tensor_value_info(it, TensorProto.FLOAT, dims) for it in (name, "y")]
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "relu", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("name", "dim", "called"),
    [
        ("serving_default_input_2:0", None, "serving_default_input_2:0[0]"),
        ("a=b", None, "a=b[0]"),
        ("a, b", "?", "?"),
    ],
)
def test_a_sweep_by_the_name_that_inspect_prints(name: str, dim: str | None, called: str, tmp_path: Path) -> None:
    model = relu(tmp_path / "m.onnx", name, dim, 9)
    assert f"[{called}, 9] as 1x9" in ortbench("inspect", model, COLUMNS="200").out
    line = ("--ep", "cpu", "--mode", "cpu-tensors", "--dim", f"{called}=1000,2000", "--items", called, *ONCE)
    ran = ortbench("sweep", model, *line, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    (file,) = (tmp_path / "out").glob("*/result.json")
    result = load(file)
    assert result.axes == [{"name": called, "unit": "elements", "values": [1000, 2000]}]
    assert [it.items for it in result.shapes] == [{"count": size, "dim": called} for size in (1000, 2000)]


def test_sizes_of_dimensions_without_names_in_python(tmp_path: Path) -> None:
    model = relu(tmp_path / "m.onnx", "m", None, 9)
    result = api.run(model, ep="cpu", modes="cpu-tensors", dim={"m[0]": 4}, items="m[0]", iterations=1, warmup=0)
    assert result.model["inputs"][0]["shape"] == [4, 9]
    assert result.items == {"count": 4, "dim": "m[0]"}
