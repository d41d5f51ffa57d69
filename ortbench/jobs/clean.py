"""What `ortbench clean` does: list what ortbench made, ask, and remove that and nothing else.

A folder is ortbench's where the file is that it puts into each one that it makes. In it only what ortbench writes under these
names is removed, and in the folders in it likewise. No link is ever followed.
"""

from __future__ import annotations

import glob
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ortbench.core import signals, units
from ortbench.core.errors import BAD_INPUT, BENCHMARK_FAILED, DONE, BadInput
from ortbench.core.files import IGNORE_FILE, MADE_FILE
from ortbench.core.safe_text import complain, visible
from ortbench.plan.output_options import REPORTS

# What a folder is called, by the first of these files that is in it.
_KINDS = {
    "suite.json": "suite",
    "gate.json": "gate",
    "profile.json": "profile",
    "bandwidth.json": "bandwidth",
    "tune.json": "tune",
    "result.json": "measurement",
}
_WRITTEN = re.compile(
    r"result\.json|table\.(md|csv)|steps\.csv|load-samples\.npz|comparison\.md|report\.html|gate\.(json|md)|bandwidth\.(json|svg)"
    r"|profile\.json|report\.(nsys-rep|sqlite)|report_\w+\.csv|suite\.json|tune\.json|summary\.(md|csv)|case\.json"
)
_UNFINISHED = re.compile(rf"({_WRITTEN.pattern})[a-z0-9_]{{8}}\.tmp")  # see files.write_atomically
_PAGE = b'<meta name="generator" content="ortbench '
_BEGINNING = 4096  # bytes of a page


@dataclass
class Made:
    path: Path
    kind: str = "unfinished"
    files: list[Path] = field(default_factory=list)  # that ortbench wrote; at the end those that mark its folders
    folders: list[Path] = field(default_factory=list)  # that ortbench made, the inner ones first, this one last
    foreign: list[Path] = field(default_factory=list)  # what else is in it

    @property
    def size(self) -> int:
        return sum(path.lstat().st_size for path in self.files)

    @property
    def changed(self) -> float:
        """When the newest of the files was written, in seconds since the epoch."""
        return max(path.lstat().st_mtime for path in self.files)


def look(folder: Path) -> Made | None:
    """What ortbench made of a folder; None where it is no folder, a link, cannot be read, or is not ortbench's."""
    if folder.is_symlink() or not _is_file(folder / MADE_FILE):
        return None
    found = Made(folder)
    try:
        for path in sorted(folder.iterdir()):
            if (inner := look(path)) is not None:
                found.files += inner.files
                found.folders += inner.folders
                found.foreign += inner.foreign
            else:
                (found.files if _is_ours(path) else found.foreign).append(path)
    except OSError:
        return None
    found.folders.append(folder)
    found.files.sort(key=lambda path: path.name == MADE_FILE)
    own = {path.name for path in found.files if path.parent == folder}
    # Of a run of several configurations, or a gate that was killed.
    inside = {"result.json"} & {path.name for path in found.files}
    found.kind = next((kind for name, kind in _KINDS.items() if name in own | inside), found.kind)
    return found


def _is_ours(path: Path) -> bool:
    if not _is_file(path):
        return False
    if path.name == "report.html":  # many programs call a page so
        with path.open("rb") as page:
            return _PAGE in page.read(_BEGINNING)
    return path.name == MADE_FILE or any(it.fullmatch(path.name) for it in (_WRITTEN, _UNFINISHED))


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def clean(names: Sequence[str], older_s: float | None, keep: int | None, yes: bool) -> int:
    """List what ortbench made in folders, or in ``reports``, and remove it, with `yes` without asking; the exit code.

    Only what is older than some seconds, and none of so many newest ones, which are kept. `BadInput` for a folder that is not
    there, is a link, or cannot be read.
    """
    if not names and not REPORTS.exists():
        print(f"Nothing to remove: there is no folder {REPORTS}")
        return DONE
    found, others = _found(_places(names or [str(REPORTS)]))
    chosen = _chosen(found, older_s, keep)
    _show(chosen, len(found) - len(chosen), others)
    if not chosen:
        return DONE
    what = f"{units.count(len(chosen), 'folder')}, {units.size(sum(made.size for made in chosen))}"
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        complain(f"nothing was removed, because there is no terminal to ask on: give --yes to remove {what}")
        return BAD_INPUT
    if not yes and not _agreed(what):
        print("Nothing was removed")
        return DONE
    return _remove(chosen)


