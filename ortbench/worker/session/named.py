"""What `--ep` stands for where it is a name, and whose EP that is: several packages can bring one of the same name."""

from __future__ import annotations

from typing import NamedTuple

import onnxruntime as ort

from ortbench.analysis import same_name
from ortbench.ep_names import SHORT_NAMES
from ortbench.errors import BadInput, BenchmarkFailed
from ortbench.plan import CPU_EP
from ortbench.worker.session.libraries import all_ep_devices, built_in_eps
from ortbench.worker.session.plugins import Plugin, plugins
from ortbench.worker.session.runtime import own_package


class Named(NamedTuple):
    """An EP by its name.

    Attributes:
        ep: its full name.
        plugin: the package whose it is; None for the EP inside the installed onnxruntime, and where no package brings it.
        note: that other packages bring one of that name too, if so and if no package was named.
    """

    ep: str
    plugin: Plugin | None
    note: str | None = None


def named(name: str) -> Named:
    """The EP of what the user wrote: a short name, a full name, or a plugin package's or module's name.

    An EP that is inside the installed onnxruntime comes before those of that name that packages bring.

    Raises:
        BadInput: no EP is called that.
        BenchmarkFailed: the package that is called that does not load.
    """
    ep = SHORT_NAMES.get(name.lower())
    if ep == CPU_EP:
        return Named(CPU_EP, None)
    if ep is None:
        package = _package(name)
        if package is not None:
            return Named(package.ep_names[0], package)
        ep = _full_name(name)
    plugin = None if ep in built_in_eps() else _bringing(ep)
    return Named(ep, plugin, shared(ep))


def shared(ep: str) -> str | None:
    """That several packages bring an EP of a name, and which of them that name stands for; None where one does at most."""
    packages = [plugin.distribution for plugin in plugins() if ep in plugin.ep_names]
    if not packages:
        return None
    if ep in built_in_eps():
        packages.insert(0, own_package())
    return same_name.sentence(ep, packages) if len(packages) > 1 else None


def all_shared() -> list[str]:
    """The same of every EP, without those of which there is nothing to say."""
    names = dict.fromkeys(name for plugin in plugins() for name in plugin.ep_names)
    return [sentence for name in names if (sentence := shared(name)) is not None]


def _package(name: str) -> Plugin | None:
    """The plugin package that is called that, or whose module is.

    Raises:
        BenchmarkFailed: it does not load.
    """
    for plugin in plugins():
        if name.lower().replace("-", "_") in (plugin.module.lower(), plugin.distribution.lower().replace("-", "_")):
            if not plugin.ep_names:
                raise BenchmarkFailed(f"the package {plugin.distribution} does not load: {plugin.problem}")
            return plugin
    return None


def _full_name(name: str) -> str:
    """A full EP name as ONNX Runtime writes it.

    Raises:
        BadInput: no EP is called that.
    """
    known = {*ort.get_all_providers(), *(device.ep_name for device in all_ep_devices())}
    known.update(ep for plugin in plugins() for ep in plugin.ep_names)
    for ep in known:
        if name.lower() == ep.lower():
            return str(ep)
    if _bringing(name) is not None:  # whether it has such an EP shows when it is loaded
        return name
    raise BadInput(
        f"--ep {name!r}: no such execution provider; the library of one that is no package is named with --ep-library; "
        f"known are {', '.join(sorted(SHORT_NAMES))}, full names such as "
        f"{CPU_EP}, and installed plugin packages ('ortbench devices' lists them)"
    )


def _bringing(ep: str) -> Plugin | None:
    """The package that brings an EP: it says the EP's name, or what stands before a dot in it (OpenVINO's brings
    OpenVINOExecutionProvider.AUTO, too)."""
    return next((plugin for plugin in plugins() if {ep, ep.partition(".")[0]} & set(plugin.ep_names)), None)
