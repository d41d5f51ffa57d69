"""A profiler that listens from outside, such as Nsight Systems: whether there is one, and what it is told."""

from __future__ import annotations

import os

DOMAIN, CAPTURE = "ortbench", "capture"  # of the NVTX ranges, and the name of the one that says what to record


def is_profiled() -> bool:
    """Whether a profiler is attached to this process and those that it starts."""
    # How NVTX and CUDA are told to load a tool.
    return any(os.environ.get(name) for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"))
