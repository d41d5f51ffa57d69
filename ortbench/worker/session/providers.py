"""Execution providers: which are installed, how each is loaded, and the device a run is to use."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import pkgutil
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime as ort

from ortbench.errors import BadInput, BenchmarkFailed, one_line, ort_text
from ortbench.plan import CPU_EP, POLICIES, Target

CUDA_EP = "CUDAExecutionProvider"

SHORT_NAMES = {
    "cpu": CPU_EP,
    "cuda": CUDA_EP,
    "tensorrt": "TensorrtExecutionProvider",
    "nv-tensorrt-rtx": "NvTensorRTRTXExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "qnn": "QNNExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "dml": "DmlExecutionProvider",
}

# The package that brings an EP, for the message that it is not installed.
PACKAGES = {
    CUDA_EP: "onnxruntime-gpu[cuda,cudnn]",
    "TensorrtExecutionProvider": "onnxruntime-gpu[cuda,cudnn] and TensorRT",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-ep-nv-tensorrt-rtx",
    "WebGpuExecutionProvider": "onnxruntime-ep-webgpu",
    "OpenVINOExecutionProvider": "onnxruntime-ep-openvino",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    "DmlExecutionProvider": "onnxruntime-directml",
}

# EPs inside an onnxruntime wheel whose library can be registered like a plugin's, which gives them an EP device.
_BUNDLED_LIBRARIES = {CUDA_EP: "cuda", "TensorrtExecutionProvider": "tensorrt"}
NVIDIA_EPS = {CUDA_EP, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"}

# The device names `OrtValue` knows for EPs that offer no EP device.
NAMED_DEVICES = {CUDA_EP: "cuda", "TensorrtExecutionProvider": "cuda", "DmlExecutionProvider": "dml"}


@dataclass(frozen=True)
class Plugin:
    """An installed package that brings EPs by the convention of plugin EPs.

    Attributes:
        module: import name.
        distribution: package name, or the module's where it has none.
        version: of the package, or "".
        ep_names: the EPs it brings.
        library: path of its shared library, or "" where the package could not say.
        problem: why it could not say, else "".
    """

    module: str
    distribution: str
    version: str
    ep_names: tuple[str, ...]
    library: str
    problem: str = ""


# EPs that compute on the CPU in ordinary memory, known by name; others are known by their EP device.
_HOST_EPS = {CPU_EP, "DnnlExecutionProvider", "XnnpackExecutionProvider", "ACLExecutionProvider"}


@dataclass
class Provider:
    """The EP of a run.

    Attributes:
        name: full EP name.
        ep_device: its OrtEpDevice, or None where it is used by name alone.
        device_index: the device's number, for EPs that are used by name.
        library: path of its library, or None for one that is built in.
        version: of the EP library or package, or None.
        notes: what a reader should know about how it was chosen (code, message).
        policy: by which ORT chooses when it creates a session, which is when the rest becomes known; else None.
    """

    name: str
    ep_device: Any = None
    device_index: int = 0
    library: str | None = None
    version: str | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)
    policy: Any = None

    @property
    def computes_on_host(self) -> bool:
        """Whether the EP computes in ordinary host memory, so that there is no device to copy to."""
        if self.ep_device is not None:
            return bool(self.ep_device.device.type.name == "CPU")
        return self.name in _HOST_EPS


@cache
def plugins() -> tuple[Plugin, ...]:
    """Every installed plugin EP package: a module ``onnxruntime_*`` with ``get_library_path`` and ``get_ep_name(s)``."""
    found = []
    for module in pkgutil.iter_modules():
        if module.name.startswith("onnxruntime_"):
            plugin = _plugin(module.name)
            if plugin is not None:
                found.append(plugin)
    return tuple(sorted(found, key=lambda plugin: plugin.module))


def _plugin(module_name: str) -> Plugin | None:
    from importlib import metadata  # not needed for built-in EPs, and slow to import

    distribution = (metadata.packages_distributions().get(module_name) or [module_name])[0]
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        version = ""
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, "get_library_path"):
            return None
        names = module.get_ep_names() if hasattr(module, "get_ep_names") else [module.get_ep_name()]
        return Plugin(module_name, distribution, version, tuple(names), str(module.get_library_path()))
    except Exception as error:  # a broken package is reported, it must not hide the others
        return Plugin(module_name, distribution, version, (), "", one_line(error))


def ep_devices(ep_name: str) -> list[Any]:
    """The OrtEpDevices of an EP that is registered; empty where there are none or this ORT has no such call."""
    return [device for device in all_ep_devices() if device.ep_name == ep_name]


def all_ep_devices() -> list[Any]:
    """Every OrtEpDevice of every registered EP."""
    return list(ort.get_ep_devices()) if hasattr(ort, "get_ep_devices") else []


def is_accelerator(ep_device: Any) -> bool:
    """Whether an OrtEpDevice is a GPU or an NPU."""
    return ep_device.device.type.name in ("GPU", "NPU")


def register(name: str, library: str) -> None:
    """Register a plugin EP's library; registering one that ORT has registered itself is fine.

    Args:
        name: of the EP, or whatever the library is to be registered as where the EP's name is not known yet.
        library: its path.

    Raises:
        BenchmarkFailed: it cannot be loaded; the message names the missing shared library where that is the cause.
    """
    if ep_devices(name):
        return
    if name in NVIDIA_EPS:
        preload_nvidia()
    try:
        ort.register_execution_provider_library(name, library)
    except Exception as error:
        if "already registered" not in str(error).lower():
            raise BenchmarkFailed(f"{name} does not load: {load_problem(error)}") from None


def preload_nvidia() -> None:
    """Let ORT find CUDA and cuDNN in the nvidia-* packages. What it cannot find shows when the EP is loaded.

    `preload_dlls` looks beside onnxruntime alone; they may be in another folder of the path, as those that came with
    PyTorch are where onnxruntime lies in a folder of its own. Libraries that are loaded it takes as they are.
    """
    for library in _nvidia_libraries():
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(library))
    with contextlib.suppress(Exception):
        ort.preload_dlls()


def _nvidia_libraries() -> list[Path]:
    """CUDA's and cuDNN's libraries in nvidia-* packages that do not lie beside onnxruntime, in the order to load them."""
    if not hasattr(ort, "_get_nvidia_dll_paths"):  # ORT's own list, which is not part of its API
        return []
    beside = Path(ort.__file__).parent.parent
    relative = [Path(*parts) for parts in ort._get_nvidia_dll_paths(platform.system() == "Windows")]
    found = [folder / path for folder in map(Path, sys.path) if folder != beside for path in relative]
    return [path for path in found if path.is_file()]


def load_problem(error: BaseException) -> str:
    """Why a library did not load: the missing shared library by name, where that is it."""
    text = one_line(error, limit=2000)
    missing = re.search(r"([\w.+-]+\.(?:so|dylib)[\w.]*): cannot open shared object file", text)
    if missing:
        return f"the shared library {missing[1]} is missing{_hint(missing[1])}"
    if "error 126" in text:
        return "a DLL that it needs is missing (LoadLibrary error 126)"
    return ort_text(error)


def _hint(library: str) -> str:
    if library.startswith(("libcuda.so", "libnvidia-")):
        return " (it is part of NVIDIA's driver)"
    if library.startswith("libnvinfer"):
        return " (it is part of TensorRT)"
    if re.match(r"libcu|libnv", library):
        return f" (CUDA and cuDNN come with: pip install '{PACKAGES[CUDA_EP]}')"
    if library.startswith("libvulkan"):
        return " (the Vulkan loader, on Debian and Ubuntu: apt install libvulkan1)"
    return ""


def bundled_library(ep_name: str) -> str | None:
    """The path of an EP's library inside the onnxruntime package, or None."""
    stem = _BUNDLED_LIBRARIES.get(ep_name)
    if stem is None:
        return None
    name = (
        f"onnxruntime_providers_{stem}.dll" if platform.system() == "Windows" else f"libonnxruntime_providers_{stem}.so"
    )
    path = Path(ort.__file__).parent / "capi" / name
    return str(path) if path.is_file() else None


