"""Interpreters of other environments, whose ONNX Runtime is measured."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.core.paths import may

_IN_ENVIRONMENT = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")  # of venv, conda and their like
_SITES = ("lib/python3*/site-packages", "lib/site-packages", "Lib/site-packages")
_PROGRAMS = {"bin", "Scripts"}
_SAY_NOTHING = {"venv", ".venv", "env", ".env"}  # folders of environments that are called like all others
_SYSTEM = {"usr", "local", ""}
_PIP = re.compile(r"(?<!\S)(?<!-m )pip (?=install |uninstall )")
# What tells Python where its packages are: ortbench's own are not for another interpreter.
_OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
# ONNX Runtime looks up a host and keeps a database of events otherwise, which a benchmark is to be without.
NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}
# NumPy's OpenBLAS sends SIGINT, as Ctrl-C does, where no thread can be started; ortbench itself has no use for its threads.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
_added: set[str] = set()  # variables that are this process's own


def program(path: str) -> str:
    """The interpreter that a path names: itself, or that of the virtual environment whose folder it is; from the root on, as a
    name alone is another one to a system that starts it: the first on ``PATH``."""
    whole = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)  # a virtual environment's link is kept
    if not os.path.isdir(whole):
        return whole
    return next((found for it in _IN_ENVIRONMENT if os.path.isfile(found := os.path.join(whole, it))), whole)


def is_interpreter(path: str, option: str) -> None:
    """Refuse (`BadInput`) what cannot be an interpreter: no such file, one that cannot be run, a folder without one."""
    if not path:
        raise BadInput(
            f"{option}: is empty; leave it out for ortbench's own interpreter, or, beside others, give its path", option
        )
    found = program(path)
    if os.path.isdir(found):
        raise BadInput(f"{option}: no interpreter in that folder, such as bin/python: {path}", option)
    if not os.path.exists(found):
        raise BadInput(f"{option}: no such interpreter: {path}", option)
    if not may(found, os.X_OK):
        raise BadInput(f"{option}: not an interpreter, it cannot be run: {path}", option)


def name(path: str) -> str:
    """A short name of an environment: that of its folder, or of the interpreter where that is the system's."""
    parts = list(Path(path).absolute().parts)
    if not os.path.isdir(path):
        file = parts.pop()
        if parts and parts[-1] in _PROGRAMS:
            parts.pop()
        if not parts or parts[-1].strip("/") in _SYSTEM:
            return file
    if len(parts) > 1 and parts[-1] in _SAY_NOTHING:
        parts.pop()
    return parts[-1]


def packages(path: str) -> list[str]:
    """Name and version of every package in an environment, as their folders say."""
    found = Path(program(path)).absolute()
    places = [it for root in found.parents[:2] for pattern in _SITES for it in root.glob(pattern)]
    return sorted(info.stem.replace("-", " ", 1) for place in places for info in place.glob("*.dist-info"))


def with_pip_of(text: str, python: str) -> str:
    """A text whose commands of pip are those of an environment: the pip on the path is that of another one."""
    import shlex

    pip = f"{shlex.quote(program(python))} -m pip "
    return _PIP.sub(lambda _: pip, text)


def start_no_threads() -> None:
    """Have NumPy, which is still to be loaded, start no threads in this process and its workers."""
    for name in _NO_THREADS.keys() - os.environ.keys():
        os.environ[name] = _NO_THREADS[name]
        _added.add(name)


def given_variables() -> dict[str, str]:
    """The environment variables that this process was started with."""
    return {key: value for key, value in os.environ.items() if key not in _added}


def surroundings() -> dict[str, str]:
    """Those for another interpreter, without those that are for Python's own packages."""
    return {key: value for key, value in given_variables().items() if key not in _OF_PYTHON}
