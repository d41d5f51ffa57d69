"""ONNX Runtime itself: its version, and what it lets Python do, asked of the module and never of its version number; and the shared
libraries of EPs: how each is found and loaded, why one does not load, and the devices that come with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from ortbench.core.eps import CUDA_EP, NO_DEVICE, NVIDIA_EPS, is_nvidia, origin
from ortbench.core.errors import BenchmarkFailed, one_line, ort_text
from ortbench.worker import environment
from ortbench.worker.environment import find_distributions, with_its_pip

if TYPE_CHECKING:
    from ortbench.model.protocol import Ability
    from ortbench.model.schema import Runtime


# EPs inside an onnxruntime wheel whose library can be registered like a plugin's, which gives them an EP device.
_BUNDLED_LIBRARIES = {CUDA_EP: "cuda", "TensorrtExecutionProvider": "tensorrt", "MIGraphXExecutionProvider": "migraphx"}


class LoadProblem(NamedTuple):
    """Why a library did not load: in words, whether it is a shared library that is missing, and which, where that is known."""

    text: str
    is_library_missing: bool = False
    missing: str | None = None


class NotLoaded(BenchmarkFailed):
    def __init__(self, ep: str, problem: LoadProblem) -> None:
        super().__init__(f"{ep} does not load: {problem.text}")
        self.reason, self.is_library_missing, self.missing = problem.text, problem.is_library_missing, problem.missing


@cache
def built_in_eps() -> tuple[str, ...]:
    """The EPs inside the installed onnxruntime: those that it names before any library is registered."""
    return tuple(ort.get_available_providers())


def all_ep_devices() -> list[Any]:
    """Every OrtEpDevice of every registered EP; none where this ORT has no such call."""
    return list(ort.get_ep_devices()) if hasattr(ort, "get_ep_devices") else []


def ep_devices(ep_name: str) -> list[Any]:
    """The OrtEpDevices of all registered EPs of a name, which can be those of several libraries."""
    return [device for device in all_ep_devices() if device.ep_name == ep_name]


def devices_of(ep_name: str, library: str | None) -> list[Any]:
    """The OrtEpDevices of one EP; other libraries' EPs can have its name, and one that ORT has in itself has no library."""
    location = None if library is None else real_path(library)
    return [device for device in ep_devices(ep_name) if library_of(device) == location]


def library_of(ep_device: Any) -> str | None:
    """The path of the library that an OrtEpDevice came with, as `real_path` gives it; None where it came with ORT."""
    path = ep_device.ep_metadata.get("library_path")
    return real_path(path) if path else None


def real_path(library: str) -> str:
    """The path of a library by which it can be told from others."""
    return os.path.normcase(os.path.realpath(library))


def is_accelerator(ep_device: Any) -> bool:
    return ep_device.device.type.name in ("GPU", "NPU")


_registered: dict[str, str] = {}  # by the real path of a library the name that it was registered by


def register(name: str, library: str, called: str | None = None) -> None:
    """Register a plugin EP's library; one that is registered already is fine, and so is another whose EP has the same name: `devices_of`
    tells their devices apart. Raises `NotLoaded`: it cannot be loaded; the message names a shared library that is missing."""
    location = real_path(library)
    if location in _registered or any(library_of(device) == location for device in all_ep_devices()):
        return
    built_in_eps()  # while they are alone
    if name in NVIDIA_EPS or is_nvidia(Path(library).name):
        preload_nvidia()
    called = called or name
    called = f"{called} of {location}" if called in _registered.values() else called  # ORT takes a name once
    try:
        with environment.announce(f"registering {Path(library).name}"):
            ort.register_execution_provider_library(called, library)
    except Exception as error:
        if "already registered" not in str(error).lower():
            raise NotLoaded(name, load_problem(error)) from None
    _registered[location] = called


def preload_nvidia() -> None:
    """Let ORT find CUDA and cuDNN in the nvidia-* packages. `preload_dlls` looks beside onnxruntime alone; they may be in another folder of
    the path, as those that came with PyTorch where onnxruntime lies in a folder of its own. Libraries that are loaded it takes as they are."""
    others = [folder for folder in map(Path, sys.path) if folder != Path(ort.__file__).parent.parent]
    for library in (folder / path for folder in others for path in nvidia_libraries()):
        with contextlib.suppress(OSError):  # as where there is none
            ctypes.CDLL(str(library))
    with contextlib.suppress(Exception):
        ort.preload_dlls()


def nvidia_libraries() -> list[Path]:
    """Where CUDA's and cuDNN's libraries lie in nvidia-* packages, in the order to load them: ORT's own list, no part of its API."""
    if not hasattr(ort, "_get_nvidia_dll_paths"):
        return []
    return [Path(*parts) for parts in ort._get_nvidia_dll_paths(platform.system() == "Windows")]


