"""What starts do with the files that an EP keeps of what it compiled, so that the next start need not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.files import digest

if TYPE_CHECKING:
    from ortbench.features.start.model import Kept

_LONG_AGO = 0  # ns since 1970; a file system that keeps times of access only now and then does so where the last one is this old


class KeptFiles:
    """Those in a folder, and how many starts read or changed any of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed: dict[Path, int] = {}  # when a file was changed last, in ns since 1970
        self._digests: dict[Path, str] = {}
        self._starts = self._reading = self._changing = 0

    @contextmanager
    def watch_start(self) -> Iterator[None]:
        """Count a start; one that fails counts for nothing. Files are read outside of what is timed."""
        self._update()
        for file, changed in self._changed.items():
            os.utime(file, ns=(_LONG_AGO, changed))
        yield
        self._starts += 1
        self._reading += any(it.stat().st_atime_ns > _LONG_AGO for it in self._digests if it.is_file())
        self._changing += self._update()

    def _update(self) -> bool:
        """Read what is new; whether any file became another one, came or went. One that is written again as it was has not changed."""
        before = dict(self._digests)
        changed = {file: file.stat().st_mtime_ns for file in self._folder.rglob("*") if file.is_file()}
        same = {file for file in before if changed.get(file) == self._changed[file]}
        self._digests = {file: before[file] if file in same else digest(file).hexdigest() for file in changed}
        self._changed = changed
        return self._digests != before

    def describe(self) -> Kept:
        return {
            "files": len(self._digests),
            "bytes": sum(it.stat().st_size for it in self._digests),
            "starts": self._starts,
            "reading": self._reading if _keeps_access_times(self._folder) else None,
            "changing": self._changing,
        }


def _keeps_access_times(folder: Path) -> bool:
    """Whether the file system of a folder says that a file was read."""
    probe = folder.parent / "read-once"
    probe.write_bytes(b"once")
    os.utime(probe, ns=(_LONG_AGO, probe.stat().st_mtime_ns))
    probe.read_bytes()
    return probe.stat().st_atime_ns > _LONG_AGO
