"""What ran where, and what is copied inside the graph: the sentences and headlines of scripted results, word for word."""

from __future__ import annotations

from typing import Any

from ortbench.analysis.findings.advice import headline, headline_of_many, superseded
from ortbench.analysis.nodes.node_shares import missed, mostly_on_cpu
from ortbench.core.ep_names import CPU_EP
from ortbench.core.stats import Value
from ortbench.model.result import Result
from tests.results import EP, MB, copying, island, profiled, published, sentences, tensor, with_failures

INSPECT = "Next: ortbench inspect m.onnx --ep auto"
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


# Copies inside the graph


def test_a_copy_inside_the_graph_comes_first() -> None:
    made = placed(2, 1, 1, memcpy=crossings(1, 0))
    assert sentences(made)[:3] == [
        "1 Memcpy node copies 25.0 MB to the host in each inference, in every mode: 1 of 3 nodes is on the CPU (Clip); counted as "
        "inference, not as copies.",
        "Next: ortbench run m.onnx --ep some --measure-nodes",
        "Copies of inputs and outputs take ≈58% of the latency of cpu-tensors: ≈4.20 ms of 7.20 ms, the latency less that of "
        "device-resident.",
    ]
    assert sentences(made)[3:] == sentences(published())[1:]
    made.model["outputs"] = [tensor("z", [1], 26 * MB)]  # more than the graph copies inside
    assert sentences(made)[0].startswith("Copies of inputs and outputs take ≈58%")
    assert headline(made).startswith("Copies of inputs and outputs take ≈58% of the latency of cpu-tensors: ")
    assert headline(made).endswith("; Memcpy nodes copy 25.0 MB")
    assert superseded(made) == {"cpu-nodes"}


def test_bytes_inside_the_graph_as_far_as_they_are_known() -> None:
    for more, said, moved in [
        (
            {"memcpy": crossings(2, 3, 4 * MB, 100)},
            "5 Memcpy nodes copy 4.00 MB to the host and 100 B from the host in each inference",
            " 4.00 MB",
        ),
        ({"memcpy": crossings(0, 5)}, "5 Memcpy nodes copy 25.0 MB from the host in each inference", " 25.0 MB"),
        ({"memcpy": crossings(2, 3, None)}, "5 Memcpy nodes copy to the host and 25.0 MB from the host in", ", too"),
        ({}, "5 Memcpy nodes copy between CPU and device in each inference", ", too"),  # of an earlier version
    ]:
        made = placed(20, 2, 5, **more)
        assert sentences(made)[0].startswith(said)
        assert ": 2 of 22 nodes are on the CPU (2 Clip); " in sentences(made)[0]
        assert headline(made).endswith(f"; Memcpy nodes copy{moved}")


def test_profiled_nodes_say_it_first_and_better() -> None:
    made = placed(4, 1, 2, memcpy=crossings(1, 1))
    made.nodes = profiled(islands=[island()])
    first, _, second, *others = sentences(made)
    assert first.startswith(
        "A CPU fallback subgraph takes up to ≈18% of an inference: Det on the CPU forces 2 Memcpy nodes"
    )
    assert second.startswith("Copies of inputs and outputs take ≈58%")
    assert not any("Memcpy" in said for said in (second, *others))


def test_copies_at_the_edges_beside_those_inside() -> None:
    made = placed(2, 1, 1, memcpy=crossings(1, 0))
    made.cases[2].speedup = Value(1.0, (0.9, 1.1))
    copying(made.cases[0], -100_000, 7_300_000)
    assert headline(made) == (
        "Copies of inputs and outputs take no measurable part of the latency of cpu-tensors, 7.20 ms; host-accessible is 1.80× as "
        "fast; Memcpy nodes copy 25.0 MB"
    )
    assert sentences(made)[2] == (
        "Copies of inputs and outputs take no measurable part of the latency of cpu-tensors: device-resident is 1.00× as fast as "
        "cpu-tensors (95% CI 0.900 to 1.10)."
    )
    for made in (placed(3, 0), placed(2, 1), placed(2, 1, None)):
        assert sentences(made) == sentences(published())
        assert headline(made) == headline(published())
        assert superseded(made) == set()
    inside = placed(2, 1, 1, memcpy=crossings(1, 0))
    assert (
        headline_of_many([inside, published()])
        == "Copies of inputs and outputs take ≈58% of the latency of cpu-tensors"
    )
    assert headline_of_many([published(), published()]) == "Copies take ≈58% of the latency of cpu-tensors"


