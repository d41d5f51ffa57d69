"""The facts of where nodes and tensors are, and of copies inside the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.core.stats import Value
from ortbench.facts.comparison import headline_of_many
from ortbench.facts.findings import facts_of, repeated_warnings
from ortbench.model.result import Case, Result
from ortbench.model.schema import TensorMemory
from ortbench.report.parts import memory_table
from tests.results import (
    EP,
    MB,
    MS,
    case,
    copying,
    fact,
    island,
    keys,
    once,
    profiled,
    published,
    result_of,
    tensor,
    values,
    with_bytes,
    with_failures,
)

WARNING = ("cpu-nodes", "1 node stays on the CPU: Clip; 1 Memcpy node copies between them in each inference")


def placed(there: int, on_cpu: int, copies: int | None = 0, **more: Any) -> Result:
    """The published figures, with so many nodes on the EP and on the CPU."""
    made = published()
    nodes = {ep: count for ep, count in ((EP, there), (CPU_EP, on_cpu)) if count}
    operators = {"Clip": on_cpu} if on_cpu else {}
    made.placement = {"nodes": nodes, "memcpy_nodes": copies, "cpu_operators": operators, **more}  # type: ignore[typeddict-item]
    if on_cpu:
        made.warn(*WARNING)
    return made


def crossings(to_host: int, from_host: int, there: int | None = 25 * MB, back: int | None = 25 * MB) -> dict[str, Any]:
    """What so many Memcpy nodes copy."""
    return {
        "to_host": {"nodes": to_host, "bytes": there if to_host else 0},
        "from_host": {"nodes": from_host, "bytes": back if from_host else 0},
    }


def test_copies_inside_the_graph() -> None:
    made = placed(2, 1, 1, memcpy=crossings(1, 0))
    assert keys(made)[0] == ("memcpy", "much", "")
    assert fact(made, "memcpy").next == "ortbench run m.onnx --ep some --measure-nodes"
    assert "cpu-nodes" in repeated_warnings(facts_of(made))
    made.model["outputs"] = [tensor("z", [1], 26 * MB)]  # more than the graph copies inside
    assert fact(made, "memcpy").verdict == "some"
    assert keys(made)[0][0] == "copies"
    for more, verdict, moved in [
        ({"memcpy": crossings(2, 3, 4 * MB, 100)}, "much", 4 * MB + 100),
        ({"memcpy": crossings(0, 5)}, "much", 25 * MB),
        ({"memcpy": crossings(2, 3, None)}, "unknown", None),
        ({}, "unknown", None),  # of an earlier version
    ]:
        found = fact(placed(20, 2, 5, **more), "memcpy")
        assert (found.verdict, values(found).get("bytes"), found.values["cpu_nodes"]) == (verdict, moved, 2)


def test_memcpy_nodes_that_cost_next_to_nothing_are_no_headline() -> None:
    """Of an inference of 13 ms, and of one of 13 µs; 26 times as much where a loop has as many steps."""
    for latency, copies, moved, verdict in [
        (13 * MS, 1, 40, "little"),
        (13_000, 1, 40, "some"),
        (13 * MS, 1, 25 * MB, "some"),
        (13 * MS, 30, 40, "some"),
    ]:
        made = placed(2, 1, copies, memcpy=crossings(copies, 0, moved))
        for case_ in made.cases:
            if (timed := case_.stats("latency")) is not None:
                case_.metrics["latency"] = replace(timed, median=latency)
        made.model["outputs"] = [tensor("z", [1], 26 * MB)]
        assert [it[1] for it in keys(made) if it[0] == "memcpy"] == [verdict]
        assert bool(fact(made, "memcpy").next) is (verdict != "little")


def test_profiled_nodes_say_it_better() -> None:
    made = placed(4, 1, 2, memcpy=crossings(1, 1))
    made.nodes = profiled(islands=[island()])
    assert "memcpy" not in [code for code, *_ in keys(made)]
    assert keys(made)[0] == ("cpu-fallback", "much", "")
    assert values(fact(made, "cpu-fallback"))["copies"] == 2


@pytest.mark.parametrize(
    ("there", "on_cpu", "verdict"), [(0, 3, "all"), (0, 1, "all"), (1, 9, "most"), (2, 9, "most"), (2, 3, "most")]
)
def test_nodes_that_are_not_where_they_were_asked_for(there: int, on_cpu: int, verdict: str) -> None:
    made = placed(there, on_cpu)
    found = fact(made, "fallback")
    assert (found.verdict, found.next) == (verdict, "ortbench inspect m.onnx --ep auto")
    assert (found.values["nodes"], found.values["of"], found.values["where"]) == (on_cpu, there + on_cpu, "the CPU")
    assert keys(made)[1:] == keys(published())
    assert "cpu-nodes" in repeated_warnings(facts_of(made))


def test_nodes_that_are_where_they_were_asked_for() -> None:
    for made in (placed(3, 0), placed(2, 1), placed(3, 3), placed(2, 1, None)):
        assert keys(made) == keys(published())
        assert "cpu-nodes" not in repeated_warnings(facts_of(made))
    made = placed(0, 3)
    made.target["ep"] = CPU_EP
    assert "fallback" not in [code for code, *_ in keys(made)]
    made = placed(0, 0)
    made.placement["nodes"] = {"OtherExecutionProvider": 2, CPU_EP: 1}
    assert fact(made, "fallback").values["where"] == "other EPs"


def test_profiled_times_count_for_more_than_the_number_of_nodes() -> None:
    few, many = placed(4, 1), placed(1, 4)
    few.nodes = profiled(memcpy=[], islands=[], eps=[{"ep": CPU_EP, "nodes": 1, "ns": 710_000, "share": 0.71}])
    many.nodes = profiled(memcpy=[], islands=[], eps=[{"ep": CPU_EP, "nodes": 4, "ns": 10_000, "share": 0.01}])
    assert (fact(few, "fallback").verdict, values(fact(few, "fallback"))["share"]) == ("most-time", 0.71)
    assert "fallback" not in [code for code, *_ in keys(many)]


def test_where_nothing_was_measured_nothing_is_said_of_nodes() -> None:
    made = with_failures()
    for it in made.cases:
        it.metrics.clear()
    made.placement["nodes"] = {CPU_EP: 3}
    assert keys(made) == []


def test_copies_at_the_edges_that_cannot_be_measured() -> None:
    made = placed(2, 1, 1, memcpy=crossings(1, 0))
    made.cases[2].speedup = Value(1.0, (0.95, 1.02))
    copying(made.cases[0], -100_000, 7_300_000)
    assert fact(made, "copies").verdict == "none"
    made.cases[2].speedup = Value(1.0, (0.5, 1.5))  # which leaves half of the latency open
    assert "copies" not in [code for code, *_ in keys(made)]


def test_several_results() -> None:
    assert (
        headline_of_many([published(), published()])
        == "Copies take ≈58% to ≈58% of the latency of cpu-tensors in 2 results"
    )
    assert headline_of_many([placed(0, 3), published()]).startswith("In 1 of 2 results ")


# Tensors

DEVICE, HOST = "Mem (DEFAULT)", "host memory"
WANTED, MADE = "the session's memory info", "made by Clip on the CPU"


def at(name: str, memory: str = DEVICE, why: str = WANTED, usual: bool = True) -> TensorMemory:
    """A tensor on the device."""
    return {"name": name, "memory": memory, "why": why, "usual": usual}


def off(name: str, why: str = MADE, memory: str = HOST) -> TensorMemory:
    """One that is not."""
    return at(name, memory, why, usual=False)


def bound(made: Case, ins: Sequence[TensorMemory], outs: Sequence[TensorMemory]) -> Case:
    made.places = {"inputs": list(ins), "outputs": list(outs)}
    return made


def made_on_the_cpu() -> Result:
    """A model whose output a node on the CPU makes."""
    arrays = bound(
        case("cpu-tensors", latency=30 * MS), [at("image", HOST, "passed")], [at("adjusted", HOST, "returned")]
    )
    device = bound(
        case("device-tensors", h2d=6_250_000, inference=10 * MS, latency=16 * MS), [at("image")], [off("adjusted")]
    )
    resident = bound(case("device-resident", inference=10 * MS, latency=10 * MS), [at("image")], [off("adjusted")])
    once(resident, 6_000_000, 0)
    inputs, outputs = [tensor("image", [1], 25 * MB)], [tensor("adjusted", [1], 25 * MB)]
    return result_of(arrays, with_bytes(device, 25 * MB, 0), resident, model__inputs=inputs, model__outputs=outputs)


def test_where_every_tensor_was_in_each_mode() -> None:
    both = "device-tensors, device-resident"
    assert list(memory_table(made_on_the_cpu()).rows) == [
        ("input image", "25.0 MB", "cpu-tensors", HOST, "passed"),
        ("input image", "25.0 MB", both, DEVICE, WANTED),
        ("output adjusted", "25.0 MB", "cpu-tensors", HOST, "returned"),
        ("output adjusted", "25.0 MB", both, HOST, MADE),
    ]
    assert memory_table(published()).rows == ()
