"""Paths that users give: what they lead to, and whatever the system says of them as one line."""

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
