"""Sequences, optionals and values of four bits: what ONNX's own test sets hold, synthetic ones, and what refuses them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.model.modes import CPU
from ortbench.plan.target import Inputs
from ortbench.worker import first_run, input_arrays
from ortbench.worker.modes import make_mode
from ortbench.worker.proofs import check_outputs, difference, find_difference
from ortbench.worker.tensors import TensorSpec, host_array, host_value, nbytes
from tests.conftest import cases, measure, ortbench
from tests.expect import refusal, there
from tests.worker import opened, saved

INSERT = "g (seq(float[N, 2]) s, float[2] x) => (seq(float[]) o) { o = SequenceInsert(s, x) }"


_WRITERS: dict[str | None, Callable[..., Any]] = {
    "tensor_type": numpy_helper.from_array,
    "sequence_type": numpy_helper.from_list,
    "optional_type": numpy_helper.from_optional,
}


def write(case: Any, folder: Path) -> None:
    """Write a case as ONNX's data folders have it."""
    folder.mkdir()
    onnx.save(case.model, folder / "model.onnx")
    graph, (inputs, outputs) = case.model.graph, case.data_sets[0]
    for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        for number, (value, info) in enumerate(zip(values, infos, strict=True)):
            if not isinstance(value, onnx.TensorProto):
                value = _WRITERS[info.type.WhichOneof("value")](value, info.name)
            (folder / f"{kind}_{number}.pb").write_bytes(value.SerializeToString())


def run(model: Path, **inputs: Any) -> first_run.Data:
    return first_run.make_data(str(model), opened(model), Inputs(**inputs))


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")  # of NumPy, where ONNX makes them
def test_onnx_s_own_test_sets_run_in_mode_cpu(tmp_path: Path) -> None:
    """Those with an input or output that is no tensor, or of four bits."""
    names = set()
    for case in load_node_model_tests():
        model = there(case.model)
        kinds = {it.type.tensor_type.elem_type for it in (*model.graph.input, *model.graph.output)}
        if not kinds & {0, TensorProto.INT4, TensorProto.UINT4}:
            continue
        model.ir_version = min(model.ir_version, 10)
        for entry in model.opset_import:
            entry.version = min(entry.version, 23)  # that every ONNX Runtime knows which ortbench works with
        folder = tmp_path / case.name
        write(case, folder)
        data = run(folder / "model.onnx", path=str(folder))
        assert data.expected, case.name
        check_outputs(make_mode(CPU, opened(folder / "model.onnx"), data), None, None)
        names.add(case.name)
    assert names >= {f"test_{name}" for name in (
        "identity_sequence", "identity_opt", "if_opt", "loop16_seq_none", "split_to_sequence_1", "optional_has_element_empty_optional_input",
        "optional_get_element_optional_tensor", "dequantizelinear_int4", "quantizelinear_uint4",
    )}  # fmt: skip


def test_expected_outputs_that_are_others_are_found(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.onnx", "g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }")
    model, value = opened(path), [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
    place = tmp_path / "set"
    place.mkdir()
    for kind in ("input_0", "output_0"):
        (place / f"{kind}.pb").write_bytes(numpy_helper.from_list(value).SerializeToString())
    first_run.make_data(str(path), model, Inputs(path=str(place), expect=str(place)))
    for number, wrong in enumerate(([*value, value[0]], [value[0] + 1, *value[1:]], [])):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert input_arrays.save_arrays(folder, model.outputs, [wrong], "output")
        with pytest.raises(BenchmarkFailed, match=r"not the expected ones: .*output y"):
            first_run.make_data(str(path), model, Inputs(path=str(place), expect=str(folder)))


def test_what_outputs_are_compared_with_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "model.onnx", "g (float[2] x) => (float[2] y) { y = Identity(x) }")
    np.savez(tmp_path / "x.npz", x=np.array([1, 2], np.float32))
    np.savez(tmp_path / "y.npz", y=np.array([1, 2], np.float32))
    for expect, source in ((None, "the first session.run with CPU tensors"), ("y.npz", "the expected outputs")):
        mode = make_mode(
            CPU, opened(path), run(path, path=str(tmp_path / "x.npz"), expect=expect and str(tmp_path / expect))
        )
        check_outputs(mode, None, None)
        monkeypatch.setattr(mode, "outputs", lambda: [np.array([1, 2.123456], np.float32)])
        wrong = f"1 of 2 values of output y differ from {source}, first at [1]: 2.123 instead of 2"
        assert find_difference(mode, None, None) == wrong


