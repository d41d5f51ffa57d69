"""Commands of pip in what a worker says: they are for the environment that it runs in, which may not be ortbench's own."""

from __future__ import annotations

from ortbench.core.interpreters import with_pip_of

_python: str | None = None


def is_of(python: str | None = None) -> None:
    """This worker runs in an environment that was named by its interpreter; None where it is ortbench's own."""
    global _python
    _python = python


def in_its_words(text: str) -> str:
    """A text with its commands of pip as they are to be typed."""
    return text if _python is None else with_pip_of(text, _python)
