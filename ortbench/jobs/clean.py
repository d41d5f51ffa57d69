"""What `ortbench clean` does: list what ortbench made, ask, and remove that and nothing else."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ortbench.core import signals, units
from ortbench.core.errors import BAD_INPUT, BENCHMARK_FAILED, DONE, BadInput
from ortbench.core.files import IGNORE_FILE
from ortbench.core.safe_text import complain, visible
from ortbench.jobs.made import Made, look
from ortbench.plan.output_options import REPORTS


def clean(names: Sequence[str], older_s: float | None, keep: int | None, yes: bool) -> int:
    """List what ortbench made in folders, and remove it where that is wanted; the exit code.

    Args:
        names: of folders that hold what ortbench made, or that it made; none for ``reports``.
        older_s: only what is older, seconds; None for any age.
        keep: so many of the newest are kept; None for none.
        yes: remove without asking.

    Raises:
        BadInput: a folder that is not there, is a link, or cannot be read.
    """
    if not names and not REPORTS.exists():
        print(f"Nothing to remove: there is no folder {REPORTS}")
        return DONE
    found, others = _found(_places(names or [str(REPORTS)]))
    chosen = _chosen(found, older_s, keep)
    _show(chosen, len(found) - len(chosen), others)
    if not chosen:
        return DONE
    what = f"{_counted(len(chosen))}, {units.size(sum(made.size for made in chosen))}"
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
    if len(places) == 1:
        _check(places[0])
    return list({place.absolute(): place for place in places}.values())


def _check(place: Path) -> None:
    """Refuse what is named alone and is no folder.

    Raises:
        BadInput: a file or a link.
    """
    if place.is_symlink():
        raise BadInput(f"{place} is a link, which is not followed: name the folder itself, {place.resolve()}")
    if not place.is_dir():
        raise BadInput(f"{place} is not a folder")


def _found(places: Sequence[Path]) -> tuple[list[Made], list[Path]]:
    """What ortbench made, the oldest first, and what else there is.

    Raises:
        BadInput: a folder that cannot be read.
    """
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
    """What is to be removed, the oldest first."""
    chosen = list(found[: len(found) - keep]) if keep is not None and keep < len(found) else []
    if keep is None:
        chosen = list(found)
    before = time.time() - (older_s or 0.0)
    return [made for made in chosen if older_s is None or made.changed <= before]


def _show(chosen: Sequence[Made], kept: int, others: Sequence[Path]) -> None:
    from ortbench.report.clean import build
    from ortbench.report.terminal.print import print_report

    rows = [(str(made.path), made.kind, time.time() - made.changed, made.size) for made in chosen]
    foreign = {str(made.path): [str(it.relative_to(made.path)) for it in made.foreign] for made in chosen}
    print_report(build(rows, foreign, kept, [str(path) for path in others]))


def _counted(count: int) -> str:
    return f"{count} folder{'' if count == 1 else 's'}"


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
        print(visible(f"Removed {_counted(removed)}, {units.size(size)}"))
    return code


def _remove_one(made: Made) -> None:
    """Remove what ortbench made of a folder, and those folders that are empty then.

    Raises:
        OSError: something cannot be removed.
    """
    for file in made.files:
        file.unlink(missing_ok=True)
    kept = {parent for path in made.foreign for parent in path.parents}
    for folder in made.folders:
        if folder not in kept:
            with suppress(FileNotFoundError):
                folder.rmdir()
