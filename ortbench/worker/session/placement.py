"""The hardware that a session or an EP runs on, and where the nodes of an open model were placed, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core.ep_names import CPU_EP, NAMED_DEVICES
from ortbench.worker.session.memory import describe_memory
from ortbench.worker.session.providers import Provider, find_in_session
from ortbench.worker.session.session import Model

if TYPE_CHECKING:
    from ortbench.model.schema import Device, EpOfSession, Placement


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
        # All inputs may be read on the CPU; the EP's device stays what it was given.
        found = provider_device(model.provider)
    else:
        found = describe_hardware(device)
    if found["type"] == "GPU" and (software := software_renderer(loaded_libraries())) is not None:
        found["software"] = software
    return found


# Parts of names of libraries: drivers that compute on the CPU, with what they are called, and drivers of GPUs.
_SOFTWARE = {"vk_swiftshader": "SwiftShader", "vulkan_lvp": "lavapipe", "swrast": "llvmpipe"}
_OF_GPUS = ("libvulkan_", "nvidia", "libcuda.", "amdvlk")


def software_renderer(libraries: Collection[str]) -> str | None:
    """The software renderer of a process that has loaded these libraries; None where there is none, or a GPU's driver too."""
    software = {name for it in libraries for part, name in _SOFTWARE.items() if part in it}
    drivers = [it for it in libraries if any(part in it for part in _OF_GPUS) and "lvp" not in it]
    return software.pop() if len(software) == 1 and not drivers else None


def loaded_libraries() -> set[str]:
    """The names of the files that this process has mapped; none where the system does not tell."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {line.rpartition("/")[2] for line in lines if "/" in line}


def provider_device(provider: Provider) -> Device:
    """The hardware of an EP, by its EP device or by the name that ORT has for it."""
    if provider.ep_device is not None:
        return describe_hardware(provider.ep_device.device)
    name = NAMED_DEVICES.get(provider.name)
    return {"type": "CPU" if name is None else "GPU", "name": name or "cpu", "index": provider.device_index}


def session_eps(model: Model, nodes: Mapping[str, int]) -> list[EpOfSession]:
    """Every EP that has nodes, where several beside the CPU EP have; else none."""
    if len(nodes.keys() - {CPU_EP}) < 2:
        return []
    own, found = model.provider, []
    for name in sorted(nodes, key=lambda name: -nodes[name]):
        provider = own if name == own.name else find_in_session(name, model.session)
        found.append(session_ep(provider, provider_device(provider), nodes))
    return found


def session_ep(provider: Provider, device: Device, nodes: Mapping[str, int]) -> EpOfSession:
    """One of several EPs, with its part of the nodes."""
    count = nodes.get(provider.name, 0)
    return {
        "ep": provider.name,
        "ep_version": provider.version,
        "device": device,
        "memory": describe_memory(provider),
        "nodes": count,
        "share": round(count / max(sum(nodes.values()), 1), 4),
    }


def describe_hardware(device: Any) -> Device:
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }


def node_placements(model: Model) -> list[tuple[str, str, str]] | None:
    """EP, name and operator of every node as the EPs were asked for them (of compiled subgraphs the nodes taken, not the fused ones); None
    where ORT does not say."""
    try:
        subgraphs = model.session.get_provider_graph_assignment_info()
    except Exception:  # an ORT without it
        return None
    placements = [
        (subgraph.ep_name, node.name, node.op_type) for subgraph in subgraphs for node in subgraph.get_nodes()
    ]
    return placements or None  # a model in ORT format has nodes, and nothing is said of them


def describe_placement(model: Model) -> Placement:
    """Where the nodes were placed: ``nodes`` per EP, and ``cpu_operators`` (name → count) where another EP was asked for. ``memcpy_nodes``
    is 0 where nothing can need any, else None until a profile has counted them."""
    placements = node_placements(model)
    if placements is None:
        return {"nodes": None, "memcpy_nodes": None, "cpu_operators": {}}
    nodes = Counter(ep for ep, _, _ in placements)
    operators = Counter(op for ep, _, op in placements if ep == CPU_EP != model.provider.name)
    memcpy = 0 if len(nodes) < 2 else None  # with one EP there is nothing to copy between
    return {"nodes": dict(nodes), "memcpy_nodes": memcpy, "cpu_operators": dict(operators.most_common())}
