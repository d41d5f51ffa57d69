"""Modes `cpu-tensors-pinned` and `device-tensors-pinned`: as `cpu-tensors` and `device-tensors`, the host's side in memory that the device reaches itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ortbench.model.modes import CPU_PINNED, DEVICE_PINNED
from ortbench.plan.plan import Loop
from ortbench.worker.modes.base import then
from ortbench.worker.modes.cpu import CpuMode
from ortbench.worker.modes.device import DeviceMode
from ortbench.worker.modes.slots import download, refuse_strings, shared_memory
from ortbench.worker.proofs.fence import RUN, SYNCHRONIZE
from ortbench.worker.session.first_run import Data
from ortbench.worker.session.memory import Copy, EpDeviceMemory, host_accessible_memory, lacks_shared_memory
from ortbench.worker.session.places import Bound, Place
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import TensorSpec, host_view

if TYPE_CHECKING:
    from typing import Self


def _no_pinned_memory(provider: Provider) -> str | None:
    called = "HOST_ACCESSIBLE (pinned) memory"
    return f"no {called}" if provider.computes_on_host else lacks_shared_memory(provider, called)


class CpuPinnedMode(CpuMode):
    """As `CpuMode`, with the inputs in the EP's pinned memory; outputs are arrays that ORT makes in ordinary memory."""

    name = CPU_PINNED

    def __init__(self, model: Model, data: Data) -> None:
        refuse_strings(model.inputs)
        own = host_accessible_memory(model.provider)
        assert own is not None
        self._where = [place.shared or own for place in model.places.inputs]
        self._values = [
            memory.allocate(spec, data.arrays[spec.name].shape)
            for spec, memory in zip(model.inputs, self._where, strict=True)
        ]
        arrays = {}
        for spec, value in zip(model.inputs, self._values, strict=True):
            arrays[spec.name] = host_view(spec, value)
            np.copyto(arrays[spec.name], data.arrays[spec.name])
        super().__init__(model, replace(data, arrays=arrays))

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return _no_pinned_memory(provider)

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = Loop.depth) -> Self:
        return cls(model, data)

    def bound(self) -> tuple[list[Bound], list[Bound]]:
        ins, outs = super().bound()
        pairs = zip(ins, self._where, strict=True)
        return [replace(it, memory=memory.label, why="the mode's own memory") for it, memory in pairs], outs


class DevicePinnedMode(DeviceMode):
    """As `DeviceMode`, with the host's side of both copies in the EP's pinned memory."""

    name = DEVICE_PINNED

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return _no_pinned_memory(provider) or super().lacks(provider)

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = Loop.depth) -> Self:
        return cls(model, data)

    def _pinned_for(self, spec: TensorSpec, place: Place) -> EpDeviceMemory | None:
        return shared_memory(spec, place)

    def _prepare(self) -> None:
        super()._prepare()
        if not self.bytes_out:
            return
        # To ordinary memory a copy is done when it returns; to pinned memory a device may copy on its own time.
        assert self._token is not None
        candidates = [(RUN, None), (SYNCHRONIZE, self._binding.synchronize_outputs)]
        fences = self._model.fences
        self.download_fence = fences.prove("d2h", self._download, candidates, self._read_back(), self._token)
        self._download = then(self._download, self.download_fence.wait)

    def _read_back(self) -> Copy:
        """A download to ordinary memory."""
        if self._dynamic is not None:
            return self._token or self._download
        return download(self._apart(self._outs))
