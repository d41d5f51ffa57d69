"""A disk of a few kilobytes for a command to fill: a file system of its own, in a mount namespace that only it sees."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Ran, lacking, ortbench, whole

_LAST_TAG = {".html": "</html>", ".xml": "</testsuites>", ".svg": "</svg>"}
PAGE = 4096  # what even the smallest file takes of it
_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
_ALL_PRIVATE = 0x44000  # MS_PRIVATE, MS_REC
_BLOCKS = 3


@dataclass(frozen=True)
class SmallDisk:
    """A disk that is there for one command, which finds it at a place; what it left there is kept elsewhere."""

    place: Path
    kept: Path

    def run(self, room: int, *arguments: object, meanwhile: str = "", **environment: str) -> Ran:
        """Run `ortbench` with so many bytes, which are whole pages, left on the disk; `meanwhile` is a shell command that runs when some blocks
        are measured and kept, and whose ``$0`` is the disk."""
        shutil.rmtree(self.kept, ignore_errors=True)
        words = [self.place, self.kept, room + PAGE, meanwhile, *whole(arguments)]
        return ortbench(*words, **environment, ORTBENCH_TESTS_MAIN=f"{__name__}:main")

    def files(self) -> set[str]:
        """The names of the files that the command left, all of which must be whole."""
        found = [path for path in self.kept.rglob("*") if path.is_file()]
        for path in found:
            assert is_whole(path), path
        return {path.name for path in found}


def is_whole(path: Path) -> bool:
    """Whether a file is what its name says, from its beginning to its end."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        json.loads(text)
        return True
    if path.suffix in _LAST_TAG:
        return text.rstrip().endswith(_LAST_TAG[path.suffix])
    return path.suffix in (".md", ".csv") and text.endswith("\n")


def small_disk(folder: Path) -> SmallDisk:
    """A disk that a test can fill, in the test's folder."""
    if sys.platform != "linux":
        lacking("only Linux has mount namespaces")
    place = folder / "disk"
    place.mkdir()
    try:
        spaces = "-m" if os.geteuid() == 0 else "-Urm"
        subprocess.run(["unshare", spaces, "mount", "-t", "tmpfs", "none", place], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lacking(f"no small disk, as without root or user namespaces: {error}")
    return SmallDisk(place, folder / "kept")


def main() -> None:
    """ortbench with a disk of its own, whose files are then put where they are found when it is gone; a file fills it up."""
    from ortbench.__main__ import main as ortbench
    from ortbench.measure import driver
    from ortbench.measure.configuration import Configuration

    place, kept, size, meanwhile = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    del sys.argv[1:5]
    mount(place, size)
    (place / "filler").write_bytes(bytes(PAGE))
    block, measured = Configuration.block, 0

    def blocked(*given: Any) -> Any:
        nonlocal measured
        measured += 1
        if measured == _BLOCKS:
            subprocess.run(["sh", "-c", meanwhile, place], check=True, stderr=subprocess.DEVNULL)
        if measured > _BLOCKS:  # the one state that could not be kept is enough
            driver._KEEP_EVERY_S = 1e9
        return block(*given)

    if meanwhile:
        Configuration.block = blocked  # type: ignore[assignment, method-assign]
        driver._KEEP_EVERY_S, driver._KEEP_SHARE = 0.0, 1e9
    try:
        ortbench()
    finally:
        shutil.copytree(place, kept, ignore=shutil.ignore_patterns("filler"))


def mount(place: Path, size: int) -> None:
    """Put a new disk there for this process and those that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group, is_root = os.geteuid(), os.getegid(), os.geteuid() == 0

    def done(failed: int) -> None:
        assert not failed, os.strerror(ctypes.get_errno())

    done(libc.unshare(_NEW_MOUNTS | (0 if is_root else _NEW_USERS)))
    if not is_root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    done(libc.mount(b"none", b"/", None, _ALL_PRIVATE, None))
    done(libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, f"size={size}".encode()))
