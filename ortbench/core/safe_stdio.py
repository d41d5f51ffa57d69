"""Standard output and standard error that are written in full, and cost a command nothing when they cannot be.

The reader of a pipe goes (head, less), the terminal closes, the disk that the output goes to is full: the command ends
as it would have. A gate that fails still fails, and files are written all the same.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, NoReturn, cast

from ortbench.core import files, signals
from ortbench.core.errors import BENCHMARK_FAILED
from ortbench.core.safe_text import accept_all_characters, complain

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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
