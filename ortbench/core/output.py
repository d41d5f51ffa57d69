"""What processes print beside their answers, native code too: a file beside the result has all of it, the screen its first warning."""

from __future__ import annotations

import errno
import io
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, NoReturn, cast

from ortbench.core import files, signals
from ortbench.core.errors import BENCHMARK_FAILED, one_line
from ortbench.core.files import noting
from ortbench.core.safe_text import accept_all_characters, complain
from ortbench.core.units import count

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FILE_NAME = "stderr.txt"
LARGEST = 10_000_000  # bytes of the file, and of what a process may print
_CUT = f"# cut: more than {LARGEST // 1_000_000} MB were printed\n".encode()
_BEYOND = 1_000_000  # bytes that a process prints more before it is cut again
_END = 4096  # bytes that its last words are in
_LAST_WORDS = 200  # characters that fit a one-line message
_WIDTH = 70  # of the screen, behind "ortbench: "
_LEAST_WORDS = 20  # of a warning, whatever stands behind it
_COLOURS = rb"\x1b\[[0-9;]*m"  # ONNX Runtime ends the colour of a logged line on a line of its own
_LOGGED = re.compile(r".*?\[([VIWEF]):onnxruntime:.*?\] (.*)")
_WARNS = re.compile(r"(?:warning|error)s?\b", re.IGNORECASE)
# What everybody gets who has no GPU, or no /proc, what reports say of nodes, and what ortbench itself causes or says.
_HARMLESS = re.compile(
    r"device_discovery\.cc|cpuinfo|Failed to load (lib)?(cu|nv)|to install CUDA|Memcpy nodes are added to the graph|"
    "nodes were not assigned to the preferred execution providers|Rerunning with verbose output|"
    "Non-zero status code returned while running|Exception during initialization|Serializing optimized model with Graph Opt"
)


class _Printed:
    """Of a command: what is still to be written to its file, if it has one, and the warnings, each once."""

    def __init__(self) -> None:
        self.file: Path | None = None
        self.written: Path | None = None  # the last one
        self.left, self.size, self.warnings = b"", 0, dict[str, None]()
        self.last_words: set[str] = set()  # which an error says


_now = _Printed()


def begin() -> None:
    """Another command or call begins."""
    global _now
    _now = _Printed()


def keep_in(folder: Path) -> None:
    """Keep what was printed, and what will be, in a folder, unless that is inside of the one where it is kept."""
    if _now.file is None or not folder.is_relative_to(_now.file.parent):
        _now.file, _now.size = folder / FILE_NAME, len(_now.left)
    _write()


def discard(folder: Path) -> None:
    """Keep nothing in a folder, which goes again."""
    if _now.file == folder / FILE_NAME:
        with suppress(OSError):
            _now.file.unlink()
        _now.file = _now.written = None


def limit(file: IO[bytes]) -> None:
    """Cut what a process has printed until now where it is too much, but for the end, which may be its last words."""
    if sys.platform == "win32" or file.closed:
        return
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST + _BEYOND:
        with suppress(OSError):  # on a full disk
            end = os.pread(file.fileno(), _END, size - _END)
            os.ftruncate(file.fileno(), LARGEST)
            os.write(file.fileno(), b"\n" + end)


def take(file: IO[bytes], whose: str) -> None:
    """Take what a process, which has ended, wrote to a file, and close that."""
    if file.closed:
        return
    with file:
        file.seek(0)
        content = plain(file.read(LARGEST))
    lines = [line for line in content.splitlines() if line.strip()]
    if not count_warnings(lines):
        return
    if _now.size <= LARGEST:
        whole = b"\n".join([f"# {whose}".encode(), *lines, b""])
        _now.size += len(whole)
        _now.left += whole if _now.size <= LARGEST else whole[: LARGEST - _now.size] + b"\n" + _CUT
    _write()


def count_warnings(lines: Iterable[bytes]) -> bool:
    """Count the warnings among lines; whether any line is worth keeping."""
    own = [text for text in (line.decode(errors="replace") for line in lines) if not _HARMLESS.search(text)]
    for line in own:
        logged = _LOGGED.match(line)
        if logged[1] in "WEF" if logged else _WARNS.search(line):
            _now.warnings[one_line(logged[2] if logged else line, _LAST_WORDS)] = None
    return bool(own)