def load_problem(error: BaseException) -> LoadProblem:
    """Why a library did not load: the missing shared library by name, where that is it."""
    text = one_line(error, limit=2000)
    missing = re.search(r"([\w.+-]+\.(?:so|dylib)[\w.]*): cannot open shared object file", text)
    if missing:
        text = f"the shared library {missing[1]} is missing{_hint(missing[1])}"
        return LoadProblem(text, is_library_missing=True, missing=missing[1])
    if "error 126" in text:
        return LoadProblem("a DLL that it needs is missing (LoadLibrary error 126)", is_library_missing=True)
    return LoadProblem(ort_text(error))


def _hint(library: str) -> str:
    found = origin(library)
    return "" if found is None else f" ({with_its_pip(found.sentence)})"


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


def names_in(library: str) -> list[str]:
    """The EPs that have a device and came with a library; none before it is registered."""
    location = real_path(library)
    return sorted({device.ep_name for device in all_ep_devices() if library_of(device) == location})


@cache
def register_library(library: str) -> list[str]:
    """Register a plugin EP's library, once; the names of the EPs that it brings. Raises `BenchmarkFailed`: it does not load, or finds no
    device."""
    # Made absolute: a bare file name would be looked for where the system keeps its libraries.
    register(library, str(Path(library).resolve()), Path(library).stem.removeprefix("lib"))
    names = names_in(library)
    if not names:
        raise BenchmarkFailed(f"{library} is loaded and {NO_DEVICE}")
    return names


OLDEST = "1.24"  # with what ortbench cannot do without


class ApiFeature(NamedTuple):
    """Something that not every ONNX Runtime can do."""

    what: str  # in words
    since: str  # the first version that can
    is_there: bool  # whether this one can


EP_DEVICES = ApiFeature("EP devices and plugin EPs", OLDEST, hasattr(ort, "get_ep_devices"))
ASSIGNMENT = ApiFeature(
    "placement of nodes", OLDEST, hasattr(ort.InferenceSession, "get_provider_graph_assignment_info")
)
DEVICE_VALUES = ApiFeature(
    "device tensors of an EP device", OLDEST, hasattr(ort, "copy_tensors") and hasattr(ort, "OrtDeviceMemoryType")
)
STREAMS = ApiFeature("copies on a stream", OLDEST, hasattr(getattr(native, "OrtEpDevice", None), "create_sync_stream"))
POLICIES = ApiFeature(
    "choice of an EP by a policy", OLDEST, hasattr(ort.SessionOptions, "set_provider_selection_policy")
)
SHARED_VALUES = ApiFeature(
    "HOST_ACCESSIBLE (pinned) memory", "1.28", hasattr(native.OrtValue, "ortvalue_from_shape_and_type_for_memory_info")
)
_API_FEATURES = (EP_DEVICES, ASSIGNMENT, DEVICE_VALUES, STREAMS, POLICIES, SHARED_VALUES)
_NEEDED = (EP_DEVICES, ASSIGNMENT, DEVICE_VALUES)


def abilities() -> list[Ability]:
    return [{"what": it.what, "since": it.since, "there": it.is_there} for it in _API_FEATURES]


def version_note(feature: ApiFeature) -> str:
    return f" that Python reaches before ONNX Runtime {feature.since}"


def versions() -> Runtime:
    return {
        "onnxruntime": ort.__version__,
        "onnxruntime_build": ort.get_build_info(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "packages": packages(),
    }


def packages() -> dict[str, str]:
    """The installed packages of ONNX Runtime and of plugin EPs with their versions, as their folders say: reading what is in them takes
    longer than much of what is measured."""
    found: dict[str, str] = {}
    for location in map(Path, sys.path):
        for info in sorted(location.glob("onnxruntime*.dist-info")):
            name, _, version = info.stem.partition("-")
            found.setdefault(name.replace("_", "-").lower(), version)
    return found


def own_package() -> str:
    """The package that brings the module onnxruntime, of which there are several."""
    found = find_distributions(str(Path(ort.__file__).parent.parent))
    return found[0]["name"].lower() if found else "onnxruntime"


def set_up_onnxruntime() -> None:
    """Before anything is asked of ORT: it logs warnings, as it does in any program. Raises `BenchmarkFailed`: it is too old."""
    if not all(it.is_there for it in _NEEDED):
        raise BenchmarkFailed(f"ONNX Runtime {ort.__version__} is too old: ortbench needs {OLDEST} or newer")
    ort.set_default_logger_severity(2)
