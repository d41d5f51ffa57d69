"""What a worker keeps from one request to the next."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ortbench.plan.target import Inputs, Target

if TYPE_CHECKING:
    from ortbench.plan.loop_plan import Steps
    from ortbench.worker.chains.data import ChainData
    from ortbench.worker.copies import Copies
    from ortbench.worker.load.callers import Callers
    from ortbench.worker.loops.data import LoopData
    from ortbench.worker.modes.base import Mode
    from ortbench.worker.session.first_run import Data
    from ortbench.worker.session.session import Model
    from ortbench.worker.sweeping import Shared
    from ortbench.worker.timing import Capture, Ranges

Answer = dict[str, Any]


@dataclass
class Opened:
    """A model on an EP.

    Attributes:
        path, target, request: what was asked for.
        model: the session.
        data: inputs and reference outputs; empty before the first run, and where the model takes or gives what cannot be held.
        steps, loop: of a loop, and the arrays of one.
        chain: of a chain, of whose stages the rest is the main one's.
    """

    path: str
    target: Target
    request: Inputs
    model: Model
    data: Data
    steps: Steps | None = None
    loop: LoopData | None = None
    chain: ChainData | None = None

    @cached_property
    def host_reasons(self) -> dict[str, str]:
        """Why inputs and outputs are wanted in ordinary host memory, by name; see `ortbench.worker.looks.host_tensors`."""
        from ortbench.worker.looks import host_tensors  # most models have none
        from ortbench.worker.session import placement

        model = self.model
        sides = (model.inputs, model.places.inputs), (model.outputs, model.places.outputs)
        inputs, outputs = (
            [spec.name for spec, place in zip(specs, places, strict=True) if place.stays] for specs, places in sides
        )
        return host_tensors.reasons(self.path, placement.placed(model), inputs, outputs)


@dataclass
class State:
    """What a worker keeps.

    Attributes:
        opened: the model; there once it is open.
        modes: those that are set up.
        ranges: their NVTX ranges.
        capture: the range that tells a profiler what to record; None until it is asked for.
        copies: of a bandwidth sweep; there once it is open.
        callers: of a load; None until they are asked for.
        shared: of a sweep of shapes, what all of them have in common; there once it is open.
        points: of such a sweep, the states of its shapes, by their numbers; each has a model, modes and ranges of its own.
    """

    opened: Opened = field(init=False)
    modes: dict[str, Mode] = field(default_factory=dict)
    ranges: dict[str, Ranges] = field(default_factory=dict)
    capture: Capture | None = None
    copies: Copies = field(init=False)
    callers: Callers | None = None
    shared: Shared = field(init=False)
    points: dict[int, State] = field(default_factory=dict)

    def release(self) -> None:
        """Let the model and its modes go."""
        self.callers = None
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

    def done(self, name: str) -> None:
        """A part has ended, and the next begins."""
        now = time.perf_counter_ns()
        self.spans.append((name, self._begun, now - self._begun))
        self._begun = now
