"""EPs: what users and ONNX Runtime call them, which packages bring them, and where a shared library that one lacks comes from: in words, and
as a command where there is one. Installed packages that bring plugin EPs are found by their files: nothing is imported.
Packages that hinder ONNX Runtime, and engines that EPs build of a model."""

from __future__ import annotations

import mmap
import os
import re
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from ortbench.core.errors import BadInput
from ortbench.core.safe_text import join_words

CUDA_PACKAGE = "onnxruntime-gpu[cuda,cudnn]"
NO_DEVICE = "finds no device it can use on this machine: check which hardware it takes, and the driver"


class Origin(NamedTuple):
    """What a library is part of, and the command that installs it, or ""."""

    what: str
    command: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.command}" if self.command else self.what


# By the beginning of the file's name; the first that fits.
_ORIGINS = (
    (r"libcuda\.so|nvcuda\.dll|libnvidia-", Origin("it is part of NVIDIA's driver")),
    (r"libtensorrt_rtx|tensorrt_rtx", Origin("it comes with TensorRT RTX", "pip install onnxruntime-ep-nv-tensorrt-rtx")),
    (r"libnvinfer|libnvonnxparser|nvinfer|nvonnxparser", Origin("it is part of TensorRT", "pip install tensorrt")),
    (
        r"libcu|libnvrtc|libnvJitLink|libnv|cu(dart|blas|fft|rand|dnn)",
        Origin("CUDA and cuDNN come with", f"pip install '{CUDA_PACKAGE}'"),
    ),
    (r"libmigraphx", Origin("it is part of AMD's MIGraphX, which comes with ROCm", "apt install migraphx")),
    (r"libamdhip64|librocblas|libMIOpen|libhip|librocm|libhsa", Origin("it is part of AMD's ROCm", "apt install rocm")),
    (r"DirectML\.dll", Origin("it comes with DirectML", "pip install --force-reinstall onnxruntime-directml")),
    (r"libopenvino|openvino", Origin("it comes with OpenVINO", "pip install --force-reinstall onnxruntime-ep-openvino")),
    (r"libQnn|Qnn", Origin("it comes with Qualcomm's QNN", "pip install --force-reinstall onnxruntime-qnn")),
    (r"libvulkan", Origin("the Vulkan loader, on Debian and Ubuntu", "apt install libvulkan1")),
    (r"libgomp|libstdc\+\+|libgcc_s", Origin("it is part of GCC's runtime, on Debian and Ubuntu", "apt install libgomp1 libstdc++6")),
)  # fmt: skip


def origin(library: str) -> Origin | None:
    """Where a shared library comes from, by its file name; None where that is not known."""
    return next((it for pattern, it in _ORIGINS if re.match(pattern, library)), None)


CPU_EP = "CPUExecutionProvider"
CUDA_EP = "CUDAExecutionProvider"
OPENVINO_EP = "OpenVINOExecutionProvider"

SHORT_NAMES = {
    "cpu": CPU_EP,
    "cuda": CUDA_EP,
    "tensorrt": "TensorrtExecutionProvider",
    "nv-tensorrt-rtx": "NvTensorRTRTXExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "openvino": OPENVINO_EP,
    "qnn": "QNNExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "dml": "DmlExecutionProvider",
}

# The package that brings an EP, or several with spaces between, for the message that it is not installed.
PACKAGES = {
    CUDA_EP: CUDA_PACKAGE,
    "TensorrtExecutionProvider": f"{CUDA_PACKAGE} tensorrt",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-ep-nv-tensorrt-rtx",
    "WebGpuExecutionProvider": "onnxruntime-ep-webgpu",
    OPENVINO_EP: "onnxruntime-ep-openvino",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    "DmlExecutionProvider": "onnxruntime-directml",
}

NVIDIA_EPS = {CUDA_EP, "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"}

# Those that capture runs as graphs; by which options stands in the worker.
CAPTURING_EPS = {*NVIDIA_EPS, "WebGpuExecutionProvider"}

# The device names `OrtValue` knows for EPs that offer no EP device.
NAMED_DEVICES = {CUDA_EP: "cuda", "TensorrtExecutionProvider": "cuda", "DmlExecutionProvider": "dml"}


