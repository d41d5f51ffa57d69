"""ONNX Runtime needs numpy, of the generation that it was built for. Pure."""

from __future__ import annotations

_FAILED = "import numpy failed"  # what an ONNX Runtime says that was built for numpy 1, as onnxruntime-cann 1.24.4 is


def mending(problem: str, numpy: str | None) -> str | None:
    """The command that mends what ONNX Runtime does not load for, if it is numpy; else None.

    Args:
        problem: why it does not load.
        numpy: the version that is installed, or None.
    """
    if _FAILED in problem:
        return None if numpy is None or numpy.startswith("1.") else "pip install 'numpy<2'"
    # Not onnxruntime, which brings numpy, and would overwrite another package's module.
    return "pip install numpy" if numpy is None and "numpy" in problem else None
