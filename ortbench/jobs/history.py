"""What `ortbench history` does: results of many days, from folders or from commits, as a table, as JSON and as a page."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath

from ortbench.analysis.comparing.history import Run, groups, run_of
from ortbench.core.errors import BadInput, OrtbenchError
from ortbench.jobs.compare import results_at
from ortbench.jobs.publishing import check_place, json_text, publish
from ortbench.model.door import content_of
from ortbench.model.result_file import parse
from ortbench.plan.compare_options import Compared
from ortbench.plan.output_options import OutputOptions
from ortbench.report import history as shown

_SHORT = 7  # characters of a commit, as git shows them
_RESULT = "result.json"


def history(places: Sequence[str], only: Compared, force: bool, wanted: OutputOptions) -> None:
    """Show and write what became of every case over time, and where it changed.

    Places are files and folders; or revisions of git, with files and folders in their trees. What is found there and cannot be
    read, or is no result of cases, is left out and named. Results of other machines are in one series only by force.

    Raises:
        BadInput: nothing is there, or nothing of what was asked for; a place that cannot be written.
    """
    check_place(wanted.html, "--html")
    runs, left_out = _runs(places)
    told = shown.told(groups(runs, force), only)
    if not told:
        asked = ", ".join([*only.modes, *(it.text for it in only.metrics)])
        raise BadInput(f"none of {len(runs)} results has figures{f' of {asked}' if asked else ''}")
    report = shown.build(told, len(runs), only.same, left_out)

    def page() -> str:
        from ortbench.report.page.page import build_history

        return build_history(told, len(runs), only.same, left_out)

    publish(wanted, [report], lambda: json_text(shown.records(told)), page=page)


def _runs(places: Sequence[str]) -> tuple[list[Run], list[str]]:
    """All results, and why others are left out."""
    runs: list[Run] = []
    errors: list[OrtbenchError] = []
    for name, content in _contents(places):
        try:
            runs.append(run_of(parse(content, name), name))
        except OrtbenchError as error:
            errors.append(error)
    if not runs:
        raise errors[0]
    return runs, [str(error) for error in errors]


def _contents(places: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The result files at places, each once: what they are called, and what is in them."""
    revisions = [place for place in places if not Path(place).exists() and _is_revision(place)]
    if revisions:
        yield from _results_in(revisions, [place for place in places if place not in revisions])
        return
    for place in places:
        if not Path(place).exists():
            raise BadInput(f"{place}: there is no such file or folder, and no such commits here that git knows")
    for file in {path.resolve(): path for path in results_at([Path(place) for place in places])}.values():
        yield str(file), content_of(file)


# Results that are committed: read from the trees of commits, without a checkout, by git itself


def _is_revision(word: str) -> bool:
    """Whether git knows commits by a word here: a branch, a tag, a commit, or a range of them."""
    return "\0" not in word and _git("rev-list", "--max-count=1", "--end-of-options", word, "--") is not None


def _results_in(revisions: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The result files of commits, each content once: what it is called, as ``git show`` takes it, and its content.

    Of a branch, tag or commit its tree is read, of a range the trees of all its commits, oldest first; of those the files or
    folders at `paths`, as seen from the current folder, or all results.

    Raises:
        BadInput: there is none, or git cannot read one.
    """
    blobs: dict[str, str] = {}
    for revision in revisions:
        for commit in _commits(revision, paths):
            for blob, path in _files(commit, paths):
                blobs.setdefault(blob, f"{commit[:_SHORT]}:{path}")
    if not blobs:
        where = f" under {', '.join(paths)}" if paths else f" called {_RESULT}"
        raise BadInput(f"{', '.join(revisions)}: there is no result{where}")
    yield from _contents_of(blobs)


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
        is_result = PurePosixPath(path).name == _RESULT or any(f"/{path}".endswith(f"/{it}") for it in named)
        if kind == "blob" and is_result:
            yield blob, path


def _contents_of(blobs: dict[str, str]) -> Iterator[tuple[str, bytes]]:
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