def is_nvidia(ep_name: str) -> bool:
    """Whether an EP is one of NVIDIA's, by its full name: CUDA, TensorRT or TensorRT RTX, built in or a plugin."""
    return any(word in ep_name.lower() for word in ("cuda", "tensorrt"))


# Installed packages

# A library of a plugin EP exports `CreateEpFactories`; most packages also have a function `get_library_path` and some `get_ep_name`.
# No entry points are agreed on. So a distribution brings an EP if a library of it exports that symbol, or if the ``__init__.py`` of a package
# with a shared library has both functions; `get_library_path` alone is in packages of other kinds, too.

_PREFIX = "onnxruntime_"
_LIBRARY = re.compile(r"\.(?:so|dll|dylib)(?:\.[\d.]+)?$")
_RECORDED = re.compile(rb'^"?([^,"\n]+(?:\.(?:so|dll|dylib)(?:\.[\d.]+)?|/__init__\.py))"?,', re.MULTILINE)
# As packages have it; some EPs take that name for their own.
_NAMES = re.compile(rb"""^(REGISTRATION_NAME|EP_NAME)\b[^=\n]*=\s*["']([\w.-]+)["']""", re.MULTILINE)
_SYMBOL = b"CreateEpFactories\0"
_SCANNED = 64 << 20  # bytes of a library that is no ELF file, whose symbols are not looked up in its table


class EpPackage(NamedTuple):
    """An installed package that probably brings EPs."""

    module: str  # its import name; "" for a library that lies in no package
    distribution: str  # what pip calls it, or the module where pip does not know it
    version: str  # of the distribution, or ""
    source: Path | None  # the file with `get_library_path`; None where the library is all there is
    libraries: tuple[Path, ...]  # paths of its libraries that export `CreateEpFactories`, as far as files tell
    registered_as: str  # the name that it has its library registered by, or "" where its source does not say it

    @property
    def keys(self) -> set[str]:
        return {
            key(name)
            for name in (self.module, self.distribution, self.registered_as, *map(stem, self.libraries))
            if name
        }

    def mentions(self, word: str) -> bool:
        """Whether its source or a library of it has a word, which `key` has spelt."""
        files = (*([] if self.source is None else [self.source]), *self.libraries)
        return any(_contains(file, word.encode()) for file in files)


def key(name: str) -> str:
    """A name in the spelling by which names are compared: small letters, ``_`` for ``-``."""
    return name.lower().replace("-", "_")


def stem(library: Path) -> str:
    """What a library is called without its ending and the ``lib`` before it: ``mine`` for ``libmine.so.1``."""
    return _LIBRARY.sub("", library.name).removeprefix("lib")


@cache
def by_name(path: tuple[str, ...] | None = None) -> tuple[EpPackage, ...]:
    """The packages called ``onnxruntime_*`` of this Python, or in some folders: by the names in folders, which takes no
    time."""
    found: dict[str, EpPackage | None] = {}
    for folder in _folders(path):
        names = sorted(it.name for it in _entries(folder) if it.name.startswith(_PREFIX))
        infos = [folder / name for name in names if name.endswith(".dist-info")]
        for name in names:
            module = name.removesuffix(".py")
            source = folder / name if name.endswith(".py") else folder / name / "__init__.py"
            if module.isidentifier() and module not in found and source.is_file():
                text = _bytes(source)
                package = EpPackage(module, *_distribution_with(module, infos), source, (), _registered_as(text))
                found[module] = package if b"get_library_path" in text else None  # another one of ONNX Runtime's family
    return tuple(it for it in found.values() if it is not None)


def _registered_as(text: bytes) -> str:
    told = dict(reversed(_NAMES.findall(text)))
    return (told.get(b"REGISTRATION_NAME") or told.get(b"EP_NAME") or b"").decode()


def _distribution_with(module: str, infos: Iterable[Path]) -> tuple[str, str]:
    for info in infos:
        listed = b"\n".join(_bytes(info / name) for name in ("RECORD", "top_level.txt"))
        if re.search(rb"^%b(?:/|\.py,|\s*$)" % module.encode(), listed, re.MULTILINE):
            return _name_and_version(info)
    return module, ""


