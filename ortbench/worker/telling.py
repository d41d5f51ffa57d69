"""What the worker is doing, told to the process that waits for its answer: if the worker crashes or hangs, that one can say in
what. A line that says it goes out before the answer's line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_channel: IO[str] | None = None


def by(channel: IO[str]) -> None:
    """Tell it in lines on the channel of the answers. Before that, and where there is no such process, nothing is told."""
    global _channel
    _channel = channel


@contextmanager
def about(doing: str, limit_s: float | None = None, trial: str | None = None) -> Iterator[None]:
    """Tell what the code inside does.

    Args:
        doing: in words, such as "registering libmy_ep.so".
        limit_s: the longest that it may take.
        trial: the key of what it tries, which a crash of the worker answers too.
    """
    _tell({"doing": doing, "limit_s": limit_s, "trial": trial})
    try:
        yield
    finally:
        _tell(None)


def _tell(about: dict[str, str | float | None] | None) -> None:
    if _channel is not None:
        _channel.write(json.dumps({"about": about}) + "\n")
        _channel.flush()
