"""ONNX Runtime itself: its version, and what it says on its own."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import numpy
import onnxruntime

if TYPE_CHECKING:
    from ortbench.schema import Runtime


def versions() -> Runtime:
    """What the worker runs with."""
    return {
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime_build": onnxruntime.get_build_info(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }


def quiet() -> None:
    """Errors only: ORT's warnings about devices and placement are in the report in words of our own."""
    onnxruntime.set_default_logger_severity(3)
