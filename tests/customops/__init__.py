"""A library of custom operators, models that have some, and packages that bring the library."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper

from tests.compiling import compile_library

DOMAIN = "ortbench.tests"
_SOURCE = Path(__file__).with_name("customops.c")


def build(folder: Path) -> Path:
    """Compile the library; see `compile_library`."""
    return compile_library("the library of custom operators", [_SOURCE], folder)


def save(path: Path, op: str = "Twice", domain: str = DOMAIN, inside: bool = False) -> Path:
    """Save a model that adds what a custom operator makes of its input, which may lie in a branch, to that."""
    node = helper.make_node(op, ["x"], ["t"], domain=domain)
    nodes = [node]
    if inside:
        branch = helper.make_graph(
            [node], "branch", [], [helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, None)]
        )
        always = helper.make_tensor("always", onnx.TensorProto.BOOL, [], [True])
        nodes = [
            helper.make_node("Constant", [], ["c"], value=always),
            helper.make_node("If", ["c"], ["t"], then_branch=branch, else_branch=branch),
        ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 8]) for name in "xy")
    graph = helper.make_graph([*nodes, helper.make_node("Add", ["t", "x"], ["y"])], "graph", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def put_package(site: Path, name: str, code: str) -> None:
    """A package that consists of some code, in a folder of packages."""
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").write_text(code, encoding="utf-8")


def package_of(library: Path) -> str:
    """The code of a package that brings a library."""
    return f"def get_library_path():\n    return {str(library)!r}\n"
