"""What installed packages of plugin EPs say of themselves, each imported when it is first asked; the EPs that can be taken where none
was named, with where the devices of each come from; and libraries of custom operators."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime as ort

from ortbench.core import eps
from ortbench.core.eps import CPU_EP, CUDA_EP, EpPackage, key
from ortbench.core.errors import BadInput, one_line
from ortbench.plan.option_types import is_library
from ortbench.worker import messages
from ortbench.worker.messages import with_its_pip
from ortbench.worker.session.libraries import (
    all_ep_devices,
    bundled_library,
    devices_of,
    library_of,
    load_problem,
    names_in,
    own_package,
    real_path,
    register,
)


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
            with messages.announce(f"registering {Path(path).name}"):
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