def _write() -> None:
    if _now.file is not None and _now.left:
        with noting(_now.file), _now.file.open("ab") as file:
            file.write(_now.left)
            _now.written = _now.file
        _now.left = b""


def warning(where_shown: bool, after_error: bool = False) -> str | None:
    """How many warnings there are and the first of them, in a line, once; with the path of the file unless its folder is shown. After an
    error, whose line says what is wrong, only if there is a file."""
    warnings, _now.warnings = [text for text in _now.warnings if text not in _now.last_words], {}
    if not warnings or (after_error and _now.written is None):
        return None
    where = f"in {FILE_NAME if where_shown else _now.written}" if _now.written else "printed"
    head = f"{count(len(warnings), 'warning')} {where}: "
    return head + one_line(warnings[0], max(_LEAST_WORDS, _WIDTH - len(head)))


def plain(content: bytes) -> bytes:
    """What was printed, without colours."""
    return re.sub(_COLOURS, b"", content)


def last_words(file: IO[bytes]) -> str:
    """The end of what a process wrote to a file, on one line, as the rest of a sentence."""
    if file.closed:
        return ""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END))
    text = plain(file.read()).decode(errors="replace")
    words = one_line(text.strip().splitlines()[-1], _LAST_WORDS) if text.strip() else ""
    _now.last_words.add(words)
    return f"; its last words: {words}" if words else ""


# The program's own standard output and standard error: written in full, and costing a command nothing when they cannot be
#
# The reader of a pipe goes (head, less), the terminal closes, the disk that the output goes to is full: the command ends
# as it would have. A gate that fails still fails, and files are written all the same.


class _Forgiving(io.RawIOBase):
    """A stream's bytes on their way out; once they cannot be written they go nowhere, and a note says so."""

    def __init__(self, raw: io.RawIOBase, name: str) -> None:
        self._raw = raw
        self._called = name
        self._lost = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw.isatty()

    def fileno(self) -> int:
        return self._raw.fileno()

    def write(self, data: ReadableBuffer) -> int:
        """Write all of it: a disk that is nearly full takes a part, and a pipe that does not block none until it is read."""
        left, at = memoryview(data).cast("B"), 0
        while at < len(left) and not self._lost:
            try:
                written = self._raw.write(left[at:])
                if written is None:
                    select.select([], [self._raw], [])
                else:
                    at += written
            except OSError as error:
                self._lost = True
                if not self._has_nobody(error):
                    files.note(self._called, error)
        return len(left)

    def _has_nobody(self, error: OSError) -> bool:
        """Whether the reader of a pipe or the terminal is gone, and nobody is left to be told."""
        if error.errno == errno.EIO:  # a failing disk says the same
            return stat.S_ISCHR(os.fstat(self.fileno()).st_mode)
        return error.errno == errno.EPIPE


def to_the_end(carry_out: Callable[[], int]) -> NoReturn:
    """Carry a program out and end with its exit code; files that could not be written are named, and fail it."""
    files.not_written()  # what an earlier call in this process noted
    forgive()
    accept_all_characters()
    code = carry_out()
    sys.stdout.flush()
    for line in files.not_written():
        complain(line)
        code = BENCHMARK_FAILED
    raise SystemExit(signals.finish(code))


def forgive() -> None:
    """Let both streams be such, but where a test or a notebook has put something else in their place."""
    for name, called in (("stdout", "standard output"), ("stderr", "standard error")):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before the start: a file that is opened next must not take its number
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end
        if not isinstance(stream, io.TextIOWrapper):
            continue
        raw = getattr(stream.buffer, "raw", stream.buffer)  # Python's -u leaves the buffer out
        if not isinstance(raw, io.RawIOBase) or isinstance(raw, _Forgiving):
            continue
        stream.flush()
        forgiving = _Forgiving(raw, called)
        wrapped = io.TextIOWrapper(
            cast(BinaryIO, forgiving if raw is stream.buffer else io.BufferedWriter(forgiving)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, wrapped)
