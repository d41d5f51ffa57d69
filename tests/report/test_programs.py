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


TENSOR = {
    "dtype": "float32", "nested": False, "length": None, "number": None, "shape": [1, 3, 1080, 1920], "memory": "default",
    "tolerance": [1e-3, 1e-5], "unshaped": False,
}  # fmt: skip
IMAGE, ADJUSTED = {"name": "image", **TENSOR}, {"name": "adjusted", **TENSOR}
UNSHAPED = {**ADJUSTED, "unshaped": True}
SESSION: dict[str, Any] = {
    "ep": "WebGpuExecutionProvider", "module": "onnxruntime_ep_webgpu", "bundled": None, "path": None, "preload": False,
    "device": 0, "named": None, "by_name": False, "options": {}, "device_type": "gpu", "stream": None, "cuda_device": 0,
    "engines": None, "captures": False, "by_vendor": False, "custom_ops": [], "onnxruntime": "1.31.1",
}  # fmt: skip
WAIT = {"kind": "readback", "by_token": True}
FOUND = {  # what a worker says of copy_bound on the WebGPU EP
    "session": SESSION, "inputs": [IMAGE], "outputs": [ADJUSTED], "has_pinned": False, "wait": WAIT, "wait_upload": WAIT,
    "wait_download": None, "by_address": False, "loop": None, "captured": False, "external": None, "dlpack": True,
}  # fmt: skip


def source(mode: str = RESIDENT, pipeline: Any = None, **changed: Any) -> str:
    """A program, which is checked to be one."""
    made = plan_of(MODEL, {"mode": (mode,), "ep": "webgpu"})
    plan = Plan(MODEL, made.target, made.inputs, (mode,), Loop(duration_s=2.0))
    found = cast(Program, {**FOUND, **changed})
    inputs = [{"name": it["name"], "range": [0.0, 1.0]} for it in found["inputs"]]
    outputs = [{**it, "unshaped": "values"} for it in found["outputs"]]
    memory = {"kind": "ep-device", "default": "A", "host_accessible": None}
    opened = cast(Opened, {"inputs": inputs, "outputs": outputs, "memory": memory})
    prepared = cast(Prepared, {"inferences_per_sample": None, "pipeline": pipeline})
    command = ["ortbench", "code", 'm"""\\.onnx\n', "--mode", mode]
    text = program.write_program(plan, opened, prepared, found, command).source
    compile(text, "program", "exec")
    return text


def session(**changed: Any) -> dict[str, Any]:
    return {**SESSION, "module": None, **changed}


@pytest.mark.parametrize(
    "mode", ["cpu-tensors", DEVICE, RESIDENT, "device-tensors-pinned", "host-accessible", "pipelined"]
)
def test_names_from_outside_break_no_program(mode: str) -> None:
    """Names are anybody's text."""
    names = ['a"b', "it's", "back\\slash", 'triple"""', "new\nline", "\u202egnp"]
    tensors = [{**TENSOR, "name": name} for name in names]
    text = source(mode, {"distinct": 4, "items": 4}, inputs=tensors, outputs=tensors, has_pinned=True)
    assert "\u202e" not in text


