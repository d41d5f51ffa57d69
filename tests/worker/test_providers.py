"""EPs: how they are named, found and chosen, what their devices are, and why a library did not load."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.plan.target import POLICIES, Target
from ortbench.worker import libraries, memory, plugins, providers, session, streams
from ortbench.worker.environment import find_distributions
from ortbench.worker.libraries import load_problem
from ortbench.worker.modes import unsupported_reason
from ortbench.worker.providers import Provider, library_name
from ortbench.worker.session import fix_hint
from ortbench.worker.tensors import TensorSpec
from tests import openvino
from tests.conftest import MODELS, ONCE, cases, device_library, measure
from tests.expect import there
from tests.refdevice import EP_NAME, VENDOR_ID, Config


def test_cudas_libraries_are_taken_from_any_folder_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime looks beside itself alone, which may be a folder of its own."""
    library, loaded = Path("nvidia/cudnn/lib/libcudnn.so.9"), list[str]()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(Path(ort.__file__).parent.parent)])
    monkeypatch.setattr(libraries, "nvidia_libraries", lambda: [library])
    monkeypatch.setattr(libraries, "ctypes", SimpleNamespace(CDLL=loaded.append))
    monkeypatch.setattr(ort, "preload_dlls", lambda: loaded.append("ORT's own"), raising=False)
    libraries.preload_nvidia()
    assert loaded == [str(tmp_path / library), "ORT's own"]


def test_custom_operators_of_a_bare_name_lie_here_and_are_not_searched_for() -> None:
    assert plugins.find_custom_ops("libmine.so").path == "./libmine.so"


@pytest.mark.parametrize("name", ["", ".AUTO"])
def test_no_name_is_nobodys(name: str) -> None:
    with pytest.raises(BadInput, match="no such execution provider"):
        plugins.find_ep(name)


QUICK = ["--iterations", 2, "--warmup", 1]
FAST_DEVICE = ("env", *(f"{name}={value}" for name, value in Config(compute_us=100).environ().items()))


@pytest.mark.process
def test_the_reference_device_is_chosen(library: Path, tmp_path: Path) -> None:
    policy, arguments = "prefer-gpu", ["--ep", "prefer-gpu", "--ep-library", library, *QUICK]
    result = measure(MODELS / "tiny.onnx", *arguments, out=tmp_path, prefix=FAST_DEVICE)
    target = result["target"]
    assert (target["ep"], target["ep_requested"], target["policy"]) == (EP_NAME, policy, POLICIES[policy])
    assert (target["device"]["type"], target["device"]["vendor_id"]) == ("GPU", VENDOR_ID)
    assert (target["memory"]["default"], target["ep_version"]) == ("RefDevice (DEFAULT)", "1.0.0")
    assert {case["status"] for case in result["cases"]} == {"ok"}
    assert cases(result)["device-tensors"]["metrics"]["bytes_h2d"]["value"] == 64


@pytest.mark.process
def test_the_cpu_is_chosen_though_there_is_a_gpu(library: Path, tmp_path: Path) -> None:
    arguments = ["--ep", "prefer-cpu", "--ep-library", library, "--mode", "cpu-tensors", *QUICK]
    target = measure(MODELS / "tiny.onnx", *arguments, out=tmp_path)["target"]
    cpu = openvino.EP if openvino.problem() is None else CPU_EP  # that of OpenVINO where it has a device
    assert (target["ep"], target["device"]["type"]) == (cpu, "CPU")


