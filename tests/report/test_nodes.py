"""What is said about nodes: tables and sentences, from results that are written down."""

from __future__ import annotations

from typing import Any

from ortbench.core.eps import CPU_EP
from ortbench.model.result import Result
from ortbench.report import nodes as placement
from tests.results import EP, fact, island, keys, measured, memcpy_node, profiled, result_of, steady


def with_nodes(**changed: Any) -> Result:
    found = result_of(measured("cpu-tensors", latency=steady([900_000])))
    found.nodes = profiled(**changed)
    return found


def test_the_tables() -> None:
    operators, eps, copies, islands = placement.node_tables(with_nodes())
    assert operators.rows == (
        ("Conv", "Some", "4", "800 µs", "80.0%"),
        ("Det", "CPU", "1", "100 µs", "10.0%"),
        ("MemcpyToHost", "between EPs", "1", "40.0 µs", "4.00%"),
        ("MemcpyFromHost", "between EPs", "1", "400 ns", "0.0400%"),
    )
    assert eps.rows[2:] == (("between EPs", "2", "80.0 µs", "8.00%"), ("outside of nodes", "–", "20.0 µs", "2.00%"))
    assert copies.headings == ["copied tensor", "direction", "bytes", "time", "forced by", "CPU fallback"]
    assert copies.rows[0] == ("matrices", "to host", "2.00 kB", "40.0 µs", "/head/Det_7", "1")
    assert islands.headings[3:] == ["copies", "bytes", "time in nodes", "time in copies", "share of inference"]
    assert islands.rows == (("1", "Det", "1", "2", "4.00 kB", "100 µs", "80.0 µs", "18.0%"),)


def test_long_tables_end_with_a_line_for_the_rest() -> None:
    many = [{"op": f"Op{n}", "ep": EP, "nodes": 1, "ns": 1000, "share": 0.05} for n in range(13)]
    found = with_nodes(operators=many, memcpy=[memcpy_node("a", "to host")] * 12, islands=[island()] * 11)
    assert [(len(table.rows), table.rest) for table in placement.node_tables(found) if table.rest] == [
        (10, "and 3 more: 15.0% of an inference"), (10, "and 2 more: 4.00 kB"), (10, "and 1 more: 18.0% of an inference"),
    ]  # fmt: skip


def test_the_heading_says_what_the_times_are() -> None:
    made, on_host, quieter = with_nodes(), with_nodes(), with_nodes(run_ns=800_000)
    words = "Nodes: 20 inferences under ONNX Runtime's profiler, 1.00 ms each with its own time"
    assert placement.nodes_heading(made).startswith(f"{words}, 900 µs without. Where the EP is asynchronous")
    assert "800 µs each with its own time, 900 µs without at a busier time." in placement.nodes_heading(quieter)
    on_host.target["memory"]["kind"], on_host.cases = "host", []
    assert placement.nodes_heading(on_host) == f"{words}."


def test_an_island_is_a_fact_by_what_it_costs() -> None:
    for changed, verdict, position in (
        ({}, "much", "inside"),
        ({"islands": [island("Sqrt", 2, "double[8]", share=0.05)]}, "some", "inside"),
        ({"islands": [island(to_host=0, position="start", bytes=2000, memcpy_ns=400)]}, "much", "at the start"),
        ({"islands": [island(from_host=0, position="end", bytes=None, share=0.05)]}, "some", "at the end"),
    ):
        found = fact(with_nodes(**changed), "cpu-fallback")
        assert (found.verdict, found.values["position"]) == (verdict, position)
        assert ("bytes" in found.values) is (changed.get("islands", [island()])[0]["bytes"] is not None)


def test_on_the_cpu_ep_it_is_the_operators_that_take_most() -> None:
    on_cpu = with_nodes()
    on_cpu.target["ep"] = CPU_EP
    found = fact(on_cpu, "operator")
    assert (found.values["operator"], found.values["nodes"]) == ("Conv", 4)


def test_islands_without_copies_cost_nothing() -> None:
    quiet = island(to_host=0, from_host=0)
    made = with_nodes(islands=[*[island()] * 3, quiet, *[island("Sqrt", 2, share=0.05)] * 3])
    assert [verdict for code, verdict, _ in keys(made) if code == "cpu-fallback"] == ["much"] * 3 + ["some"] * 3


def test_nodes_by_time_a_loop_with_what_its_body_takes_and_the_remainder() -> None:
    def node(name: str, op: str, ns: int, inside: int | None = None, count: float = 1) -> Any:
        return {"name": name, "op": op, "ep": CPU_EP, "of": [name], "inside": inside, "count": count, "ns": [ns] * 2}

    each = [node("Relu_0", "Relu", 50), node("Loop_1", "Loop", 100), node("Add_2", "Add", 300, 1, 7)]
    each += [node(f"Erf_{at}", "Erf", 30) for at in range(10)]
    (table, *_) = placement.node_tables(with_nodes(each=each, rounds_ns=[1000] * 2))
    assert table.headings == ["node", "operator", "on", "time", "share", "runs in an inference"]
    assert table.rows[:3] == (
        ("Loop_1", "Loop (1 node)", "CPU", "400 ns", "40.0%", "–"), ("└ Add_2", "Add", "CPU", "300 ns", "30.0%", "7"),
        ("Relu_0", "Relu", "CPU", "50 ns", "5.00%", "–"),
    )  # fmt: skip
    assert len(table.rows) == 15
    shown = table.shorter[0]
    assert [row[0] for row in shown.rows] == [
        "Loop_1",
        "Relu_0",
        *(f"Erf_{at}" for at in range(6)),
        "4 other nodes",
        "whole inference",
    ]
    assert shown.rest == "Under ONNX Runtime's profiler an inference takes 1.00 ms, 900 µs without."
