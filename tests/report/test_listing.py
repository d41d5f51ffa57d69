"""`ortbench devices` and `ortbench inspect`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest

from tests.conftest import MODELS, ortbench

pytestmark = pytest.mark.process


def test_devices_lists_the_cpu_ep_with_its_modes() -> None:
    found = json.loads(ortbench("devices", "--json", "-").out)
    cpu = found["eps"][0]
    assert cpu["name"] == "CPUExecutionProvider"
    assert cpu["devices"][0]["hardware"]["type"] == "CPU"
    assert cpu["devices"][0]["memory"] == {"kind": "host", "default": "host memory", "host_accessible": None}
    usual = dict.fromkeys(["cpu-tensors", "device-tensors", "device-resident", "host-accessible"])
    assert cpu["devices"][0]["modes"] == {
        **usual,
        **dict.fromkeys(["cpu-tensors-pinned", "device-tensors-pinned"], "no pinned memory (it needs none)"),
        "pipelined": "no copies to a device that inference could overlap",
        "device-resident-async": "no stream that queues runs",
    }
    assert cpu["devices"][0]["streams"]["offered"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="the software GPU is for Linux")
def test_devices_shows_a_plugin_ep_on_a_software_gpu(software_gpu: tuple[str, ...]) -> None:
    ran = ortbench("devices", "--json", "-", prefix=software_gpu)
    webgpu = next(ep for ep in json.loads(ran.out)["eps"] if ep["name"] == "WebGpuExecutionProvider")
    assert webgpu["package"] == "onnxruntime-ep-webgpu"
    assert webgpu["version"]
    (device,) = webgpu["devices"]
    assert (device["hardware"]["type"], device["hardware"]["vendor_id"]) == ("GPU", 0x1002)
    assert device["memory"]["default"] == "WebGPU_Buf (DEFAULT)"
    assert device["memory"]["host_accessible"] is None
    assert device["modes"]["device-resident"] is None
    assert device["modes"]["host-accessible"] == "no HOST_ACCESSIBLE memory"
    assert device["modes"]["pipelined"] == "no streams"
    text = ortbench("devices", prefix=software_gpu).out
    assert "WebGPU_Buf (DEFAULT); no HOST_ACCESSIBLE" in text


def test_inspect_says_what_a_model_takes_gives_and_consists_of() -> None:
    found = json.loads(ortbench("inspect", MODELS / "transformer_ids.onnx", "--dim", "batch=2", "--json", "-").out)
    assert [(tensor["name"], tensor["type"], tensor["shape"]) for tensor in found["inputs"]] == [
        ("input_ids", "tensor(int64)", [2, 1]),
        ("token_type_ids", "tensor(int64)", [2, 1]),
        ("attention_mask", "tensor(int64)", [2, 1]),
    ]
    assert found["inputs"][0]["model_shape"] == ["batch", "sequence"]
    assert found["outputs"][0]["shape"] == [2, 1, 32]
    assert (found["bytes_in"], found["bytes_out"]) == (3 * 2 * 8, 2 * 32 * 4)
    assert found["guessed_dims"] == ["sequence"]
    assert found["operators"]["Gather"] == 2
    assert found["opsets"] == {"ai.onnx": 17}
    text = ortbench("inspect", MODELS / "transformer_ids.onnx").out
    assert "  input   input_ids       tensor(int64)  [batch, sequence] as 1x1, 8 B\n" in text
    assert "batch, sequence set to 1" in text


def test_sizes_that_outputs_contradict_are_taken_from_the_outputs(tmp_path: Path) -> None:
    """A mask over the cache and the new token is as long as the cache that comes out; a model whose output is always longer keeps 1."""
    found = json.loads(ortbench("inspect", MODELS / "decoder.onnx", "--json", "-").out)
    shapes = {it["name"]: it["shape"] for it in (*found["inputs"], *found["outputs"])}
    assert (shapes["attention_mask"], shapes["past_key_values.0.key"], shapes["present.0.key"]) == (
        [1, 2],
        [1, 2, 1, 16],
        [1, 2, 2, 16],
    )
    assert found["guessed_dims"] == ["batch", "sequence", "past_length"]
    text = "(float[n] x) => (float[n] y) { one = Constant <value = float[1] {1.0}> () y = Concat <axis = 0> (x, one) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), tmp_path / "longer.onnx")
    found = json.loads(ortbench("inspect", tmp_path / "longer.onnx", "--json", "-").out)
    assert ([it["shape"] for it in (*found["inputs"], *found["outputs"])], found["guessed_dims"]) == ([[1], [2]], ["n"])


def test_inspect_counts_nodes_in_branches_and_weights(tmp_path: Path) -> None:
    model = tmp_path / "branch.onnx"
    graph = """<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) {
            k = Constant <value = float[3] {1.0, 2.0, 3.0}> ()
            s = ReduceSum (k)
            b = Mul (w, s)
        }>
    }"""
    onnx.save(onnx.parser.parse_model(graph), model)
    found = json.loads(ortbench("inspect", model, "--json", "-").out)
    assert found["operators"] == {"If": 1, "Relu": 1, "Constant": 1, "ReduceSum": 1, "Mul": 1}
    assert found["parameters_bytes"] == 8 + 12
    assert found["inputs"][0]["shape"] == []


def test_inspect_places_on_an_ep(software_gpu: tuple[str, ...]) -> None:
    ran = ortbench("inspect", MODELS / "cpu_island.onnx", "--ep", "webgpu", "--json", "-", prefix=software_gpu)
    placement = json.loads(ran.out)["placement"]
    assert placement["nodes"].keys() == {"WebGpuExecutionProvider", "CPUExecutionProvider"}
    assert placement["cpu_operators"] == {"Det": 1}
    assert placement["memcpy_nodes"] == 2


def test_a_sequence_input_is_listed_without_bytes(tmp_path: Path) -> None:
    model = tmp_path / "sequence.onnx"
    graph = '<ir_version: 8, opset_import: ["" : 17]> g (seq(float[2]) s) => (int64 t) { t = SequenceLength(s) }'
    onnx.save(onnx.parser.parse_model(graph), model)
    found = json.loads(ortbench("inspect", model, "--json", "-").out)
    assert found["inputs"][0]["type"] == "seq(tensor(float))"
    assert found["inputs"][0]["bytes"] is None
    assert found["bytes_in"] is None