# Nodes that are elsewhere


def test_nodes_that_are_not_where_they_were_asked_for() -> None:
    for there, on_cpu, said, operators in [
        (0, 3, f"Nothing ran on {EP}: all 3 nodes are on the CPU", " (3 Clip)"),
        (0, 1, f"Nothing ran on {EP}: the one node is on the CPU", " (Clip)"),
        (1, 9, f"Nearly nothing ran on {EP}: 9 of 10 nodes are on the CPU", " (9 Clip)"),
        (2, 9, f"Most of the model is on the CPU, not on {EP}: 9 of 11 nodes", " (9 Clip)"),
        (2, 3, f"Most of the model is on the CPU, not on {EP}: 3 of 5 nodes", " (3 Clip)"),
    ]:
        made = placed(there, on_cpu)
        assert sentences(made) == [f"{said}{operators}.", INSPECT, *sentences(published())]
        assert headline(made) == said
        assert superseded(made) == {"cpu-nodes"}
        assert (missed(made) is None) is (mostly_on_cpu(made) is not None)
    assert missed(placed(3, 3)) is mostly_on_cpu(placed(3, 3)) is None
    first, _, second, *_ = sentences(placed(2, 9, 1, memcpy=crossings(1, 0)))
    assert first == f"Most of the model is on the CPU, not on {EP}: 9 of 11 nodes (9 Clip)."
    assert second == (
        "1 Memcpy node copies 25.0 MB to the host in each inference, in every mode: 9 of 11 nodes are on the CPU; counted as "
        "inference, not as copies."
    )
    made = placed(0, 0)
    made.placement["nodes"] = {"OtherExecutionProvider": 2, CPU_EP: 1}
    assert missed(made) == f"Nothing ran on {EP}: all 3 nodes are on other EPs"


def test_profiled_times_count_for_more_than_the_number_of_nodes() -> None:
    few, many = placed(4, 1), placed(1, 4)
    few.nodes = profiled(memcpy=[], islands=[], eps=[{"ep": CPU_EP, "nodes": 1, "ns": 710_000, "share": 0.71}])
    many.nodes = profiled(memcpy=[], islands=[], eps=[{"ep": CPU_EP, "nodes": 4, "ns": 10_000, "share": 0.01}])
    assert mostly_on_cpu(few) == f"Most of an inference is on the CPU, not on {EP}: ≈71%, 1 of 5 nodes"
    assert mostly_on_cpu(many) is None


def test_where_nothing_is_said_of_nodes() -> None:
    made = placed(0, 3)
    made.target["ep"] = CPU_EP
    assert missed(made) is mostly_on_cpu(made) is None
    made = placed(0, 3)
    made.target["memory"] = {"kind": "host", "default": "host memory", "host_accessible": None}
    assert sentences(made)[0] == f"Nothing ran on {EP}: all 3 nodes are on the CPU (3 Clip)."
    assert headline(made) == f"Nothing ran on {EP}: all 3 nodes are on the CPU"
    made = published()
    made.placement = {"nodes": None, "memcpy_nodes": None, "cpu_operators": {}}
    assert sentences(made) == sentences(published())
    made = with_failures()
    for case in made.cases:
        case.metrics.clear()
    made.placement["nodes"] = {CPU_EP: 3}
    assert sentences(made) == []
    assert superseded(made) == set()
    assert headline(made) == "Nothing was measured"
