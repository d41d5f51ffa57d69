"""From the values of a call to the values of options, and to the words of a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.api.given import command_line, given_of, in_python, options_for
from ortbench.api.memory_inputs import Lent
from ortbench.core.errors import BadInput
from ortbench.plan.list_syntax import Several

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"ep": "cuda", "threads": None, "pinned": False}, {"ep": "cuda"}),
    ({"modes": "cpu-tensors"}, {"mode": ["cpu-tensors"]}),
    ({"modes": ("cpu-tensors", "device-tensors")}, {"mode": ["cpu-tensors", "device-tensors"]}),
    ({"duration": 2, "iterations": np.int64(3)}, {"duration": 2.0, "iterations": 3}),
    ({"precision": 0.02}, {"precision": "0.02"}),
    ({"precision": "2%"}, {"precision": "2%"}),
    ({"dim": {"batch": 8, "past": "batch+1"}}, {"dim": ["batch=8", "past=batch+1"]}),
    ({"shape": {"x": (1, 3, 224), "y": "2x2"}}, {"shape": ["x:1x3x224", "y:2x2"]}),
    ({"range": {"x": (0, 1)}}, {"range": ["x:0,1"]}),
    ({"ep_option": {"device_id": 1}}, {"ep-option": ["device_id=1"]}),
    ({"pinned": True, "out": Path("here")}, {"pinned": True, "out": "here"}),
    ({"expect": Path("a") / "b.npz"}, {"expect": str(Path("a") / "b.npz")}),
]


@pytest.mark.parametrize(("values", "given"), SAME, ids=lambda values: str(values))
def test_values_become_what_is_typed(values: dict[str, Any], given: dict[str, Any]) -> None:
    assert given_of(options_for("run"), values)[1] == given


SHAPES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"dim": {"batch": [1, 8], "past": "batch*2"}}, {"dim": ["batch=1,8", "past=batch*2"]}),
    ({"dim": {"batch": "1..64"}}, {"dim": ["batch=1..64"]}),
    ({"dim": {"batch": np.int64(8)}}, {"dim": ["batch=8"]}),
    ({"shape": {"x": [(1, 3), "8x3"], "y": [2, 2]}}, {"shape": ["x:1x3,8x3", "y:2x2"]}),
    ({"shape": {"x": "1x3,8x3"}}, {"shape": ["x:1x3,8x3"]}),
    ({"data": [Path("a"), "b"]}, {"data": ["a", "b"]}),
]


@pytest.mark.parametrize(("values", "given"), SHAPES, ids=lambda values: str(values))
def test_a_sweep_takes_several_values(values: dict[str, Any], given: dict[str, Any]) -> None:
    assert given_of(options_for("sweep"), values)[1] == given


def test_values_are_those_that_the_words_stand_for() -> None:
    for command, pairs in (("run", SAME), ("sweep", SHAPES)):
        for values, words in pairs:
            given, _ = given_of(options := options_for(command), values)
            assert given == {it.flag: it.read(words[it.flag]) for it in options.values() if it.flag in words}
    given, _ = given_of(
        options_for("sweep"), {"dim": {"batch": [1, 8], "n": "other+1"}, "shape": {"x": [[1, 3], "8x3"]}}
    )
    assert given == {"dim": {"batch": Several((1, 8)), "n": "other+1"}, "shape": {"x": Several(((1, 3), (8, 3)))}}


def test_what_is_no_list_of_shapes_is_said() -> None:
    for values, message in (
        ({"dim": {"batch": [1, 1]}}, "dim batch=1,1: '1' is in the list twice"),
        ({"dim": {"batch": []}}, "dim batch=: '' is not a whole number"),
        ({"dim": {"batch": [1, 1.5]}}, "dim: must be a whole number"),
        ({"shape": {"x": ["1x3", "8xq"]}}, "shape 'x:8xq': 'q' is not a whole number"),
    ):
        with pytest.raises(BadInput) as raised:
            given_of(options_for("sweep"), values)
        assert str(raised.value).startswith(message)


def test_a_load_takes_numbers_and_lists_of_them() -> None:
    values = {"concurrency": [1, np.int64(2)], "rate": (10, 20.5), "slo": "p99=20ms"}
    given, words = given_of(options_for("load"), values)
    assert given == {"concurrency": (1, 2), "rate": (10, 20.5), "slo": {"p99": 20_000_000}}
    assert words == {"concurrency": "1,2", "rate": "10,20.5", "slo": "p99=20ms"}
    given, words = given_of(options_for("load"), {"concurrency": 4, "rate": "auto"})
    assert (given, words) == ({"concurrency": (4,), "rate": "auto"}, {"concurrency": "4", "rate": "auto"})


def test_a_baseline_takes_options_back() -> None:
    values = {
        "baseline_threads": "",
        "baseline_ep_option": {},
        "baseline_dynamic_outputs": False,
        "baseline_cuda_graph": True,
    }
    given, words = given_of(options_for("gate"), values)
    assert given == {
        "baseline-threads": None,
        "baseline-ep-option": {},
        "baseline-dynamic-outputs": False,
        "baseline-cuda-graph": True,
    }
    assert words == {
        "baseline-threads": "",
        "baseline-ep-option": [""],
        "baseline-dynamic-outputs": "off",
        "baseline-cuda-graph": "on",
    }


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"threads": "four"}, "threads: must be a whole number", "--threads"),
    ({"threads": True}, "threads: must be a whole number", "--threads"),
    ({"ep": ["cpu-tensors", "webgpu"]}, "ep: must be text", "--ep"),
    ({"dim": 3}, 'dim: must be a mapping, such as {name: 8} or {name: "other+1"}', "--dim"),
    ({"dim": {"batch": 1.5}}, "dim: must be a whole number", "--dim"),
    ({"precision": "much"}, "precision 'much': write a share above zero such as 1% or 0.01", "--precision"),
    ({"modes": "gpu"}, "modes 'gpu': there is no such mode; choose from cpu-tensors", "--mode"),
    ({"range": {"x": [1]}}, "range: must be such as [0, 1]", "--range"),
]


@pytest.mark.parametrize(("values", "message", "option"), BAD, ids=lambda it: str(it))
def test_what_cannot_be_is_said_with_the_parameters_name(values: dict[str, Any], message: str, option: str) -> None:
    with pytest.raises(BadInput) as raised:
        given_of(options_for("run"), values)
    assert str(raised.value).startswith(message)
    assert raised.value.option == option


def test_errors_of_later_checks_speak_python_too() -> None:
    options = options_for("run")
    assert str(in_python(BadInput("--ep-option a: is none", "--ep-option"), options)) == "ep_option a: is none"
    from_worker = in_python(BadInput("--dim n: the model has no such symbolic dimension"), options)
    assert (str(from_worker), from_worker.option) == ("dim n: the model has no such symbolic dimension", "--dim")
    for error in (BadInput("no such file: x"), BadInput("--elsewhere: x", "--elsewhere")):
        assert in_python(error, options) is error


def test_the_command_that_does_the_same() -> None:
    values = {
        "ep": "cpu",
        "modes": ["cpu-tensors", "device-tensors"],
        "pinned": True,
        "duration": 2,
        "dim": {"n": 8},
        "note": "a b",
    }
    _, words = given_of(options_for("run"), values)
    assert " ".join(command_line("run", ["my model.onnx"], words)) == (
        "ortbench run 'my model.onnx' --ep cpu --mode cpu-tensors --mode device-tensors --pinned --dim n=8 --duration 2 --note 'a b'"
    )


def test_what_is_in_memory_is_a_file_meanwhile() -> None:
    with Lent() as lent:
        path = Path(lent.model(b"a model", "model"))
        assert path.read_bytes() == b"a model"
        assert lent.called[str(path)] == "model.onnx"
        arrays = lent.arrays({"file": np.ones((2, 3), np.float32), "a/b": ["x", "yz"]}, "input")
        with np.load(arrays) as found:
            assert found["file"].dtype == np.float32
            assert found["a/b"].tolist() == ["x", "yz"]
        assert lent.arrays("x.npz", "input") == "x.npz"
        several = lent.several([{"x": [1.0]}, "y.npz"], "data")
        assert lent.shown(several) == ["data-1.npz", "y.npz"]
        with np.load(several[0]) as found:
            assert found["x"].tolist() == [1.0]
        assert lent.model(Path("m.onnx"), "model") == "m.onnx"
        with pytest.raises(BadInput, match=r"model: must be a path, bytes or an onnx.ModelProto, not int"):
            lent.model(3, "model")
        with pytest.raises(BadInput, match=r"input\['x'\]: is no array: .*folder of input_0.pb"):
            lent.arrays({"x": [[1], [1, 2]]}, "input")
        with pytest.raises(BadInput, match=r"data\[1\]\['x'\]: is no array: "):
            lent.several([{"x": [1]}, {"x": [[1], [1, 2]]}], "data")
    assert not path.exists()
    assert not Path(arrays).exists()


def test_messages_do_not_say_where_what_was_in_memory_lay() -> None:
    with pytest.raises(BadInput) as raised, Lent() as lent:
        raise BadInput(f"{lent.arrays({'x': 1.0}, 'input')}: x is float64", "--input")
    assert str(raised.value) == "input.npz: x is float64"
    assert raised.value.option == "--input"
