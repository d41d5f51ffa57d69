"""Builds of ortbench that are wrong on purpose: what a worker calls before it begins (`tests.forks.WORKER`)."""

from __future__ import annotations

import time
from typing import Any

from ortbench.worker import measuring
from ortbench.worker.bound import BoundMode
from ortbench.worker.sync import Trial
from ortbench.worker.timing import TimedCall
from tests.forks import WORKER


def build(name: str) -> dict[str, str]:
    """The environment of a command whose workers are of this build."""
    return {WORKER: f"{__name__}:{name}"}


def forgets_syncs() -> None:
    """Runs are taken for done when they return."""

    def unsynced(mode: Any) -> TimedCall:
        return mode._run, mode._binding, mode._options

    BoundMode._synced_run = unsynced  # type: ignore[assignment, method-assign]
    BoundMode.enqueues = lambda _: {}  # type: ignore[assignment, method-assign]


def copies_twice() -> None:
    """A sample of the upload holds two of them."""
    once = BoundMode._synced_upload

    def twice(mode: Any) -> Any:
        copy = once(mode)
        return lambda: (copy(), copy())

    BoundMode._synced_upload = twice  # type: ignore[assignment, method-assign]


def counts_twice() -> None:
    """Whole inferences of `device-tensors` have the time of an upload added, which they hold already."""
    right = measuring.block

    def block(state: Any, mode: str, phase: str, *given: Any, **named: Any) -> Any:
        answer = right(state, mode, phase, *given, **named)
        if (mode, phase) == ("device-tensors", "latency"):
            upload, a, b = state.modes[mode].phases()["h2d"]
            start = time.perf_counter_ns()
            upload(a, b)
            took = time.perf_counter_ns() - start
            answer["samples"] = [ns + took for ns in answer["samples"]]
        return answer

    measuring.block = block


def adds_a_microsecond() -> None:
    """Every sample is a microsecond too long."""
    right = measuring.block

    def block(*given: Any, **named: Any) -> Any:
        answer = right(*given, **named)
        answer["samples"] = [ns + 1000 for ns in answer["samples"]]
        return answer

    measuring.block = block


def finds_nothing_left() -> None:
    """No trial of a sync finds work left behind it: what a busy host can find of work of a few µs."""
    Trial.most_remaining = lambda *_: 0  # type: ignore[method-assign]
