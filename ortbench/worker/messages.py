"""What the worker is doing, told to the process that waits for its answer: if the worker crashes or hangs, that one can say in
what. A line that says it goes out before the answer's line. Commands of pip in what it says are for the environment that it
runs in, which may not be ortbench's own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from ortbench.core.errors import CANNOT_ANSWER, one_line
from ortbench.core.processes import with_pip_of

_channel: IO[str] | None = None


def send_on(channel: IO[str]) -> None:
    """Tell it in lines on the channel of the answers. Before that, and where there is no such process, nothing is told."""
    global _channel
    _channel = channel


@contextmanager
def announce(doing: str, limit_s: float | None = None, trial: str | None = None) -> Iterator[None]:
    _send({"doing": doing, "limit_s": limit_s, "trial": trial})
    try:
        yield
    finally:
        _send(None)


def _send(about: dict[str, str | float | None] | None) -> None:
    if _channel is not None:
        send_line(_channel, {"about": about})


def send_line(channel: IO[str], message: dict[str, Any]) -> None:
    """Send a message. A worker that cannot has nobody to work for, and ends: what it was doing must not take the error for its own."""
    line = json.dumps(message) + "\n"
    try:
        channel.write(line)
        channel.flush()
    except OSError as error:
        print(f"the worker cannot answer: {one_line(error)}", file=sys.stderr, flush=True)
        os._exit(CANNOT_ANSWER)


_python: str | None = None


def set_interpreter(python: str | None = None) -> None:
    global _python
    _python = python


def with_its_pip(text: str) -> str:
    return text if _python is None else with_pip_of(text, _python)
