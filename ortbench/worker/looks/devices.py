"""Every EP that is installed, what hardware it finds, and which modes it can do there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from ortbench.core import ep_packages
from ortbench.core.ep_names import CPU_EP
from ortbench.worker.modes.make import unsupported_modes
from ortbench.worker.session import copy_streams
from ortbench.worker.session.candidates import plugin_with
from ortbench.worker.session.hardware import device_of, hardware
from ortbench.worker.session.libraries import (
    NotLoaded,
    all_ep_devices,
    built_in_eps,
    bundled_library,
    devices_of,
    library_of,
    real_path,
    register,
    register_library,
)
from ortbench.worker.session.memory import describe
from ortbench.worker.session.named import true_names
from ortbench.worker.session.plugins import Plugin, ask
from ortbench.worker.session.providers import Provider, on_cpu_by_option
from ortbench.worker.session.runtime import own_package

if TYPE_CHECKING:
    from ortbench.model.protocol import EpDevice, ListedEp, Streams

_NO_COPIES = "does not use DEFAULT memory of a non-CPU device"  # ONNX Runtime's words for an EP on the CPU, say
# Not hardware: an EP that sends a model to a service, listed by every onnxruntime wheel.
_NOT_LOCAL = {"AzureExecutionProvider"}


def list_devices(library: str | None = None) -> list[ListedEp]:
    """One entry an EP of a library, of those installed and of a plugin EP's `library`: ``name``, ``library``, ``version``,
    ``package``, ``problem`` (why it does not load, or None) and ``devices`` with ``hardware``, ``memory``, ``streams`` and
    ``modes`` (mode → None, or why it cannot be done). Several libraries can bring EPs of one name."""
    built_in = [name for name in built_in_eps() if name not in _NOT_LOCAL]
    entries = [_entry(CPU_EP, None, ort.__version__, own_package(), None)]
    if library is not None:
        entries += [_entry(name, library, None, None, None) for name in register_library(library)]
    for plugin in ask(ep_packages.everywhere()):
        for name in _names(plugin):
            if not _is_listed(entries, name, plugin.library):
                entries.append(_plugin_entry(name, plugin))
    entries += [_built_in_entry(name) for name in built_in if name != CPU_EP]
    for device in all_ep_devices():
        place = library_of(device)
        if not _is_listed(entries, device.ep_name, place):
            entries.append(_further_entry(device.ep_name, place))
    return entries


def _names(plugin: Plugin) -> Sequence[str]:
    """A package's EPs: as they are called, or where none has a device, as the package says."""
    said = plugin.ep_names or (plugin.registered_as,)
    if plugin.problem:
        return said
    try:
        true = true_names(plugin)
    except NotLoaded:
        return said
    return [name for name in said if name in true] or true or said


def _is_listed(entries: Sequence[ListedEp], name: str, library: str | None) -> bool:
    place = library and real_path(library)
    return any(it["name"] == name and (it["library"] and real_path(it["library"])) == place for it in entries)


def _further_entry(name: str, library: str | None) -> ListedEp:
    """An EP that nobody has named, as OpenVINO's package brings one called …AUTO, too."""
    plugin = None if library is None else plugin_with(library)
    return _entry(name, library, None, None, None) if plugin is None else _plugin_entry(name, plugin)


def _plugin_entry(name: str, plugin: Plugin) -> ListedEp:
    problem = plugin.problem or _problem(name, plugin.library, plugin.registered_as)
    return _entry(name, plugin.library or None, plugin.version, plugin.distribution, problem)


def _built_in_entry(name: str) -> ListedEp:
    library = bundled_library(name)
    problem = None if library is None else _problem(name, library)
    entry = _entry(name, library, ort.__version__, own_package(), problem)
    if library is None and not entry["devices"]:  # ORT knows it by its name alone
        entry["devices"] = [_device(Provider(name, on_cpu_by_option=on_cpu_by_option(name, {})), None)]
    return entry


def _problem(name: str, library: str, registered_as: str | None = None) -> str | None:
    try:
        register(name, library, registered_as)
    except NotLoaded as error:
        return error.why
    return None


def _entry(name: str, library: str | None, version: str | None, package: str | None, problem: str | None) -> ListedEp:
    found = devices_of(name, library)
    version = next((device.ep_metadata["version"] for device in found if "version" in device.ep_metadata), version)
    return {
        "name": name,
        "library": library,
        "version": version,
        "package": package,
        "problem": problem,
        "devices": [] if problem else [_device(Provider(name, None if name == CPU_EP else it), it) for it in found],
    }


def _device(provider: Provider, device: Any) -> EpDevice:
    """One of an EP's devices; None stands for what an EP uses that has no EP device."""
    return {
        "hardware": device_of(provider) if device is None else hardware(device.device),
        "memory": describe(provider),
        "streams": _streams(provider),
        "modes": unsupported_modes(provider),
    }


def _streams(provider: Provider) -> Streams:
    why = copy_streams.problem(provider)
    if why is not None and _NO_COPIES in why:
        why = "they are for copies to a device's DEFAULT memory"
    return {"offered": why is None, "why": why}
