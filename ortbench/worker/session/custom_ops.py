"""Libraries of custom operators: where each is, why one cannot be registered, and how to name one that a model needs."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.core.ep_packages import key
from ortbench.core.errors import BadInput
from ortbench.plan.option_types import is_library
from ortbench.worker import messages
from ortbench.worker.messages import with_its_pip
from ortbench.worker.session.libraries import load_problem
from ortbench.worker.session.plugins import WrongPackage, call_package, library_path

_OPTION = "--custom-ops"
_EXTENSIONS = "onnxruntime-extensions"
_UNKNOWN = re.compile(r"(\S+):(\S+)\(-?\d+\) is not a registered function/op")
# Their operators come with ONNX Runtime, so that no library would bring them.
_OWN_DOMAINS = ("ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")
_OWN_BEGINNINGS = ("com.microsoft", "com.ms.", "org.pytorch.")


class Library(NamedTuple):
    path: str
    module: str | None  # whose `get_library_path` a program can ask for the path; None of one that has none


@cache
def find_library(name: str) -> Library:
    """The library that a path or a package of this environment names. Raises `BadInput`: there is no such package, or it has no
    library."""
    if is_library(name):
        # A bare file name would be looked for where the system keeps its libraries.
        return Library(name if os.sep in name else os.path.join(os.curdir, name), None)
    module = _module_name(name)
    try:
        package = call_package(f"import {module}", importlib.import_module, module)
        if not hasattr(package, "get_library_path"):
            raise WrongPackage("the package has no get_library_path(): name its library by the path")
        path = library_path(package)
    except WrongPackage as error:
        raise BadInput(f"{_OPTION} {name}: {error}", _OPTION) from None
    return Library(os.fspath(path), module if isinstance(path, str) else None)


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


def register(options: Any, names: Sequence[str]) -> None:
    """Register libraries with session options, each once. Raises `BadInput`: one is not there, or brings no custom operators."""
    for path, name in {os.path.realpath(find_library(name).path): name for name in names}.items():
        try:
            with messages.announce(f"registering {Path(path).name}"):
                options.register_custom_ops_library(path)
        except Exception as error:
            problem = load_problem(error).text
            if "RegisterCustomOps" in problem:
                problem = "the library has no function RegisterCustomOps, so no custom operators"
            raise BadInput(f"{_OPTION} {name}: {problem}", _OPTION) from None


def fix_hint(text: str, names: Sequence[str]) -> str:
    """What is to be added to an error's text about an operator that no library brought; "" where it is about something else."""
    unknown = _UNKNOWN.search(text)
    if unknown is None or unknown[1] in _OWN_DOMAINS or unknown[1].startswith(_OWN_BEGINNINGS):
        return ""
    if names:
        return f"; no library of {_OPTION} has it: {', '.join(names)}"
    if unknown[1] == "ai.onnx.contrib":
        return f"; register the library that has it: {_OPTION} {_EXTENSIONS}"
    return f"; register the library that has it: {_OPTION} LIBRARY, or a package's name"
