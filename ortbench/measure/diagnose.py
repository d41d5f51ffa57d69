"""Gathers the facts of `ortbench doctor`, here and from a worker; what is not there is left out."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata

from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.measure import cards, nsys, processor
from ortbench.measure.process import Client
from ortbench.model.doctor_schema import Facts, Installed, Packages, Profiler

_ANSWER_S = 120.0  # the longest wait for one


def facts(python: str | None = None) -> Facts:
    """All but the noise, which is None.

    Args:
        python: the interpreter whose ONNX Runtime it is about; None for this one.

    Raises:
        BenchmarkFailed: no worker can be started.
    """
    cpu = processor.cpu()  # its load before the worker adds to it
    packages, installed, problem = _runtime(python)
    return {
        "system": f"{platform.platform()}, {_python(python, installed)}",
        "packages": packages,
        "installed": installed,
        "problem": problem,
        "cpu": cpu,
        "memory": processor.memory(),
        "nvidia": cards.nvidia(),
        "profiler": profiler(),
        "noise": None,
    }


def _python(python: str | None, installed: Installed | None) -> str:
    """The Python that ONNX Runtime runs in, in words."""
    if python is None:
        return f"Python {platform.python_version()}"
    return f"Python {installed['runtime']['python']} of {python}" if installed is not None else python


def _runtime(python: str | None) -> tuple[Packages, Installed | None, str | None]:
    """The packages, what ONNX Runtime says, and why it says nothing."""
    with Client(_ANSWER_S, python) as client:
        packages: Packages = client.ask("packages")
        try:
            return packages, client.ask("examine"), None
        except OrtbenchError as error:
            return packages, None, str(error)


def profiler() -> Profiler:
    """Nsight Systems and nvtx."""
    found: Profiler = {"nsys": None, "nvtx": None, "problem": None}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found["nvtx"] = metadata.version("nvtx")
    path = nsys.find()
    if path is not None:
        try:
            found["nsys"] = nsys.version(path)
        except BenchmarkFailed as error:
            found["problem"] = str(error)
    return found
