"""What a worker keeps from one request to the next."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ortbench.plan.target import Inputs, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortbench.plan.loop_plan import Steps
    from ortbench.worker.bandwidth import Copies
    from ortbench.worker.load.callers import Callers
    from ortbench.worker.loops.chain_data import ChainData
    from ortbench.worker.loops.data import LoopData
    from ortbench.worker.modes.base import Mode
    from ortbench.worker.opening import Shared
    from ortbench.worker.session.first_run import Data
    from ortbench.worker.session.session import Model
    from ortbench.worker.session.tensors import TensorSpec, Value
    from ortbench.worker.timing import Capture, Ranges

Answer = dict[str, Any]


@dataclass
class Opened:
    """A model on an EP."""

    path: str
    target: Target
    request: Inputs
    model: Model
    # inputs and reference outputs; empty before the first run, and where the model takes or gives what cannot be held
    data: Data

    def run_first(self) -> None:
        """Make inputs and reference outputs."""
        from ortbench.worker.session import first_run

        self.data = first_run.make_data(self.path, self.model, self.request)

    def make(self, mode: str, depth: int) -> Mode:
        """Set a mode up."""
        from ortbench.worker.modes.make import make_mode

        return make_mode(mode, self.model, self.data, depth)

    @property
    def loops(self) -> list[LoopData]:
        """The arrays of each loop in it."""
        return []

    def references(self) -> tuple[Sequence[TensorSpec], Sequence[Value]]:
        """The outputs and what a plain run gave for them, of a chain those of all stages; no values where it did not run."""
        return self.model.outputs, self.data.reference

    def session(self, stage: int | None) -> tuple[str, Target, Model, dict[str, Value]]:
        """Model, settings, session and inputs of a stage; those of the whole where there are none."""
        return self.path, self.target, self.model, self.data.arrays

    @cached_property
    def host_reasons(self) -> dict[str, str]:
        """Why inputs and outputs are wanted in ordinary host memory, by name; see `ortbench.worker.looks.graph`."""
        from ortbench.worker.looks import graph  # most models have none
        from ortbench.worker.session import placement

        model = self.model
        sides = (model.inputs, model.places.inputs), (model.outputs, model.places.outputs)
        inputs, outputs = (
            [spec.name for spec, place in zip(specs, places, strict=True) if place.stays] for specs, places in sides
        )
        return graph.reasons(self.path, placement.placed(model), inputs, outputs)


@dataclass(kw_only=True)
class OpenedLoop(Opened):
    """A model in a loop; its arrays are there after `run_first`."""

    steps: Steps
    loop: LoopData = field(init=False)

    def run_first(self) -> None:
        from ortbench.worker.loops import data  # most runs have none, and would wait for it

        self.loop = data.make(self.path, self.model, self.request, self.steps)
        self.data = self.loop.single

    def make(self, mode: str, depth: int) -> Mode:
        from ortbench.worker.loops.modes import make_loop

        return make_loop(mode, self.model, self.loop, self.steps, self.request)

    @property
    def loops(self) -> list[LoopData]:
        return [self.loop]


@dataclass(kw_only=True)
class OpenedChain(Opened):
    """A chain, of whose stages the rest is the main one's."""

    chain: ChainData

    def make(self, mode: str, depth: int) -> Mode:
        from ortbench.worker.loops.chain import make_chain

        return make_chain(mode, self.chain)

    @property
    def loops(self) -> list[LoopData]:
        return [stage.loop for stage in self.chain.stages]

    def references(self) -> tuple[Sequence[TensorSpec], Sequence[Value]]:
        if not self.data.reference:
            return super().references()
        specs, arrays = zip(*self.chain.outputs(), strict=True)
        return specs, arrays

    def session(self, stage: int | None) -> tuple[str, Target, Model, dict[str, Value]]:
        if stage is None:
            return super().session(stage)
        it = self.chain.stages[stage]
        return it.asked.model, it.model.target, it.model, it.loop.single.arrays


def opened_of(path: str, target: Target, request: Inputs, model: Model, steps: Steps | None) -> Opened:
    """A model that has not run yet; with steps in a loop."""
    from ortbench.worker.session.first_run import no_data

    if steps is None:
        return Opened(path, target, request, model, no_data())
    return OpenedLoop(path, target, request, model, no_data(), steps=steps)


@dataclass
class State:
    """What a worker keeps."""

    opened: Opened = field(init=False)  # the model; there once it is open
    modes: dict[str, Mode] = field(default_factory=dict)  # those that are set up
    ranges: dict[str, Ranges] = field(default_factory=dict)  # their NVTX ranges
    capture: Capture | None = None  # the range that tells a profiler what to record; None until it is asked for
    copies: Copies = field(init=False)  # of a bandwidth sweep; there once it is open
    callers: Callers | None = None  # of a load; None until they are asked for
    shared: Shared = field(init=False)  # of a sweep of shapes, what all of them have in common; there once it is open
    # of such a sweep, the states of its shapes, by their numbers; each has a model, modes and ranges of its own
    points: dict[int, State] = field(default_factory=dict)

    def release(self) -> None:
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
