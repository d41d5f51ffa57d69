"""What `--ep` stands for where it is a name, and whose EP that is: several packages can bring one of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import onnxruntime as ort

from ortbench.analysis.eps import SHARED, shared_name
from ortbench.core import eps
from ortbench.core.eps import CPU_EP, NO_DEVICE, SHORT_NAMES, EpPackage, key
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.worker.session.libraries import NotLoaded, all_ep_devices, built_in_eps, names_in, own_package, register
from ortbench.worker.session.plugins import Plugin, ask_packages, asked_plugins

if TYPE_CHECKING:
    from ortbench.model.schema import Warned


class FoundEp(NamedTuple):
    ep: str  # its full name
    # the package whose it is; None for the EP inside the installed onnxruntime, and where no package brings it
    plugin: Plugin | None
    note: str | None = None  # that other packages bring one of that name too, if so and if no package was named


def find_ep(name: str) -> FoundEp:
    """The EP of what the user wrote: a name of an EP, in full or in short, or of a package, its module or its library. An EP inside the
    installed onnxruntime comes before those of packages, which are all searched only for a name that neither onnxruntime nor a package
    called ``onnxruntime_*`` answers. Raises `BadInput`: no EP is called that, or several are; `BenchmarkFailed`: it does not load."""
    ep = SHORT_NAMES.get(key(name).replace("_", "-"))
    if ep == CPU_EP:
        return FoundEp(CPU_EP, None)
    is_short = ep is not None
    if not is_short and (found := _ep_of_package(name, eps.by_name())) is not None:
        return found
    ep = ep or _matching_ep({*built_in_eps(), *(str(device.ep_name) for device in all_ep_devices())}, name)
    if ep in built_in_eps():
        _plugins_with_text(ep, eps.by_name())  # which may share its name
        return FoundEp(ep, None, shared_name_note(ep))
    candidates = _eps_of_packages(ep or name, eps.by_name())
    if not candidates and not is_short and (found := _ep_of_package(name, eps.everywhere())) is not None:
        return found
    candidates = candidates or _eps_of_packages(ep or name, eps.everywhere())
    if candidates:
        return _single_ep(name, candidates)
    for plugin in _plugins_with_text(ep or name, eps.everywhere()):
        _refuse_broken(plugin)
    ep = ep or _matching_ep(set(ort.get_all_providers()), name)
    if ep is not None:
        return FoundEp(ep, None)
    raise BadInput(
        f"--ep {name!r}: no such execution provider; known are {', '.join(sorted(SHORT_NAMES))}, full names such as "
        f"{CPU_EP}, installed plugin packages ('ortbench devices' lists them) and paths of EP libraries"
    )


def shared_name_note(ep: str) -> str | None:
    """That several packages bring an EP of a name, and which of them that name stands for; None where one does at most."""
    packages = [plugin.distribution for plugin in asked_plugins() if ep in _known_names(plugin)]
    if not packages:
        return None
    if ep in built_in_eps():
        packages.insert(0, own_package())
    return shared_name(ep, packages) if len(packages) > 1 else None


def name_warnings() -> list[Warned]:
    """What is to be said of the names of all EPs of packages that were asked."""
    names = dict.fromkeys(name for plugin in asked_plugins() for name in _known_names(plugin))
    notes = [note for name in names if (note := shared_name_note(name)) is not None]
    return [{"code": SHARED, "message": note} for note in notes]


def _known_names(plugin: Plugin) -> Sequence[str]:
    """The EPs of a package as it says, else those that its library has shown."""
    return plugin.ep_names or (names_in(plugin.library) if plugin.library else ())


def register_and_list_eps(plugin: Plugin) -> list[str]:
    """The EPs that have a device in a package's library, which is registered for that; those that it names come first."""
    register((*plugin.ep_names, plugin.distribution)[0], plugin.library, plugin.registered_as)
    return sorted(names_in(plugin.library), key=lambda name: name not in plugin.ep_names)


