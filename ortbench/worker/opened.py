"""What is open in a worker: a model; and what all shapes of a sweep have in common."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ortbench.plan.target import Inputs, Target
from ortbench.worker.session import first_run
from ortbench.worker.session.first_run import Data
from ortbench.worker.session.session import node_placements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortbench.model import protocol, schema
    from ortbench.worker.modes.base import Mode
    from ortbench.worker.session.session import EngineWatch, Model
    from ortbench.worker.session.tensors import TensorSpec, Value


@dataclass
class Opened:
    path: str
    target: Target
    request: Inputs
    model: Model
    # inputs and reference outputs; empty before the first run, and where the model takes or gives what cannot be held
    data: Data = field(default_factory=Data)

    def run_first(self) -> None:
        self.data = first_run.make_data(self.path, self.model, self.request)

    def make(self, mode: str, depth: int) -> Mode:
        from ortbench.worker.modes.make import make_mode

        return make_mode(mode, self.model, self.data, depth)

    def reopen(self, model: Model, request: Inputs) -> Opened:
        """The same in a session with other inputs, which has run; nothing is expected of its outputs."""
        other = replace(self, model=model, request=replace(request, expect=None))
        other.run_first()
        return other

    @property
    def loops(self) -> list[Any]:
        return []

    def references(self) -> tuple[Sequence[TensorSpec], Sequence[Value]]:
        """The outputs and what a plain run gave for them, of stages those of all; no values where it did not run."""
        return self.model.outputs, self.data.reference

    def session(self, stage: int | None) -> tuple[str, Target, Model, dict[str, Value]]:
        """Model, settings, session and inputs of a stage; those of the whole where there are none."""
        return self.path, self.target, self.model, self.data.arrays

    @cached_property
    def host_reasons(self) -> dict[str, str]:
        """Why inputs and outputs are wanted in ordinary host memory, by name; see `ortbench.worker.inspection.graph`."""
        from ortbench.worker.inspection import graph  # most models have none

        model = self.model
        sides = (model.inputs, model.places.inputs), (model.outputs, model.places.outputs)
        inputs, outputs = (
            [spec.name for spec, place in zip(specs, places, strict=True) if place.is_host_only]
            for specs, places in sides
        )
        return graph.host_reasons(self.path, node_placements(model), inputs, outputs)


@dataclass
class Shared:
    path: str
    target: Target
    model: Model
    described: protocol.LoadedEp  # its EP
    cache: EngineWatch  # watches where the EP keeps engines
    where: schema.Placement  # its nodes
    counted: bool = False  # whether `where` has all that can be known
