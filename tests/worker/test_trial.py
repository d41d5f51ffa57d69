"""What a trial of two inferences tells of a model's outputs, whatever the model declares, and what follows from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from ortbench.model.modes import DEVICE, HOST_ACCESSIBLE, RESIDENT
from ortbench.plan.target import Inputs
from ortbench.worker import first_run
from ortbench.worker.first_run import Data, change_values
from ortbench.worker.modes import make_mode
from ortbench.worker.proofs import check_outputs
from ortbench.worker.session import Model
from tests.conftest import ortbench
from tests.refdevice import Config, Trace
from tests.truth import run_on_device
from tests.worker import opened, saved

MODELS: dict[str, tuple[str, dict[str, str], int]] = {  # the graph, outputs that are bound without a shape, and how many runs tell
    "counts": ("g (float[8] x) => (int64[1, N] out) { out = NonZero(x) }", {"out": "values"}, 2),
    "selects": ("g (float[n] x, bool[n] which) => (float[N] out) { out = Compress<axis=0>(x, which) }", {"out": "values"}, 2),
    "strings": ("g (string[n] x) => (string[N] out) { out = Unique(x) }", {}, 2),
    "trips": (
        "g (int64 n, float[2] x) => (float[N, 2] out) <bool go = {1}> { last, out = Loop(n, go, x) "
        "<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity(c) t = Identity(s) u = Relu(s) }> }",
        {"out": "values"}, 2,
    ),
    "rank": ("g (float[1, n, 4] x) => (float[1, n] out) { out = Squeeze(x) }", {"out": "declared"}, 2),
    "fixed size": ("g (float[n, 4] x) => (float[7, 4] out) { out = Relu(x) }", {"out": "declared"}, 2),
    "an input": ("g (float[n] x) => (float[n] out, float[n] x) { out = Relu(x) }", {"x": "input"}, 1),
    "a constant": ("g (float[n] x) => (float[n] out, float[2] c) <float[2] c = {1.0, 2.0}> { out = Relu(x) }", {}, 1),
    "one of its inputs twice": (
        "g (float[n] x) => (float[n] out, float[n] again) { out = Identity(x) again = Identity(x) }",
        {}, 1,
    ),
    "a sequence": ("g (float[n] x) => (seq(float[m]) out) { out = SequenceConstruct(x, x) }", {}, 1),
    "empty": (
        "g (float[n] x) => (float[z] out, int64[1, N] none) <int64[1] zero = {0}> "
        "{ out = Slice(x, zero, zero) y = Sub(x, x) none = NonZero(y) }",
        {"none": "values"}, 2,
    ),
}  # fmt: skip


def written(graph: str, folder: Path) -> Path:
    """A model of a graph, or of one of those above by its name."""
    return saved(folder / "model.onnx", MODELS.get(graph, (graph,))[0])


def tried(model_path: Path, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> tuple[Model, Data, int]:
    """An open model, what its first runs told, and how many these were."""
    model, calls, once = opened(model_path), [], first_run.run_once

    def counted(*given: Any) -> Any:
        calls.append(given)
        return once(*given)

    monkeypatch.setattr(first_run, "run_once", counted)
    request = Inputs(**{"dims": {"n": 5} if "n" in str([it.shape for it in model.inputs]) else {}, **asked})
    return model, first_run.make_data(str(model_path), model, request), len(calls)


@pytest.mark.parametrize("name", MODELS)
def test_two_inferences_tell_what_outputs_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data, runs = tried(written(name, tmp_path), monkeypatch)
    assert (data.unshaped, runs) == MODELS[name][1:]
    if name not in ("strings", "a sequence"):  # only arrays of numpy hold them
        for mode in (DEVICE, RESIDENT, HOST_ACCESSIBLE):
            check_outputs(make_mode(mode, model, data), None, None)


def test_the_program_that_is_measured_takes_the_next_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their sizes then are."""
    model, data, _ = tried(written("counts", tmp_path), monkeypatch)
    for mode in (DEVICE, RESIDENT, HOST_ACCESSIBLE):
        made: Any = make_mode(mode, model, data)
        for values in ([0, 1, 0, 0, 2, 0, 0, 3], [1] * 8, [0] * 8):
            data.arrays["x"][...] = values
            made.write_inputs(data.arrays)
            call, a, b = made.phases()["latency"]
            call(a, b)
            if mode == RESIDENT:
                made._download()
            assert made.outputs()[0].tolist() == [np.flatnonzero(values).tolist()]


