"""Which of NVIDIA's cards a run is on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ortbench.core.ep_names import is_nvidia
from ortbench.core.errors import Unsupported
from ortbench.measure.gpus import opened_nvml
from ortbench.model.hardware_names import NVIDIA
from ortbench.model.schema import ChainStage, EpOfSession, Provider

_BUS = re.compile(r"(?:([0-9a-f]+):)?([0-9a-f]+):([0-9a-f]+)(?:\.[0-9a-f]+)?", re.IGNORECASE | re.ASCII)


def is_on_nvidia(it: Provider | EpOfSession | ChainStage) -> bool:
    """Whether an EP's device is one of NVIDIA's GPUs; where the EP offers no EP device, by its name."""
    device = it["device"]
    of_nvidia = device["vendor_id"] == NVIDIA if "vendor_id" in device else is_nvidia(it["ep"])
    return of_nvidia and device["type"] == "GPU"


def card_of(target: Provider, nvml: Any) -> int:
    """The number by which NVML, initialised or None, knows an EP's device.

    Raises:
        Unsupported: it is none of NVIDIA's, or which one it is cannot be told.
    """
    if not is_on_nvidia(target):
        raise Unsupported(f"the device of {target['ep']} is no NVIDIA GPU")
    if nvml is None:
        raise Unsupported("NVML, which tells of NVIDIA GPUs, cannot be opened here")
    try:
        count = nvml.nvmlDeviceGetCount()
        if count == 1:
            return 0
        buses = [str(nvml.nvmlDeviceGetPciInfo(nvml.nvmlDeviceGetHandleByIndex(it)).busId) for it in range(count)]
    except nvml.NVMLError as error:
        raise Unsupported(f"NVML: {error}") from None
    return which(target["device"].get("metadata", {}).get("pci_bus_id"), buses)


def known_card(target: Provider) -> int | None:
    """The same; None where it is none of NVIDIA's, or which one it is cannot be told."""
    if is_on_nvidia(target):
        with suppress(Unsupported), opened_nvml() as nvml:
            return card_of(target, nvml)
    return None


def which(bus: str | None, buses: Sequence[str]) -> int:
    """The number of the card on the bus on which ONNX Runtime has the device, such as ``0000:01:00.0``.

    Raises:
        Unsupported: none is there, or ONNX Runtime does not say where the device is.
    """
    if bus is None:
        raise Unsupported(f"there are {len(buses)} NVIDIA GPUs, and ONNX Runtime does not say which one it uses")
    found = [number for number, other in enumerate(buses) if _place(other) == _place(bus)]
    if not found:
        raise Unsupported(f"NVML has no GPU on the bus of the device, {bus}")
    return found[0]


def _place(bus: str) -> tuple[int, ...] | None:
    """Domain, bus and device, which are written with leading zeros or without."""
    match = _BUS.fullmatch(bus.strip())
    return None if match is None else tuple(int(part or "0", 16) for part in match.groups())
