"""Paths that users give, and files: written whole or not at all, which of them could not be, and what identifies them."""

from __future__ import annotations

import glob
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from enum import Enum
from functools import cache
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from ortbench.core import signals
from ortbench.core.errors import BadInput, BenchmarkFailed, one_line, system_text
from ortbench.core.safe_text import encode

_SHORT = 50  # characters, that leave room in a name for what makes it one of its own


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file, text by `ortbench.core.safe_text.encode`, by renaming a finished one into place; `OSError` where
    that fails."""
    import tempfile  # brings OpenSSL's hashes and random numbers, which help and errors need not wait for

    with signals.hold_signals():  # a program that ends in between would leave the unfinished file
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name[:_SHORT], suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(encode(content) if isinstance(content, str) else content)
            os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide a CI artefact from the step that uploads it
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # the folder may be gone, and the file with it
                os.unlink(temporary)
            raise


# What a command has measured must not be lost for a file that cannot be written: that is noted, the command goes on,
# and says it at its end. By name of the file: why, and whether an earlier state of it is there.
_Notes = dict[str, tuple[str, bool]]
_of_process: _Notes = {}
_apart: ContextVar[_Notes] = ContextVar("notes")  # those of a call from Python, which are no other call's


def _notes() -> _Notes:
    return _apart.get(_of_process)


@contextmanager
def noting_apart() -> Iterator[None]:
    """What is noted inside the block is of it alone; `not_written` gives it there."""
    token = _apart.set({})
    try:
        yield
    finally:
        _apart.reset(token)


def write_or_note(path: Path, content: str | bytes, name: str | None = None) -> bool:
    """Write a file as `write_atomically` does, or note under its name that it could not be written; whether it was."""
    with noting(path, name):
        write_atomically(path, content)
        return True
    return False


@contextmanager
def noting(path: Path, name: str | None = None) -> Iterator[None]:
    """Inside the block a file is written; if it cannot be, that is noted, see `write_or_note`."""
    try:
        yield
        _notes().pop(name or str(path), None)
    except OSError as error:
        note(name or str(path), error, is_there=os.path.exists(path))


def note(name: str, why: OSError | str, is_there: bool = False) -> None:
    """Note that a file could not be written, and whether there is an earlier state of it."""
    _notes()[name] = why if isinstance(why, str) else one_line(why.strerror or why), is_there


def forget(path: Path) -> None:
    """A file is not wanted any more: that it could not be written is nothing to tell."""
    _notes().pop(str(path), None)


def why_lacking(folder: Path) -> str | None:
    """Why a folder, or a file in it, could not be written, if that was noted."""
    reasons = [reason for name, (reason, _) in _notes().items() if folder in ((path := Path(name)), *path.parents)]
    return reasons[0] if reasons else None


def not_written() -> list[str]:
    """What could not be written, in a line for each reason; nothing of it is noted any more."""
    names: dict[str, list[str]] = {}
    for name, (reason, is_there) in _notes().items():
        names.setdefault(reason, []).append(f"{name} (an earlier state of it is there)" if is_there else name)
    _notes().clear()
    return [
        f"{', '.join(them)} {'were' if them[1:] else 'was'} not written: {reason}" for reason, them in names.items()
    ]


IGNORE_FILE = ".gitignore"
_IGNORED = "# What ortbench measured here is kept out of version control; remove this file to commit it.\n*\n"


def make_ignored(folder: Path) -> None:
    """Make a folder for what is measured, if it is not there, and have version control ignore it if it is made here."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / IGNORE_FILE).write_bytes(_IGNORED.encode())


def discard_ignored(folder: Path) -> None:
    """Remove a folder that `make_ignored` has made and in which nothing else is."""
    with suppress(OSError):
        ignore = folder / IGNORE_FILE
        if [*folder.iterdir()] == [ignore] and ignore.read_bytes() == _IGNORED.encode():
            ignore.unlink()
            folder.rmdir()


def make_folder(folder: Path) -> Path:
    """Make a folder, if it is not there; `OSError`: it cannot be made."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_TEMPORARY = "ortbench-temporary-"
_NEW_S = 60.0  # a younger folder may be one that its process is about to lock


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder for what goes from one process to another, for as long as the block lasts; `BenchmarkFailed` where there is no
    room for one, or for a file in it. One whose process was killed is removed by the next that makes one."""
    import tempfile

    try:
        _remove_left(Path(tempfile.gettempdir()))
        folder = tempfile.TemporaryDirectory(prefix=_TEMPORARY, ignore_cleanup_errors=True)
    except OSError as error:
        raise BenchmarkFailed(f"no temporary folder can be made: {one_line(error)}") from None
    with folder as path, ExitStack() as stack:
        with suppress(OSError):  # a file system without locks: what is left in it stays
            stack.enter_context(_lock(path))
        try:
            yield path
        except OSError as error:
            raise BenchmarkFailed(f"temporary files: {system_text(error)}") from None


@cache  # once in a process
def _remove_left(parent: Path) -> None:
    import shutil

    for folder in parent.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):  # it is in use, another user's or gone
            if time.time() - folder.lstat().st_mtime > _NEW_S:
                with _lock(folder):
                    shutil.rmtree(folder)


@contextmanager
def _lock(folder: str | Path) -> Iterator[None]:
    """A folder is locked inside the block, or until the process dies; `OSError`: it cannot be."""
    if sys.platform == "win32":
        raise OSError("no folder can be locked")
    import fcntl

    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


