"""The device's side of a pipeline: pairs of buffers that items go through in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ortbench.model.modes import PIPELINED
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import Slot
from ortbench.worker.proofs.fence import RUN, SYNCHRONIZE, Fence
from ortbench.worker.session import copy_streams
from ortbench.worker.session.tensors import Array


class Buffers(BoundMode):
    """A pair of device buffers, inputs and outputs, bound once.

    Attributes:
        copied_in, copied_out: the native values that are copied.
        left: the numbers of the outputs that the session leaves in host memory.
        loaded: the number of the item whose inputs it has, or which are on their way.
        holds: the number of the item whose outputs it has; None after they were poisoned.
        uploaded, downloaded: when the last of each has arrived.
        wait: ends its run; None where the run itself waits.
    """

    name = PIPELINED
    uploaded: copy_streams.Arrival
    downloaded: copy_streams.Arrival

    def _prepare(self) -> None:
        self.loaded = 0
        self.holds: int | None = 0
        self.wait: Callable[[], object] | None = None
        self.copied_in, self.copied_out = _natives(self._ins), _natives(self._outs)
        self.left = [number for number, slot in enumerate(self._outs) if slot.stays]
        self._upload()
        self._launch()
        self._download()

    def prove(self) -> Fence:
        """What ends a run on this EP."""
        return self._prove_run()

    def adopt(self, fence: Fence) -> None:
        """Use a fence that was proved with other buffers of the same session."""
        own = {RUN: None, SYNCHRONIZE: self._binding.synchronize_outputs}
        self.wait = own.get(fence.kind, fence.wait)

    def launch(self) -> None:
        """Start one inference; it may be done when this returns, or not."""
        self._launch()
        self.holds = self.loaded

    def run(self) -> None:
        """One inference, fenced."""
        self.launch()
        if self.wait is not None:
            self.wait()

    def poison(self) -> None:
        """Overwrite the outputs; what they held is not to be downloaded."""
        super().poison()
        self.holds = None

    @property
    def slots(self) -> tuple[list[Slot], list[Slot]]:
        """Its inputs and outputs."""
        return self._ins, self._outs

    def keep_left(self, arrays: Sequence[Array]) -> None:
        """Copy the outputs that the session left in host memory; the next run would overwrite them."""
        for number in self.left:
            np.copyto(arrays[number], self._outs[number].array)


def _natives(slots: Sequence[Slot]) -> list[Any]:
    """The values of what is copied, as CopyTensors takes them."""
    return [slot.value._get_c_value() for slot in slots if not slot.stays]
