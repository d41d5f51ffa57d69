"""Programs as text: the whole of one from what a worker says, and the source of values."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.features.code import report as program
from ortbench.features.code.model import Program
from ortbench.model.modes import DEVICE, RESIDENT
from ortbench.model.protocol import Opened, Prepared
from ortbench.plan.plan import Loop, Plan
from ortbench.plan.plan_builder import plan_of

MODEL = "models/copy_bound.onnx"
SHAPE = [1, 3, 1080, 1920]


def found(**changed: Any) -> Program:
    """What a worker says of copy_bound on the WebGPU EP."""
    wait = {"kind": "readback", "by_token": True}
    tensor = {
        "dtype": "float32",
        "nested": False,
        "length": None,
        "number": None,
        "shape": SHAPE,
        "memory": "default",
        "tolerance": [1e-3, 1e-5],
        "unshaped": False,
    }
    said = {
        "session": {
            "ep": "WebGpuExecutionProvider", "module": "onnxruntime_ep_webgpu", "bundled": None, "path": None,
            "preload": False, "device": 0, "named": None, "by_name": False, "options": {}, "device_type": "gpu",
            "stream": None, "cuda_device": 0, "engines": None, "captures": False,
            "by_vendor": False, "custom_ops": [], "onnxruntime": "1.31.1",
        },
        "inputs": [{"name": "image", **tensor}],
        "outputs": [{"name": "adjusted", **tensor}],
        "has_pinned": False, "wait": wait, "wait_upload": wait, "wait_download": None, "by_address": False, "loop": None,
        "captured": False, "external": None, "dlpack": True,
    }  # fmt: skip
    return cast(Program, {**said, **changed})


def opened() -> Opened:
    return cast(Opened, {"inputs": [{"name": "image", "range": [0.0, 1.0]}], "outputs": []})


PREPARED = cast(Prepared, {"inferences_per_sample": None, "pipeline": None})


def plan(mode: str = RESIDENT) -> Plan:
    made = plan_of(MODEL, {"mode": (mode,), "ep": "webgpu"})
    return Plan(MODEL, made.target, made.inputs, (mode,), Loop(duration_s=2.0))


def source(mode: str = RESIDENT, **changed: Any) -> str:
    command = ["ortbench", "code", MODEL, "--ep", "webgpu", "--mode", mode]
    return program.write_program(plan(mode), opened(), PREPARED, found(**changed), command).source


@pytest.mark.parametrize(
    "mode", ["cpu-tensors", DEVICE, RESIDENT, "device-tensors-pinned", "host-accessible", "pipelined"]
)
def test_names_from_outside_break_no_program(mode: str) -> None:
    """Names are anybody's text."""
    names = ['a"b', "it's", "back\\slash", 'triple"""', "new\nline", "\u202egnp"]
    tensors = [{**found()["inputs"][0], "name": name} for name in names]
    outputs = [{"name": name, "unshaped": "values"} for name in names]
    given = cast(Opened, {"inputs": [{"name": name, "range": None} for name in names], "outputs": outputs})
    command = ["ortbench", "code", 'm"""\\.onnx\n']
    prepared = cast(Prepared, {"inferences_per_sample": None, "pipeline": {"distinct": 4, "items": 4}})
    written = program.write_program(plan(mode), given, prepared, found(inputs=tensors, has_pinned=True), command).source
    compile(written, "program", "exec")
    assert "\u202e" not in written


def test_each_sync_has_its_own_wait() -> None:
    waits = {
        kind: source(wait={"kind": kind, "by_token": False}, wait_upload=None)
        for kind in ("run", "synchronize_outputs", "readback")
    }
    assert "def wait" not in waits["run"]
    assert "it returns when the device is done (verified)" in waits["run"]
    assert (
        "    binding.synchronize_outputs()  # verified to wait; the run by itself does not\n"
        in waits["synchronize_outputs"]
    )
    assert "    copy_out()\n    binding.synchronize_outputs()\n" in waits["readback"]
    assert "def wait" not in source(DEVICE)  # the copy back waits


def test_memory_of_several_kinds_is_refused() -> None:
    tensors = [{**found()["inputs"][0], "memory": memory} for memory in ("default", "shared")]
    given = cast(Opened, {"inputs": [{"name": "image", "range": None}] * 2, "outputs": []})
    with pytest.raises(BenchmarkFailed, match="in memory of several kinds"):
        program.write_program(plan(), given, PREPARED, found(inputs=tensors), [])


def test_a_pipeline_is_refused_where_outputs_stay_on_the_host() -> None:
    with pytest.raises(BenchmarkFailed, match="an output stays in host memory"):
        source("pipelined", outputs=[{**found()["outputs"][0], "memory": "stays"}])


def test_an_ep_by_name_and_older_versions() -> None:
    session = {
        **found()["session"],
        "module": None,
        "ep": "DmlExecutionProvider",
        "by_name": True,
        "named": "dml",
        "device": 1,
    }
    ins, outs = ([{**it, "memory": "named"} for it in side] for side in (found()["inputs"], found()["outputs"]))
    text = source(session=session, inputs=ins, outputs=outs)
    compile(text, "program", "exec")
    assert 'providers = [("DmlExecutionProvider", {"device_id": "1"})]\n' in text
    assert 'ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, "dml", 1)\n' in text
    assert "        value.update_inplace(inputs[name])\n" in text
    old = source(session={**found()["session"], "by_vendor": True})
    assert 'shape, kind, "gpu", memory.device_id, vendor)\n' in old


def session_of(**changed: Any) -> dict[str, Any]:
    return {**found()["session"], "module": None, **changed}


