"""The state of NVIDIA's cards before anything runs on them, through NVML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ortbench.analysis.throttling import held_by
from ortbench.core.errors import one_line
from ortbench.measure.gpus import opened_nvml
from ortbench.model.doctor_schema import Card, CardProcess, Nvidia
from ortbench.model.hardware_names import NVIDIA

_VENDOR = f"0x{NVIDIA:04x}"
_DISPLAY = "0x03"  # PCI's class of display controllers, 3D controllers among them


def nvidia(nvml: Any = None, root: Path = Path("/")) -> Nvidia:
    """The cards, and the driver.

    Args:
        nvml: the module ``pynvml``, initialised; by default it is opened, if it can be.
        root: of the file system that is read.
    """
    with opened_nvml(nvml) as opened:
        if opened is None:
            return {"present": _on_the_bus(root), "driver": None, "cuda": None, "cards": []}
        cuda = _asked(opened, opened.nvmlSystemGetCudaDriverVersion_v2)
        return {
            "present": True,
            "driver": _asked(opened, opened.nvmlSystemGetDriverVersion),
            "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            "cards": [_card(opened, number) for number in range(_asked(opened, opened.nvmlDeviceGetCount) or 0)],
        }


def _on_the_bus(root: Path) -> bool:
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            if (device / "vendor").read_text().strip() == _VENDOR and (device / "class").read_text().startswith(
                _DISPLAY
            ):
                return True
        except OSError:
            continue
    return False


def _card(nvml: Any, number: int) -> Card:
    """What a card tells; what it does not is left out."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
    except nvml.NVMLError as error:
        return {"error": one_line(error)}
    asked: dict[str, Callable[[], Any]] = {
        "name": lambda: nvml.nvmlDeviceGetName(handle),
        "persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(handle) == 1,
        "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "sm_mhz_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "memory_mhz_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "power_default_w": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
        "busy": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        "slowed_by": lambda: held_by(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        "processes": lambda: _processes(nvml, handle),
    }
    found = {key: value for key, call in asked.items() if (value := _asked(nvml, call)) is not None}
    return cast(Card, found)  # the keys are those of its fields


def _processes(nvml: Any, handle: Any) -> list[CardProcess]:
    """What computes on a card or draws on it; in a container others' may not be told, or not by name."""
    running = nvml.nvmlDeviceGetComputeRunningProcesses(handle) + nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
    return [
        {"pid": it.pid, "name": _name(it.pid), "memory_bytes": it.usedGpuMemory}
        for it in {it.pid: it for it in running}.values()
    ]


def _name(pid: int) -> str | None:
    import psutil

    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None


def _asked(nvml: Any, call: Callable[[], Any]) -> Any:
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)  # no kind of the other
    try:
        return call()
    except (nvml.NVMLError, mismatch, AttributeError):  # a card without it, or a library older than the call
        return None
