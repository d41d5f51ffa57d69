"""What the worker answers: the packages that bring ONNX Runtime, every EP, and the libraries of CUDA and cuDNN: what ONNX Runtime was built
for, where each lies, which is loaded and of which version."""

from __future__ import annotations

import ctypes
import glob
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.worker import State, environment

if TYPE_CHECKING:
    from ortbench.features.doctor.model import Cuda, CudaLibrary, Installed
    from ortbench.model.protocol import Packages

# Where Linux and CUDA's installers keep them; what the loader is told to search comes before.
_SYSTEM = (
    "/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/targets/*/lib", "/opt/cuda/lib64",
    "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib",
)  # fmt: skip


def packages(_: object) -> Packages:
    """Where the module is, and every package on the search path that brings one."""
    folders = dict.fromkeys(os.path.abspath(folder) for folder in sys.path if folder)
    found = [it for folder in folders for it in environment.find_distributions(folder)]
    return {
        "module": environment.module_folder(),
        "distributions": found,
        "numpy": environment.installed_version("numpy"),
    }


def examine(state: State) -> Installed:
    """Every EP and whether it loads, and the libraries of CUDA that came with them."""
    from ortbench.features.devices.worker import devices  # which loads ONNX Runtime; `packages` says why that cannot be

    found = devices(state)
    package, built_for = name_build()
    return {**found, "package": package, "cuda": None if built_for is None else describe_cuda(built_for)}


def name_build() -> tuple[str | None, str | None]:
    """The package that this module was built as, and its version of CUDA; None for what it does not say."""
    try:
        from onnxruntime.capi import build_and_package_info as info
    except ImportError:
        return None, None
    return getattr(info, "package_name", None) or None, getattr(info, "cuda_version", None) or None


def describe_cuda(built_for: str) -> Cuda:
    """What there is of it; EPs must have been loaded, and their libraries with them."""
    from ortbench.worker.libraries import nvidia_libraries

    loaded = _loaded_libraries()
    libraries = [_library(path.name, loaded) for path in nvidia_libraries()]
    runtime = _version(libraries, "cudart", "cudaRuntimeGetVersion")
    cudnn = _version(libraries, "cudnn", "cudnnGetVersion")
    return {
        "built_for": built_for,
        "runtime": None if runtime is None else f"{runtime // 1000}.{runtime % 1000 // 10}",
        # as cuDNN 9 counts
        "cudnn": None if cudnn is None else f"{cudnn // 10000}.{cudnn % 10000 // 100}.{cudnn % 100}",
        "libraries": libraries,
    }


def _library(name: str, loaded: dict[str, str]) -> CudaLibrary:
    # cudart64_13.dll and libcudart.so.13: the same library in another version differs in the digits at the end.
    pattern = re.sub(r"\d+(\.dll)?$", r"[0-9]*\1", name)
    found: dict[str, str] = {}
    others: dict[str, str] = {}
    for folder in _folders():
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
            of_name = os.path.basename(path) == name
            if of_name or not re.match(re.escape(name) + r"\.", os.path.basename(path)):
                (found if of_name else others).setdefault(os.path.realpath(path), path)
    return {
        "name": name,
        "found": list(found.values()),
        "loaded": loaded.get(name),
        "others": [path for real, path in others.items() if real not in found],
    }


def _folders() -> Iterator[str]:
    """Where libraries are looked for: packages, what the environment names, the system."""
    for folder in dict.fromkeys(filter(None, [environment.module_folder(), *sys.path])):
        for pattern in (("nvidia", "*", "lib"), ("nvidia", "*", "bin"), ("nvidia", "*", "bin", "*"), ("torch", "lib")):
            yield from sorted(glob.glob(os.path.join(glob.escape(folder), *pattern)))
    variable = "PATH" if platform.system() == "Windows" else "LD_LIBRARY_PATH"
    yield from filter(None, os.environ.get(variable, "").split(os.pathsep))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if name in os.environ:
            yield from (os.path.join(os.environ[name], inner) for inner in ("lib64", "bin"))
    yield os.path.join(sys.prefix, "lib")
    if platform.system() != "Windows":
        for pattern_of_system in _SYSTEM:
            yield from sorted(glob.glob(pattern_of_system))


def _loaded_libraries() -> dict[str, str]:
    """The shared libraries in this process by their names, where Linux tells them; a file may have a longer name."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for path in dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines if ".so" in line):
        name = os.path.basename(path)
        major = re.match(r"(.+?\.so\.\d+)(\.|$)", name)
        found[major[1] if major else name] = path
    return found


def _version(libraries: list[CudaLibrary], part: str, name: str) -> int | None:
    """What a library says of itself by a function; only of one that is loaded."""
    path = next((it["loaded"] for it in libraries if part in it["name"]), None)
    try:
        call = getattr(ctypes.CDLL(path), name) if path is not None else None
    except (OSError, AttributeError):
        return None
    if call is None:
        return None
    if name == "cudnnGetVersion":
        call.restype = ctypes.c_size_t
        return int(call())
    version = ctypes.c_int()
    return version.value if call(ctypes.byref(version)) == 0 else None
