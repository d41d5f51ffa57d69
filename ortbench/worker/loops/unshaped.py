"""Outputs of a loop's steps that are no state and are bound without a shape: ONNX Runtime allocates them in each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import Slot, device_of
from ortbench.worker.session.memory import Copy
from ortbench.worker.session.tensors import host_view


class UnshapedOutputs:
    """Those of a loop whose memory is that of a mode of single inferences; `down` copies slots to their arrays."""

    def __init__(self, single: BoundMode, outputs: Sequence[str], down: Callable[[Sequence[Slot]], Copy]) -> None:
        self._single, self._outputs, self._down = single, outputs, down
        self.binding: Any = None  # of the step that was made last

    @property
    def names(self) -> set[str]:
        return self._single.unshaped

    def slot(self, slot: Slot, is_linked: bool) -> Slot:
        """The slot of an output, without a value where it is one of them. Raises `Unsupported`: a link hands it on."""
        if slot.spec.name not in self._single.unshaped:
            return slot
        if is_linked:
            raise Unsupported(f"{self._single.why_unshaped()}, and a link hands on outputs of a known size")
        return slot._replace(value=None)

    def bind(self, binding: Any, slots: Sequence[Slot]) -> list[Copy]:
        """What binds those of a step; what a run leaves in a binding is taken for preallocated by the next one."""
        return [partial(self._bind, binding, slot.spec.name, device_of(slot)) for slot in slots if slot.value is None]

    def _bind(self, binding: Any, name: str, device: Any) -> None:
        self.binding = binding
        binding._iobinding.bind_output(name, device)

    def copy(self, slots: Sequence[Slot]) -> Copy:
        """The copy of slots to their arrays behind a run, those of known size too."""
        unshaped = [(self._outputs.index(slot.spec.name), slot) for slot in slots if slot.value is None]
        down = self._down(slots)
        if not unshaped:
            return down

        def copy() -> None:
            down()
            values = self.binding.get_outputs()
            found = [slot._replace(value=values[place]) for place, slot in unshaped]
            for slot in found:
                if tuple(slot.value.shape()) != slot.array.shape:  # CopyTensors does not check sizes
                    shape = f"has shape {slot.value.shape()} instead of {list(slot.array.shape)}"
                    raise WrongOutputs(f"output {slot.spec.name} {shape} as in the plain loop")
                if slot.stays:
                    np.copyto(slot.array, host_view(slot.spec, slot.value))
            self._down(found)()

        return copy
