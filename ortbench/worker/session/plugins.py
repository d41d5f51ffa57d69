"""What installed packages of plugin EPs say of themselves: each is imported when it is first asked."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortbench.core import ep_packages
from ortbench.core.ep_packages import EpPackage
from ortbench.core.errors import one_line


@dataclass(frozen=True)
class Plugin:
    """An installed package that brings EPs, by what it says.

    Attributes:
        module: import name of what has a `get_library_path` that ONNX Runtime takes the path of; "" where nothing has.
        distribution: package name, or the module's where it has none.
        version: of the package, or "".
        ep_names: the EPs it says it brings; none where it does not say, so that they show when the library is registered.
        library: path of its shared library, or "" where the package could not say.
        registered_as: the name that its library is registered by, which an EP may take for its own.
        problem: why it could not say, else "".
    """

    module: str
    distribution: str
    version: str
    ep_names: tuple[str, ...]
    library: str
    registered_as: str
    problem: str = ""


class _Wrong(Exception):
    """What a package says cannot be so."""


_asked: dict[object, Plugin | None] = {}  # by the file that a package is known by


def asked() -> list[Plugin]:
    """The packages that were asked until now and bring an EP."""
    return [plugin for plugin in _asked.values() if plugin is not None]


def ask(packages: Iterable[EpPackage]) -> list[Plugin]:
    """Those of some packages that bring an EP, or fail to say so."""
    found = []
    for package in packages:
        place = package.source or package.libraries
        if place not in _asked:
            _asked[place] = _ask(package)
        if (plugin := _asked[place]) is not None:
            found.append(plugin)
    return found


def _ask(package: EpPackage) -> Plugin | None:
    module, distribution, version, source, libraries, registered_as = package
    if source is None:
        return Plugin("", distribution, version, (), str(libraries[0]), registered_as or ep_packages.stem(libraries[0]))
    try:
        functions = _call(f"import {module}", importlib.import_module, module)
        if not hasattr(functions, "get_library_path"):
            return None
        path, names = _path(functions), _ep_names(functions)
        library = os.fspath(path)
        if not names and not ep_packages.exports(Path(library)):
            return None  # a library of another kind
        registered_as = registered_as or (*names, ep_packages.stem(Path(library)))[0]
        # ONNX Runtime takes no `Path`, so that a program is better off with the path than with the function.
        return Plugin(module if isinstance(path, str) else "", distribution, version, names, library, registered_as)
    except _Wrong as error:  # a broken package is reported, it must not hide the others
        return Plugin(module, distribution, version, (), "", module, str(error))


def _path(functions: Any) -> str | os.PathLike[str]:
    path = _call("get_library_path()", functions.get_library_path)
    if not isinstance(path, (str, os.PathLike)):
        raise _Wrong(f"get_library_path() gives no path but {one_line(repr(path))}")
    if not Path(path).is_file():
        raise _Wrong(f"get_library_path() names a file that is not there: {os.fspath(path)}")
    return path


def _ep_names(functions: Any) -> tuple[str, ...]:
    function = "get_ep_names" if hasattr(functions, "get_ep_names") else "get_ep_name"
    if not hasattr(functions, function):
        return ()
    told = _call(f"{function}()", getattr(functions, function))
    names = [told] if function == "get_ep_name" else told
    if not isinstance(names, (list, tuple)) or not names or not all(name and isinstance(name, str) for name in names):
        raise _Wrong(f"{function}() gives no name but {one_line(repr(told))}")
    return tuple(names)


def _call(what: str, function: Any, *arguments: str) -> Any:
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise _Wrong(f"{what} raises {type(error).__name__}: {one_line(error)}") from None