def test_engines_are_kept_where_the_session_kept_them() -> None:
    options = {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "/e/m-1"}
    text = source(
        session=session_of(ep="TensorrtExecutionProvider", by_name=True, options=options, engines="/e/m-1", device=1)
    )
    compile(text, "program", "exec")
    assert "from pathlib import Path\n" in text
    assert 'Path("/e/m-1").mkdir(parents=True, exist_ok=True)\n' in text
    given = '{"trt_engine_cache_enable": "1", "trt_engine_cache_path": "/e/m-1", "device_id": "1"}'
    assert f'providers = [("TensorrtExecutionProvider", {given})]\n' in text


def test_a_stream_is_made_before_the_session_that_runs_on_it() -> None:
    ours = source(session=session_of(stream="ort", options={"a": "b"}))
    theirs = source(session=session_of(stream="cuda-python", cuda_device=1))
    for text, stream in ((ours, "ep_device.create_sync_stream()"), (theirs, "cuda.cudaStreamCreateWithFlags(")):
        compile(text, "program", "exec")
        before, _, behind = text.partition("ort.InferenceSession(")
        assert stream in before
        assert behind
        assert "options.add_provider_for_devices([ep_device], ep_options)\n" in text
    assert 'ep_options = {"a": "b"}\n' in ours
    assert "from cuda.bindings import runtime as cuda\n" in theirs
    assert "Needs onnxruntime, numpy, cuda-python;" in theirs
    assert "cuda.cudaSetDevice(1)\n" in theirs


def test_graphs_are_captured_of_what_is_bound_alone() -> None:
    captured = source(session=session_of(captures=True), captured=True)
    assert 'plain_options.add_run_config_entry("gpu_graph_id", "-1")' in captured
    assert 'run_options.add_run_config_entry("gpu_graph_id", "1")' in captured
    assert "session.run(OUTPUTS, inputs, plain_options)" in captured
    assert "session.run_with_iobinding(binding, run_options)" in captured
    assert "options.enable_mem_pattern = False" in captured
    arrays = source("cpu-tensors", session=session_of(captures=True))
    assert "plain_options" not in arrays
    assert 'run_options.add_run_config_entry("gpu_graph_id", "-1")' in arrays
    assert arrays.count("run_options)") == 2  # the plain run, and each inference


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_inputs_in_memory_of_other_libraries(library: str) -> None:
    """They are on no machine that has no GPU, so that this is as far as a test goes."""
    place = {"library": library, "place": "cuda:1"}
    text = source(external=place)
    compile(text, "program", "exec")
    assert f"\nimport {library}\n" in text
    assert f"Needs onnxruntime, numpy, onnxruntime_ep_webgpu, {library};" in text
    assert {"torch": '.to("cuda:1")', "cupy": "cupy.cuda.Device(1).use()"}[library] in text
    assert "ort.OrtValue.from_dlpack(tensor)" in text
    bools = [{**found()["inputs"][0], "dtype": "bool"}]
    for natively in (source(external=place, inputs=bools), source(external=place, dlpack=False)):
        compile(natively, "program", "exec")
        assert "ort_native.OrtValue.from_dlpack(tensor.__dlpack__(), is_bool)" in natively


def test_outputs_without_a_shape_are_bound_anew_in_each_run() -> None:
    unshaped = [{**it, "unshaped": True} for it in found()["outputs"]]
    text = source(outputs=unshaped)
    compile(text, "program", "exec")
    assert 'ort.OrtDevice.make("gpu", memory.device_id, memory.device_vendor_id)' in text
    assert "bound_outputs" not in text
    named = [{**it, "memory": "named"} for it in found()["inputs"]]
    outputs = [{**it, "unshaped": True} for it in named]
    by_name = source(inputs=named, outputs=outputs, session=session_of(by_name=True, named="dml", device=1))
    compile(by_name, "program", "exec")
    assert 'ort.OrtDevice.make("dml", 1)' in by_name
    stays = [{**unshaped[0], "memory": "stays"}, {**unshaped[0], "name": "other"}]
    on_host = source(outputs=stays)
    compile(on_host, "program", "exec")
    assert "(host if name in ON_HOST else device)" in on_host
    shared = [{**it, "memory": "shared"} for it in unshaped]
    with pytest.raises(BenchmarkFailed, match="in memory that host and device share"):
        source(inputs=shared, outputs=shared)
    mixed = source(outputs=[*found()["outputs"], {**unshaped[0], "name": "other"}])
    compile(mixed, "program", "exec")
    assert 'UNSHAPED = ["other"]' in mixed


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([4, 4, 4], "4"),
        ([0, 1, 2], "step"),
        ([5, 7, 9], "5 + 2 * step"),
        ([16, 1, 1], "16 if step == 0 else 1"),
        ([4, 5, 6, 7], "4 + step"),
        ([9, 5, 6, 7], "9 if step == 0 else 4 + step"),
        ([1, 2, 4, 8], "(1, 2, 4, 8)[step]"),
        ([3], "3"),
    ],
)
def test_a_number_that_each_step_has(values: list[int], text: str) -> None:
    assert program.by_step(values) == text
    assert [eval(text, {"step": step}) for step in range(len(values))] == values


def test_values_as_source() -> None:
    assert program.literal('say "hi"') == "'say \"hi\"'"
    assert program.literal((3,)) == "(3,)"
    assert program.shape_by_step([[1, 4], [1, 5]]) == "(1, 4 + step)"
    assert program.random_array("int64", "(2,)", (0, 9)) == "rng.integers(0, 9, (2,), dtype=np.int64, endpoint=True)"
    assert program.random_array("float16", "()", None).startswith("np.asarray(rng.random((), dtype=np.float32))")
    assert "\n    " in program.list_literal(["a" * 60, "b" * 60])
