"""The reference device itself: its memory, its operators and its knobs. What it takes and when it waits is seen by tests of times and of
synchronizations, which hold ortbench against its trace."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from tests import virtual
from tests.conftest import ROOT
from tests.truth import in_fork

from .refdevice import EP_NAME, EVENT, KINDS, KNOBS, SOURCES, Config, Trace, counters

HEAD = '<ir_version: 9, opset_import: ["" : 17]> g '
OPERATORS = [
    *(f"(float[3,5] x) => (float[3,5] y) {{ y = {op}(x) }}" for op in ("Relu", "Sigmoid", "Tanh")),
    *(f"(float[2,3,4] a, float[3,1] b) => (float[2,3,4] y) {{ y = {op}(a, b) }}" for op in ("Add", "Sub", "Mul")),
    "(float[3,4] a, float[3,4] b) => (float[3,4] y) { y = Add(a, b) }",
    "(float a, float[4] b) => (float[4] y) { y = Sub(a, b) }",
    "(float[4,5] x) => (float[4,5] y) <float low = {-0.5}, float high = {0.5}> { y = Clip(x, low, high) }",
    "(float[4,5] x) => (float[4,5] y) <float low = {-0.5}> { y = Clip(x, low) }",
    "(float[5,7] x, float[7,3] w) => (float[5,3] y) { y = MatMul(x, w) }",
    "(float[2,1,3,4] a, float[5,4,2] b) => (float[2,5,3,2] y) { y = MatMul(a, b) }",
    "(float[3,4] x, float[4,5] w, float[5] c) => (float[3,5] y) { y = Gemm(x, w, c) }",
    "(float[4,3] x, float[5,4] w, float[3,1] c) => (float[3,5] y) "
    "{ y = Gemm<transA = 1, transB = 1, alpha = 0.5, beta = 2.0>(x, w, c) }",
    "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }",
    "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 1>(x) }",
    "(float[2,4,9,8] x, float[3,4,3,3] w) => (float[2,3,7,6] y) { y = Conv(x, w) }",
    "(float[2,4,9,8] x, float[6,2,3,2] w, float[6] b) => (float[2,6,4,4] y) "
    "{ y = Conv<pads = [1, 0, 1, 1], strides = [2, 2], dilations = [2, 1], group = 2>(x, w, b) }",
    "(float[2,3,4] x) => (float[6,4] y) { m = Flatten<axis = 2>(x)  y = Relu(m) }",
    "(float[2,3,4] x) => (float[2,12] y) <int64[2] shape = {0, -1}> { m = Reshape(x, shape)  y = Relu(m) }",
    "(float[2,3,4] a, float[2,1,4] b, float[2,2,4] c) => (float[2,6,4] y) { y = Concat<axis = 1>(a, b, c) }",
    "(float[3,4] a, float[3,2] b) => (float[3,6] y) { y = Concat<axis = -1>(a, b) }",
    "(float[2,0,4] a, float[2,1,4] b) => (float[2,1,4] y) { y = Concat<axis = 1>(a, b) }",
    "(float[2,3,6,6] x, float[6,3,3,3] w) => (float[2,6,1,1] y, float[2,6,6,6] m) "
    "{ c = Conv<pads = [1, 1, 1, 1]>(x, w)  m = Relu(c)  y = GlobalAveragePool(m) }",
]


def registered() -> Any:
    """The device, in a process of its own: a library can be registered once."""
    virtual.attach(works=True)
    ort.register_execution_provider_library("refdevice", sys.argv[1])
    return next(it for it in ort.get_ep_devices() if it.ep_name == EP_NAME)


def numbers(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def print_memory() -> None:
    """What the host sees in both memories of what was copied there, by their pointers."""
    device, data = registered(), numbers(100_000)
    found = {}
    for name in ("DEFAULT", "HOST_ACCESSIBLE"):
        info = device.memory_info(getattr(ort.OrtDeviceMemoryType, name))
        value = ort.OrtValue.ortvalue_from_shape_and_type(data.shape, np.float32, memory_info=info)
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(data)], [value])
        seen = np.ctypeslib.as_array(ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_float)), data.shape)
        equal = int(np.count_nonzero(seen == data))
        seen[:] = 0
        found[name] = [equal, bool(np.array_equal(value.numpy(), data))]
    print(json.dumps(found))


@pytest.mark.process
def test_default_memory_is_useless_to_the_host_and_host_accessible_memory_is_not(library: Path) -> None:
    """How much of it is seen, and whether it outlives that the host writes there."""
    found = in_fork(f"{__name__}:print_memory", library)
    assert found == {"DEFAULT": [0, True], "HOST_ACCESSIBLE": [100_000, False]}


def print_errors() -> None:
    """How far each operator is from ONNX's own reference."""
    device, errors = registered(), {}
    for text in OPERATORS:
        model = onnx.parser.parse_model(HEAD + text)
        shapes = [[dim.dim_value for dim in it.type.tensor_type.shape.dim] for it in model.graph.input]
        feeds = {it.name: numbers(*shapes[at], seed=at) for at, it in enumerate(model.graph.input)}
        options = ort.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices([device], {"compute_us": "0"})
        got = ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)
        pairs = zip(got, ReferenceEvaluator(model).run(None, feeds), strict=True)
        errors[text] = max(float(np.abs(one - other).max()) for one, other in pairs)
    print(json.dumps(errors))


