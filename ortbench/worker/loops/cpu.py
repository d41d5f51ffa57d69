"""Mode `cpu-tensors` of a loop: arrays, which are fed back as `run` gave them; everything crosses in every step."""

from __future__ import annotations

from functools import partial
from typing import Any

from ortbench.model.modes import CPU
from ortbench.worker.loops.base import LoopMode
from ortbench.worker.loops.data import LoopData
from ortbench.worker.modes.cpu import CpuMode
from ortbench.worker.proofs.fence import Fence
from ortbench.worker.session.first_run import cpu_arrays
from ortbench.worker.session.memory import HostMemory
from ortbench.worker.session.places import Bound
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, host_value


class CpuLoop(LoopMode):
    """CPU tensors in every step."""

    name = CPU
    fence: Fence = CpuMode.fence

    def __init__(self, model: Model, loop: LoopData) -> None:
        super().__init__(model, loop)
        self._native = all(spec.native for spec in (*model.inputs, *model.outputs))
        self._owners: list[Any] = []  # of what ONNX Runtime is given in another form than numpy's
        names = [model.inputs[pair.into].name for pair in loop.pairs]
        self._first = [self._given(pair.into, array) for pair, array in zip(loop.pairs, loop.first, strict=True)]
        self._state: list[Any] = self._first
        self._got: list[Any] = [None] * loop.count
        self._feeds: list[dict[str, Any]] = [
            {
                spec.name: self._given(place, step[spec.name])
                for place, spec in enumerate(model.inputs)
                if spec.name in step
            }
            for step in loop.feeds
        ]
        self._calls = [partial(self._step, number, feed, names) for number, feed in enumerate(self._feeds)]
        self._count()

    def _given(self, place: int, array: Array) -> Any:
        if self._native:
            return array
        value = host_value(self._model.inputs[place], array)
        self._owners.append((value, array))
        return value._get_c_value()

    def begin(self) -> None:
        self._state = list(self._first)
        self._got = [None] * self._loop.count  # what the last loop gave is freed before the first step

    def _step(self, number: int, feeds: dict[str, Any], names: list[str]) -> None:
        # Nothing but `_state` holds the state: all states of a long loop at once would not fit.
        given, model = {**feeds, **dict(zip(names, self._state, strict=True))}, self._model
        if self._native:
            found = model.native.run(model.output_names, given, model.plain_options)
        else:
            found = model.native.run_with_ort_values(given, model.output_names, model.plain_options)
        self._state = [found[pair.out] for pair in self._loop.pairs]
        self._got[number] = [None if place in self._held else array for place, array in enumerate(found)]

    def state(self, number: int) -> list[Array]:
        left: list[Any] = [None] * len(self._model.outputs)
        for pair, value in zip(self._loop.pairs, self._state, strict=True):
            left[pair.out] = value
        found = cpu_arrays(self._model, left)
        return [found[pair.out] for pair in self._loop.pairs]

    def left_by(self, number: int) -> list[Array | None]:
        found = cpu_arrays(self._model, self._got[number])
        return [found[place] for place in self._free]

    def poison(self) -> None:
        """Nothing to do: every run makes new arrays."""

    def bound(self) -> tuple[list[Bound], list[Bound]]:
        sides = (self._model.inputs, "an array that is given to run"), (self._model.outputs, "an array that run makes")
        ins, outs = ([Bound(spec.name, HostMemory.label, why, usual=True) for spec in specs] for specs, why in sides)
        return ins, outs

    def _count(self) -> None:
        model, loop = self._model, self._loop
        if any(place.is_shared for place in (*model.places.inputs, *model.places.outputs)):
            return  # ORT may hand an array on as it is
        crosses_in = [not place.on_host for place in model.places.inputs]
        crosses_out = [not place.on_host for place in model.places.outputs]
        state_in, state_out = [], []
        for before, after in zip(loop.shapes, loop.shapes[1:], strict=False):
            specs_in = [(model.inputs[pair.into], crosses_in[pair.into]) for pair in loop.pairs]
            specs_out = [(model.outputs[pair.out], crosses_out[pair.out]) for pair in loop.pairs]
            state_in.append(sum(spec.nbytes(shape) for (spec, yes), shape in zip(specs_in, before, strict=True) if yes))
            state_out.append(
                sum(spec.nbytes(shape) for (spec, yes), shape in zip(specs_out, after, strict=True) if yes)
            )
        order = {spec.name: crosses_in[place] for place, spec in enumerate(model.inputs)}
        others_in = [sum(array.nbytes for name, array in step.items() if order[name]) for step in loop.feeds]
        others_out = [
            sum(array.nbytes for place, array in zip(self._free, step, strict=True) if crosses_out[place])
            for step in loop.outputs
        ]
        self._count_bytes((state_in, state_out), (others_in, others_out))
