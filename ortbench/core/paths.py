"""Paths that users give: what they lead to, and whatever the system says of them as one line; interpreters of other environments, whose
ONNX Runtime is measured, and the variables that they get."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

from ortbench.core.errors import BadInput, one_line

_LINKS = 40  # that a system follows at most
_OF_A_PROCESS = re.compile(r"/(proc/(self|\d+)(/task/\d+)?|dev)/fd")


class Kind(Enum):
    """What a path leads to."""

    NOTHING = "nothing"
    FILE = "file"
    FOLDER = "folder"
    PIPE = "pipe"
    DEVICE = "device"


def kind_of(path: str | Path, option: str | None = None) -> Kind:
    """What a path leads to; `BadInput` where the system does not tell: a name that is too long, a folder that may not be entered, links
    that lead to one another."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Kind.NOTHING
    except (OSError, ValueError) as error:  # a name that holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{_begins(option)}{one_line(str(path))}: {reason}", option) from None
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.PIPE if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else Kind.DEVICE


def is_folder(path: str | Path, option: str | None = None) -> bool:
    """Whether a path leads to a folder; `BadInput` as `kind_of`."""
    return kind_of(path, option) is Kind.FOLDER


def check_readable(path: str | Path, option: str | None = None, wanted: str = "file", folders: bool = False) -> None:
    """Refuse (`BadInput`) what is no file that this process and its workers may read, as often as they need; with `folders` a
    folder is as good. Messages name the option and what is `wanted`."""
    begins, kind = _begins(option), kind_of(path, option)
    if kind is Kind.NOTHING:
        raise BadInput(f"{begins}no such {wanted}: {path}", option)
    if kind is Kind.FOLDER and not folders:
        raise BadInput(f"{begins}{path} is a folder: name a file", option)
    if kind in (Kind.PIPE, Kind.DEVICE) or _is_of_this_process(path):
        raise BadInput(f"{begins}{path} cannot be read by other processes: name a file", option)
    if not may(path, os.R_OK | (os.X_OK if kind is Kind.FOLDER else 0)):
        raise BadInput(f"{begins}{path} may not be read", option)


def may(path: str | Path, what: int) -> bool:
    """`os.access` for what this process may do: where it can, that of the real user leaves out capabilities that the process has."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def is_same_file(path: str | Path) -> Callable[[str | Path], bool]:
    """What tells whether a path leads to the same file as this one."""

    def is_same(other: str | Path) -> bool:
        with suppress(OSError):  # one of them leads nowhere
            return os.path.samefile(path, other)
        return False

    return is_same


def _begins(option: str | None) -> str:
    return "" if option is None else f"{option}: "


def _is_of_this_process(path: str | Path) -> bool:
    """Whether a path leads through the open files of a process, as ``/dev/stdin`` does, which are others in a worker."""
    for _ in range(_LINKS):
        folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
        if _OF_A_PROCESS.match(folder):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(folder, os.readlink(path))
    return False


# Interpreters


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


def interpreter_in(path: str) -> str:
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
    found = interpreter_in(path)
    if os.path.isdir(found):
        raise BadInput(f"{option}: no interpreter in that folder, such as bin/python: {path}", option)
    if not os.path.exists(found):
        raise BadInput(f"{option}: no such interpreter: {path}", option)
    if not may(found, os.X_OK):
        raise BadInput(f"{option}: not an interpreter, it cannot be run: {path}", option)


def environment_name(path: str) -> str:
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


def packages_of(path: str) -> list[str]:
    """Name and version of every package in an environment, as their folders say."""
    found = Path(interpreter_in(path)).absolute()
    places = [it for root in found.parents[:2] for pattern in _SITES for it in root.glob(pattern)]
    return sorted(info.stem.replace("-", " ", 1) for place in places for info in place.glob("*.dist-info"))


def with_pip_of(text: str, python: str) -> str:
    """A text whose commands of pip are those of an environment: the pip on the path is that of another one."""
    import shlex

    pip = f"{shlex.quote(interpreter_in(python))} -m pip "
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