@cache
def everywhere(path: tuple[str, ...] | None = None) -> tuple[EpPackage, ...]:
    """All packages, whatever they are called, by the files of all installed distributions; those of `by_name` come first."""
    found: dict[object, EpPackage] = {it.source: it for it in by_name(path)}
    earlier: list[Path] = []
    names: set[str] = set()
    for folder in _folders(path):
        infos = sorted(it.name for it in _entries(folder) if it.name.endswith((".dist-info", ".egg-info")))
        packages = [package for info in infos for package in _of_distribution(folder / info)]
        for package in packages:
            if package.distribution not in names and not _is_hidden(package.module.partition(".")[0], earlier):
                found[package.source or package.libraries] = package
        names |= {package.distribution for package in packages}
        earlier.append(folder)
    return tuple(found.values())


def _is_hidden(module: str, earlier: Sequence[Path]) -> bool:
    """Whether Python imports a module from an earlier folder."""
    return any((folder / it).is_file() for folder in earlier for it in (f"{module}.py", f"{module}/__init__.py"))


def _of_distribution(info: Path) -> Iterator[EpPackage]:
    base, files = _files(info)
    libraries = [file for file in files if _LIBRARY.search(file) and not file.startswith("onnxruntime/")]
    if not libraries:
        return
    packages = {file.removesuffix("/__init__.py") for file in files if file.endswith("/__init__.py")}
    there = [file for file in sorted(libraries, reverse=True) if exports(base / file)]
    exporting = {(Path(file).parent, stem(Path(file))): file for file in there}.values()  # of copies the shortest name
    around = {folder for file in libraries for folder in _folders_around(file) if folder in packages}
    telling: list[str] = []
    for folder in sorted(around):  # what is around others comes first
        text = _bytes(base / folder / "__init__.py")
        has_ep = b"get_ep_name" in text or any(file.startswith(f"{folder}/") for file in exporting)
        if b"get_library_path" in text and has_ep and not any(folder.startswith(f"{it}/") for it in telling):
            telling.append(folder)
    for folder in telling:
        own = tuple(base / file for file in exporting if file.startswith(f"{folder}/"))
        source = base / folder / "__init__.py"
        yield EpPackage(folder.replace("/", "."), *_name_and_version(info), source, own, _registered_as(_bytes(source)))
    if not telling:
        for file in exporting:
            top = next((it for it in _folders_around(file) if it in packages), "")
            told = _registered_as(_bytes(base / top / "__init__.py")) if top else ""
            yield EpPackage(top.replace("/", "."), *_name_and_version(info), None, (base / file,), told)


def _files(info: Path) -> tuple[Path, list[str]]:
    """The libraries and packages of a distribution, by what pip recorded, and the folder that they are relative to.

    Of one that is being worked on (``pip install --editable``), or that something else than pip installed, the folders of its
    modules are listed.
    """
    record = _bytes(info / "RECORD")
    roots = [info.parent]
    if b"direct_url.json" in record and (project := _project(info)) is not None:
        roots = [project, project / "src"]
    elif record:
        if not any(ending in record for ending in (b".so", b".dll", b".dylib")):
            return info.parent, []  # as most are
        return info.parent, [os.fsdecode(file) for file in _RECORDED.findall(record)]
    modules = os.fsdecode(_bytes(info / "top_level.txt")).split() or [key(_name_and_version(info)[0])]
    for root in roots:
        found = [path for module in modules for path in (root / module).rglob("*")]
        if found:
            return root, [path.relative_to(root).as_posix() for path in found if path.is_file()]
    return info.parent, []


def _project(info: Path) -> Path | None:
    """The folder of a project that is installed editable."""
    import json  # seldom needed, like the next one
    from urllib.parse import unquote, urlsplit

    try:
        told = json.loads(_bytes(info / "direct_url.json"))
        if not told["dir_info"]["editable"]:
            return None
        path = unquote(urlsplit(told["url"]).path)
    except (ValueError, KeyError):  # half a file, or no folder's
        return None
    return Path(path[1:] if os.name == "nt" else path)


