"""ONNX Runtime needs numpy, of the generation that it was built for. Pure."""

from __future__ import annotations

_FAILED = "import numpy failed"  # what an ONNX Runtime says that was built for numpy 1, as onnxruntime-cann 1.24.4 is


def mending(problem: str, numpy: str | None) -> str | None:
    """The command that mends what ONNX Runtime does not load for, if it is numpy; else None.

    Args:
        problem: why it does not load.
        numpy: the version that is installed, or None.
    """
    if numpy is None:
        return "pip install numpy"  # not onnxruntime, which would overwrite another package's module
    if _FAILED in problem and not numpy.startswith("1."):
        return "pip install 'numpy<2'"
    return None
