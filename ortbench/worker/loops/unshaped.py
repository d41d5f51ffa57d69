"""Outputs of a loop's steps that are no state and are bound without a shape: ONNX Runtime allocates them in each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnxruntime.capi import _pybind_state as ort_native

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import Slot, is_copied_by_ort, make_reader, output_device
from ortbench.worker.session.memory import Copy
from ortbench.worker.session.tensors import host_value


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
        """The copy of slots to their arrays behind a run, those of known size too: no more than a program does, as it is timed."""
        unshaped = {self._outputs.index(slot.spec.name): slot for slot in slots if slot.value is None}
        down = self._copy_out(slots)
        if not unshaped:
            return down
        shapes = [(number, list(slot.array.shape)) for number, slot in unshaped.items()]
        copied = {} if self._reads_in_place else {it: slot for it, slot in unshaped.items() if is_copied_by_ort(slot)}
        # One call of CopyTensors is for one memory; the natives do not keep the values over the arrays alive.
        groups: dict[int, list[tuple[int, Any]]] = {}
        for number, slot in copied.items():
            groups.setdefault(id(slot.memory), []).append((number, host_value(slot.spec, slot.array)))
        calls = [
            ([it for it, _ in group], [value._get_c_value() for _, value in group], group) for group in groups.values()
        ]
        read = [
            (number, slot.array, make_reader(slot, self._reads_in_place))
            for number, slot in unshaped.items()
            if number not in copied
        ]

        def copy() -> None:
            down()
            found = self._native.get_outputs()  # to iterate over it takes some µs a value
            for number, shape in shapes:
                if found[number].shape() != shape:  # CopyTensors does not check sizes
                    shape_text = f"has shape {found[number].shape()} instead of {shape}"
                    raise WrongOutputs(f"output {self._outputs[number]} {shape_text} as in the plain loop")
            for numbers, hosts, _ in calls:
                ort_native.copy_tensors([found[number] for number in numbers], hosts, None)
            for number, array, view in read:
                np.copyto(array, view(found[number]))

        return copy