def test_a_sequence_is_made_of_as_many_tensors_as_was_said(tmp_path: Path) -> None:
    data = run(saved(tmp_path / "m.onnx", INSERT), lengths={"s": 3}, dims={"N": 4})
    assert [array.shape for array in data.arrays["s"]] == [(4, 2)] * 3
    assert not np.array_equal(data.arrays["s"][0], data.arrays["s"][1])
    assert [array.shape for array in data.reference[0]] == [(4, 2)] * 3 + [(2,)]
    assert nbytes(data.reference[0]) == 3 * 32 + 8
    assert run(tmp_path / "m.onnx", lengths={"s": 0}).arrays["s"] == []
    shaped = run(tmp_path / "m.onnx", lengths={"s": 1}, shapes={"s": (7, 2)}, ranges={"s": (5.0, 6.0)})
    assert shaped.arrays["s"][0].shape == (7, 2)
    assert shaped.arrays["s"][0].min() >= 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'s': a sequence has any number of tensors; say how many: --sequence-tensors s=N"),
        ({"lengths": {"x": 3}}, "--sequence-tensors x: the model has no such input that is a sequence; it has s"),
        ({"path": "x.npz", "lengths": {"s": 3}}, "--sequence-tensors cannot be combined with --input"),
        ({"path": "x.npz"}, "x.npz: s is seq(tensor(float)), which no .npz holds: take a folder of input_0.pb"),
    ],
)
def test_what_cannot_be_made(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(BadInput, run, saved(tmp_path / "m.onnx", INSERT), **given)


@pytest.mark.parametrize("value", [None, np.ones(2, np.float32), [np.ones(2, np.float32)], []])
def test_optionals_are_saved_as_they_are_read(value: Any, tmp_path: Path) -> None:
    kind = "optional(seq(tensor(float)))" if isinstance(value, list) else "optional(tensor(float))"
    spec = TensorSpec("o", kind, (2,))
    assert input_arrays.save_arrays(tmp_path, [spec], [value], "output")
    assert difference("o", input_arrays.load_arrays(tmp_path, [spec], "output")["o"], value) is None
    as_onnx = onnx.OptionalProto.FromString((tmp_path / "output_0.pb").read_bytes())
    assert difference("o", numpy_helper.to_optional(as_onnx), value) is None


A, B = np.zeros(2, np.float32), np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("got", "reference", "said"),
    [
        ([A, B], [A, B], "None"),
        (None, None, "None"),
        ([A], [A, B], "output o holds 1 tensor(s) instead of 2 tensor(s)"),
        (None, A, "output o holds nothing instead of a tensor"),
        ([A, A], [A, B], "2 of 2 values of output o, tensor 1 differ, first at [0]"),
    ],
)
def test_what_differs_in_sequences_and_optionals(got: Any, reference: Any, said: str) -> None:
    assert str(difference("o", got, reference)).startswith(said)


@pytest.mark.parametrize(("element", "least", "most"), [("int4", -8, 7), ("uint4", 0, 15)])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (3, 5), (0,), (2, 4)])
def test_four_bits_there_and_back(element: str, least: int, most: int, shape: tuple[int, ...]) -> None:
    spec = TensorSpec("x", f"tensor({element})", shape)
    array = np.random.default_rng(1).integers(least, most, shape, endpoint=True, dtype=np.int8).astype(spec.dtype)
    value = host_value(spec, np.asarray(array))
    assert (tuple(value.shape()), value.data_type()) == (shape, f"tensor({element})")
    assert value.tensor_size_in_bytes() == spec.nbytes(shape) == nbytes(np.asarray(array))
    back = host_array(spec, value)
    assert (back.dtype, back.shape) == (spec.dtype, shape)
    assert np.array_equal(back.astype(np.int8), np.asarray(array).astype(np.int8))


@pytest.mark.parametrize("element", ["int4", "uint4"])
def test_onnx_runtime_reads_and_writes_them_so(element: str, tmp_path: Path) -> None:
    text = f"""g ({element}[3,5] q) => (float[3,5] y, {element}[3,5] p) <float s = {{1.0}}, {element} z = {{0}}> {{
        y = DequantizeLinear(q, s)  p = QuantizeLinear(y, s, z) }}"""
    path = saved(tmp_path / "m.onnx", text, opset=21)
    data = run(path)
    given = data.arrays["q"].astype(np.float32)
    assert len(np.unique(given)) > 5  # its whole range
    assert np.array_equal(data.reference[0], given)
    assert np.array_equal(data.reference[1].astype(np.float32), given)
    np.savez(tmp_path / "in.npz", q=data.arrays["q"])
    assert np.array_equal(run(path, path=str(tmp_path / "in.npz")).reference[0], given)


@pytest.mark.process
def test_a_run_with_a_sequence(tmp_path: Path) -> None:
    path, once = saved(tmp_path / "m.onnx", INSERT), ("--iterations", 2, "--warmup", 0)
    result = measure(path, "--ep", "cpu", "--sequence-tensors", "s=3", "--measure-nodes", *once, out=tmp_path / "out")
    found = cases(result)
    cpu = found.pop("cpu-tensors")
    assert (cpu["status"], cpu["checks"]["outputs"]["verdict"]) == ("ok", "passed")
    why = "'s' is seq(tensor(float)): only tensors can be bound and copied, so only mode cpu-tensors runs it"
    assert {case["reason"] for case in found.values()} == {why}
    given = {key: result["model"]["inputs"][0][key] for key in ("shape", "tensors", "bytes", "model_shape")}
    assert given == {"shape": None, "tensors": [[1, 2]] * 3, "bytes": 24, "model_shape": ["N", 2]}
    assert result["model"]["outputs"][0]["tensors"] == [[1, 2]] * 3 + [[2]]
    measure(path, "--ep", "cpu", "--sequence-tensors", "s=4", *once, out=tmp_path / "other")
    refused = ortbench("compare", *((next((tmp_path / name).glob("[!.]*"))) for name in ("out", "other")))
    assert (refused.code, "shapes" in refused.error_line) == (5, True)
    found = json.loads(ortbench("inspect", path, "--json", "-").out)
    assert (found["inputs"][0]["bytes"], found["bytes_in"]) == (None, None)
    assert "--sequence-tensors s=N" in found["not_run"]


@pytest.mark.process
def test_sequences_of_another_ep_are_held_against_those_of_the_first(library: Path, tmp_path: Path) -> None:
    """Also where the model states another shape for its tensors than they have, which ONNX Runtime lets pass."""
    path = saved(tmp_path / "m.onnx", INSERT.replace("seq(float[])", "seq(float[2])"))
    once = ("--sequence-tensors", "s=2", "--iterations", 1, "--warmup", 0, "--out", tmp_path / "out")
    ran = ortbench("run", path, "--ep", "cpu", "--ep", library, *once)
    assert (ran.code, ran.err) == (0, "")


def test_a_sequence_beside_a_dtype_that_numpy_has_not(tmp_path: Path) -> None:
    text = "g (seq(float[2]) s, bfloat16[2] x) => (int64 n, bfloat16[2] y) { n = SequenceLength(s) y = Identity(x) }"
    with pytest.raises(Unsupported, match="never both in a run"):
        run(saved(tmp_path / "m.onnx", text), lengths={"s": 1})