def registered_name(ep: str, plugin: Plugin) -> str:
    """What ONNX Runtime calls an EP of a package, whose library is registered for that."""
    names = register_and_list_eps(plugin)
    spelled = next((name for name in names if name.lower() == ep.lower()), ep)
    is_misnamed = names and plugin.ep_names and not {*names} & {*plugin.ep_names}
    return names[0] if is_misnamed and spelled not in names else spelled


def _ep_of_package(name: str, packages: Iterable[EpPackage]) -> FoundEp | None:
    """The EP of the package that is called that, or whose module or library is."""
    matches = [package for package in packages if key(name) in package.keys]
    if len(matches) > 1:
        raise BadInput(
            f"--ep {name!r} is in several packages: say {_list_options(_unique_name(it, matches) for it in matches)}"
        )
    for plugin in ask_packages(matches):
        _refuse_broken(plugin)
        names = plugin.ep_names or register_and_list_eps(plugin)
        if not names:
            raise BenchmarkFailed(f"{plugin.library} is loaded and {NO_DEVICE}")
        return FoundEp(names[0], plugin)
    return None


def _list_options(names: Iterable[str]) -> str:
    return " or ".join(f"--ep {name}" for name in names)


def _unique_name(package: EpPackage, packages: Sequence[EpPackage]) -> str:
    """What one of several packages is called that no other is, else the path of its library or of its module."""
    names = (package.distribution, package.module, *map(eps.stem, package.libraries))
    unique = [name for name in names if sum(key(name) in it.keys for it in packages) == 1]
    return (*unique, *map(str, package.libraries), str(package.source))[0]


def _refuse_broken(plugin: Plugin) -> None:
    if plugin.problem:
        raise BenchmarkFailed(f"the package {plugin.distribution} does not load: {plugin.problem}")


def _eps_of_packages(name: str, packages: Iterable[EpPackage]) -> list[FoundEp]:
    """The EPs of packages that are called that, in full or in short, or whose library is registered by that name. Only packages whose files
    have the name are asked, and registered if none of them says that it brings such an EP."""
    plugins = [plugin for plugin in _plugins_with_text(name, packages) if not plugin.problem]
    found = [FoundEp(ep, plugin) for plugin in plugins for ep in _matching_eps(plugin, plugin.ep_names, name)]
    if found:
        return found
    for plugin in plugins:
        with suppress(*([NotLoaded] if plugin.ep_names else [])):
            found += [FoundEp(ep, plugin) for ep in _matching_eps(plugin, register_and_list_eps(plugin), name)]
    return found


def _plugins_with_text(name: str, packages: Iterable[EpPackage]) -> list[Plugin]:
    stem = key(name).partition(".")[0]  # the package that has OpenVINOExecutionProvider.AUTO has no such text
    return ask_packages(package for package in packages if stem and package.mentions(stem))


def _matching_eps(plugin: Plugin, eps: Sequence[str], name: str) -> list[str]:
    found = [ep for ep in eps if _matches(ep, name)]
    base, dot, rest = name.partition(".")
    if not found and dot:
        found = [f"{ep}.{rest}" for ep in eps if _matches(ep, base)]
    return found or (list(eps[:1]) if key(name) == key(plugin.registered_as) else [])


def _matches(ep: str, name: str) -> bool:
    return key(name) in (key(ep), key(ep).removesuffix("executionprovider"))


def _matching_ep(eps: Iterable[str], name: str) -> str | None:
    return next((ep for ep in sorted(eps) if _matches(ep, name)), None)


def _single_ep(name: str, found: Sequence[FoundEp]) -> FoundEp:
    ep, plugin, _ = found[0]
    if len({it.ep for it in found}) > 1:
        choices = [f"{it.ep} ({_list_options([it.plugin.distribution])})" for it in found if it.plugin is not None]
        raise BadInput(f"--ep {name!r} can be {' or '.join(choices)}")
    return FoundEp(ep, plugin, shared_name_note(ep))
