"""The EPs that can be taken where none was named, and where the devices of each come from."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime as ort

from ortbench.ep_names import CUDA_EP
from ortbench.plan import CPU_EP
from ortbench.worker.session.libraries import (
    all_ep_devices,
    bundled_library,
    devices_of,
    library_of,
    real_path,
    register,
)
from ortbench.worker.session.plugins import Plugin, plugins
from ortbench.worker.session.runtime import own_package


class Candidate(NamedTuple):
    """An EP that can be taken.

    Attributes:
        ep: its full name, which others can have too.
        library: path of its library; None where ORT has it in itself.
        version: of the package or of ORT, or None.
    """

    ep: str
    library: str | None
    version: str | None


def candidates() -> Iterator[Candidate]:
    """The EPs that are registered, those inside the installed onnxruntime whose library can be, and those of packages."""
    for device in all_ep_devices():
        if device.ep_name != CPU_EP:
            yield Candidate(device.ep_name, *origin(device))
    library = bundled_library(CUDA_EP)
    if library is not None:
        yield Candidate(CUDA_EP, library, ort.__version__)
    for plugin in plugins():
        for name in plugin.ep_names:
            yield Candidate(name, plugin.library, plugin.version)


def load(candidate: Candidate) -> list[Any]:
    """The devices of a candidate, whose library is registered for that.

    Raises:
        NotLoaded: see `register`.
    """
    if candidate.library is not None:
        register(candidate.ep, candidate.library)
    return devices_of(candidate.ep, candidate.library)


def origin(ep_device: Any) -> tuple[str | None, str | None]:
    """The library that an EP device came with, and the version of the package that has it, each None where not known."""
    place = library_of(ep_device)
    if place is None:
        return None, ort.__version__
    plugin = plugin_with(place)
    if plugin is not None:
        return plugin.library, plugin.version
    bundled = bundled_library(ep_device.ep_name)
    if bundled is not None and real_path(bundled) == place:
        return bundled, ort.__version__
    return place, None


def package_of(library: str | None) -> str:
    """The package that has a library; of another one its path."""
    plugin = None if library is None else plugin_with(library)
    if plugin is not None:
        return plugin.distribution
    inside = library is None or Path(ort.__file__).parent in Path(library).parents
    return own_package() if inside else library or ""


def plugin_with(library: str) -> Plugin | None:
    """The plugin package that has a library."""
    place = real_path(library)
    return next((plugin for plugin in plugins() if plugin.library and real_path(plugin.library) == place), None)


def has_nvidia_gpu() -> bool:
    """Whether there may be a card of NVIDIA's."""
    return Path("/proc/driver/nvidia/version").exists() or platform.system() == "Windows"
