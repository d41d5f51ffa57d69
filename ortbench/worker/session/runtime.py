"""ONNX Runtime itself: its version, and what it says on its own."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import onnxruntime

from ortbench.worker.session.abilities import refuse_old

if TYPE_CHECKING:
    from ortbench.model.schema import Runtime


def versions() -> Runtime:
    """What the worker runs with."""
    return {
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime_build": onnxruntime.get_build_info(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "packages": packages(),
    }


def packages() -> dict[str, str]:
    """The installed packages of ONNX Runtime and of plugin EPs with their versions, as their folders say: reading what is in
    them takes longer than much of what is measured."""
    found: dict[str, str] = {}
    for place in map(Path, sys.path):
        for info in sorted(place.glob("onnxruntime*.dist-info")):
            name, _, version = info.stem.partition("-")
            found.setdefault(name.replace("_", "-").lower(), version)
    return found


def own_package() -> str:
    """The package that brings the module onnxruntime, of which there are several."""
    beside = Path(onnxruntime.__file__).parent.parent
    for record in sorted(beside.glob("onnxruntime*.dist-info/RECORD")):
        if any(line.startswith("onnxruntime/__init__.py,") for line in record.read_text(encoding="utf-8").splitlines()):
            return record.parent.stem.partition("-")[0].replace("_", "-").lower()
    return "onnxruntime"


def begin() -> None:
    """Before anything is asked of ORT: errors only, its warnings about devices and placement are in the report in words of
    our own.

    Raises:
        BenchmarkFailed: this version is too old.
    """
    refuse_old()
    onnxruntime.set_default_logger_severity(3)
