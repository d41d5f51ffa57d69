"""A profiler that listens from outside, such as Nsight Systems: whether there is one, and what it is told."""

from __future__ import annotations

import os
import shutil

DOMAIN, CAPTURE = "ortbench", "capture"  # of the NVTX ranges, and the name of the one that says what to record


def is_profiled() -> bool:
    """Whether a profiler is attached to this process and those that it starts."""
    # How NVTX and CUDA are told to load a tool.
    return any(os.environ.get(name) for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"))


def find_nsys() -> str | None:
    return shutil.which("nsys")


def nsys_version(nsys: str) -> str:
    """The version that ``nsys --version`` tells, without its build; `BenchmarkFailed` where it does not start."""
    from ortbench.core.processes import checked_output

    said = checked_output([nsys, "--version"], 60).strip()
    return said.rpartition(" ")[2].partition("-")[0] or "of unknown version"
