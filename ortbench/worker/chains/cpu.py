"""A stage of a chain in mode `cpu-tensors`: arrays, which are handed on as `run` gave them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort

from ortbench.worker.loops.cpu import CpuLoop
from ortbench.worker.loops.data import LoopData
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import TensorSpec, host_array, host_value


class Taken(NamedTuple):
    """What a stage takes of another one: its own input, that stage, and the output, by their places in the models."""

    into: int
    source: CpuStage
    out: int


class CpuStage(CpuLoop):
    """CPU tensors in every step; what links give is what stages before it gave last.

    Args:
        model, loop: what runs, and with what.
        taken: what links give.
    """

    def __init__(self, model: Model, loop: LoopData, taken: Sequence[Taken]) -> None:
        super().__init__(model, loop)
        self._taken = taken
        self._holds: list[Any] = []  # what ONNX Runtime reads in another form than it was given in
        names = [model.inputs[it.into].name for it in taken]
        for feed in self._feeds:  # a link that gives nothing must fail, not find what the plain run had
            for name in names:
                feed.pop(name, None)

    def begin(self) -> None:
        super().begin()
        self._holds.clear()
        for it in self._taken:
            value = self._as_own(it)
            number = self._loop.state_in(it.into)
            if number is not None:
                self._state[number] = value
            else:
                for feed in self._feeds:
                    feed[self._model.inputs[it.into].name] = value

    def given(self, out: int) -> Any:
        """What the last step gave for an output, as ONNX Runtime gave it."""
        number = self._loop.state_of(out)
        return self._got[-1][out] if number is None else self._state[number]

    @property
    def spec_of_outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of its model."""
        return self._model.outputs

    def _as_own(self, taken: Taken) -> Any:
        """What another stage gave, as this one's runs take it: numpy's arrays, or where it has other types OrtValues."""
        value = taken.source.given(taken.out)
        is_array = isinstance(value, (np.ndarray, np.generic))
        if self._native:
            return value if is_array else host_array(taken.source.spec_of_outputs[taken.out], ort.OrtValue(value))
        if not is_array:
            return value
        array = np.ascontiguousarray(value)
        held = host_value(self._model.inputs[taken.into], array)
        self._holds.append((held, array))
        return held._get_c_value()
