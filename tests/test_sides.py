"""Lists of settings as sides of one run: the product, its limit, and what sides are called. Nothing is measured here."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.plan.options import OF_CONFIGURATIONS, SESSIONS, SHAPED, options_of, owners_in_features
from ortbench.plan.plan import PLAN, Plan, check
from ortbench.plan.plan_builder import (
    MAX_CONFIGURATIONS,
    differ_by_ep,
    name_configurations,
    plan_configurations,
    plan_of,
    split_configurations,
)
from tests.expect import refusal
from tests.typed import typed

OPTIONS = [it.for_command("run") for it in options_of(*PLAN, *owners_in_features())]


def sides(**given: Any) -> list[dict[str, Any]]:
    return [
        dict(it)
        for it in split_configurations(typed({flag.replace("_", "-"): it for flag, it in given.items()}), OPTIONS)
    ]


def plans(**given: Any) -> list[Plan]:
    return [plan_of("m.onnx", it) for it in sides(**given)]


def test_lists_of_each_kind() -> None:
    assert sides() == [{}]
    assert sides(intra_op_threads="2", dim=["batch=8"], warmup=3) == [
        {"intra-op-threads": 2, "dim": {"batch": 8}, "warmup": 3}
    ]
    assert sides(intra_op_threads="1,2") == [{"intra-op-threads": 1}, {"intra-op-threads": 2}]
    assert sides(opt_level="basic,all") == [{"opt-level": "basic"}, {"opt-level": "all"}]
    assert sides(dim=["batch=1,8"]) == [{"dim": {"batch": 1}}, {"dim": {"batch": 8}}]
    assert sides(dim=["batch=1, 8", "time=4"]) == [{"dim": {"batch": 1, "time": 4}}, {"dim": {"batch": 8, "time": 4}}]
    assert sides(ep=["cpu", "cuda"]) == [{"ep": "cpu"}, {"ep": "cuda"}]
    assert sides(session_config=["k=0", "a=1,2", "k=1"]) == [
        {"session-config": {"k": "0", "a": "1,2"}}, {"session-config": {"k": "1", "a": "1,2"}},
    ]  # fmt: skip
    assert sides(depth="2,4") == [{"depth": 2}, {"depth": 4}]
    assert sides(shape=["a:b:1x3,8x3"]) == [{"shape": {"a:b": (1, 3)}}, {"shape": {"a:b": (8, 3)}}]
    for one, sizes in (("1,3,224,224", (1, 3, 224, 224)), ("1x3,224,224", (1, 3, 224, 224)), ("16", (16,)), ("", ())):
        assert sides(shape=[f"x:{one}"]) == [{"shape": {"x": sizes}}]
    assert [(it["intra-op-threads"], it["dim"]) for it in sides(dim=["b=1,2", "s=3,4"], intra_op_threads="1,2")] == [
        (threads, {"b": b, "s": s}) for threads in (1, 2) for b in (1, 2) for s in (3, 4)
    ]


def test_threads_between_operators_are_of_parallel_sides_alone() -> None:
    given = typed({"execution-mode": "sequential,parallel", "inter-op-threads": "2,4"})
    found = plan_configurations(given, "run", lambda side: plan_of("models/tiny.onnx", side))
    assert [(it.target.execution_mode, it.target.inter_op_threads) for it in found] == [
        ("sequential", None), ("parallel", 2), ("parallel", 4),
    ]  # fmt: skip
    with pytest.raises(BadInput, match="operators run one at a time"):
        check(
            plan_configurations(
                typed({"execution-mode": "sequential", "inter-op-threads": "2"}),
                "run",
                lambda side: plan_of("models/tiny.onnx", side),
            )[0]
        )


def test_what_is_no_list_and_too_many_sides() -> None:
    sizes = ",".join(map(str, range(1, MAX_CONFIGURATIONS + 1)))
    assert len(sides(dim=[f"b={sizes}"])) == MAX_CONFIGURATIONS
    with pytest.raises(BadInput) as caught:
        sides(dim=["b=1,2,3,4,5,6,7,8,9"], intra_op_threads="1,2", opt_level="all")
    message = "2 of --intra-op-threads × 9 of --dim: one run takes at most 16 configurations, and 18 were asked for"
    assert str(caught.value) == message
    cases: list[tuple[dict[str, Any], str]] = [
        ({"intra_op_threads": "1,x"}, "--intra-op-threads 'x': is not a whole number; several are written as 1,2"),
        ({"intra_op_threads": "1,"}, "--intra-op-threads '': is not a whole number; several are written as 1,2"),
        ({"intra_op_threads": "2,2"}, "--intra-op-threads 2,2: '2' is in the list twice"),
        ({"ep": ["cpu", "cuda", "cpu"]}, "--ep cpu: was given twice; give it once"),
        ({"dim": ["b=1,1"]}, "--dim b=1,1: '1' is in the list twice"),
        ({"dim": ["b=1,"]}, "--dim b=: '' is not a whole number"),
        ({"dim": ["b,c"]}, "--dim 'b,c': write it as key=value"),
    ]
    for given, message in cases:
        assert refusal(BadInput, plans, **given) == message


def test_only_a_run_takes_lists() -> None:
    listed = {it.flag for it in OPTIONS if it.lists}
    assert listed == {
        "context",
        "ep",
        "python",
        "device",
        "intra-op-threads",
        "inter-op-threads",
        "execution-mode",
        "ep-option",
        "session-config",
        "run-config",
        "opt-level",
        "input-memory",
        "stream",
        "depth",
        "prompt-length",
        "generate",
        "shape",
        "dim",
        "sequence-tensors",
        "file-cache",
        "compile-cache",
    }
    for command in {*SESSIONS} - {*OF_CONFIGURATIONS, *SHAPED}:  # of a sweep see tests/test_sweep_plan.py
        listed = {it.flag for it in options_of(*PLAN) if command in it.commands and it.for_command(command).lists}
        assert listed == set()


# Names


def test_sides_are_called_by_what_differs() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"dim": ["batch=1,8"]}, ["batch=1", "batch=8"]),
        ({"dim": ["batch=1,8", "s=4"], "intra_op_threads": "1,2"}, ["intra-op-threads=1 batch=1", "intra-op-threads=1 batch=8", "intra-op-threads=2 batch=1",
                                                          "intra-op-threads=2 batch=8"]),
        ({"opt_level": "basic,all"}, ["opt-level=basic", "opt-level=all"]),
        ({"shape": ["x:1x3,8x3"]}, ["x=1x3", "x=8x3"]),
        ({"ep": ["cpu", "cuda"]}, ["cpu", "cuda"]),
        ({"ep": ["cpu", "cuda"], "intra_op_threads": "1,2"}, ["cpu intra-op-threads=1", "cpu intra-op-threads=2", "cuda intra-op-threads=1", "cuda intra-op-threads=2"]),
        ({"ep": ["/a/lib.so", "/b/lib.so"]}, ["a/lib", "b/lib"]),
        ({"ep": ["/a/c/lib.so", "/b/c/lib.so", "/b/c/other.so", "cpu"]}, ["a/c/lib", "b/c/lib", "other", "cpu"]),
        ({"ep": ["cuda", "/a/cuda.so"]}, ["cuda", "a/cuda"]),
        ({"ep": ["/a/lib.so", "/a/x/../lib.so"]}, ["/a/lib.so", "/a/x/../lib.so"]),
        ({"intra_op_threads": "2"}, ["auto"]),
    ]  # fmt: skip
    for given, names in cases:
        assert name_configurations(plans(**given)) == names
    made = [
        plan_of("m.onnx", it) for it in ({"cuda-graph": True}, {"intra-op-threads": 1, "session-config": {"a": "1"}})
    ]
    assert name_configurations(made) == [
        "intra-op-threads=default cuda-graph a=default",
        "intra-op-threads=1 no cuda-graph a=1",
    ]
    made = [plan_of("m.onnx", {"session-config": {"a": text}}) for text in ("x y", "x-y")]
    assert name_configurations(made) == ["a=x y", "a=x-y-2"]
    made = [plan_of("m.onnx", it) for it in ({"ep": "cpu"}, {"ep": "cuda", "ep-option": {"a": "1"}})]
    assert name_configurations(made) == ["cpu", "cuda"]
    assert differ_by_ep(plans(ep=["cpu", "/a/lib.so"]))
    assert differ_by_ep(plans())
    assert not differ_by_ep(plans(ep=["cpu", "cuda"], intra_op_threads="1,2"))
    assert not differ_by_ep(plans(dim=["b=1,2"]))