def library_name(target: Target, provider: Provider) -> str | None:
    """A library's path for the result: as the user gave it, or inside the package it comes from.

    A result is shared; where the user's Python lives is nobody's business.
    """
    if provider.library is None or target.library is not None:
        return target.library
    path = Path(provider.library)
    around = [folder for folder in map(Path, filter(None, sys.path)) if path.is_relative_to(folder)]
    if around:  # an environment may lie in another folder of the path, as .venv does in that of a project
        return str(path.relative_to(max(around, key=lambda folder: len(folder.parts))))
    return path.name


def full_name(name: str) -> str:
    """The full EP name of what the user wrote: a short name, a full name, or a plugin package's or module's name.

    Raises:
        BadInput: no EP is called that.
    """
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    known = set(ort.get_all_providers()) | {device.ep_name for device in all_ep_devices()}
    for plugin in plugins():
        known.update(plugin.ep_names)
        if name.lower().replace("-", "_") in (plugin.module.lower(), plugin.distribution.lower().replace("-", "_")):
            if not plugin.ep_names:
                raise BenchmarkFailed(f"the package {plugin.distribution} does not load: {plugin.problem}")
            return plugin.ep_names[0]
    for ep_name in known:
        if name.lower() == ep_name.lower():
            return str(ep_name)
    raise BadInput(
        f"--ep {name!r}: no such execution provider; known are {', '.join(sorted(SHORT_NAMES))}, full names such as "
        f"{CPU_EP}, and installed plugin packages ('ortbench devices' lists them)"
    )