DML = session(ep="DmlExecutionProvider", by_name=True, named="dml", device=1)
NAMED = [{**IMAGE, "memory": "named"}]
ENGINES = {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "/e/m-1"}
TRT = session(ep="TensorrtExecutionProvider", by_name=True, options=ENGINES, engines="/e/m-1", device=1)
TORCH, CUPY = ({"library": library, "place": "cuda:1"} for library in ("torch", "cupy"))


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"wait": {"kind": "run", "by_token": False}}, ["it returns when the device is done (verified)"]),
        ({"wait": {"kind": "synchronize_outputs", "by_token": False}, "wait_upload": None},
         ["    binding.synchronize_outputs()  # verified to wait; the run by itself does not\n"]),
        ({"wait": {"kind": "readback", "by_token": False}}, ["    copy_out()\n    binding.synchronize_outputs()\n"]),
        ({"session": DML, "inputs": NAMED, "outputs": NAMED},
         ['providers = [("DmlExecutionProvider", {"device_id": "1"})]\n',
          'ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, "dml", 1)\n', "        value.update_inplace(inputs[name])\n"]),
        ({"session": {**SESSION, "by_vendor": True}}, ['shape, kind, "gpu", memory.device_id, vendor)\n']),
        ({"session": TRT}, ["from pathlib import Path\n", 'Path("/e/m-1").mkdir(parents=True, exist_ok=True)\n',
                            '("TensorrtExecutionProvider", {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "/e/m-1", "device_id": "1"})']),
        ({"session": session(stream="ort", options={"a": "b"})},  # a stream comes before the session that runs on it
         ["ep_device.create_sync_stream()", 'ep_options = {"a": "b"}\n', "ort.InferenceSession("]),
        ({"session": session(stream="cuda-python", cuda_device=1)},
         ["Needs onnxruntime, numpy, cuda-python;", "from cuda.bindings import runtime as cuda\n", "cuda.cudaSetDevice(1)\n",
          "cuda.cudaStreamCreateWithFlags(", "options.add_provider_for_devices([ep_device], ep_options)\n", "ort.InferenceSession("]),
        ({"session": session(captures=True), "captured": True},
         ["options.enable_mem_pattern = False", 'plain_options.add_run_config_entry("gpu_graph_id", "-1")',
          'run_options.add_run_config_entry("gpu_graph_id", "1")', "session.run(OUTPUTS, inputs, plain_options)",
          "session.run_with_iobinding(binding, run_options)"]),
        ({"mode": "cpu-tensors", "session": session(captures=True)},
         ['run_options.add_run_config_entry("gpu_graph_id", "-1")', "run_options)", "run_options)"]),  # the plain run, and each inference
        ({"external": TORCH}, ["onnxruntime_ep_webgpu, torch;", "\nimport torch\n", '.to("cuda:1")', "ort.OrtValue.from_dlpack(tensor)"]),
        ({"external": CUPY}, ["onnxruntime_ep_webgpu, cupy;", "\nimport cupy\n", "cupy.cuda.Device(1).use()", "ort.OrtValue.from_dlpack(tensor)"]),
        ({"external": TORCH, "inputs": [{**IMAGE, "dtype": "bool"}]}, ["ort_native.OrtValue.from_dlpack(tensor.__dlpack__(), is_bool)"]),
        ({"external": CUPY, "dlpack": False}, ["ort_native.OrtValue.from_dlpack(tensor.__dlpack__(), is_bool)"]),
        ({"outputs": [UNSHAPED]}, ['ort.OrtDevice.make("gpu", memory.device_id, memory.device_vendor_id)']),
        ({"session": DML, "inputs": NAMED, "outputs": [{**UNSHAPED, "memory": "named"}]}, ['ort.OrtDevice.make("dml", 1)']),
        ({"outputs": [{**UNSHAPED, "memory": "stays"}, {**UNSHAPED, "name": "other"}]}, ["(host if name in ON_HOST else device)"]),
        ({"outputs": [ADJUSTED, {**UNSHAPED, "name": "other"}]}, ['UNSHAPED = ["other"]']),
    ],
)  # fmt: skip
def test_what_a_program_has(changed: dict[str, Any], parts: list[str]) -> None:
    behind = source(**changed)
    for part in parts:  # one after the other
        assert part in behind
        behind = behind.partition(part)[2]


SHARED = {**IMAGE, "memory": "shared"}


def test_memory_for_which_there_is_no_program() -> None:
    for changed, words in (
        ({"inputs": [IMAGE, SHARED]}, "in memory of several kinds"),
        ({"mode": "pipelined", "outputs": [{**ADJUSTED, "memory": "stays"}]}, "an output stays in host memory"),
        ({"inputs": [SHARED], "outputs": [{**SHARED, "unshaped": True}]}, "in memory that host and device share"),
    ):
        with pytest.raises(BenchmarkFailed, match=words):
            source(**changed)


def test_a_number_that_each_step_has() -> None:
    for values, text in (
        ([4, 4, 4], "4"),
        ([5, 7, 9], "5 + 2 * step"),
        ([16, 1, 1], "16 if step == 0 else 1"),
        ([9, 5, 6, 7], "9 if step == 0 else 4 + step"),
        ([1, 2, 4, 8], "(1, 2, 4, 8)[step]"),
    ):
        assert program.by_step(values) == text
        assert [eval(text, {"step": step}) for step in range(len(values))] == values
