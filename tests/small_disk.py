"""A disk of a few kilobytes for a command to fill: a file system of its own, in a mount namespace that only it sees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT, Ran, command, lacking

_LAST_TAG = {".html": "</html>", ".xml": "</testsuites>", ".svg": "</svg>"}
PAGE = 4096  # what even the smallest file takes of it

# The disk is mounted where its files are then kept, so that they can be looked at when it is gone.
_SCRIPT = """
    disk=$1 kept=$2 size=$3 room=$4 meanwhile=$5
    shift 5
    mount -t tmpfs -o size=$size none "$disk"
    head -c $((size - room)) /dev/zero > "$disk/filler"
    sh -c "$meanwhile" "$disk" >/dev/null 2>&1 &
    "$@"
    code=$?
    cp -R "$disk/." "$kept"
    rm "$kept/filler"
    exit $code
"""


@dataclass(frozen=True)
class SmallDisk:
    """A disk that is there for one command.

    Attributes:
        place: where the command finds it.
        kept: what the command left there.
        spaces: the options of `unshare`.
    """

    place: Path
    kept: Path
    spaces: str

    def run(self, room: int, *arguments: object, meanwhile: str = "true", **environment: str) -> Ran:
        """Run `ortbench` with so many bytes left on the disk.

        Args:
            room: whole pages.
            arguments: of `ortbench`.
            meanwhile: a shell command that runs beside it; its ``$0`` is the disk.
            environment: variables besides those that are there.
        """
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir()
        size = room + PAGE
        line = ["unshare", self.spaces, "sh", "-uc", _SCRIPT, "sh", self.place, self.kept, size, room, meanwhile]
        done = subprocess.run(
            [*map(str, line), *command(*arguments)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

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
    """A disk that a test can fill.

    Args:
        folder: of the test.
    """
    if sys.platform != "linux":
        lacking("only Linux has mount namespaces")
    spaces = "-m" if os.geteuid() == 0 else "-Urm"
    place, kept = folder / "disk", folder / "kept"
    place.mkdir()
    probe = ["unshare", spaces, "mount", "-t", "tmpfs", "none", str(place)]
    try:
        failed = subprocess.run(probe, capture_output=True, text=True).returncode
    except OSError as error:
        lacking(f"no small disk: {error}")
    if failed:
        lacking("no small disk: no right to make a mount namespace (root or user namespaces)")
    return SmallDisk(place, kept, spaces)