def find(target: Target) -> Provider:
    """The EP and device that a run asks for, loaded.

    Raises:
        BadInput: no such EP, or no such device of it.
        BenchmarkFailed: the EP is not installed, does not load, or finds no device.
    """
    if target.ep in POLICIES:
        return _by_policy(target)
    if target.library is not None:
        return _from_library(target, target.library)
    if target.ep == "auto":
        return _auto(target)
    name = full_name(target.ep)
    if name == CPU_EP:
        return _cpu(target)
    for plugin in plugins():
        if name in plugin.ep_names:
            register(name, plugin.library)
            return _with_device(name, target.device, plugin.library, plugin.version)
    if ep_devices(name):
        return _with_device(name, target.device, None, None)
    if name in ort.get_available_providers():
        return _built_in(name, target.device)
    package = PACKAGES.get(name)
    how = f"install it with: pip install '{package}'" if package else "install the package that brings it"
    raise BenchmarkFailed(f"{name} is not installed; {how}")


def _cpu(target: Target) -> Provider:
    if target.device:
        raise BadInput(f"--device {target.device}: {CPU_EP} has 1 device(s), numbered from 0")
    if target.options:
        raise BadInput(f"--ep-option: {CPU_EP} has no options (ONNX Runtime would ignore them)")
    return Provider(CPU_EP, version=ort.__version__)


def _built_in(name: str, device: int | None) -> Provider:
    """An EP of the onnxruntime package: by its EP device where it has one, else by name."""
    library, index = bundled_library(name), device or 0
    if library is None:
        return Provider(name, device_index=index, version=ort.__version__)
    try:
        register(name, library)
    except BenchmarkFailed as error:
        if "is missing" in str(error):  # the classic way would need the same shared library, and fail in silence
            raise
        note = ("named-device", f"{name} has no EP device here ({error}); it is used by name")
        return Provider(name, device_index=index, library=library, version=ort.__version__, notes=[note])
    if not ep_devices(name):
        note = ("named-device", f"{name} offers no EP device here; it is used by name")
        return Provider(name, device_index=index, library=library, version=ort.__version__, notes=[note])
    return _with_device(name, device, library, ort.__version__)


def _with_device(name: str, index: int | None, library: str | None, version: str | None) -> Provider:
    """The EP on its device number `index`; without a number on its first GPU or NPU, else its first device."""
    devices = ep_devices(name)
    if not devices:
        raise BenchmarkFailed(f"{name} is loaded and finds no device it can use on this machine")
    if index is None:
        chosen = next((device for device in devices if is_accelerator(device)), devices[0])
    elif index < len(devices):
        chosen = devices[index]
    else:
        raise BadInput(f"--device {index}: {name} has {len(devices)} device(s), numbered from 0")
    return Provider(name, chosen, library=library, version=chosen.ep_metadata.get("version") or version or None)


