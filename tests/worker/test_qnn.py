"""QNN's plugin EP: the way out where it finds no backend by itself, and a run in simulation where its package is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from ortbench.worker.session import fix_hint
from tests.conftest import MODELS, ONCE, cases, measure, ortbench

ERROR = "Error creating execution provider: Could not determine default backend path for device"
SPEC = find_spec("onnxruntime_qnn")
BACKEND = None if SPEC is None or SPEC.origin is None else Path(SPEC.origin).with_name("libQnnHtp.so")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["libQnnHtp.so", "libQnnGpu.so"],
         "; name a backend with --ep-option backend_path={}/libQnnHtp.so (without Qualcomm's NPU it simulates one, far slower)"),
        (["QnnHtp.dll"],
         "; name a backend with --ep-option backend_path={}/QnnHtp.dll (without Qualcomm's NPU it simulates one, far slower)"),
        (["libQnnGpu.so"], "; name a backend with --ep-option backend_path={}/libQnnGpu.so"),
        ([], "; name QNN's backend library with --ep-option backend_path=PATH"),
    ],
)  # fmt: skip
def test_the_backend_beside_the_plugin_is_named(files: list[str], said: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert fix_hint(ERROR, str(tmp_path / "lib.so")) == said.format(tmp_path)
    assert fix_hint("something else", str(tmp_path / "lib.so")) == ""


@pytest.mark.process
@pytest.mark.skipif(BACKEND is None or not BACKEND.is_file(), reason="the package onnxruntime-qnn is not installed")
def test_the_way_out_is_one(tmp_path: Path) -> None:
    arguments = (MODELS / "tiny.onnx", "--ep", "qnn", "--mode", "cpu-tensors", *ONCE)
    ran = ortbench("run", *arguments, "--out", tmp_path / "failed")
    if ran.code:  # not on a machine with the NPU
        assert ran.code == 1
        assert f"{ERROR}; name a backend with --ep-option backend_path={BACKEND} (without" in ran.error_line
    option = ("--ep-option", f"backend_path={BACKEND}")
    result = measure(*arguments, *option, "--rtol", 0.05, "--atol", 0.05, out=tmp_path / "out")
    assert result["target"]["ep"] == "QNNExecutionProvider"
    assert cases(result)["cpu-tensors"]["status"] == "ok"
