"""What installed packages of plugin EPs say of themselves, each imported when it is first asked; the EPs that can be taken where none
was named, with where the devices of each come from; libraries of custom operators; and what `--ep` stands for
where it is a name, and whose EP that is: several packages can bring one of the same name.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import onnxruntime as ort

from ortbench.core import eps
from ortbench.core.eps import CPU_EP, CUDA_EP, NO_DEVICE, SHARED, SHORT_NAMES, EpPackage, key, shared_name
from ortbench.core.errors import BadInput, BenchmarkFailed, one_line
from ortbench.plan.option_types import is_library
from ortbench.worker import environment
from ortbench.worker.environment import with_its_pip
from ortbench.worker.libraries import (
    NotLoaded,
    all_ep_devices,
    built_in_eps,
    bundled_library,
    devices_of,
    library_of,
    load_problem,
    names_in,
    own_package,
    real_path,
    register,
)

if TYPE_CHECKING:
    from ortbench.model.schema import Warned


class Plugin(NamedTuple):
    """An installed package that brings EPs, by what it says."""

    # import name of what has a `get_library_path` that ONNX Runtime takes the path of; "" where nothing has
    module: str
    distribution: str  # package name, or the module's where it has none
    version: str  # of the package, or ""
    # the EPs it says it brings; none where it does not say, so that they show when the library is registered
    ep_names: tuple[str, ...]
    library: str  # path of its shared library, or "" where the package could not say
    registered_as: str  # the name that its library is registered by, which an EP may take for its own
    problem: str = ""  # why it could not say, else ""


class WrongPackage(Exception):
    """What a package says cannot be so."""


_plugins: dict[object, Plugin | None] = {}  # by the file that a package is known by


def asked_plugins() -> list[Plugin]:
    """The packages that were asked until now and bring an EP."""
    return [plugin for plugin in _plugins.values() if plugin is not None]


def ask_packages(packages: Iterable[EpPackage]) -> list[Plugin]:
    """Those of some packages that bring an EP, or fail to say so."""
    found = []
    for package in packages:
        key = package.source or package.libraries
        if key not in _plugins:
            _plugins[key] = _ask_package(package)
        if (plugin := _plugins[key]) is not None:
            found.append(plugin)
    return found


def _ask_package(package: EpPackage) -> Plugin | None:
    module, distribution, version, source, libraries, registered_as = package
    if source is None:
        return Plugin("", distribution, version, (), str(libraries[0]), registered_as or eps.stem(libraries[0]))
    try:
        functions = call_package(f"import {module}", importlib.import_module, module)
        if not hasattr(functions, "get_library_path"):
            return None
        path, names = library_path(functions), _ep_names(functions)
        library = os.fspath(path)
        if not names and not eps.exports(Path(library)):
            return None  # a library of another kind
        registered_as = registered_as or (*names, eps.stem(Path(library)))[0]
        # ONNX Runtime takes no `Path`, so that a program is better off with the path than with the function.
        return Plugin(module if isinstance(path, str) else "", distribution, version, names, library, registered_as)
    except WrongPackage as error:  # a broken package is reported, it must not hide the others
        return Plugin(module, distribution, version, (), "", module, str(error))


def library_path(functions: Any) -> str | os.PathLike[str]:
    path = call_package("get_library_path()", functions.get_library_path)
    if not isinstance(path, (str, os.PathLike)):
        raise WrongPackage(f"get_library_path() gives no path but {one_line(repr(path))}")
    if not Path(path).is_file():
        raise WrongPackage(f"get_library_path() names a file that is not there: {os.fspath(path)}")
    return path


def _ep_names(functions: Any) -> tuple[str, ...]:
    function = "get_ep_names" if hasattr(functions, "get_ep_names") else "get_ep_name"
    if not hasattr(functions, function):
        return ()
    answer = call_package(f"{function}()", getattr(functions, function))
    names = [answer] if function == "get_ep_name" else answer
    if not isinstance(names, (list, tuple)) or not names or not all(name and isinstance(name, str) for name in names):
        raise WrongPackage(f"{function}() gives no name but {one_line(repr(answer))}")
    return tuple(names)


def call_package(what: str, function: Any, *arguments: str) -> Any:
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise WrongPackage(f"{what} raises {type(error).__name__}: {one_line(error)}") from None


class Candidate(NamedTuple):
    # its full name, which others can have too; what its library is registered as, where that is all that is known
    ep: str
    library: str | None  # path of its library; None where ORT has it in itself
    version: str | None  # of the package or of ORT, or None
    registered_as: str | None = None  # what its library is to be registered as, where that is not the EP's name


def find_candidates() -> Iterator[Candidate]:
    """The EPs that are registered, those inside the installed onnxruntime whose library can be, and those of packages: first of those
    called ``onnxruntime_*``, as who takes one of theirs does not wait for the search for others."""
    for device in all_ep_devices():
        if device.ep_name != CPU_EP:
            yield Candidate(device.ep_name, *origin(device))
    library = bundled_library(CUDA_EP)
    if library is not None:
        yield Candidate(CUDA_EP, library, ort.__version__)
    libraries = set()
    others = (plugin for package in eps.everywhere() for plugin in ask_packages([package]))  # one by one
    for plugin in chain(ask_packages(eps.by_name()), others):
        if plugin.library and plugin.library not in libraries:
            libraries.add(plugin.library)
            for name in plugin.ep_names or (plugin.registered_as,):
                yield Candidate(name, plugin.library, plugin.version, plugin.registered_as)


def load_candidate(candidate: Candidate) -> list[Any]:
    """The devices of a candidate, whose library is registered for that; of all EPs in it where it has none of that name."""
    if candidate.library is None:
        return devices_of(candidate.ep, None)
    register(candidate.ep, candidate.library, candidate.registered_as)
    names = names_in(candidate.library)
    names = [candidate.ep] if candidate.ep in names else names
    return [device for name in names for device in devices_of(name, candidate.library)]


def origin(ep_device: Any) -> tuple[str | None, str | None]:
    """The library that an EP device came with, and the version of the package that has it, each None where not known."""
    path = library_of(ep_device)
    if path is None:
        return None, ort.__version__
    plugin = find_plugin(path)
    if plugin is not None:
        return plugin.library, plugin.version
    bundled = bundled_library(ep_device.ep_name)
    if bundled is not None and real_path(bundled) == path:
        return bundled, ort.__version__
    return path, None


def package_name(library: str | None) -> str:
    """The package that has a library; of another one its path."""
    plugin = None if library is None else find_plugin(library)
    if plugin is not None:
        return plugin.distribution
    inside = library is None or Path(ort.__file__).parent in Path(library).parents
    return own_package() if inside else library or ""


def find_plugin(library: str) -> Plugin | None:
    """The plugin package that has a library: one that was asked for its own, or one that is called ``onnxruntime_*``."""
    path = real_path(library)
    packages = [it for it in eps.by_name() if it.source is not None and it.source.parent in Path(library).parents]
    plugins = [*asked_plugins(), *ask_packages(packages)]
    return next((plugin for plugin in plugins if plugin.library and real_path(plugin.library) == path), None)


def has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or platform.system() == "Windows"


_OPTION = "--custom-ops"
_EXTENSIONS = "onnxruntime-extensions"
_UNKNOWN = re.compile(r"(\S+):(\S+)\(-?\d+\) is not a registered function/op")
# Their operators come with ONNX Runtime, so that no library would bring them.
_OWN_DOMAINS = ("ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")
_OWN_BEGINNINGS = ("com.microsoft", "com.ms.", "org.pytorch.")


class CustomOps(NamedTuple):
    path: str
    module: str | None  # whose `get_library_path` a program can ask for the path; None of one that has none


@cache
def find_custom_ops(name: str) -> CustomOps:
    """The library that a path or a package of this environment names. Raises `BadInput`: no such package, or it has no library."""
    if is_library(name):
        # A bare file name would be looked for where the system keeps its libraries.
        return CustomOps(name if os.sep in name else os.path.join(os.curdir, name), None)
    module = _module_name(name)
    try:
        package = call_package(f"import {module}", importlib.import_module, module)
        if not hasattr(package, "get_library_path"):
            raise WrongPackage("the package has no get_library_path(): name its library by the path")
        path = library_path(package)
    except WrongPackage as error:
        raise BadInput(f"{_OPTION} {name}: {error}", _OPTION) from None
    return CustomOps(os.fspath(path), module if isinstance(path, str) else None)


def _module_name(name: str) -> str:
    """The module of a package, which pip may spell in another way."""
    for module in (name.replace("-", "_"), key(name)):
        try:
            if importlib.util.find_spec(module) is not None:
                return module
        except (ImportError, ValueError):  # of a module in a package that is not there, or no name of a module
            pass
    install = with_its_pip(f", or pip install {name}") if key(name).isidentifier() else ""
    raise BadInput(f"{_OPTION} {name}: no such package: name a library by its path{install}", _OPTION)


def register_custom_ops(options: Any, names: Sequence[str]) -> None:
    """Register libraries with session options, each once. Raises `BadInput`: one is not there, or brings no custom operators."""
    for path, name in {os.path.realpath(find_custom_ops(name).path): name for name in names}.items():
        try:
            with environment.announce(f"registering {Path(path).name}"):
                options.register_custom_ops_library(path)
        except Exception as error:
            problem = load_problem(error).text
            if "RegisterCustomOps" in problem:
                problem = "the library has no function RegisterCustomOps, so no custom operators"
            raise BadInput(f"{_OPTION} {name}: {problem}", _OPTION) from None


def custom_ops_hint(text: str, names: Sequence[str]) -> str:
    """What is to be added to an error's text about an operator that no library brought; "" where it is about something else."""
    unknown = _UNKNOWN.search(text)
    if unknown is None or unknown[1] in _OWN_DOMAINS or unknown[1].startswith(_OWN_BEGINNINGS):
        return ""
    if names:
        return f"; no library of {_OPTION} has it: {', '.join(names)}"
    if unknown[1] == "ai.onnx.contrib":
        return f"; register the library that has it: {_OPTION} {_EXTENSIONS}"
    return f"; register the library that has it: {_OPTION} LIBRARY, or a package's name"


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
