"""The installed packages that bring plugin EPs."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache

from ortbench.errors import one_line


@dataclass(frozen=True)
class Plugin:
    """An installed package that brings EPs by the convention of plugin EPs.

    Attributes:
        module: import name.
        distribution: package name, or the module's where it has none.
        version: of the package, or "".
        ep_names: the EPs it brings.
        library: path of its shared library, or "" where the package could not say.
        problem: why it could not say, else "".
    """

    module: str
    distribution: str
    version: str
    ep_names: tuple[str, ...]
    library: str
    problem: str = ""


@cache
def plugins() -> tuple[Plugin, ...]:
    """Every installed plugin EP package: a module ``onnxruntime_*`` with ``get_library_path`` and ``get_ep_name(s)``."""
    found = []
    for module in pkgutil.iter_modules():
        if module.name.startswith("onnxruntime_"):
            plugin = _plugin(module.name)
            if plugin is not None:
                found.append(plugin)
    return tuple(sorted(found, key=lambda plugin: plugin.module))


def _plugin(module_name: str) -> Plugin | None:
    from importlib import metadata  # not needed for built-in EPs, and slow to import

    distribution = (metadata.packages_distributions().get(module_name) or [module_name])[0]
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        version = ""
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, "get_library_path"):
            return None
        names = module.get_ep_names() if hasattr(module, "get_ep_names") else [module.get_ep_name()]
        return Plugin(module_name, distribution, version, tuple(names), str(module.get_library_path()))
    except Exception as error:  # a broken package is reported, it must not hide the others
        return Plugin(module_name, distribution, version, (), "", one_line(error))
