"""The hardware that a session or an EP runs on, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ortbench.core.ep_names import CPU_EP, NAMED_DEVICES
from ortbench.worker.session.memory import describe
from ortbench.worker.session.providers import Provider, of_session
from ortbench.worker.session.session import Model

if TYPE_CHECKING:
    from ortbench.model.schema import Device, EpOfSession


def describe_device(model: Model) -> Device:
    """The hardware the session runs on, as the session itself names it (vendor and vendor id are read, not assumed)."""
    device = None
    try:
        devices = [found for found in model.session.get_input_epdevices() if found is not None]
        if model.provider.ep_device is not None:  # another EP of the session may read the first input
            devices = [found for found in devices if found.ep_name == model.provider.name]
        device = devices[0].device if devices else None
    except Exception:  # a session without inputs or an older ORT
        device = None
    if device is None or (device.type.name == "CPU" and model.provider.ep_device is not None):
        return device_of(
            model.provider
        )  # all inputs may be read on the CPU; the EP's device stays the one it was given
    return hardware(device)


def device_of(provider: Provider) -> Device:
    """The hardware of an EP, by its EP device or by the name that ORT has for it."""
    if provider.ep_device is not None:
        return hardware(provider.ep_device.device)
    name = NAMED_DEVICES.get(provider.name)
    return {"type": "CPU" if name is None else "GPU", "name": name or "cpu", "index": provider.device_index}


def eps_of_session(model: Model, nodes: Mapping[str, int]) -> list[EpOfSession]:
    """Every EP that has nodes, where several beside the CPU EP have; else none.

    Args:
        model: open.
        nodes: the number of nodes by EP.
    """
    if len(nodes.keys() - {CPU_EP}) < 2:
        return []
    found = []
    for name, count in sorted(nodes.items(), key=lambda item: -item[1]):
        provider = model.provider if name == model.provider.name else of_session(name, model.session)
        entry: EpOfSession = {
            "ep": name,
            "ep_version": provider.version,
            "device": device_of(provider),
            "memory": describe(provider),
            "nodes": count,
            "share": round(count / sum(nodes.values()), 4),
        }
        found.append(entry)
    return found


def hardware(device: Any) -> Device:
    """An OrtHardwareDevice as plain data."""
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }
