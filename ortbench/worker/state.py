"""What a worker keeps from one request to the next."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortbench.worker.modes.base import Mode
    from ortbench.worker.opened import Opened, Shared
    from ortbench.worker.timing import Capture, Ranges

Answer = dict[str, Any]


@dataclass
class State:
    opened: Opened = field(init=False)  # the model; there once it is open
    modes: dict[str, Mode] = field(default_factory=dict)  # those that are set up
    ranges: dict[str, Ranges] = field(default_factory=dict)  # their NVTX ranges
    capture: Capture | None = None  # the range that tells a profiler what to record; None until it is asked for
    shared: Shared = field(init=False)  # of a sweep of shapes, what all of them have in common; there once it is open
    others: dict[type, Any] = field(default_factory=dict)  # what requests of one module alone keep, by its class
    # of such a sweep, the states of its shapes, by their numbers; each has a model, modes and ranges of its own
    points: dict[int, State] = field(default_factory=dict)

    def release(self) -> None:
        self.others.clear()
        self.modes.clear()
        self.ranges.clear()
        if self.points:
            self.points.clear()
            del self.shared
        else:
            del self.opened


class Stages:
    """The parts of a request, one after the other: names, starts and durations, in ns of `time.perf_counter_ns`."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, int]] = []
        self._begun = time.perf_counter_ns()

    def end(self, name: str) -> None:
        now = time.perf_counter_ns()
        self.spans.append((name, self._begun, now - self._begun))
        self._begun = now