@pytest.mark.parametrize(
    ("library", "hint"),
    [
        ("libcublasLt.so.13", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libcuda.so.1", "part of NVIDIA's driver"),
        ("libnvinfer.so.10", "pip install tensorrt"),
        ("libmigraphx_c.so.3", "apt install migraphx"),
        ("libopenvino.so.2541", "pip install --force-reinstall onnxruntime-ep-openvino"),
        ("libother.so.1", "is missing"),
    ],
)
def test_a_missing_library_is_named_with_what_brings_it(library: str, hint: str) -> None:
    error = RuntimeError(f"Failed to load ep.so with error: {library}: cannot open shared object file: No such file")
    text = load_problem(error).text
    assert text.startswith(f"the shared library {library} is missing")
    assert hint in text


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


@pytest.mark.parametrize(
    ("options", "on_host"),
    [({}, True), ({"device_type": "cpu", "num_of_threads": "2"}, True), ({"device_type": "AUTO:GPU,CPU"}, False)],
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
    for mode in ("device-tensors", "device-resident", "host-accessible"):
        assert (unsupported_reason(mode, provider) is None) == on_host, mode
    assert (memory.describe_memory(provider)["kind"] == "host") == on_host


def put_record(folder: Path, name: str, *files: str) -> None:
    """What pip leaves of a package besides its files."""
    place = folder / f"{name}.dist-info"
    place.mkdir()
    (place / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


MODULE = "onnxruntime/__init__.py"


def test_who_brings_the_module(tmp_path: Path) -> None:
    put_record(tmp_path, "onnxruntime-1.31.1", "onnxruntime/LICENSE", MODULE)
    put_record(tmp_path, "onnxruntime_windowsml-1.30.0", MODULE)
    put_record(tmp_path, "onnxruntime_ep_webgpu-0.4.0", "onnxruntime_ep_webgpu/__init__.py")
    put_record(tmp_path, "onnxruntime_qnn-2.7.0", "onnxruntime_qnn/__init__.py")
    put_record(tmp_path, "onnxruntime_genai-0.9.0", "onnxruntime_genai/onnxruntime/__init__.py")
    put_record(tmp_path, "onnx-1.19.0", "onnx/__init__.py")
    (tmp_path / "onnxruntime_gpu-1.0.0.dist-info").mkdir()  # what an interrupted installation leaves
    assert [(it["name"], it["version"], it["folder"]) for it in find_distributions(str(tmp_path))] == [
        ("onnxruntime", "1.31.1", str(tmp_path)),
        ("onnxruntime-windowsml", "1.30.0", str(tmp_path)),
    ]
    assert find_distributions(str(tmp_path / "nowhere")) == []


def device(index: int, own: Any = None, shared: Any = None, kind: str = "GPU", **hardware: Any) -> Any:
    """An EP device as ONNX Runtime lists it, with its DEFAULT and its HOST_ACCESSIBLE memory."""
    infos = {ort.OrtDeviceMemoryType.DEFAULT: own, ort.OrtDeviceMemoryType.HOST_ACCESSIBLE: shared}
    about = SimpleNamespace(type=SimpleNamespace(name=kind), metadata={}, device_id=index, **hardware)
    return SimpleNamespace(ep_name="SomeEP", ep_metadata={}, device=about, memory_info=infos.get)


def info(number: int, kind: str = "DEFAULT") -> Any:
    memory_type = getattr(ort.OrtDeviceMemoryType, kind)
    return SimpleNamespace(name="Buf", device_mem_type=memory_type, device_vendor_id=0x1234, device_id=number)


def test_memory_before_1_28_is_made_by_its_vendor_and_is_none_of_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "SHARED_VALUES", libraries.SHARED_VALUES._replace(is_there=False))
    monkeypatch.setattr(providers, "_results", {})
    monkeypatch.setattr(providers, "_run_trial", lambda info, kind: providers.TrialResult())
    made: list[Any] = []

    def make(*given: Any, **named: Any) -> Any:
        made.append((given[0], named))
        return SimpleNamespace(data_ptr=lambda: 1)

    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_shape_and_type", make)
    shared = info(3, "HOST_ACCESSIBLE")
    assert memory.device_memory(Provider("SomeEP", device(0, shared=shared, kind="NPU"))) is None
    reasons = {
        unsupported_reason(mode, Provider("SomeEP", device(0, shared=shared)))
        for mode in ("device-tensors", "pipelined")
    }
    assert reasons == {"no device memory that Python reaches before ONNX Runtime 1.28"}
    own: Any = there(memory.device_memory(Provider("SomeEP", device(0, info(3), shared, "NPU"))))
    own.allocate(X, (2,))
    assert made == [([2], {"device_type": "npu", "device_id": 3, "vendor_id": 0x1234})]


def test_streams_that_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("no streams today")

    by_name = Provider("CUDAExecutionProvider")
    with pytest.raises(BadInput, match="--stream cuda-python does without"):
        streams.make_compute_stream("ort", by_name)
    with pytest.raises(BenchmarkFailed, match="CUDAExecutionProvider made no stream: no streams today"):
        streams.make_compute_stream("ort", replace(by_name, ep_device=SimpleNamespace(create_sync_stream=refuse)))
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(BadInput, match="--stream cuda-python: the package cuda-python does not load: "):
        streams.make_compute_stream("cuda-python", by_name)


@pytest.mark.parametrize(
    ("numbers", "given", "vendor"),
    [
        ((0, 0), 1, None),
        ((0, 0), None, "AMD 1002:1111 or NVIDIA 10de:2330"),
        ((0, 1), 1, "NVIDIA"),
        ((None, None), 1, "NVIDIA"),  # what computes where without memory of its own is not known
    ],
)
def test_devices_in_one_memory_are_not_named_one_by_one(
    numbers: tuple[int | None, ...], given: int | None, vendor: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As onnxruntime-ep-webgpu 0.4.0 has them: it computes on the same adapter, whichever a session is given."""
    own = [None if number is None else info(number) for number in numbers]
    devices = [
        device(0x1111, own[0], vendor="AMD", vendor_id=0x1002),
        device(0x2330, own[1], vendor="NVIDIA", vendor_id=0x10DE),
    ]
    monkeypatch.setattr(providers, "devices_of", lambda *_: devices)
    if vendor is None:
        with pytest.raises(BadInput, match=f"--device {given}: Many keeps its 2 devices in one memory and computes on"):
            providers._provider_on_device("Many", given, None, None)
        return
    found = session.provider_device(providers._provider_on_device("Many", given, None, None))
    assert (found.get("name") or found["vendor"]) == vendor


DML = Provider("DmlExecutionProvider", device_index=1)
MICROSOFT = 0x1414
X = TensorSpec("x", "tensor(float)", (2, 3))


def test_memory_is_allocated_by_the_devices_name_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where outputs have no shape, bound by its vendor and number."""
    made: list[Any] = []
    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_shape_and_type", lambda *given: made.append(given))
    assert memory.describe_memory(DML) == {"kind": "named-device", "default": "dml:1", "host_accessible": None}
    own: Any = there(memory.device_memory(DML))
    own.allocate(X, (2, 3))
    assert made == [([2, 3], np.float32, "dml", 1)]
    assert (own.ort_device().vendor_id(), own.ort_device().device_id()) == (MICROSOFT, 1)


def test_the_session_names_the_device_and_allows_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def open_session(path: str, options: object, **named: Any) -> None:
        asked.update(named, path=path)
        raise RuntimeError("no such device")

    monkeypatch.setattr(ort, "InferenceSession", open_session)
    path = str(MODELS / "tiny.onnx")
    with pytest.raises(Exception, match="no such device"):
        session.open_model(path, Target(ep="dml", options={"k": "v"}), DML)
    own = {"k": "v", "device_id": "1"}
    assert asked == {"path": path, "providers": [(DML.name, own), "CPUExecutionProvider"], "enable_fallback": 0}


ERROR = "Error creating execution provider: Could not determine default backend path for device"
SLOW = " (without Qualcomm's NPU it simulates one, far slower)"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["libQnnHtp.so", "libQnnGpu.so"], f"; name a backend with --ep-option backend_path={{}}/libQnnHtp.so{SLOW}"),
        (["QnnHtp.dll"], f"; name a backend with --ep-option backend_path={{}}/QnnHtp.dll{SLOW}"),
        (["libQnnGpu.so"], "; name a backend with --ep-option backend_path={}/libQnnGpu.so"),
        ([], "; name QNN's backend library with --ep-option backend_path=PATH"),
    ],
)
def test_the_backend_beside_the_plugin_is_named(files: list[str], said: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert fix_hint(ERROR, str(tmp_path / "lib.so")) == said.format(tmp_path)
    assert fix_hint("something else", str(tmp_path / "lib.so")) == ""


@pytest.mark.wide
@pytest.mark.process
@pytest.mark.usefixtures("clock")
def test_an_ep_that_is_called_what_its_library_is_registered_as(tmp_path: Path) -> None:
    """As EPs are that were made from the example in ONNX Runtime's sources, onnxruntime-ggml's for one."""
    library = Path(shutil.copy(device_library(named_as_registered=True), tmp_path / "libmine.so"))
    result = measure(MODELS / "tiny.onnx", "--ep", library, "--mode", "device-tensors", *ONCE, out=tmp_path / "out")
    assert (result["target"]["ep"], result["target"]["ep_library"]) == ("mine", str(library))
    assert result["placement"]["nodes"] == {"mine": 1}