def _from_library(target: Target, library: str) -> Provider:
    """A plugin EP from a library."""
    names = register_library(library)
    if target.ep == "auto":
        return _with_device(names[0], target.device, library, None)
    for name in names:
        if target.ep.lower() in (name.lower(), name.lower().removesuffix("executionprovider")) or (
            SHORT_NAMES.get(target.ep.lower()) == name
        ):
            return _with_device(name, target.device, library, None)
    raise BadInput(f"--ep {target.ep!r}: {library} brings {', '.join(names)}")


def register_library(library: str) -> list[str]:
    """Register a plugin EP's library; returns the EPs it brings, which are those that appear with it.

    Raises:
        BenchmarkFailed: it does not load, or finds no device.
    """
    before = {device.ep_name for device in all_ep_devices()}
    # Made absolute: a bare file name would be looked for where the system keeps its libraries.
    register(library, str(Path(library).resolve()))
    names = sorted({device.ep_name for device in all_ep_devices()} - before)
    if not names:
        raise BenchmarkFailed(f"{library} is loaded and finds no device it can use on this machine")
    return names


def _auto(target: Target) -> Provider:
    """The first EP with a GPU or NPU, else the CPU EP with the reasons of those that could not be loaded."""
    problems = []
    for name, load in _candidates():
        try:
            load()
        except BenchmarkFailed as error:
            problems.append(str(error))
            continue
        if any(is_accelerator(device) for device in ep_devices(name)):
            return _with_device(name, target.device, *_origin(name))
    provider = _cpu(target)
    if problems and _has_nvidia_gpu():
        provider.notes.append(("auto-cpu", f"no EP with a GPU or NPU could be loaded: {'; '.join(problems)}"))
    return provider


def _by_policy(target: Target) -> Provider:
    """A provider that ORT is to choose from all that can be registered; `settle` says which it is.

    Raises:
        BenchmarkFailed: the library that was named does not load.
    """
    problems = []
    for name, load in _candidates():
        try:
            load()
        except BenchmarkFailed as error:
            if name not in NVIDIA_EPS or _has_nvidia_gpu():
                problems.append(str(error))
    if target.library is not None:
        register_library(target.library)
    policy = getattr(ort.OrtExecutionProviderDevicePolicy, POLICIES[target.ep])
    notes = [("policy-candidates", f"ONNX Runtime could not choose: {problem}") for problem in problems]
    return Provider("the EP that ONNX Runtime chooses", policy=policy, notes=notes)


def settle(provider: Provider, session: Any, library: str | None) -> None:
    """Fill in what ORT chose by a policy: the EP that was given most nodes, the CPU's only if there is no other.

    Args:
        provider: with a policy.
        session: that was created with it.
        library: that the user named, or None.
    """
    counts: Counter[str] = Counter()
    for subgraph in session.get_provider_graph_assignment_info():
        counts[subgraph.ep_name] += len(subgraph.get_nodes())
    ran = [name for name, _ in counts.most_common()] or session.get_providers()  # models in ORT format tell no nodes
    others = [name for name in ran if name != CPU_EP]
    provider.name = others[0] if others else CPU_EP
    provider.version, provider.library, provider.ep_device = ort.__version__, None, None
    if provider.name == CPU_EP:
        return
    read = [device for device in session.get_input_epdevices() if device is not None]
    of_ep = [device for device in read if device.ep_name == provider.name] or ep_devices(provider.name)
    provider.ep_device = next(filter(is_accelerator, of_ep), of_ep[0])
    provider.library, version = _origin(provider.name)
    provider.library = provider.library or library
    provider.version = provider.ep_device.ep_metadata.get("version") or version


def _candidates() -> Iterator[tuple[str, Any]]:
    for device in all_ep_devices():
        if device.ep_name != CPU_EP:
            yield device.ep_name, lambda: None
    library = bundled_library(CUDA_EP)
    if library is not None:
        yield CUDA_EP, lambda: register(CUDA_EP, library)
    for plugin in plugins():
        for name in plugin.ep_names:
            yield name, lambda name=name, plugin=plugin: register(name, plugin.library)


def _origin(name: str) -> tuple[str | None, str | None]:
    for plugin in plugins():
        if name in plugin.ep_names:
            return plugin.library, plugin.version
    return bundled_library(name), ort.__version__


def _has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or platform.system() == "Windows"
