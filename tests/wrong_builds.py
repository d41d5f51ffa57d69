"""A build of ortbench that is wrong on purpose: what a worker calls before it begins (`tests.forks.WORKER`)."""

from __future__ import annotations

from ortbench.worker.sync import Trial
from tests.forks import WORKER


def build(name: str) -> dict[str, str]:
    """The environment of a command whose workers are of this build."""
    return {WORKER: f"{__name__}:{name}"}


def finds_nothing_left() -> None:
    """No trial of a sync finds work left behind it: what a busy host can find of work of a few µs."""
    Trial.most_remaining = lambda *_: 0  # type: ignore[method-assign]
