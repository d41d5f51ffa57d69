"""JUnit XML of a command: what it came to, or why it came to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core import files
from ortbench.core.safe_text import complain
from ortbench.jobs.writing import write

if TYPE_CHECKING:
    from ortbench.report.exports.junit import Outcome

_awaited: list[str] = []  # where a file is to be, as long as it has not been written


def await_junit(path: str | None) -> None:
    """A command begins that is to write JUnit XML there; None: to nowhere."""
    _awaited[:] = [] if path is None else [path]


def write_junit(path: str, name: str, outcomes: Sequence[Outcome]) -> None:
    """Write what a command came to, as `ortbench.jobs.writing.write` does."""
    from ortbench.report.exports.junit import junit

    await_junit(None)
    write(path, junit(name, outcomes), "--junit")


def write_error(command: str, message: str) -> None:
    """Write that a command ended with an error before it came to anything, if its file is still awaited.

    Args:
        command: its name.
        message: the line that says what was wrong.
    """
    if not _awaited:
        return
    from ortbench.report.exports.junit import ERROR, Outcome

    write_junit(_awaited[0], f"ortbench {command}", [Outcome("before measuring", command, ERROR, message, 0.0)])
    for line in files.not_written():  # the error itself decides how the command ends
        complain(line)
