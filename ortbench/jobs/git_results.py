"""Results that are committed: read from the trees of commits, without a checkout, by git itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import PurePath, PurePosixPath

from ortbench.core.errors import BadInput

_SHORT = 7  # characters of a commit, as git shows them
RESULT = "result.json"


def is_revision(word: str) -> bool:
    """Whether git knows commits by a word here: a branch, a tag, a commit, or a range of them."""
    return "\0" not in word and _git("rev-list", "--max-count=1", "--end-of-options", word, "--") is not None


def results_in(revisions: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The result files of commits, each content once: what it is called, as ``git show`` takes it, and its content.

    Args:
        revisions: of each branch, tag or commit its tree is read; of a range the trees of all its commits, oldest first.
        paths: files or folders in those trees, as seen from the current folder; none for all results.

    Raises:
        BadInput: there is none, or git cannot read one.
    """
    blobs: dict[str, str] = {}
    for revision in revisions:
        for commit in _commits(revision, paths):
            for blob, path in _files(commit, paths):
                blobs.setdefault(blob, f"{commit[:_SHORT]}:{path}")
    if not blobs:
        where = f" under {', '.join(paths)}" if paths else f" called {RESULT}"
        raise BadInput(f"{', '.join(revisions)}: there is no result{where}")
    yield from _contents(blobs)


def _commits(revision: str, paths: Sequence[str]) -> list[str]:
    one = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if one is not None:
        return one.split()
    every = _git("rev-list", "--reverse", "--full-history", "--end-of-options", revision, "--", *paths)
    return (every or "").split()


def _files(commit: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The blobs and paths of a commit's results."""
    listed = _git("ls-tree", "-r", "-z", "--full-name", commit, "--", *paths) or ""
    named = [PurePath(path).as_posix() for path in paths]
    for line in filter(None, listed.split("\0")):
        about, _, path = line.partition("\t")
        _, kind, blob = about.split()
        is_result = PurePosixPath(path).name == RESULT or any(f"/{path}".endswith(f"/{it}") for it in named)
        if kind == "blob" and is_result:
            yield blob, path


def _contents(blobs: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    with subprocess.Popen(["git", "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        for blob, name in blobs.items():
            git.stdin.write(f"{blob}\n".encode())
            git.stdin.flush()
            size = (git.stdout.readline().split() or [b""])[-1]
            if not size.isdigit():
                raise BadInput(f"git cannot read {name}: {size.decode(errors='replace') or 'it ended'}")
            content = git.stdout.read(int(size))
            git.stdout.read(1)  # the end of the line
            yield name, content


def _git(*arguments: str) -> str | None:
    """What git prints; None where it knows no such thing, or there is no git and so no commit."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode(errors="surrogateescape")
