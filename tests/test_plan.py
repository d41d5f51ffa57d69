"""Parsing of options, and the check of a whole plan."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.model.modes import MODES, USUAL_MODES
from ortbench.plan.option_types import parse_dimension, parse_precision, parse_share
from ortbench.plan.plan import Loop, Plan, check
from ortbench.plan.target import Inputs, Target, inputs_from, target_from
from tests.expect import refusal
from tests.typed import typed


def read(flag: str, *words: str) -> Any:
    """The value of an option of a command that takes no lists."""
    return typed({flag: words}, "load")[flag]


# key=value


def test_pairs() -> None:
    items = ["device_id=0", "a=b=c", "empty=", "trt.path=/x y"]
    assert read("ep-option", *items) == {"device_id": "0", "a": "b=c", "empty": "", "trt.path": "/x y"}
    assert read("ep-option") == {}
    for item in ["device_id", "=0", ""]:
        assert refusal(BadInput, read, "ep-option", item) == f"--ep-option {item!r}: write it as key=value"


# --shape


def test_shapes() -> None:
    for item, name, shape in [
        ("x:1x3x224x224", "x", (1, 3, 224, 224)),
        ("x:1,3", "x", (1, 3)),
        ("x:7", "x", (7,)),
        ("input:0:1x3", "input:0", (1, 3)),
        ("a:b:c:2", "a:b:c", (2,)),
        ("x:", "x", ()),
        ("input:0:", "input:0", ()),
        ("max pool/x:2x2", "max pool/x", (2, 2)),
    ]:
        assert read("shape", item) == {name: shape}
    assert read("shape", "x:1x2", "y:3") == {"x": (1, 2), "y": (3,)}
    for item in ["x", "1x3", ":1x3", ":", ""]:
        assert refusal(BadInput, read, "shape", item) == f"--shape {item!r}: write it as name:1x3x224x224"
    for item, what in [
        ("x:1xN", "'N' is not a whole number"),
        ("x:1.5", "'1.5' is not a whole number"),
        ("x:1X3", "'1X3' is not a whole number"),
        ("x:1*3", "'1*3' is not a whole number"),
        ("x:-1x3", "a dimension cannot be negative"),
        (
            "x:1x0",
            "a dimension of 0 leaves nothing to measure; a model that needs one takes it by --input",
        ),
    ]:
        assert refusal(BadInput, read, "shape", item) == f"--shape {item!r}: {what}"
    for text in ["x:x", "x:,", "x:1xx3", "x:1x", "x: 3", "x:1_0"]:
        with pytest.raises(BadInput, match="is not a whole number"):
            read("shape", text)


# --dim


def test_dims() -> None:
    assert read("dim", "batch=8", "sequence length=128") == {"batch": 8, "sequence length": 128}
    items = ["total=past + sequence", "past_length + 1=3", "a=b", "b=(a-1)//2*heads", "none=0", "x=00"]
    assert read("dim", *items) == {
        "total": "past + sequence", "past_length + 1": 3, "a": "b", "b": "(a-1)//2*heads", "none": 0, "x": 0,
    }  # fmt: skip
    assert refusal(BadInput, read, "dim", "batch") == "--dim 'batch': write it as key=value"
    for item, what in [
        ("batch=", "'' is not a whole number"),
        ("batch=very many", "'very many' is not a whole number"),
        ("batch=3//2", "'3//2' is not a whole number"),
        ("batch=2**sequence", "'2**sequence' is not a whole number"),
        ("batch=-4", "a dimension cannot be negative"),
    ]:
        assert refusal(BadInput, read, "dim", item) == f"--dim {item}: {what}"
    assert parse_dimension("12", "--dim n=12") == 12
    assert refusal(BadInput, parse_dimension, "x", "here") == "here: 'x' is not a whole number"


# --range


def test_ranges() -> None:
    for item, name, bounds in [
        ("x:0,255", "x", (0.0, 255.0)),
        ("x:-1.5,1e3", "x", (-1.5, 1000.0)),
        ("x:3,3", "x", (3.0, 3.0)),
        ("input:0:0,1", "input:0", (0.0, 1.0)),
    ]:
        assert read("range", item) == {name: bounds}
    for item in ["x", "x:", "x:1", "x:1,", "x:,1", "x:a,b", "x:1,2,3", ":1,2", "1,2", ""]:
        assert refusal(BadInput, read, "range", item) == f"--range {item!r}: write it as name:low,high"
    assert refusal(BadInput, read, "range", "x:2,1") == "--range 'x:2,1': low is above high"
    for text in ["x:0,inf", "x:nan,1", "x:-inf,0"]:
        with pytest.raises(BadInput, match="finite"):
            read("range", text)


# --precision


def test_shares() -> None:
    for text, share in [("1%", 0.01), ("0.5%", 0.005), ("0.01", 0.01), ("100%", 1.0), ("2", 2.0), ("1e-3", 0.001)]:
        assert parse_share(text, "--precision") == pytest.approx(share)
    for text, precision in [("0", 0.0), ("0%", 0.0), ("1%", 0.01)]:
        assert parse_precision(text) == precision
        assert (
            refusal(BadInput, parse_precision, "-1%")
            == "--precision '-1%': write a share above zero such as 1% or 0.01"
        )
    for text in ["0", "0%", "-1%", "-0.1", "", "%", "1%%", "one", "nan", "nan%", "inf", "1000%"]:
        assert (
            refusal(BadInput, parse_share, text, "--precision")
            == f"--precision {text!r}: write a share above zero such as 1% or 0.01"
        )


# The whole plan


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    return path


def test_a_plan_that_is_fine(model: Path, tmp_path: Path) -> None:
    check(Plan(str(model)))
    target = Target("cuda", str(model), 0, {"k": "v"}, {"k": "v"}, 1, opt_level="disable", no_cpu_fallback=True)
    inputs = Inputs(path=str(tmp_path), expect=str(tmp_path), seed=1, rtol=0.0, atol=0.5)
    loop = Loop(warmup=0, duration_s=0.1, iterations=1, precision=0.5)
    check(Plan(str(model), target, inputs, ("device-tensors",), loop, 1.0))


# To the worker and back


def test_the_worker_reads_the_plan_that_was_sent() -> None:
    wanted = Target(
        "webgpu", "lib.so", 1, {"a": "1"}, {"b": "2"}, 3, cpu_mem_arena=False, opt_level="basic", no_cpu_fallback=True
    )
    given = Inputs("in.npz", "out.npz", {"x": (1, 2), "s": ()}, {"n": 4}, {"q": 3}, {"x": (0.0, 1.5)}, 5, 1e-3, 1e-5)
    request = json.loads(json.dumps(Plan("m.onnx", wanted, given).worker_request()))
    assert request["model"] == "m.onnx"
    assert target_from(request["target"]) == wanted
    assert inputs_from(request["inputs"]) == given
    request = json.loads(json.dumps(Plan("m.onnx").worker_request()))
    assert target_from(request["target"]) == Target()
    assert inputs_from(request["inputs"]) == Inputs()
    assert asdict(Inputs()) == request["inputs"]
    assert (
        Plan("m.onnx").modes == USUAL_MODES == ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")
    )
    assert (*USUAL_MODES, "cpu-tensors-pinned", "device-tensors-pinned", "pipelined", "device-resident-async") == tuple(
        MODES
    )
    made = Plan("m.onnx")
    assert (made.loop, made.timeout_s) == (Loop(warmup=None, duration_s=5.0, iterations=None, precision=0.01), 600.0)
    assert (made.target.ep, made.target.no_cpu_fallback, made.inputs.seed) == ("auto", False, 0)
