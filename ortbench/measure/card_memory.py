"""What a process holds of NVIDIA cards' memory, as NVML tells it; else what the cards have less of."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from ortbench.measure.gpus import opened_nvml

OF_THE_PROCESS = "NVML, of the worker's process"
OF_THE_CARD = "NVML: what the card has less of, since it does not tell it of the process"


class Card(NamedTuple):
    """A card: bytes in use, and by process id what each process holds; None where NVML does not say how much."""

    used: int
    processes: dict[int, int | None]


def read_cards(nvml: Any = None) -> list[Card]:
    """Every NVIDIA card as it is now; none where there is none, or NVML does not tell.

    Args:
        nvml: the module ``pynvml``, initialised; by default it is opened for as long as this takes.
    """
    with opened_nvml(nvml) as opened:
        if opened is None:
            return []
        try:
            return [_read(opened, index) for index in range(opened.nvmlDeviceGetCount())]
        except opened.NVMLError:
            return []


def _read(nvml: Any, index: int) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    processes: dict[int, int | None] = {}
    for call in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        with contextlib.suppress(Exception):  # a driver that is older than the package raises what is no NVMLError
            processes |= {it.pid: it.usedGpuMemory for it in getattr(nvml, call)(handle)}
    return Card(nvml.nvmlDeviceGetMemoryInfo(handle).used, processes)


def held(before: Sequence[Card], after: Sequence[Card], pid: int) -> tuple[int | None, str]:
    """What a process holds on all cards, bytes, and how that is known; None and why where it is not.

    Args:
        before: all cards before it had begun to use any. A process of that id there is another one: NVML has the ids of the
            system's own namespace, and a container has others.
        after: the same cards now.
        pid: of the process.
    """
    if not after or len(before) != len(after):
        return None, "NVML tells nothing of the device"
    own = [
        now.processes[pid]
        for was, now in zip(before, after, strict=True)
        if pid in now.processes.keys() - was.processes
    ]
    known = [size for size in own if size is not None]
    if known and len(known) == len(own):
        return sum(known), OF_THE_PROCESS
    return sum(max(0, now.used - was.used) for was, now in zip(before, after, strict=True)), OF_THE_CARD