@pytest.mark.process
def test_operators_agree_with_the_onnx_reference(library: Path) -> None:
    errors = in_fork(f"{__name__}:print_errors", library)
    assert {text: error for text, error in errors.items() if error > 1e-5} == {}
    assert len(errors) == len(OPERATORS)


CONTEXT = "(float[3,4] x, float[4,4] w) => (float[3,4] y) { a = MatMul(x, w)  b = Relu(a)  e = Erf(b)  y = Relu(e) }"


def print_context() -> None:
    """What is compiled into a model, by `ModelCompiler` or a session, and what opening that compiles."""
    device, (folder, embeds, by, trace) = registered(), sys.argv[2:]
    plain, made = Path(folder, "m.onnx"), Path(folder, "m_ctx.onnx")
    onnx.save(onnx.parser.parse_model(HEAD + CONTEXT), plain)
    feeds = {"x": numbers(3, 4), "w": numbers(4, 4, seed=2)}

    def options(**entries: str) -> Any:
        options = ort.SessionOptions()
        options.add_provider_for_devices([device], {})
        for name, value in entries.items():
            options.add_session_config_entry(f"ep.context_{name}", value)
        return options

    def outputs(model: Path) -> Any:
        return ort.InferenceSession(str(model), options(), enable_fallback=0).run(None, feeds)[0]

    if by == "session":
        ort.InferenceSession(str(plain), options(enable="1", embed_mode=embeds), enable_fallback=0)
    else:
        ort.ModelCompiler(options(), str(plain), embeds == "1").compile_to_file(str(made))
    found: dict[str, Any] = {"compiled": Trace.read(Path(trace)).of("compile")["bytes"].tolist()}
    got = outputs(made)
    found["again"] = counters(Path(trace))["compile"]
    found["is right"] = bool(np.array_equal(got, outputs(plain)))
    found["operators"] = [node.op_type for node in onnx.load(made).graph.node]
    found["beside"] = [it.stat().st_size for it in Path(folder).glob("m_ctx_*.bin")]
    for name, change in (("another", lambda it: it.write_bytes(b"another")), ("missing", Path.unlink)):
        for file in Path(folder).glob("m_ctx_*.bin"):
            change(file)
        try:
            outputs(made)
        except Exception as error:
            found[name] = str(error)
    print(json.dumps(found))


@pytest.mark.process
@pytest.mark.parametrize(("by", "embeds"), [("compiler", 0), ("compiler", 1), ("session", 0), ("session", 1)])
def test_a_model_of_what_was_compiled_is_opened_without_compiling(
    by: str, embeds: int, library: Path, tmp_path: Path
) -> None:
    config = Config(compile_us=500, context_bytes=10_000, trace=tmp_path / "trace")
    found = in_fork(f"{__name__}:print_context", library, tmp_path, embeds, by, tmp_path / "trace", **config.environ())
    another, missing = found.pop("another", ""), found.pop("missing", "")
    assert found == {
        "compiled": [2, 1],  # nodes
        "again": 2,
        "is right": True,
        "operators": ["EPContext", "Erf", "EPContext"],
        "beside": [] if embeds else [10_000, 10_000],
    }
    assert embeds or "was not compiled by the reference device" in another
    assert embeds or "No such file" in missing
    compiles = Trace.read(tmp_path / "trace").of("compile")
    assert set(compiles["end_ns"] - compiles["start_ns"]) == {500_000}


def test_the_python_side_names_what_the_c_side_has() -> None:
    source = "".join((Path(__file__).parent / name).read_text() for name in SOURCES)
    assert tuple(re.findall(r'^    \{"(\w+)", KNOB_', source, re.MULTILINE)) == KNOBS
    (kinds,) = re.findall(r"H2D = 1,.*?KINDS", source, re.DOTALL)
    names = re.findall(r"^  ([A-Z0-9_]+)(?: = 1)?,", f"  {kinds}", re.MULTILINE)
    assert [name.lower().replace("_", "-") for name in names] == list(KINDS.values())
    assert EVENT.itemsize == 96


@pytest.mark.wide
@pytest.mark.process
def test_the_module_is_a_command_that_compiles_without_warnings(tmp_path: Path) -> None:
    line, strict = [sys.executable, "-m", "tests.refdevice", str(tmp_path)], f"{os.environ.get('CC', 'cc')} -Werror -O2"
    environment = {**os.environ, "CC": strict}
    built = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert Path(built.stdout.strip()).exists()
