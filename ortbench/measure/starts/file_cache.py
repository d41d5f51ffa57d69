"""The system's file cache: whether a model's files are in it, and how they get out of it."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_PAGE = mmap.PAGESIZE


def files_of(model: Path) -> list[Path]:
    """The file of a model, and those beside it that begin with its name, which may be its external weights."""
    with suppress(OSError):
        return [it for it in model.parent.iterdir() if it.is_file() and it.name.startswith(model.stem)]
    return [model]


def empty(files: Iterable[Path]) -> bool:
    """Ask the system to drop files from its cache; whether it can be asked. What others have mapped may stay."""
    if sys.platform != "linux":
        return False
    for file in files:
        with suppress(OSError), file.open("rb") as opened:
            with suppress(OSError):  # dropped is only what has been written
                os.fdatasync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def fill(files: Iterable[Path]) -> None:
    """Have files in the cache, by reading them."""
    for file in files:
        with suppress(OSError), file.open("rb") as opened:
            while opened.read(1 << 20):
                pass


def share_cached(files: Sequence[Path]) -> float | None:
    """The share of the bytes of files that are in the cache; None where the system does not tell."""
    found = []
    for file in files:
        pages = _pages(file)
        if pages is None:
            return None
        found.append(pages)
    total = sum(map(len, found))
    return sum(page & 1 for pages in found for page in pages) / total if total else None


def _pages(file: Path) -> bytes | None:
    """Of each page of a file whether it is in memory."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with suppress(OSError), file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if not size:
            return b""
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, opened.fileno(), 0)
        if at in (None, ctypes.c_void_p(-1).value):
            return None
        there = ctypes.create_string_buffer(-(-size // _PAGE))
        failed = libc.mincore(at, size, there)
        libc.munmap(at, size)
        return None if failed else there.raw
    return None