class ModelFiles:
    """The files of models that are measured in several processes, each of which is to find the same."""

    def __init__(self, models: Iterable[str]) -> None:
        self._stamps = {file: _stamp(file) for model in models for file in model_files(Path(model))}
        self._digests: dict[Path, str] = {}

    def digest(self, model: str) -> str:
        """The SHA-256 of a model's file, as it was when it was asked for first; `BadInput` where it cannot be read."""
        path = Path(model)
        if path not in self._digests:
            try:
                self._digests[path] = sha256(path)
                named = files_named_in(path)
            except OSError as error:
                raise BadInput(f"{path} cannot be read: {one_line(error.strerror or error)}") from None
            for name in named:
                self._stamps.setdefault(path.parent / name, _stamp(path.parent / name))
        return self._digests[path]

    def check(self) -> None:
        """Refuse (`BenchmarkFailed`) files that are others now; a file is read again only where the system says that it may be."""
        for file, before in self._stamps.items():
            now = _stamp(file)
            if now == before:
                continue
            is_same = False
            with suppress(OSError):
                is_same = now is not None and file in self._digests and sha256(file) == self._digests[file]
            if not is_same:
                raise BenchmarkFailed(f"{file} was changed during the measurement: measure again without changing it")
            self._stamps[file] = now


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def model_files(model: Path) -> Iterator[Path]:
    """A model's file, and those beside it that have names as exporters give them to weights: ``m.onnx.data``, ``m.onnx_data``, ``m.data``."""
    yield model
    for pattern in (f"{glob.escape(model.name)}[._]data*", f"{glob.escape(model.stem)}.data*"):
        with suppress(OSError):
            yield from model.parent.glob(pattern)


# A key and a value in protobuf: where a tensor is, where an EP's compiled part is, and which EP made that.
_FILES, _MAKERS = (b"\n\x08location\x12", b'\n\x10ep_cache_context"'), (b'\n\x06source"',)
_SIZE = rb"([\x01-\x7f]|[\x80-\xff][\x01-\x1f])"
_LONGEST_NAME = 1 << 12  # bytes: more is no path but the compiled part itself


def files_named_in(model: Path) -> set[str]:
    """The files that a model in ONNX's format has parts of itself in, as it names them; those outside of its folder ONNX Runtime refuses."""
    names = _values_in(model, _FILES)
    return {it for it in names if not PurePath(it).is_absolute() and ".." not in PurePath(it).parts}


def context_makers(model: Path) -> set[str]:
    """What the EPContext nodes of a model call the EPs that made them."""
    return _values_in(model, _MAKERS)


def _values_in(model: Path, keys: Sequence[bytes]) -> set[str]:
    names, part = set[str](), b""
    with model.open("rb") as file:
        while more := file.read(1 << 20):
            part = part[-_LONGEST_NAME - 32 :] + more
            for found in chain.from_iterable(re.finditer(key + _SIZE, part, re.DOTALL) for key in keys if key in part):
                low, high = found[1][0], found[1][1] if found[1][1:] else 0
                value = part[found.end() : found.end() + (low & 127) + (high << 7)]
                with suppress(UnicodeDecodeError):  # the compiled part itself
                    names.add(value.decode())
    return names


CERTIFICATE = "certificate.json"  # of this machine, in the folder of the user's state


def state_file(name: str) -> Path:
    """A file of what ortbench keeps for a user between commands: in the folder that ``ORTBENCH_STATE`` names, else where the system has such."""
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        usual = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        usual = home / "Library" / "Application Support"
    else:
        usual = Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return Path(os.environ.get("ORTBENCH_STATE") or usual / "ortbench") / name


def sha256(path: Path) -> str:
    return str(digest(path).hexdigest())


def digest(path: Path) -> Any:
    """A file's SHA-256, which more can be added to."""
    import hashlib

    found = hashlib.sha256()
    with path.open("rb") as file:  # file_digest is not in Python 3.10, with which a worker may run
        while part := file.read(1 << 20):
            found.update(part)
    return found


_LINKS = 40  # that a system follows at most
_OF_A_PROCESS = re.compile(r"/(proc/(self|\d+)(/task/\d+)?|dev)/fd")


class Kind(Enum):
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


# Inputs of a model, and the outputs that they should lead to


def input_sets(path: Path) -> list[Path]:
    """The sets of inputs at a path: a file, a folder with ``input_0.pb`` or ``.npy``, or the .npz files and such folders in one; none where
    it has neither."""
    if not path.is_dir() or _is_test_set(path):
        return [path]
    return sorted(it for it in path.iterdir() if (it.is_dir() and _is_test_set(it)) or _is_inputs(it))


def _is_test_set(folder: Path) -> bool:
    return any((folder / f"input_0.{suffix}").is_file() for suffix in ("pb", "npy"))


def _is_inputs(file: Path) -> bool:
    return file.suffix == ".npz" and not file.name.endswith(".expected.npz")


def expected_outputs(path: Path) -> Path | None:
    """Where the outputs of a set of inputs stand, if anywhere: in the same folder, or in a file of the same name."""
    if path.is_dir():
        return path if any((path / f"output_0.{suffix}").is_file() for suffix in ("pb", "npy")) else None
    other = path.with_name(f"{path.name.removesuffix('.npz').removesuffix('.inputs')}.expected.npz")
    return other if other.is_file() and other != path else None
