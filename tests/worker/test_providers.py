"""Why a library did not load, in words a user can act on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

from ortbench.plan.target import Target
from ortbench.worker import memory, plugins, providers
from ortbench.worker.libraries import load_problem
from ortbench.worker.modes import unsupported_reason
from ortbench.worker.providers import Provider, library_name
from tests.compiling import BuildError, compile_library
from tests.conftest import MODELS, ONCE, ROOT, device_library, lacking, measure


@pytest.mark.parametrize(
    ("library", "hint"),
    [
        ("libcublasLt.so.13", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libcudnn.so.9", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libcuda.so.1", "part of NVIDIA's driver"),
        ("libnvidia-ml.so.1", "part of NVIDIA's driver"),
        ("libnvinfer.so.10", "pip install tensorrt"),
        ("libtensorrt_rtx.so.1", "pip install onnxruntime-ep-nv-tensorrt-rtx"),
        ("libmigraphx_c.so.3", "apt install migraphx"),
        ("libamdhip64.so.7", "apt install rocm"),
        ("libopenvino.so.2541", "pip install --force-reinstall onnxruntime-ep-openvino"),
        ("libQnnHtp.so", "pip install --force-reinstall onnxruntime-qnn"),
        ("libvulkan.so.1", "apt install libvulkan1"),
        ("libother.so.1", ""),
    ],
)
def test_a_missing_library_is_named_with_what_brings_it(library: str, hint: str) -> None:
    error = RuntimeError(f"Failed to load ep.so with error: {library}: cannot open shared object file: No such file")
    text = load_problem(error).text
    assert text.startswith(f"the shared library {library} is missing")
    assert hint in text if hint else text.endswith("missing")


def test_a_library_is_named_inside_the_package_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / ".venv" / "lib" / "site-packages"
    provider = Provider("AnEP", library=str(site / "an_ep" / "lib.so"))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(site)])
    assert library_name(Target(ep="an-ep"), provider) == str(Path("an_ep", "lib.so"))
    assert library_name(Target(ep="auto", library="../lib.so"), Provider("AnEP", library="../lib.so")) == "../lib.so"
    # A policy may choose an EP of another library than the one that was named.
    assert library_name(Target(ep="prefer-gpu", library="../lib.so"), provider) == str(Path("an_ep", "lib.so"))
    monkeypatch.setattr(sys, "path", [""])
    assert library_name(Target(ep="an-ep"), provider) == "lib.so"


@pytest.mark.process
def test_cuda_is_found_in_nvidia_packages_in_another_folder_than_onnxruntime(tmp_path: Path) -> None:
    if not hasattr(ort, "_get_nvidia_dll_paths") or sys.platform != "linux":
        lacking("this onnxruntime is not for CUDA on Linux")
    source = tmp_path / "nothing.c"
    source.write_text("int nothing;\n")
    try:
        library = compile_library("a library", [source], tmp_path)
    except BuildError as error:
        lacking(str(error))
    (name,) = [path[-1] for path in ort._get_nvidia_dll_paths(False) if path[-1].startswith("libcudnn.so")]
    place = tmp_path / "site" / "nvidia" / "cudnn" / "lib" / name
    place.parent.mkdir(parents=True)
    library.rename(place)
    script = "from ortbench.worker import libraries; libraries.preload_nvidia(); print(open('/proc/self/maps').read())"
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH")]))
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert str(place) in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("options", "on_host"),
    [
        ({}, True),
        ({"device_type": "cpu", "num_of_threads": "2"}, True),
        ({"device_type": "GPU"}, False),
        ({"device_type": "AUTO:GPU,CPU"}, False),
    ],
)
def test_openvino_inside_an_onnxruntime_computes_in_host_memory_on_the_cpu(
    options: dict[str, str], on_host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package onnxruntime-openvino, which has no EP device and must be the only onnxruntime of its environment."""
    name = "OpenVINOExecutionProvider"
    monkeypatch.setattr(plugins, "ask_packages", lambda _: [])
    monkeypatch.setattr(plugins, "asked_plugins", lambda: [])
    monkeypatch.setattr(providers, "devices_of", lambda *_: [])
    for module in (plugins, providers):
        monkeypatch.setattr(module, "built_in_eps", lambda: (name, "CPUExecutionProvider"))
    provider = providers.find(Target(ep="openvino", options=options))
    assert (provider.name, provider.computes_on_host) == (name, on_host)
    modes = ("device-tensors", "device-resident", "host-accessible")
    assert {unsupported_reason(mode, provider) is None for mode in modes} == {on_host}
    assert (memory.describe_memory(provider)["kind"] == "host") == on_host


@pytest.mark.wide
@pytest.mark.process
@pytest.mark.usefixtures("clock")
def test_an_ep_that_is_called_what_its_library_is_registered_as(tmp_path: Path) -> None:
    """As EPs are that were made from the example in ONNX Runtime's sources, onnxruntime-ggml's for one."""
    library = Path(shutil.copy(device_library(named_as_registered=True), tmp_path / "libmine.so"))
    result = measure(MODELS / "tiny.onnx", "--ep", library, "--mode", "device-tensors", *ONCE, out=tmp_path / "out")
    assert (result["target"]["ep"], result["target"]["ep_library"]) == ("mine", str(library))
    assert result["placement"]["nodes"] == {"mine": 1}
