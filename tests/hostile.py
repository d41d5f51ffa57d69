"""Names that somebody could give a model, its tensors, nodes and dimensions, a suite or a file, and a model that has them."""

from __future__ import annotations

import re
from pathlib import Path

from onnx import TensorProto, helper

NAMES = [
    "<script>alert(1)</script>[bold red]x",
    "esc\x1b[31mred\x1b]0;title\x07\x9b2J",
    "turned\u202egnp.exe\u2066a\u2069\u200e\u200f\u061c",
    "no\u200bwid\u200c\u200dth\u2060\ufeff",
    "pi|pe",
    "back`tick``s`",
    "line\nbreak\r\nand\ttab",
    "nul\0",
    "L" + "o" * 4998 + "ng",
    "=cmd()",
    "+1+1",
    "@SUM(A1)",
    "*strong* __strong__ _em_ ~~struck~~ $x$ a*b*c",
    "[link](https://example.org) ![picture](x) [^1] [x][y] [z]: u",
    "&lt;b&gt; &#60; <!-- c -->",
    "# heading ##",
    "slash \\| pipe",
    "- [ ] box",
    "1. one",
    "> quote",
    "---",
    "\\\\back\\_slash\\",
    "{{ 7 * 7 }}{% raw %}",
    "\x000",  # what a file's folded lists were once marked by
]
# What must not be seen by anybody as it is, in any medium. A line break is a line's end.
UNSEEN = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufffe\uffff]"
)


def model(path: Path) -> Path:
    """A model each of whose inputs, outputs, nodes and dimensions has one of the names."""
    inputs, outputs, nodes = [], [], []
    for number, name in enumerate(NAMES):
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"dim {name}", 2]))
        outputs.append(helper.make_tensor_value_info(f"{name} out", TensorProto.FLOAT, [f"dim {name}", 2]))
        nodes.append(helper.make_node("Relu" if number % 2 else "Abs", [name], [f"{name} out"], name=f"{name} node"))
    graph = helper.make_graph(nodes, NAMES[0], inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path
