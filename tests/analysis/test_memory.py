"""What modes take of memory: what is made of a profile's events, and which figure counts."""

from __future__ import annotations

from typing import Any

from ortbench.analysis.derive import computes_on_host, figure, why_unknown
from ortbench.core.eps import CPU_EP
from ortbench.features.memory.analysis import arenas, device_total, heaviest
from tests.results import EP, measured, steady, weighed


def event(name: str, ep: str = EP, **args: int) -> tuple[str, dict[str, Any]]:
    """A node event as ONNX Runtime writes it: numbers are texts."""
    return name, {"provider": ep, "op_name": "Conv", "node_index": "0", **{key: str(n) for key, n in args.items()}}


USED: dict[str, Any] = {"mem_in_use_delta": 512, "mem_requested_in_use_delta": 500, "output_size": 500}
FIRST = event("a", mem_arena_held=1000, mem_in_use_peak=600, **USED)
LATER = event("a", mem_arena_held=2000, mem_in_use_peak=900, mem_in_use_delta=0, output_size=500)
OLD = event("a", output_size=500, parameter_size=7)


def test_an_arena_is_what_it_was_at_most_by_ep() -> None:
    there = event("b", CPU_EP, mem_arena_held=10, mem_in_use_peak=5)
    assert arenas([([FIRST, LATER, there, OLD], [])]) == [
        {"ep": EP, "held": 2000, "in_use": 900},
        {"ep": CPU_EP, "held": 10, "in_use": 5},
    ]
    assert arenas([([OLD], [])]) == []
    assert arenas([([FIRST], [LATER]), ([FIRST], []), ([], [])]) == [{"ep": EP, "held": 2000, "in_use": 1200}]


def test_nodes_are_ordered_by_what_they_allocate_in_the_run_where_that_is_most() -> None:
    rounded = event("b", mem_in_use_delta=4096, output_size=4000, parameter_size=3)
    assert [(it["name"], it["allocated"], it["output"], it["weights"]) for it in heaviest([FIRST, LATER, rounded])] == [
        ("b", 4096, 4000, 3),
        ("a", 500, 500, 0),
    ]
    assert heaviest([OLD]) == [{"name": "a", "op": "Conv", "ep": EP, "allocated": None, "output": 500, "weights": 7}]
    assert heaviest([event("c", mem_in_use_delta=0, output_size=9)]) == []
    assert len(heaviest([event(str(n), output_size=n) for n in range(1, 30)])) == 10


def test_the_devices_figure_is_the_best_that_is_known() -> None:
    bound, host = "what ortbench bound and what the EP's arena held", {"ep": CPU_EP, "held": 9, "in_use": 9}
    for held, nvml, found in (
        (50, 999, (999, "why")),
        (50, None, (150, bound)),
        (0, None, (120, bound)),
        (None, None, (None, "not known: why, and the EP's allocator neither")),
    ):
        known: list[Any] = [host] if held is None else [host, {"ep": EP, "held": held, "in_use": 20}]
        assert device_total(100, known, nvml, "why") == found


def test_why_a_figure_is_not_known() -> None:
    case = measured("cpu-tensors", latency=steady([1]))
    assert (figure(case, "device"), why_unknown(case, "device")) == (None, "was not measured (--measure-memory)")
    weighed(case, failed="out of memory")
    assert (figure(case, "host"), why_unknown(case, "host")) == (None, "could not be measured: out of memory")
    assert not computes_on_host(case)
    weighed(case, device=None, host=None)
    reasons = [why_unknown(case, it) for it in ("device", "host")]
    assert reasons == ["the EP computes in host memory", "the system does not tell"]
    assert computes_on_host(case)
