"""What looking at a model's graph takes grows with the model, not with its square; counted in CPU time of two sizes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortbench.analysis.node_times import Timed, each_node
from ortbench.analysis.placement import layout
from ortbench.worker import inspection

_value, _node, FLOAT = helper.make_tensor_value_info, helper.make_node, TensorProto.FLOAT
SMALL, TIMES = 1_500, 8


def chained(count: int) -> onnx.GraphProto:
    nodes = [_node("Sigmoid", [f"t{at}"], [f"t{at + 1}"], name=f"n{at}") for at in range(count)]
    return helper.make_graph(nodes, "graph", [_value("t0", FLOAT, [8])], [_value(f"t{count}", FLOAT, [8])])


def gathered(count: int) -> onnx.GraphProto:
    """One node takes what all others give, which have a weight each."""
    weights = [numpy_helper.from_array(np.ones(1, np.float32), f"w{at}") for at in range(count)]
    nodes = [_node("Add", ["x", f"w{at}"], [f"a{at}"], name=f"n{at}") for at in range(count)]
    last = _node("Sum", [f"a{at}" for at in range(count)], ["y"], name="sum")
    return helper.make_graph([*nodes, last], "graph", [_value("x", FLOAT, [1])], [_value("y", FLOAT, [1])], weights)


def cpu_time(graph: onnx.GraphProto) -> float:
    """Of all that is done with the nodes of a graph, every third of which another EP has."""
    model = helper.make_model(graph)
    gc.collect()
    gc.disable()  # what it takes depends on what other tests left
    start = time.process_time()
    nodes, _ = inspection.flatten_nodes(model, ())
    inspection.model_content(model)
    placed = [replace(it, ep="Other" if at % 3 else "CPUExecutionProvider") for at, it in enumerate(nodes)]
    layout(placed)
    timed = [Timed(it.name, it.op, "EP", at, it.inside, (1,), 4, (), ()) for at, it in enumerate(nodes)]
    each_node(timed, nodes, nodes, [[0]])
    took = time.process_time() - start
    gc.enable()
    return took


@pytest.mark.wide
@pytest.mark.parametrize("make", [chained, gathered])
def test_time_grows_with_the_number_of_nodes(make: Callable[[int], onnx.GraphProto]) -> None:
    small, large = (min(cpu_time(make(count)) for _ in range(2)) for count in (SMALL, SMALL * TIMES))
    assert large < TIMES**1.5 * small  # half-way, on a scale of factors, between its size and its square
