"""What stands in for other machines: a file system with some files, and NVML's library, which refuses whatever is not given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def file_system(root: Path, files: Mapping[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


class NvmlError(Exception):
    """pynvml's NVMLError."""


def refuse(*_: object) -> Any:
    raise NvmlError("Not Supported")


class _Nvml(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            return refuse
        raise AttributeError(name)


def nvml(count: int = 1, **calls: Any) -> Any:
    """A library with some GPUs; `calls` are without their ``nvmlDeviceGet``."""
    return _Nvml(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: "580.95.05",
        nvmlSystemGetCudaDriverVersion_v2=lambda: 13000,
        nvmlDeviceGetCount=lambda: count,
        **{f"nvmlDeviceGet{name}": call for name, call in {"HandleByIndex": int, **calls}.items()},
    )