def exports(library: Path) -> bool:
    """Whether a library exports `CreateEpFactories`. Of an ELF file only the names of its dynamic symbols are read."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
                return len(content) <= _SCANNED and content.find(_SYMBOL) >= 0
            (table,), (size, count) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<HH", content, 58)
            for section in range(table, table + size * count, size or 1):  # a stripped one may have no table
                if struct.unpack_from("<I", content, section + 4) == (11,):  # SHT_DYNSYM
                    (strings,) = struct.unpack_from("<I", content, section + 40)
                    begin, length = struct.unpack_from("<QQ", content, table + size * strings + 24)
                    return content.find(_SYMBOL, begin, begin + length) >= 0
            return content.find(_SYMBOL) >= 0
    except (OSError, ValueError, struct.error):  # not there, empty, or cut short
        return False


def _folders_around(file: str) -> list[str]:
    """The folders that a file lies in, the outermost first."""
    parts = file.split("/")[:-1]
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def _name_and_version(info: Path) -> tuple[str, str]:
    """Name and version of a distribution, by the name of the folder with what pip knows of it."""
    name, _, version = info.stem.partition("-")
    return name.replace("_", "-"), version.partition("-")[0]


def _folders(path: tuple[str, ...] | None) -> list[Path]:
    return [Path(folder) for folder in dict.fromkeys(sys.path if path is None else path) if folder]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # a zip file, or a folder that is not there
        return []


def _contains(file: Path, word: bytes) -> bool:
    """Whether a file has a word in any spelling; libraries can be large, so it is read in pieces."""
    before = b""
    with suppress(OSError), file.open("rb") as content:
        while piece := content.read(1 << 20):
            if word in (before + piece).lower().replace(b"-", b"_"):
                return True
            before = piece[-len(word) :]
    return False


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


# What an onnxruntime package has of an EP, by the EP's short name.
_BUNDLED = {
    "cuda": "*onnxruntime_providers_cuda.*",
    "tensorrt": "*onnxruntime_providers_tensorrt.*",
    "nv-tensorrt-rtx": "*onnxruntime_providers_nv_tensorrt_rtx.*",
    "openvino": "*onnxruntime_providers_openvino.*",
    "migraphx": "*onnxruntime_providers_migraphx.*",
    "qnn": "*onnxruntime_providers_qnn.*",
    "dml": "DirectML.dll",
}


def installed_eps(path: tuple[str, ...] | None = None) -> list[str]:
    """Short names of EPs, and the packages of plugin EPs of this Python, or in some folders, that have none."""
    capi = next((inner for folder in _folders(path) if (inner := folder / "onnxruntime" / "capi").is_dir()), None)
    bundled = [] if capi is None else [name for name, pattern in _BUNDLED.items() if any(capi.glob(pattern))]
    plugins = sorted(it.distribution.replace("_", "-") for it in everywhere(path))
    short = {PACKAGES[ep]: name for name, ep in SHORT_NAMES.items() if ep in PACKAGES}
    return list(dict.fromkeys(["cpu", *bundled, *(short.get(name, name) for name in plugins)]))


OVERWRITTEN, SHARED = "packages-overwritten", "ep-name-shared"  # codes of warnings


class Distribution(TypedDict):
    """An installed package that brings the module ``onnxruntime``, and the folder that it is in."""

    name: str
    version: str
    folder: str


class Overwritten(NamedTuple):
    """What is wrong in a sentence, and the two commands that mend it."""

    sentence: str
    commands: tuple[str, str]

    @property
    def message(self) -> str:
        return f"{self.sentence}; mend it with: {' && '.join(self.commands)}"


def overwritten(distributions: Sequence[Distribution]) -> Overwritten | None:
    """What to say of two packages or more in one folder; None of fewer."""
    if len(distributions) < 2:
        return None
    names = sorted(it["name"] for it in distributions)
    # Who has another package beside the plain one wanted what only that one has.
    kept = next((it for it in sorted(distributions, key=lambda it: it["name"]) if it["name"] != "onnxruntime"), None)
    assert kept is not None, "a folder holds one package of a name"
    said = ", ".join(f"{it['name']} {it['version']}" for it in sorted(distributions, key=lambda it: it["name"]))
    return Overwritten(
        f"{said} bring the same module onnxruntime, and the one installed last has overwritten files of the other"
        f"{'s' if len(names) > 2 else ''}",
        (f"pip uninstall -y {' '.join(names)}", f"pip install {kept['name']}=={kept['version']}"),
    )


def in_folder(distributions: Sequence[Distribution], folder: str | None) -> list[Distribution]:
    """Those in the folder that a module was found in."""
    return [
        found
        for found in distributions
        if folder is not None and os.path.normpath(found["folder"]) == os.path.normpath(folder)
    ]


_FAILED = "import numpy failed"  # what an ONNX Runtime says that was built for numpy 1, as onnxruntime-cann 1.24.4 is


def mending(problem: str, numpy: str | None) -> str | None:
    """The command that mends why ONNX Runtime does not load, if that is numpy (its version, None without), else None."""
    if _FAILED in problem:
        return None if numpy is None or numpy.startswith("1.") else "pip install 'numpy<2'"
    # Not onnxruntime, which brings numpy, and would overwrite another package's module.
    return "pip install numpy" if numpy is None and "numpy" in problem else None


def shared_name(ep: str, packages: Sequence[str]) -> str:
    """Whose an EP is by its full name, the first one's of the packages that bring it, and how to ask for the others."""
    others = " or ".join(f"--ep {package}" for package in packages[1:])
    what = "the other" if len(packages) == 2 else "another"
    return f"{ep} is in {join_words(packages)}: by that name --ep takes the one of {packages[0]}, and {others} {what}"


