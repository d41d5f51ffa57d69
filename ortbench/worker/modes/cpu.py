"""Modes `cpu-tensors`, what a program does that knows nothing of devices, and `cpu-tensors-pinned`, with inputs in pinned memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ortbench.model.modes import CPU, CPU_PINNED, LATENCY
from ortbench.worker.modes.base import OneAtATime, SingleMode, Step
from ortbench.worker.modes.slots import refuse_strings
from ortbench.worker.proofs.fence import RUN, Fence
from ortbench.worker.session.first_run import Data, cpu_arrays, cpu_call
from ortbench.worker.session.memory import HostMemory, host_accessible_memory, lacks_pinned_memory
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensor_memory import Bound, Place
from ortbench.worker.session.tensors import Value, host_view, nbytes
from ortbench.worker.timing import TimedCall


class CpuMode(OneAtATime, SingleMode):
    """CPU tensors: `run` with arrays; ORT copies them in and out inside every run."""

    name = CPU
    binds = False
    # Outputs are arrays in host memory when `run` returns: nothing is left that the host could wait for.
    fence = Fence(RUN, None, 0, "run returns the outputs in host memory")

    def __init__(self, model: Model, data: Data) -> None:
        super().__init__(model, data)
        self._call = cpu_call(model, data.arrays)
        inputs = [data.arrays[spec.name] for spec in model.inputs]
        self.bytes_in = _crossing(inputs, model.places.inputs)
        self.bytes_out = _crossing(data.reference, model.places.outputs)

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: self._call}  # ORT copies inside the run

    def steps(self) -> list[Step]:
        call, feeds, options = self._call
        return [("run", partial(call, feeds, options))]

    def bound(self) -> tuple[list[Bound], list[Bound]]:
        return arrays_of(self._model)

    def poison(self) -> None:
        """Nothing to do: every run makes new arrays."""

    def outputs(self) -> list[Value]:
        call, feeds, options = self._call
        return cpu_arrays(self._model, call(feeds, options))


def arrays_of(model: Model) -> tuple[list[Bound], list[Bound]]:
    """Where inputs and outputs of plain runs are."""
    sides = (model.inputs, "an array that is given to run"), (model.outputs, "an array that run makes")
    ins, outs = ([Bound(spec.name, HostMemory.label, why, usual=True) for spec in specs] for specs, why in sides)
    return ins, outs


def _crossing(values: list[Value], places: list[Place]) -> int | None:
    """Bytes that a run moves between host and device: all but what the session wants in host memory anyway; None where it
    wants something in memory that the host reaches too, since ORT may then hand an array on as it is."""
    if any(place.is_shared for place in places):
        return None
    return sum(nbytes(value) for value, place in zip(values, places, strict=True) if not place.on_host)


class CpuPinnedMode(CpuMode):
    """As `CpuMode`, with the inputs in the EP's pinned memory; outputs are arrays that ORT makes in ordinary memory."""

    name = CPU_PINNED
    binds = True

    def __init__(self, model: Model, data: Data) -> None:
        refuse_strings(model.inputs)
        own = host_accessible_memory(model.provider)
        assert own is not None
        self._where = [place.shared or own for place in model.places.inputs]
        self._values, arrays = [], {}
        for spec, memory in zip(model.inputs, self._where, strict=True):
            value = memory.allocate(spec, data.arrays[spec.name].shape)
            self._values.append(value)  # which the view may not keep alive
            arrays[spec.name] = host_view(spec, value)
            np.copyto(arrays[spec.name], data.arrays[spec.name])
        super().__init__(model, replace(data, arrays=arrays))

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return lacks_pinned_memory(provider)

    def bound(self) -> tuple[list[Bound], list[Bound]]:
        ins, outs = super().bound()
        pairs = zip(ins, self._where, strict=True)
        return [replace(it, memory=memory.label, why="the mode's own memory") for it, memory in pairs], outs