# What there is


def _places(names: Sequence[str]) -> list[Path]:
    """The folders that are named, each once; a pattern or ``~`` that no shell has replaced is replaced here."""
    places: list[Path] = []
    for name in names:
        path = Path(name)
        if not os.path.lexists(path):
            path = path.expanduser()
        matches = sorted(glob.glob(str(path))) if not os.path.lexists(path) and glob.has_magic(name) else [str(path)]
        if not matches or not os.path.lexists(matches[0]):
            raise BadInput(f"no such folder: {name}")
        places += map(Path, matches)
    if len(places) == 1 and (place := places[0]).is_symlink():
        raise BadInput(f"{place} is a link, which is not followed: name the folder itself, {place.resolve()}")
    if len(places) == 1 and not places[0].is_dir():
        raise BadInput(f"{places[0]} is not a folder")
    return list({place.absolute(): place for place in places}.values())


def _found(places: Sequence[Path]) -> tuple[list[Made], list[Path]]:
    """What ortbench made, the oldest first, and what else there is; `BadInput` for a folder that cannot be read."""
    found: dict[Path, Made] = {}
    others: dict[Path, Path] = {}
    for place in places:
        if (made := look(place)) is not None:
            found[place.absolute()] = made
            continue
        for path in _inside(place):
            if (made := look(path)) is not None:
                found[path.absolute()] = made
            elif path.name != IGNORE_FILE:
                others[path.absolute()] = path
    left = [path for place, path in others.items() if place not in found]
    return sorted(found.values(), key=lambda made: made.changed), left


def _inside(place: Path) -> list[Path]:
    """What lies in a folder; a file or a link, which a pattern may match too, is only itself."""
    if place.is_symlink() or not place.is_dir():
        return [place]
    try:
        return sorted(place.iterdir())
    except OSError as error:
        raise BadInput(f"{place}: cannot be read: {error.strerror}") from None


def _chosen(found: Sequence[Made], older_s: float | None, keep: int | None) -> list[Made]:
    before = time.time() - (older_s or 0.0)
    oldest = found[: max(0, len(found) - (keep or 0))]
    return [made for made in oldest if older_s is None or made.changed <= before]


def _show(chosen: Sequence[Made], kept: int, others: Sequence[Path]) -> None:
    from ortbench.report.chores import build_clean
    from ortbench.report.terminal.print import print_report

    rows = [(str(made.path), made.kind, time.time() - made.changed, made.size) for made in chosen]
    foreign = {str(made.path): [str(it.relative_to(made.path)) for it in made.foreign] for made in chosen}
    print_report(build_clean(rows, foreign, kept, [str(path) for path in others]))


# What is done about it


def _agreed(what: str) -> bool:
    print(f"Remove {what}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _remove(chosen: Sequence[Made]) -> int:
    """Remove folders, and say what came of it; the exit code."""
    removed, size, code = 0, 0, DONE
    for made in chosen:
        bytes_of_it = made.size
        with signals.held():  # a folder of which a half is gone would still be recognised, but is of no use
            try:
                _remove_one(made)
            except OSError as error:
                complain(f"{made.path} was not removed: {error.strerror}")
                code = BENCHMARK_FAILED
                continue
        removed, size = removed + 1, size + bytes_of_it
    if removed:
        print(visible(f"Removed {units.count(removed, 'folder')}, {units.size(size)}"))
    return code


def _remove_one(made: Made) -> None:
    """Remove what ortbench made of a folder, and those folders that are empty then; `OSError` where something cannot be
    removed."""
    for file in made.files:
        file.unlink(missing_ok=True)
    kept = {parent for path in made.foreign for parent in path.parents}
    for folder in made.folders:
        if folder not in kept:
            with suppress(FileNotFoundError):
                folder.rmdir()
