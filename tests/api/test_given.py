"""From the values of a call to the values of options, and to the words of a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.api.values import Lent, command_line, given_of, in_python, options_for
from ortbench.core.errors import BadInput
from tests.expect import refusal

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"ep": "cuda", "intra_op_threads": None, "cuda_graph": False, "cpu_mem_arena": None}, {"ep": "cuda"}),
    ({"modes": "cpu-tensors"}, {"mode": ["cpu-tensors"]}),
    ({"modes": ("cpu-tensors", "device-tensors")}, {"mode": ["cpu-tensors", "device-tensors"]}),
    ({"duration": 2, "processes": np.int64(3)}, {"duration": "2", "processes": 3}),
    ({"precision": 0.02}, {"precision": "0.02"}),
    ({"precision": "2%"}, {"precision": "2%"}),
    ({"dim": {"batch": 8, "past": "batch+1"}}, {"dim": ["batch=8", "past=batch+1"]}),
    ({"shape": {"x": (1, 3, 224), "y": "2x2"}}, {"shape": ["x:1x3x224", "y:2x2"]}),
    ({"range": {"x": (0, 1)}}, {"range": ["x:0,1"]}),
    ({"ep_option": {"device_id": 1}}, {"ep-option": ["device_id=1"]}),
    ({"cuda_graph": True, "out": Path("here")}, {"cuda-graph": True, "out": "here"}),
    ({"cpu_mem_arena": False, "mem_pattern": True}, {"cpu-mem-arena": False, "mem-pattern": True}),
    ({"expect": Path("a") / "b.npz"}, {"expect": str(Path("a") / "b.npz")}),
]


SHAPES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"dim": {"batch": [1, 8], "past": "batch*2"}}, {"dim": ["batch=1,8", "past=batch*2"]}),
    ({"dim": {"batch": "1..64"}}, {"dim": ["batch=1..64"]}),
    ({"dim": {"batch": np.int64(8)}}, {"dim": ["batch=8"]}),
    ({"shape": {"x": [(1, 3), "8x3"], "y": [2, 2]}}, {"shape": ["x:1x3,8x3", "y:2x2"]}),
    ({"shape": {"x": "1x3,8x3"}}, {"shape": ["x:1x3,8x3"]}),
    ({"data": [Path("a"), "b"]}, {"data": ["a", "b"]}),
]


@pytest.mark.parametrize(
    ("command", "values", "words"),
    [*(("run", *pair) for pair in SAME), *(("sweep", *pair) for pair in SHAPES)],
    ids=lambda it: str(it),
)
def test_values_become_words_and_what_the_words_stand_for(
    command: str, values: dict[str, Any], words: dict[str, Any]
) -> None:
    options = options_for(command)
    given, typed = given_of(options, values)
    assert typed == words
    assert given == {it.flag: it.read(words[it.flag]) for it in options.values() if it.flag in words}


def test_a_baseline_takes_options_back() -> None:
    own: dict[str, Any] = {"intra_op_threads": "", "ep_option": {}, "dynamic_outputs": False, "cuda_graph": True}
    own |= {"shape": {"x": (1, 3)}, "keep": ["a", "b"], "ep": None}
    given, words = given_of(options_for("gate"), {"baseline_set": own})
    expected: dict[str, Any] = {"intra-op-threads": None, "ep-option": {}, "dynamic-outputs": False, "cuda-graph": True}
    expected |= {"shape": {"x": (1, 3)}, "keep": ("a", "b")}
    assert given == {f"baseline-set.{flag}": value for flag, value in expected.items()}
    typed = ["intra-op-threads=", "ep-option=", "dynamic-outputs=off", "cuda-graph=on", "shape=x:1x3"]
    typed += ["keep=a", "keep=b"]
    assert words == {"baseline-set": typed}
    assert options_for("gate")["baseline_set"].read(typed) == given  # the command line means the same by them


REFUSED: list[tuple[str, Any, str, str]] = [
    ("run", {"intra_op_threads": "four"}, "intra_op_threads: must be a whole number", "--intra-op-threads"),
    ("run", {"intra_op_threads": True}, "intra_op_threads: must be a whole number", "--intra-op-threads"),
    ("run", {"ep": ["cpu-tensors", "webgpu"]}, "ep: must be text", "--ep"),
    ("run", {"dim": 3}, 'dim: must be a mapping, such as {name: 8} or {name: "other+1"}', "--dim"),
    ("run", {"dim": {"batch": 1.5}}, "dim: must be a whole number", "--dim"),
    ("run", {"precision": "much"}, "precision 'much': write a share above zero such as 1% or 0.01", "--precision"),
    ("run", {"modes": "gpu"}, "modes 'gpu': there is no such mode; choose from cpu-tensors", "--mode"),
    ("run", {"range": {"x": [1]}}, "range: must be such as [0, 1]", "--range"),
    ("gate", {"intra_op_threads": 0.5}, '["intra_op_threads"]: must be a whole number', "--baseline-set"),
    ("gate", {"dim": {"n": 1.5}}, '["dim"]: must be a whole number', "--baseline-set"),
    ("gate", {"intra_op": 1}, '["intra_op"]: there is no such key; did you mean intra_op_threads?', "--baseline-set"),
    ("gate", {"python": "p"}, '["python"]: is given by baseline_python', "--baseline-set"),
    ("gate", {"duration": 1}, '["duration"]: is the same for candidate and baseline', "--baseline-set"),
    ("gate", [1], ': must be a mapping, such as {"intra_op_threads": 1}', "--baseline-set"),
]


@pytest.mark.parametrize(("command", "values", "message", "option"), REFUSED, ids=lambda it: str(it))
def test_what_cannot_be_is_said_with_the_parameters_name(command: str, values: Any, message: str, option: str) -> None:
    own = command == "gate"  # of a baseline
    with pytest.raises(BadInput) as raised:
        given_of(options_for(command), {"baseline_set": values} if own else values)
    assert str(raised.value).startswith(f"baseline_set{message}" if own else message)
    assert raised.value.option == option


def test_errors_of_later_checks_speak_python_too() -> None:
    options = options_for("run")
    assert str(in_python(BadInput("--ep-option a: is none", "--ep-option"), options)) == "ep_option a: is none"
    from_worker = in_python(BadInput("--dim n: the model has no such symbolic dimension"), options)
    assert (str(from_worker), from_worker.option) == ("dim n: the model has no such symbolic dimension", "--dim")
    for error in (BadInput("no such file: x"), BadInput("--elsewhere: x", "--elsewhere")):
        assert in_python(error, options) is error


def test_the_command_that_does_the_same() -> None:
    values = {"ep": "cpu", "modes": ["cpu-tensors"], "mem_pattern": False, "dim": {"n": 8}, "note": "a b"}
    _, words = given_of(options_for("run"), values)
    assert " ".join(command_line("run", ["my model.onnx"], words)) == (
        "ortbench run 'my model.onnx' --ep cpu --no-mem-pattern --mode cpu-tensors --dim n=8 --note 'a b'"
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
        assert lent.display(several) == ["data-1.npz", "y.npz"]
        assert lent.model(Path("m.onnx"), "model") == "m.onnx"
        assert "model: must be a path, bytes or an onnx.ModelProto, not int" in refusal(
            BadInput, lent.model, 3, "model"
        )
        ragged = {"x": [[1], [1, 2]]}
        assert refusal(BadInput, lent.arrays, ragged, "input").startswith("input['x']: is no array: ")
        assert refusal(BadInput, lent.several, [{"x": [1]}, ragged], "data").startswith("data[1]['x']: is no array: ")
    assert not path.exists()
    assert not Path(arrays).exists()


def test_messages_do_not_say_where_what_was_in_memory_lay() -> None:
    with pytest.raises(BadInput) as raised, Lent() as lent:
        raise BadInput(f"{lent.arrays({'x': 1.0}, 'input')}: x is float64", "--input")
    assert (str(raised.value), raised.value.option) == ("input.npz: x is float64", "--input")
