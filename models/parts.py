"""What the models are made of: graphs in ONNX's text form, reproducible numbers, and what is run with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper, parser

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

HEADER = '<ir_version: 8, opset_import: ["" : 17], producer_name: "ortbench">\n'


class Loop(NamedTuple):
    """Runs in a row, where outputs of one are inputs of the next."""

    feedback: Mapping[str, str]
    """Output → the input that it is in the next step."""
    state: Arrays
    """Those inputs in the first step."""
    steps: Sequence[Arrays]
    """The other inputs, step by step."""

    def unchanging(self) -> Arrays:
        """The other inputs that have the same value in every step."""
        first = self.steps[0]
        return {
            name: array
            for name, array in first.items()
            if all(np.array_equal(array, step[name]) for step in self.steps)
        }


class Case(NamedTuple):
    model: onnx.ModelProto
    inputs: Arrays
    loops: Mapping[str, Loop] = {}
    """By the name that is in the file's: `loop` for NAME.loop.npz."""


def build(text: str, weights: Arrays | None = None, names: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Parse a graph in ONNX's text form and give it its weights.

    Args:
        text: the graph.
        weights: by name, as the text has it.
        names: name in the text → name in the model, for names with dots, which the text form does not have.
    """
    return weighted(parser.parse_model(HEADER + text), weights or {}, names or {})


def weighted(model: onnx.ModelProto, weights: Arrays, names: Mapping[str, str]) -> onnx.ModelProto:
    """A parsed graph with its weights and the names of `build`."""
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    _rename(model.graph, names)
    onnx.checker.check_model(model, full_check=True)
    return model


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for ends in (node.input, node.output):
            ends[:] = [names.get(name, name) for name in ends]


class Seeded:
    """Reproducible numbers. RandomState, as numpy freezes its streams, which it does not for default_rng."""

    def __init__(self, seed: int) -> None:
        self.state = np.random.RandomState(seed)

    def values(self, *shape: int) -> Array:
        """Multiples of 1/256 in [-1, 1): exact in float32, float16 and TF32, and easy to compress."""
        return np.asarray(self.state.randint(-256, 256, shape) / 256, np.float32)

    def weight(self, *shape: int, fan_in: int) -> Array:
        """Scaled by the power of two, thus still exact, that best keeps the values' size from layer to layer."""
        scaled: Array = self.values(*shape) * np.float32(2.0 ** np.round(np.log2(np.sqrt(3 / fan_in))))
        return scaled

    def ids(self, limit: int, *shape: int) -> Array:
        return self.state.randint(0, limit, shape).astype(np.int64)


def picture(height: int, width: int) -> Array:
    """Diagonal stripes of 256 levels in [0, 1). Not constant, other in each channel, and still easy to compress."""
    channel, row, column = np.ogrid[:3, :height, :width]
    return np.asarray([(row + (channel + 1) * column + 64 * channel) % 256 / 256], np.float32)
