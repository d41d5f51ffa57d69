"""Builds, configures and reads the CUDA runtime of ``softcuda.c``, which explains what it is.

It stands in for all libraries that ONNX Runtime's CUDA EP links to; ``tests/software-cuda`` runs a command with it.
"""

from __future__ import annotations

import importlib.util
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.compiling import compile_library, variables

VENDOR_ID = 0x10DE  # NVIDIA's, which is what ONNX Runtime looks for

_HERE = Path(__file__).parent
_SOURCES = (
    "softcuda.c", "softcuda_card.h", "softcuda_device.h", "softcuda_driver.h", "softcuda_kernels.h", "softcuda_types.h", "softcuda.map",
    "../device_basics.h",
)  # fmt: skip
# What the CUDA EP of ONNX Runtime 1.31, built for CUDA 13, names as needed, and what nvidia-ml-py loads.
_NAMES = (
    "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libcuda.so.1", "libnvidia-ml.so.1",
)  # fmt: skip


def problem() -> str | None:
    """Why it cannot be built or used here; None if it can."""
    if sys.platform != "linux":
        return "the software CUDA runtime is for Linux"
    package = importlib.util.find_spec("onnxruntime")
    places = [] if package is None else package.submodule_search_locations or []
    if not any((Path(place) / "capi" / "libonnxruntime_providers_cuda.so").is_file() for place in places):
        return "the package onnxruntime-gpu is not installed"
    return None


def build(directory: Path) -> Path:
    """Compile it into `directory`, under all the names that the CUDA EP looks for, and return that folder.

    Raises:
        BuildError: there is no compiler, or it fails.
    """
    flags = ("-fvisibility=hidden", f"-Wl,--version-script={_HERE / 'softcuda.map'}")
    sources = [_HERE / name for name in _SOURCES]
    library = compile_library("the software CUDA runtime", sources, directory, flags, libraries=("-lpthread", "-lm"))
    for name in _NAMES:
        link = directory / name
        link.unlink(missing_ok=True)
        link.symlink_to(library.name)
    return directory


def wrapper(folder: Path) -> tuple[str, ...]:
    """What to put before a command so that it runs with the runtime in `folder`, which `build` made."""
    return (str(_HERE.parent / "software-cuda"), str(folder))


@dataclass(frozen=True, kw_only=True)
class Config:
    """All knobs of the device.

    What has to be computed or moved on the CPU takes its time too: these are the least that things take.
    """

    kernel_us: float = 100.0  # a kernel lasts so many microseconds
    copy_latency_us: float = 10.0  # a copy so many, and its bytes at so many GB/s as softcuda_device.h says
    leak_bytes: float = 0.0  # so many of its memory, in whole pages of 4,096, are never freed, of each copy to the host
    slowed: int = 0  # what NVML says of why clocks are what they are: bits of nvmlClocksEventReasons
    slowed_until_s: float | None = None  # for how many seconds after it is first asked it says so; None for ever
    used: Path | None = None  # file in which processes note what they hold, for NVML to tell of the others; see `users`
    processes: bool = True  # whether NVML tells of each process what it holds
    persistence: bool = True  # whether the driver stays loaded when nothing uses the card
    power_limit_w: int | None = None  # to how many W its power is limited; None for the 350 W that are usual for it
    # File of what all processes see of the card, see `Card`; None for one without a counter, with one power and no clocks to lock.
    card: Path | None = None
    trace: Path | None = None  # file for the trace, to which every process adds; None keeps none

    def environ(self) -> dict[str, str]:
        """The knobs as environment variables, to be added to those of the process that loads the library."""
        return variables("SOFTCUDA", self)


def users(file: Path) -> dict[int, tuple[int, int]]:
    """By process id what each process held of the device's memory, bytes: when it ended, or now, and at most."""
    found = np.fromfile(file, dtype=np.int64).reshape(-1, 3)
    return {int(pid): (int(now), int(most)) for pid, now, most in found if pid}


class Card:
    """What all processes see of the card, in a file, which is made: its energy counter, and to what its clocks are locked."""

    _LAYOUT = struct.Struct("4d6q")  # as in softcuda_card.h
    IDLE_W, KERNEL_W, COPY_W = 20.0, 100.0, 30.0  # what it draws always, more while a kernel runs, and for each copy
    STEP_MS = 20.0  # how often its counter moves

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(self._LAYOUT.pack(self.IDLE_W, self.KERNEL_W, self.COPY_W, self.STEP_MS, 1, *[0] * 5))

    @property
    def locked_mhz(self) -> int:
        """To what its clocks are locked, 0 for nothing."""
        return int(self._LAYOUT.unpack(self.path.read_bytes())[-1])


@dataclass(frozen=True)
class Record:
    """What an engine of the device did.

    Attributes:
        asked_ns, begin_ns, end_ns: on the clock of `time.perf_counter_ns`; what a graph replays was asked for when it was captured.
        stream: its number; 0 is the default stream.
        engine: ``compute``, ``h2d``, ``d2h``; ``graph`` for the launch of one.
        host: of a copy between host and device the host's memory, ``pinned`` or ``pageable``; else ``none``.
        bytes: of a copy.
        name: of a kernel, or ``copy``, ``set``, ``gemm``, ``launch``.
    """

    asked_ns: int
    begin_ns: int
    end_ns: int
    stream: int
    engine: str
    host: str
    bytes: int
    name: str


def records(trace: Path) -> list[Record]:
    """Everything in a trace, in the order in which it ended."""
    lines = [line.split(" ", 7) for line in trace.read_text().splitlines()]
    return [
        Record(int(asked), int(begin), int(end), int(stream), engine, host, int(size), name)
        for asked, begin, end, stream, engine, host, size, name in lines
    ]
