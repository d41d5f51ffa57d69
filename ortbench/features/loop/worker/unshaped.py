"""Outputs of a loop's steps that are no state and are bound without a shape: ONNX Runtime allocates them in each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import OutputReader, Slot, output_device
from ortbench.worker.session.memory import Copy


class UnshapedOutputs:
    """Those of a loop whose memory is that of a mode of single inferences; `down` copies slots of known size to their arrays, and
    where the host `reads_in_place`, these are looked at where they are."""

    def __init__(
        self, single: BoundMode, outputs: Sequence[str], down: Callable[[Sequence[Slot]], Copy], reads_in_place: bool
    ) -> None:
        self._single, self._outputs, self._copy_out, self._reads_in_place = single, outputs, down, reads_in_place
        self._native: Any = None  # of the binding of the step that was made last

    @property
    def names(self) -> set[str]:
        return self._single.unshaped

    def slot(self, slot: Slot, is_linked: bool) -> Slot:
        """The slot of an output, without a value where it is one of them. Raises `Unsupported`: a link hands it on."""
        if slot.spec.name not in self._single.unshaped:
            return slot
        if is_linked:
            raise Unsupported(f"{self._single.explain_unshaped()}, and a link hands on outputs of a known size")
        return slot._replace(value=None)

    def bind(self, binding: Any, slots: Sequence[Slot]) -> list[Copy]:
        """What binds those of a step; what a run leaves in a binding is taken for preallocated by the next one."""
        return [
            partial(self._bind, binding._iobinding, slot.spec.name, output_device(slot))
            for slot in slots
            if slot.value is None
        ]

    def _bind(self, native: Any, name: str, device: Any) -> None:
        self._native = native
        native.bind_output(name, device)

    def copy(self, slots: Sequence[Slot]) -> Copy:
        """The copy of slots to their arrays behind a run, those of known size too."""
        unshaped = {self._outputs.index(slot.spec.name): slot for slot in slots if slot.value is None}
        copy_others = self._copy_out(slots)
        if not unshaped:
            return copy_others
        reader = _StepReader(unshaped, self._reads_in_place)

        def copy() -> None:
            copy_others()
            reader.copy(self._native)

        return copy


class _StepReader(OutputReader):
    def _make_room(self, number: int, shape: list[int]) -> None:
        slot = self._slots[number]
        message = f"output {slot.spec.name} has shape {shape} instead of {list(slot.array.shape)} as in the plain loop"
        raise WrongOutputs(message)