def test_where_other_values_are_refused_the_graph_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a Reshape takes no other values: what is given is the one order that it can take."""
    np.savez(tmp_path / "given.npz", to=np.array([2, 3]), x=np.arange(6, dtype=np.float32))
    refused = {"to": np.array([4, 4])}
    monkeypatch.setattr(first_run, "change_values", lambda specs, arrays, ranges: {**arrays, **refused})
    for outputs, nodes, found in (
        ("int64[1, N] at", "at = NonZero(x)", {"at": "values"}),
        ("float[6] z", "z = Relu(x)", {}),
    ):
        graph = f"g (int64[2] to, float[6] x) => (float[a, b] y, {outputs}) {{ y = Reshape(x, to)  {nodes} }}"
        _, data, runs = tried(written(graph, tmp_path), monkeypatch, path=str(tmp_path / "given.npz"))
        assert (data.unshaped, runs) == (found, 2)


def test_other_values_are_of_the_same_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = "g (int64[40] ids, float[40] x, bool f, int64[3] s) => (int64[40] a) { a = Identity(ids) }"
    model, data, _ = tried(written(graph, tmp_path), monkeypatch, ranges={"ids": (5, 9), "x": (-2.0, 2.0), "s": (3, 3)})
    other = change_values(model.inputs, data.arrays, data.ranges)
    assert (set(other["ids"].tolist()), other["s"].tolist()) == ({5, 6, 7, 8, 9}, [3, 3, 3])
    assert ((other["ids"] == 5).sum() > 20, (other["x"] == 0).sum() > 20, abs(other["x"]).max() <= 2) == (True,) * 3
    assert other["f"] != data.arrays["f"]
    given = change_values(model.inputs, {**data.arrays, "s": np.array([7, 4, 9])}, {})
    assert set(given["s"].tolist()) <= {4, 7, 9}
    assert given["f"] == data.arrays["f"]  # a value alone that was given is a setting


QUICKLY = ("--iterations", 2, "--warmup", 1)


@pytest.mark.process
def test_an_output_of_maps_says_which_and_the_way_out(tmp_path: Path) -> None:
    maps = tmp_path / "maps.onnx"
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[n, 2] x) => (float[n, 2] z) '
        "{ p = Softmax(x)  z = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(p) }"
    )
    kind = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, []))
    model.graph.output[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(kind))
    onnx.save(model, maps)
    done = ortbench("run", maps, "--ep", "cpu", "--out", tmp_path / "out")
    assert done.code == 1
    assert "'z' is seq(map(int64,tensor(float))): only tensors, and sequences" in done.error_line
    assert done.error_line.endswith("convert the model without ZipMap (skl2onnx: zipmap=False))")


@pytest.mark.process
def test_inspect_says_it_and_suggests_no_loop_of_an_input_with_itself(tmp_path: Path) -> None:
    done = ortbench("inspect", written("an input", tmp_path))
    assert "an input that the model passes through" in done.out
    assert "--feedback x=x" not in done.out


@pytest.mark.process
@pytest.mark.parametrize(
    ("state", "step"),
    [("float[1]", "out = Relu(s)"), ("float[P]", "one = Constant<value_floats=[1.0]>()  out = Concat<axis=0>(s, one)")],
)
def test_loops_bind_what_is_no_state_without_a_shape(state: str, step: str, tmp_path: Path) -> None:
    outputs = f"{state.replace('P', 'Q')} out, int64[1, N] at, float[8] v, float[1, 8] w"
    graph = f"g ({state} s, float[8] v) => ({outputs}) {{ {step}  at = NonZero(v)  w = Relu(v) }}"
    path, program = written(graph, tmp_path), tmp_path / "program.py"
    loop = ["--ep", "cpu", "--feedback", "out=s", "--steps", 3]
    done = ortbench("loop", path, *loop, *QUICKLY, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    done = ortbench("code", path, *loop, "--mode", RESIDENT, "--duration", 0.01, "--out", program)
    assert done.code == 0, done.err
    ran = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    assert "outputs are those of a plain loop" in ran.stdout, ran.stderr


@pytest.mark.process
def test_the_trial_costs_one_inference_and_only_where_it_may_tell_something(library: Path, tmp_path: Path) -> None:
    """All runs from the first to the last one, on models that differ in what they declare alone."""
    counts = []
    for number, declared in enumerate(("float[n]", "float[m]", "float[1, n]")):
        (folder := tmp_path / str(number)).mkdir()
        path = written(f"g (float[n] x) => ({declared} y) {{ y = Relu(x) }}", folder)
        config, line = Config(trace=folder / "trace", alignment=0), ("--dim", "n=64", "--mode", "cpu-tensors", *QUICKLY)
        code, _, _, errors = run_on_device(library, path, config, folder, *line)
        assert code == 0, errors
        counts.append(len(Trace.read(folder / "trace").of("inference")))
    assert [count - counts[0] for count in counts] == [0, 1, 1]


@pytest.mark.process
def test_a_mode_that_cannot_is_unsupported_and_says_why(library: Path, tmp_path: Path) -> None:
    path = written("an input", tmp_path)
    why = "x (an input that the model passes through): "
    aligned = why + "outputs cannot be bound to RefDevice (DEFAULT) without a shape: that memory has an alignment, which ONNX Runtime's Python API cannot name"  # fmt: skip
    for alignment, expected in ((0, None), (4096, aligned)):
        folder = tmp_path / str(alignment)
        _, result, _, _ = run_on_device(
            library, path, Config(alignment=alignment), folder, "--dim", "n=8", "--mode", "all", *QUICKLY
        )
        reasons = {case.mode: case.reason for case in result.cases}
        assert [reasons[mode] for mode in (DEVICE, RESIDENT, "device-tensors-pinned")] == [expected] * 3
        for mode in (HOST_ACCESSIBLE, "pipelined", "device-resident-async"):
            assert reasons[mode] == f"{why}{mode} binds outputs in memory of a known size"
        assert reasons["cpu-tensors"] is None


@pytest.mark.process
@pytest.mark.parametrize("mode", [DEVICE, RESIDENT, HOST_ACCESSIBLE])
def test_so_does_the_program_that_is_written(mode: str, tmp_path: Path) -> None:
    graph = "g (float[8] x) => (float[8] y, int64[1, N] at, float[8] x) { y = Relu(x)  at = NonZero(x) }"
    done = ortbench("code", written(graph, tmp_path), "--ep", "cpu", "--mode", mode)
    assert "Bound without a shape: at (its size depends on the values of the inputs);" in done.out, done.err
    program: dict[str, Any] = {}
    exec(done.out[: done.out.index("SECONDS = 2.0")], program)
    for values in ([0, 1, 0, 0, 2, 0, 0, 3], [1] * 8, [0] * 8):
        program["inputs"]["x"][...] = values
        np.copyto(program["bound_inputs"]["x"].numpy(), program["inputs"]["x"])
        program["infer"]()
        found = {name: array.tolist() for name, array in program["finish"]().items()}
        assert found == {"y": values, "at": [np.flatnonzero(values).tolist()], "x": values}
