"""What options mean, lists of them as configurations of one run, the check of a whole plan, and its way to the worker."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.features.load.plan import load_in, load_of
from ortbench.model.modes import USUAL_MODES
from ortbench.plan.option_types import parse_dimension, parse_precision, parse_share
from ortbench.plan.options import options_of, owners_in_features
from ortbench.plan.plan import PLAN, Loop, Plan, check
from ortbench.plan.plan_builder import (
    MAX_CONFIGURATIONS,
    differ_by_ep,
    name_configurations,
    plan_configurations,
    plan_of,
    split_configurations,
)
from ortbench.plan.target import Inputs, Target, inputs_from, target_from
from tests.expect import refusal
from tests.typed import typed


def read(flag: str, *words: str) -> Any:
    """The value of an option of a command that takes no lists."""
    return typed({flag: words}, "load")[flag]


def test_what_options_mean() -> None:
    values: list[tuple[str, list[str], dict[str, Any]]] = [
        ("ep-option", [], {}),
        ("ep-option", ["device_id=0", "a=b=c", "empty=", "trt.path=/x y"], {"device_id": "0", "a": "b=c", "empty": "", "trt.path": "/x y"}),
        ("shape", ["x:1x3x224x224", "y:1,3", "z:7"], {"x": (1, 3, 224, 224), "y": (1, 3), "z": (7,)}),
        ("shape", ["input:0:1x3", "a:b:c:2", "x:", "in:0:"], {"input:0": (1, 3), "a:b:c": (2,), "x": (), "in:0": ()}),
        ("dim", ["batch=8", "sequence length=128", "none=0", "x=00"], {"batch": 8, "sequence length": 128, "none": 0, "x": 0}),
        ("dim", ["total=past + sequence", "past_length + 1=3", "a=b"], {"total": "past + sequence", "past_length + 1": 3, "a": "b"}),
        ("range", ["x:0,255", "y:-1.5,1e3", "z:3,3", "in:0:0,1"], {"x": (0.0, 255.0), "y": (-1.5, 1000.0), "z": (3.0, 3.0), "in:0": (0.0, 1.0)}),
    ]  # fmt: skip
    for flag, words, value in values:
        assert read(flag, *words) == value


def test_what_cannot_be_read() -> None:
    """Besides what tests/cli/refusals.txt has, and the end of what is said of it."""
    unreadable: list[tuple[str, list[str], str]] = [
        ("ep-option", ["device_id", ""], "write it as key=value"),
        ("shape", ["1x3", ":1x3", ":", ""], "write it as name:1x3x224x224"),
        ("shape", ["x:1xN", "x:1.5", "x:1X3", "x:1*3", "x:,", "x:1xx3", "x:1x", "x: 3", "x:1_0"], "is not a whole number"),
        ("dim", ["batch=", "batch=very many", "batch=3//2", "batch=2**sequence"], "is not a whole number"),
        ("range", ["x", "x:", "x:1,", "x:,1", "x:a,b", "x:1,2,3", ":1,2", "1,2", ""], "write it as name:low,high"),
        ("range", ["x:0,inf", "x:nan,1", "x:-inf,0"], "both ends must be finite numbers"),
    ]  # fmt: skip
    for flag, words, reason in unreadable:
        for word in words:
            said = refusal(BadInput, read, flag, word)
            assert (said.startswith(f"--{flag} "), said.endswith(reason)) == (True, True), said


def test_whole_numbers_and_shares() -> None:
    assert parse_dimension("12", "--dim n=12") == 12
    for text, share in [("1%", 0.01), ("0.5%", 0.005), ("0.01", 0.01), ("100%", 1.0), ("2", 2.0), ("1e-3", 0.001)]:
        assert parse_share(text, "--precision") == pytest.approx(share)
    assert [parse_precision(text) for text in ("0", "0%", "1%")] == [0.0, 0.0, 0.01]
    for text in ["0", "0%", "-1%", "-0.1", "", "%", "1%%", "one", "nan", "nan%", "inf", "1000%"]:
        assert refusal(BadInput, parse_share, text, "--precision").startswith(f"--precision {text!r}: ")
    assert refusal(BadInput, parse_precision, "-1%").startswith("--precision '-1%': ")


# Lists: configurations of one run

OPTIONS = [it.for_command("run") for it in options_of(*PLAN, *owners_in_features())]


def configurations(given: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(it) for it in split_configurations(typed(given), OPTIONS)]


def plans(given: dict[str, Any]) -> list[Plan]:
    return [plan_of("m.onnx", it) for it in configurations(given)]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, [{}]),
        ({"intra-op-threads": "2", "dim": ["batch=8"], "warmup": 3}, [{"intra-op-threads": 2, "dim": {"batch": 8}, "warmup": 3}]),
        ({"intra-op-threads": "1,2"}, [{"intra-op-threads": 1}, {"intra-op-threads": 2}]),
        ({"opt-level": "basic,all"}, [{"opt-level": "basic"}, {"opt-level": "all"}]),
        ({"dim": ["batch=1, 8", "time=4"]}, [{"dim": {"batch": 1, "time": 4}}, {"dim": {"batch": 8, "time": 4}}]),
        ({"ep": ["cpu", "cuda"]}, [{"ep": "cpu"}, {"ep": "cuda"}]),
        ({"session-config": ["k=0", "a=1,2", "k=1"]}, [{"session-config": {"k": "0", "a": "1,2"}}, {"session-config": {"k": "1", "a": "1,2"}}]),
        ({"depth": "2,4"}, [{"depth": 2}, {"depth": 4}]),
        ({"shape": ["a:b:1x3,8x3"]}, [{"shape": {"a:b": (1, 3)}}, {"shape": {"a:b": (8, 3)}}]),
        ({"shape": ["x:1,3,224,224"]}, [{"shape": {"x": (1, 3, 224, 224)}}]),
        ({"shape": ["x:1x3,224,224"]}, [{"shape": {"x": (1, 3, 224, 224)}}]),
        ({"dim": ["b=1,2", "s=3,4"], "depth": "2,3"}, [{"dim": {"b": b, "s": s}, "depth": depth} for depth in (2, 3) for b in (1, 2) for s in (3, 4)]),
    ],
)  # fmt: skip
def test_lists_of_each_kind(given: dict[str, Any], found: list[dict[str, Any]]) -> None:
    assert configurations(given) == found


def planned(command: str, given: dict[str, Any]) -> list[Plan]:
    make = load_of if command == "load" else plan_of
    return plan_configurations(typed(given, command), command, lambda it: make("models/tiny.onnx", it))


def test_threads_between_operators_are_of_parallel_configurations_alone() -> None:
    found = planned("run", {"execution-mode": "sequential,parallel", "inter-op-threads": "2,4"})
    modes = [(it.target.execution_mode, it.target.inter_op_threads) for it in found]
    assert modes == [("sequential", None), ("parallel", 2), ("parallel", 4)]
    with pytest.raises(BadInput, match="operators run one at a time"):
        check(planned("run", {"execution-mode": "sequential", "inter-op-threads": "2"})[0])


def test_lists_of_workers_and_of_what_clients_of_a_load_have() -> None:
    found = planned("load", {"rate": "10,20", "workers": "1,2", "sessions": "shared,process"})
    pairs = [(sessions, workers) for sessions in ("shared", "process") for workers in (1, 2)]
    assert [(it.sessions, it.workers, it.rate) for it in map(load_in, found)] == [(*it, (10, 20)) for it in pairs]
    assert name_configurations(found) == [f"sessions={sessions} workers={workers}" for sessions, workers in pairs]


def test_what_is_no_list() -> None:
    no_number = "is not a whole number; several are written as 1,2"
    for given, message in (
        ({"intra-op-threads": "1,x"}, f"--intra-op-threads 'x': {no_number}"),
        ({"intra-op-threads": "1,"}, f"--intra-op-threads '': {no_number}"),
        ({"intra-op-threads": "2,2"}, "--intra-op-threads 2,2: '2' is in the list twice"),
        ({"dim": ["b=1,1"]}, "--dim b=1,1: '1' is in the list twice"),
        ({"dim": ["b=1,"]}, "--dim b=: '' is not a whole number"),
    ):
        assert refusal(BadInput, plans, given) == message
    sizes = ",".join(map(str, range(1, MAX_CONFIGURATIONS + 1)))
    assert len(configurations({"dim": [f"b={sizes}"]})) == MAX_CONFIGURATIONS


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"dim": ["batch=1,8"]}, ["batch=1", "batch=8"]),
        ({"dim": ["batch=1,8", "s=4"], "intra-op-threads": "1,2"}, [f"intra-op-threads={it} batch={size}" for it in (1, 2) for size in (1, 8)]),
        ({"opt-level": "basic,all"}, ["opt-level=basic", "opt-level=all"]),
        ({"shape": ["x:1x3,8x3"]}, ["x=1x3", "x=8x3"]),
        ({"ep": ["cpu", "cuda"], "intra-op-threads": "1,2"}, [f"{ep} intra-op-threads={it}" for ep in ("cpu", "cuda") for it in (1, 2)]),
        ({"ep": ["/a/lib.so", "/b/lib.so"]}, ["a/lib", "b/lib"]),
        ({"ep": ["/a/c/lib.so", "/b/c/lib.so", "/b/c/other.so", "cpu"]}, ["a/c/lib", "b/c/lib", "other", "cpu"]),
        ({"ep": ["cuda", "/a/cuda.so"]}, ["cuda", "a/cuda"]),
        ({"ep": ["/a/lib.so", "/a/x/../lib.so"]}, ["/a/lib.so", "/a/x/../lib.so"]),
        ({"intra-op-threads": "2"}, ["auto"]),
    ],
)  # fmt: skip
def test_configurations_are_called_by_what_differs(given: dict[str, Any], names: list[str]) -> None:
    assert name_configurations(plans(given)) == names


def test_names_of_settings_that_one_has_not_and_whose_texts_are_alike() -> None:
    cases: list[tuple[list[dict[str, Any]], list[str]]] = [
        ([{"cuda-graph": True}, {"intra-op-threads": 1}], ["intra-op-threads=default cuda-graph", "intra-op-threads=1 no cuda-graph"]),
        ([{"session-config": {"a": text}} for text in ("x y", "x-y")], ["a=x y", "a=x-y-2"]),
        ([{"ep": "cpu"}, {"ep": "cuda", "ep-option": {"a": "1"}}], ["cpu", "cuda"]),
    ]  # fmt: skip
    for several, names in cases:
        assert name_configurations([plan_of("m.onnx", it) for it in several]) == names
    for given, is_so in (
        ({"ep": ["cpu", "a.so"]}, True),
        ({}, True),
        ({"ep": ["cpu", "cuda"], "intra-op-threads": "1,2"}, False),
    ):
        assert differ_by_ep(plans(given)) is is_so


# The whole plan, to the worker and back


def test_the_worker_reads_the_plan_that_was_sent() -> None:
    target = Target(
        "webgpu", "lib.so", 1, {"a": "1"}, {"b": "2"}, 3, cpu_mem_arena=False, opt_level="basic", no_cpu_fallback=True
    )
    inputs = Inputs("in.npz", "out.npz", {"x": (1, 2), "s": ()}, {"n": 4}, {"q": 3}, {"x": (0.0, 1.5)}, 5, 1e-3, 1e-5)
    for plan in (Plan("m.onnx", target, inputs), Plan("m.onnx")):
        request = json.loads(json.dumps(plan.worker_request()))
        assert request["model"] == "m.onnx"
        assert (target_from(request["target"]), inputs_from(request["inputs"])) == (plan.target, plan.inputs)
    assert asdict(Inputs()) == request["inputs"]


def test_what_is_measured_unless_something_else_is_asked_for() -> None:
    usual = ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")
    assert Plan("m.onnx").modes == USUAL_MODES == usual
    made = Plan("m.onnx")
    assert (made.loop, made.timeout_s) == (Loop(warmup=None, duration_s=5.0, iterations=None, precision=0.01), 600.0)
    assert (made.target.ep, made.target.no_cpu_fallback, made.inputs.seed) == ("auto", False, 0)
