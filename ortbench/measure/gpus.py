"""NVIDIA GPUs through NVML: what there is, and whether their state moved while something was measured on them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ortbench.schema import Gpu, GpuReading, GpuState

EVERY_S = 1.0
_STEADY = 0.05  # how far clocks may move before it is said
# Bits of nvmlClocksEventReasons in NVML's API reference that mean: slower than it could be.
_SLOWED = {
    0x04: "the power cap",
    0x08: "a hardware slowdown",
    0x20: "its temperature (software)",
    0x40: "its temperature (hardware)",
    0x80: "the power brake",
}
_IDLE = 0x01
_CLOCKS: tuple[tuple[Literal["sm_mhz", "memory_mhz"], str], ...] = (("sm_mhz", "SM"), ("memory_mhz", "memory"))
_State = Literal["sm_mhz", "memory_mhz", "temperature_c", "power_w", "reasons"]


def nvidia_gpus() -> list[Gpu]:
    """NVIDIA GPUs by NVML: name, driver, memory in bytes, SM and memory clocks in MHz; empty where there are none."""
    nvml = open_nvml()
    if nvml is None:
        return []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        return [_describe(nvml, index, driver) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        return [{"error": str(error)}]
    finally:
        nvml.nvmlShutdown()


def open_nvml() -> Any:
    """The module ``pynvml``, initialised, or None; who opened it calls its ``nvmlShutdown``."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no card: all of them mean there is nothing to tell
        return None
    return pynvml


def _describe(nvml: Any, index: int, driver: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu: Gpu = {
        "name": nvml.nvmlDeviceGetName(handle),
        "driver": driver,
        "memory_bytes": nvml.nvmlDeviceGetMemoryInfo(handle).total,
    }
    with contextlib.suppress(nvml.NVMLError):
        gpu["sm_mhz"] = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        gpu["sm_mhz_max"] = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
    with contextlib.suppress(nvml.NVMLError):
        gpu["memory_mhz"] = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
        gpu["memory_mhz_max"] = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)
    return gpu


class Watch:
    """Reads the state of every NVIDIA GPU now and then, between blocks; where there is none it does nothing.

    Args:
        nvml: the module ``pynvml``, initialised; by default it is opened, if it can be.
        clock: monotonic, s.

    Attributes:
        readings: so far.
    """

    def __init__(self, nvml: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.readings: list[GpuReading] = []
        self._nvml = nvml or open_nvml()
        self._clock = clock
        self._start = self._last = clock()
        self._handles: list[Any] = []
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                count = self._nvml.nvmlDeviceGetCount()
                self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]

    def look(self, now: bool = False) -> None:
        """Take a reading of every GPU if the last is `EVERY_S` old, or in any case."""
        at = self._clock()
        if not self._handles or (not now and at - self._last < EVERY_S):
            return
        self._last = at
        for number, handle in enumerate(self._handles):
            self.readings.append({"at_s": round(at - self._start, 3), "gpu": number, **self._read(handle)})

    def _read(self, handle: Any) -> GpuState:
        nvml = self._nvml
        calls: dict[_State, Callable[[], Any]] = {
            "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "reasons": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        }
        found: GpuState = {}
        for key, call in calls.items():
            with contextlib.suppress(nvml.NVMLError):
                found[key] = call()
        return found

    def close(self) -> None:
        """Let NVML go."""
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._nvml, self._handles = None, []


def slowed_by(reasons: int) -> list[str]:
    """What slows a GPU down by NVML's bits, in words."""
    return [words for bit, words in _SLOWED.items() if reasons & bit]


def what_moved(readings: Sequence[GpuReading]) -> list[str]:
    """What a reader of the figures should know about the GPUs' state while they were measured, a sentence each."""
    said = []
    for number in sorted({reading["gpu"] for reading in readings}):
        own = [reading for reading in readings if reading["gpu"] == number]
        busy = [reading for reading in own if not reading.get("reasons", 0) & _IDLE]
        for key, name in _CLOCKS:
            clocks = [reading[key] for reading in busy if key in reading]
            if clocks and max(clocks) > min(clocks) * (1 + _STEADY):
                said.append(f"GPU {number}: its {name} clock moved between {min(clocks)} and {max(clocks)} MHz")
        bits = [bit for bit in _SLOWED if any(reading.get("reasons", 0) & bit for reading in own)]
        if bits:
            share = sum(1 for reading in own if any(reading.get("reasons", 0) & bit for bit in bits)) / len(own)
            why = ", ".join(_SLOWED[bit] for bit in bits)
            said.append(f"GPU {number}: it was slowed down by {why} in {share:.0%} of the readings")
    return said
