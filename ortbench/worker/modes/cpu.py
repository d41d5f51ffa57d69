"""Mode `cpu-tensors`: what a program does that knows nothing of devices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ortbench.model.modes import CPU, LATENCY
from ortbench.plan.plan import Loop
from ortbench.worker.modes.base import OneAtATime, SingleMode, Step, TimedCall
from ortbench.worker.proofs.fence import RUN, Fence
from ortbench.worker.session.first_run import Data, cpu_arrays, cpu_call
from ortbench.worker.session.memory import HostMemory
from ortbench.worker.session.places import Bound, Place
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Value, nbytes

if TYPE_CHECKING:
    from typing import Self


class CpuMode(OneAtATime, SingleMode):
    """CPU tensors: `run` with arrays; ORT copies them in and out inside every run."""

    name = CPU
    # Outputs are arrays in host memory when `run` returns: nothing is left that the host could wait for.
    fence = Fence(RUN, None, 0, "run returns the outputs in host memory")

    def __init__(self, model: Model, data: Data) -> None:
        self._model, self._data = model, data
        self._call = cpu_call(model, data.arrays)
        inputs = [data.arrays[spec.name] for spec in model.inputs]
        self.bytes_in = _crossing(inputs, model.places.inputs)
        self.bytes_out = _crossing(data.reference, model.places.outputs)

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = Loop.depth) -> Self:
        return cls(model, data)

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: self._call}  # ORT copies inside the run

    def steps(self) -> list[Step]:
        call, feeds, options = self._call
        return [("run", partial(call, feeds, options))]

    def bound(self) -> tuple[list[Bound], list[Bound]]:
        sides = (self._model.inputs, "an array that is given to run"), (self._model.outputs, "an array that run makes")
        ins, outs = ([Bound(spec.name, HostMemory.label, why, usual=True) for spec in specs] for specs, why in sides)
        return ins, outs

    def poison(self) -> None:
        """Nothing to do: every run makes new arrays."""

    def outputs(self) -> list[Value]:
        call, feeds, options = self._call
        return cpu_arrays(self._model, call(feeds, options))


def _crossing(values: list[Value], places: list[Place]) -> int | None:
    """Bytes that a run moves between host and device: all but what the session wants in host memory anyway; None where it
    wants something in memory that the host reaches too, since ORT may then hand an array on as it is."""
    if any(place.is_shared for place in places):
        return None
    return sum(nbytes(value) for value, place in zip(values, places, strict=True) if not place.on_host)
