"""The facts of where nodes and tensors are, and of copies inside the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.core.stats import Value
from ortbench.facts import Quantity, thread_facts
from ortbench.facts.run import facts_of, repeated_warnings
from ortbench.model.result import Result
from tests.expect import there
from tests.results import (
    EP,
    MB,
    MS,
    copying,
    fact,
    island,
    keys,
    profiled,
    published,
    result_of,
    tensor,
    values,
    with_failures,
)


def placed(on_device: int, on_cpu: int, copies: int | None = 0, **more: Any) -> Result:
    """The published figures, with so many nodes on the EP and on the CPU."""
    made = published()
    nodes = {ep: count for ep, count in ((EP, on_device), (CPU_EP, on_cpu)) if count}
    operators = {"Clip": on_cpu} if on_cpu else {}
    made.placement = {"nodes": nodes, "memcpy_nodes": copies, "cpu_operators": operators, **more}  # type: ignore[typeddict-item]
    if on_cpu:
        made.warn("cpu-nodes", "1 node stays on the CPU: Clip")
    return made


def crossings(to_host: int, from_host: int, up: int | None = 25 * MB, down: int | None = 25 * MB) -> dict[str, Any]:
    """What so many Memcpy nodes copy."""
    return {
        "to_host": {"nodes": to_host, "bytes": up if to_host else 0},
        "from_host": {"nodes": from_host, "bytes": down if from_host else 0},
    }


def codes(result: Result) -> list[str]:
    return [code for code, *_ in keys(result)]


def test_copies_inside_the_graph() -> None:
    for more, verdict, size in (
        ({"memcpy": crossings(2, 3, 4 * MB, 100)}, "much", 4 * MB + 100),
        ({"memcpy": crossings(2, 3, None)}, "unknown", None),
        ({}, "unknown", None),  # of an earlier version
    ):
        made = placed(20, 2, 5, **more)
        found = fact(made, "memcpy")
        assert (found.verdict, values(found).get("bytes"), found.values["cpu_nodes"]) == (verdict, size, 2)
        assert found.next == "ortbench run m.onnx --ep some --measure-nodes"
        assert "cpu-nodes" in repeated_warnings(facts_of(made))
        assert codes(made)[0] == "memcpy"


def test_memcpy_nodes_that_cost_next_to_nothing_are_no_headline() -> None:
    for latency, copies, size, verdict in (
        (13 * MS, 1, 40, "little"),
        (13_000, 1, 40, "some"),
        (13 * MS, 1, 25 * MB, "some"),
        (13 * MS, 30, 40, "some"),
    ):
        made = placed(2, 1, copies, memcpy=crossings(copies, 0, size))
        for it in made.cases:
            it.metrics["latency"] = replace(there(it.stats("latency")), median=latency)
        made.model["outputs"] = [tensor("z", [1], 26 * MB)]  # more than the graph copies inside
        found = fact(made, "memcpy")
        assert (found.verdict, bool(found.next), codes(made)[0] == "memcpy") == (verdict, verdict != "little", False)


@pytest.mark.parametrize(("on_device", "on_cpu", "verdict"), [(0, 3, "all"), (1, 9, "most"), (2, 3, "most")])
def test_nodes_that_are_not_where_they_were_asked_for(on_device: int, on_cpu: int, verdict: str) -> None:
    made = placed(on_device, on_cpu)
    found = fact(made, "fallback")
    assert (found.verdict, found.next) == (verdict, "ortbench inspect m.onnx --ep auto")
    assert [found.values[it] for it in ("nodes", "of", "where")] == [on_cpu, on_device + on_cpu, "the CPU"]
    assert keys(made)[1:] == keys(published())
    assert "cpu-nodes" in repeated_warnings(facts_of(made))


def test_profiled_nodes_say_it_better() -> None:
    made = placed(4, 1, 2, memcpy=crossings(1, 1))
    made.nodes = profiled(islands=[island()])
    assert keys(made)[0] == ("cpu-fallback", "much", "")
    assert "memcpy" not in codes(made)


def test_nodes_that_are_where_they_were_asked_for() -> None:
    for made in (placed(3, 0), placed(2, 1), placed(3, 3), placed(2, 1, None)):
        assert keys(made) == keys(published())
        assert "cpu-nodes" not in repeated_warnings(facts_of(made))
    made = placed(0, 3)
    made.target["ep"] = CPU_EP
    assert "fallback" not in codes(made)
    made.target["ep"], made.placement["nodes"] = EP, {"OtherExecutionProvider": 2, CPU_EP: 1}
    assert fact(made, "fallback").values["where"] == "other EPs"
    unmeasured = with_failures()
    unmeasured.placement["nodes"] = {CPU_EP: 3}
    for it in unmeasured.cases:
        it.metrics.clear()
    assert keys(unmeasured) == []


@pytest.mark.parametrize(
    ("on_device", "on_cpu", "share", "found"), [(4, 1, 0.71, [("most-time", 0.71)]), (1, 4, 0.01, [])]
)
def test_profiled_times_count_for_more_than_the_number_of_nodes(
    on_device: int, on_cpu: int, share: float, found: list[tuple[str, float]]
) -> None:
    made, ns = placed(on_device, on_cpu), round(share * 1e6)
    eps = [{"ep": CPU_EP, "nodes": on_cpu, "ns": ns, "share": share}]
    made.nodes = profiled(memcpy=[], islands=[], eps=eps)
    assert [(it.verdict, values(it)["share"]) for it in facts_of(made) if it.code == "fallback"] == found


def test_copies_at_the_edges_that_cannot_be_measured() -> None:
    made = published()
    made.cases[2].speedup = Value(1.0, (0.95, 1.02))
    copying(made.cases[0], -100_000, 7_300_000)
    assert fact(made, "copies").verdict == "none"
    made.cases[2].speedup = Value(1.0, (0.5, 1.5))  # which leaves half of the latency open
    assert "copies" not in codes(made)


@pytest.mark.parametrize(
    ("cpu", "threads", "found"),
    [
        ({"usable_cores": 8, "physical_cores": 4}, None, None),  # two hardware threads a core
        ({"usable_cores": 1, "physical_cores": 4}, None, ("of-the-host", 4, 1, "1")),
        ({"usable_cores": 4, "physical_cores": 4, "core_limit": 2.5}, None, ("of-the-host", 4, 2.5, "2")),
        ({"usable_cores": 4, "physical_cores": 4, "core_limit": 0.5}, 2, ("beyond-cores", 2, 0.5, "1")),
        ({"usable_cores": 2}, 2, None),
        ({"usable_cores": 2}, None, None),  # a system that does not tell
    ],
)
def test_threads_without_cores_of_their_own(
    cpu: dict[str, Any], threads: int | None, found: tuple[str, int, float, str] | None
) -> None:
    result = result_of(target__ep=CPU_EP, target__intra_op_threads=threads)
    result.environment["cpu"] = {"model": "A CPU", **cpu}  # type: ignore[typeddict-item]
    facts = [*thread_facts(result)]
    if found is None:
        assert not facts
        return
    (one,) = facts
    verdict, of, cores, wanted = found
    assert (one.verdict, one.values) == (verdict, {"threads": of, "cores": Quantity(cores, "1")})
    assert f"--intra-op-threads {wanted}" in one.next
