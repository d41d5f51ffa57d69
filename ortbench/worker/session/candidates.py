"""The EPs that can be taken where none was named, and where the devices of each come from."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime as ort

from ortbench.core import ep_packages
from ortbench.core.ep_names import CPU_EP, CUDA_EP
from ortbench.worker.session.libraries import (
    all_ep_devices,
    bundled_library,
    devices_of,
    library_of,
    names_in,
    real_path,
    register,
)
from ortbench.worker.session.plugins import Plugin, ask, asked
from ortbench.worker.session.runtime import own_package


class Candidate(NamedTuple):
    """An EP that can be taken.

    Attributes:
        ep: its full name, which others can have too; what its library is registered as, where that is all that is known.
        library: path of its library; None where ORT has it in itself.
        version: of the package or of ORT, or None.
        registered_as: what its library is to be registered as, where that is not the EP's name.
    """

    ep: str
    library: str | None
    version: str | None
    registered_as: str | None = None


def candidates() -> Iterator[Candidate]:
    """The EPs that are registered, those inside the installed onnxruntime whose library can be, and those of packages.

    Packages called ``onnxruntime_*`` come first: who takes one of theirs does not wait for the search for others.
    """
    for device in all_ep_devices():
        if device.ep_name != CPU_EP:
            yield Candidate(device.ep_name, *origin(device))
    library = bundled_library(CUDA_EP)
    if library is not None:
        yield Candidate(CUDA_EP, library, ort.__version__)
    taken = set()
    for plugin in chain(ask(ep_packages.by_name()), _further()):
        if plugin.library and plugin.library not in taken:
            taken.add(plugin.library)
            for name in plugin.ep_names or (plugin.registered_as,):
                yield Candidate(name, plugin.library, plugin.version, plugin.registered_as)


def _further() -> Iterator[Plugin]:
    """All packages, searched for and imported one by one as they are needed."""
    for package in ep_packages.everywhere():
        yield from ask([package])


def load(candidate: Candidate) -> list[Any]:
    """The devices of a candidate, whose library is registered for that; of all EPs in it where it has none of that name.

    Raises:
        NotLoaded: see `register`.
    """
    if candidate.library is None:
        return devices_of(candidate.ep, None)
    register(candidate.ep, candidate.library, candidate.registered_as)
    names = names_in(candidate.library)
    names = [candidate.ep] if candidate.ep in names else names
    return [device for name in names for device in devices_of(name, candidate.library)]


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
    """The plugin package that has a library: one that was asked for its own, or one that is called ``onnxruntime_*``."""
    place = real_path(library)
    near = [it for it in ep_packages.by_name() if it.source is not None and it.source.parent in Path(library).parents]
    plugins = [*asked(), *ask(near)]
    return next((plugin for plugin in plugins if plugin.library and real_path(plugin.library) == place), None)


def has_nvidia_gpu() -> bool:
    """Whether there may be a card of NVIDIA's."""
    return Path("/proc/driver/nvidia/version").exists() or platform.system() == "Windows"