NO_GPU = "this machine has no NVIDIA GPU"


def lacks_gpu(ep: Mapping[str, Any], has_gpu: bool) -> bool:
    """Whether an EP that does not load is one of NVIDIA's without a GPU for it."""
    return ep["problem"] is not None and is_nvidia(ep["name"]) and not has_gpu


def problem_of(ep: Mapping[str, Any]) -> str | None:
    """Why an EP does not load, of a missing library without what brings it."""
    return ep["problem"] if ep["missing"] is None else f"the shared library {ep['missing']} is missing"


# Engines that EPs build of a model, and where they keep them
#
# Options are those of ONNX Runtime's documentation of the TensorRT EP and of the TensorRT RTX EP. The former writes its
# engines, and the timings that its builder took, as soon as they are there; the latter writes what it compiled for the card
# when the session ends.


TENSORRT, TENSORRT_RTX = "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"
BUILDERS = (TENSORRT, TENSORRT_RTX)  # whose engines `--engine-cache` keeps

File = tuple[str, int, int]  # name, bytes, time of its last change in ns


# By EP, the options that switch its cache on, and those that name its folder.
CACHES = {
    TENSORRT: (
        ("trt_engine_cache_enable", "trt_timing_cache_enable"),
        ("trt_engine_cache_path", "trt_timing_cache_path"),
    ),
    TENSORRT_RTX: ((), ("nv_runtime_cache_path",)),
    "OpenVINOExecutionProvider": ((), ("cache_dir",)),
    "MIGraphXExecutionProvider": ((), ("migraphx_model_cache_dir",)),
    "CoreMLExecutionProvider": ((), ("ModelCacheDirectory",)),
}


def cache_options(
    ep_name: str,
    folder: str,
    given: Mapping[str, str],
    option: str = "--engine-cache",
    known: Collection[str] = BUILDERS,
) -> dict[str, str]:
    """The EP options that keep engines in an absolute folder; `BadInput` for an EP that builds none, or options given twice."""
    if ep_name not in known:
        raise BadInput(f"{option}: {ep_name} builds no engine; {join_words([*known])} do")
    switches, folders = CACHES[ep_name]
    options = {**dict.fromkeys(switches, "1"), **dict.fromkeys(folders, folder)}
    twice = sorted(options.keys() & given.keys())
    if twice:
        raise BadInput(f"{option} sets {', '.join(twice)} itself: leave them out of --ep-option, or it")
    return options


def is_warm(before: frozenset[File], after: frozenset[File]) -> bool:
    """Whether a session took its engine from the cache, by the files in it before and after its first run.

    An engine file that is new was built. The timings change with every build, and on their own make it faster only.
    """
    return bool(before) and not any(name.endswith(".engine") for name, _, _ in after - before)
