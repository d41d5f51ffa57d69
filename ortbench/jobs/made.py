"""What ortbench made: folders of runs, gates, sessions, sweeps and suites, recognised by what they contain.

A name alone makes nothing ortbench's: a folder holds a file whose beginning only ortbench writes, or it has a run's name and
holds nothing but what a command that was killed left unfinished. No link is ever followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.gate.verdict import AGAIN, SIDES
from ortbench.jobs.suite_folder import suite_of

_RUN = {"result.json", "table.md", "table.csv", "steps.csv", "load-samples.npz", "report.html", "gate.json", "gate.md"}
# By the file that makes a folder ortbench's: what the folder is, and which files ortbench writes into it.
_KINDS = {
    "bandwidth.json": ("sweep", {"bandwidth.json", "bandwidth.svg", "table.md", "table.csv"}),
    "profile.json": ("profile", {"profile.json", "table.md", "report.nsys-rep", "report.sqlite"}),
    "result.json": ("run", _RUN),
    "gate.json": ("gate", {"gate.json", "gate.md"}),
}
_SUITE, _CASE = {"suite.json", "summary.md", "summary.csv"}, {*_RUN, "case.json"}
_BOTH_SIDES = {"comparison.md"}
_NSYS_TABLE = re.compile(r"report_\w+\.csv")
_MADE_BY = r'\s*\{\s*"schema_version":\s*\d+,\s*"tool":\s*\{\s*"name":\s*"ortbench"'
# How the files begin that anybody could call so.
_BEGINNINGS = {
    "result.json": re.compile(_MADE_BY),
    "bandwidth.json": re.compile(_MADE_BY),
    "profile.json": re.compile(r'\s*\{\s*"schema_version":\s*\d+,\s*"kind":\s*"profile"'),
    "gate.json": re.compile(r'\s*\{\s*"verdict":\s*"[a-z ]+",\s*"exit_code":\s*\d'),
    "report.html": re.compile(r'(?s).*<meta name="generator" content="ortbench '),
}
_BEGINNING = 4096  # bytes
_RUNS_NAME = re.compile(r".+-\d{8}-\d{6}(-\d+)?")
_UNFINISHED = re.compile(
    r"(probe|[\w.-]+\.(json|md|csv|svg|html|npz))[a-z0-9_]{8}\.tmp|probe"
)  # see files.write_atomically


@dataclass
class Made:
    """A folder that ortbench made.

    Attributes:
        path: of it.
        kind: what it is, in a word.
        files: what ortbench wrote into it, with those that it is recognised by at the end.
        folders: it and those in it, the inner ones first.
        foreign: what else is in it.
    """

    path: Path
    kind: str
    files: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Of the files, bytes."""
        return sum(path.lstat().st_size for path in self.files)

    @property
    def changed(self) -> float:
        """When the newest of the files was written, or the folder where there is none, in seconds since the epoch."""
        return max(path.lstat().st_mtime for path in self.files or [self.path])


def look(folder: Path) -> Made | None:
    """What ortbench made of a folder; None where it is no folder, a link, cannot be read, or is not ortbench's."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    try:
        found = _suite(folder) or _marked(folder) or _of_several(folder)
    except OSError:
        return None
    if found is not None:
        found.files.sort(key=lambda path: path.name in {*_BEGINNINGS, "suite.json"})
    return found


def _suite(folder: Path) -> Made | None:
    if not _is_file(folder / "suite.json"):
        return None
    try:
        cases = set(suite_of(folder)["cases"])
    except BadInput:
        return None
    return _taken(folder, "suite", _SUITE, lambda inner: _case(inner) if inner.name in cases else None)


def _case(folder: Path) -> Made:
    return _taken(folder, "case", _CASE, lambda inner: _of_gate(inner) if inner.name in (*SIDES, AGAIN) else None)


def _marked(folder: Path) -> Made | None:
    """A folder with a file that only ortbench writes."""
    for name, (kind, names) in _KINDS.items():
        if _begins_as_ours(folder / name):
            found = _taken(folder, kind, names, _of_gate if kind == "gate" else _nothing)
            if kind == "run" and folder / "gate.json" in found.files:
                found.kind = "gate"
            return found
    return None


def _of_several(folder: Path) -> Made | None:
    """The folder of a run of several EPs, or of a gate or a run that was killed: a run's name, and in it runs or nothing."""
    if not _RUNS_NAME.fullmatch(folder.name):
        return None
    found = _taken(folder, "run", _BOTH_SIDES, _of_gate)
    if any(path.name == "result.json" for path in found.files):
        return found
    if found.foreign or any(path.name in _BOTH_SIDES for path in found.files):
        return None
    found.kind = "unfinished"
    return found


def _of_gate(folder: Path) -> Made | None:
    """A side of a gate, or the sides that were measured once more."""
    if folder.name != AGAIN:
        return _side(folder)
    found = _taken(folder, "gate", set(), _side)
    return None if found.foreign else found


def _side(folder: Path) -> Made | None:
    """One side of a run or gate: a run, or what is left of one that was killed."""
    if _begins_as_ours(folder / "result.json"):
        return _taken(folder, "run", _RUN, _nothing)
    found = _taken(folder, "unfinished", set(), _nothing)
    return None if found.foreign else found


def _nothing(_: Path) -> None:
    """There are no folders in it that ortbench makes."""


def _taken(folder: Path, kind: str, names: set[str], inner: Callable[[Path], Made | None]) -> Made:
    """A folder with what is ortbench's in it and what is not.

    Args:
        folder: whose content is sorted.
        kind: of it.
        names: of the files that ortbench writes into such a folder.
        inner: what ortbench made of a folder in it.
    """
    found = Made(folder, kind)
    for entry in _entries(folder):
        path = folder / entry.name
        made = inner(path) if entry.is_dir(follow_symlinks=False) else None
        if made is not None:
            found.files += made.files
            found.folders += made.folders
            found.foreign += made.foreign
        elif _is_file(path) and _is_ours(path, kind, names):
            found.files.append(path)
        else:
            found.foreign.append(path)
    found.folders.append(folder)
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def _is_ours(file: Path, kind: str, names: set[str]) -> bool:
    if _UNFINISHED.fullmatch(file.name):
        return True
    if kind == "profile" and _NSYS_TABLE.fullmatch(file.name):
        return True
    return file.name in names and (file.name not in _BEGINNINGS or _begins_as_ours(file))


def _is_file(path: Path) -> bool:
    """Whether it is a file itself, not a link to one."""
    return path.is_file() and not path.is_symlink()


def _begins_as_ours(file: Path) -> bool:
    """Whether a file begins as ortbench writes those of its name."""
    with suppress(OSError):
        if _is_file(file):
            with file.open("rb") as stream:
                beginning = stream.read(_BEGINNING).decode(errors="replace")
            return _BEGINNINGS[file.name].match(beginning) is not None
    return False
