"""From the values of a call to the values of options, and to the words of a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.api.values import Lent, command_line, given_of, in_python, options_for
from ortbench.core.errors import BadInput
from ortbench.model.settings import Several

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


def test_a_baseline_takes_options_back() -> None:
    own = {
        "intra_op_threads": "",
        "ep_option": {},
        "dynamic_outputs": False,
        "cuda_graph": True,
        "shape": {"x": (1, 3)},
    }
    values = {"baseline_set": {**own, "keep": ["a", "b"], "ep": None}}
    given, words = given_of(options_for("gate"), values)
    assert given == {
        "baseline-set.intra-op-threads": None,
        "baseline-set.ep-option": {},
        "baseline-set.dynamic-outputs": False,
        "baseline-set.cuda-graph": True,
        "baseline-set.shape": {"x": (1, 3)},
        "baseline-set.keep": ("a", "b"),
    }
    said = [
        "intra-op-threads=", "ep-option=", "dynamic-outputs=off", "cuda-graph=on", "shape=x:1x3", "keep=a", "keep=b",
    ]  # fmt: skip
    assert words == {"baseline-set": said}
    assert options_for("gate")["baseline_set"].read(said) == given  # the command line means the same by them


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"intra_op_threads": 0.5}, 'baseline_set["intra_op_threads"]: must be a whole number'),
        ({"dim": {"n": 1.5}}, 'baseline_set["dim"]: must be a whole number'),
        ({"intra_op": 1}, 'baseline_set["intra_op"]: there is no such key; did you mean intra_op_threads?'),
        ({"python": "p"}, 'baseline_set["python"]: is given by baseline_python'),
        ({"duration": 1}, 'baseline_set["duration"]: is the same for candidate and baseline'),
        ([1], 'baseline_set: must be a mapping, such as {"intra_op_threads": 1}'),
    ],
)
def test_what_a_baseline_cannot_have(own: Any, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        given_of(options_for("gate"), {"baseline_set": own})
    assert (str(raised.value), raised.value.option) == (message, "--baseline-set")


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"intra_op_threads": "four"}, "intra_op_threads: must be a whole number", "--intra-op-threads"),
    ({"intra_op_threads": True}, "intra_op_threads: must be a whole number", "--intra-op-threads"),
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
        "mem_pattern": False,
        "duration": 2,
        "dim": {"n": 8},
        "note": "a b",
    }
    _, words = given_of(options_for("run"), values)
    assert " ".join(command_line("run", ["my model.onnx"], words)) == (
        "ortbench run 'my model.onnx' --ep cpu --no-mem-pattern --mode cpu-tensors --mode device-tensors --dim n=8 --duration 2 --note 'a b'"
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
