"""Mode `host-accessible` of a loop: everything in memory that host and device both reach, read and written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortbench.model.modes import HOST_ACCESSIBLE
from ortbench.worker.loops.bound import BoundLoop, State
from ortbench.worker.modes.host_accessible import HostAccessibleMode
from ortbench.worker.modes.slots import Slot
from ortbench.worker.session.memory import Copy, device_memory
from ortbench.worker.session.tensors import Array, host_view


class HostAccessibleLoop(BoundLoop):
    """HOST_ACCESSIBLE memory: the host writes inputs and reads outputs where they are bound."""

    name = HOST_ACCESSIBLE
    single = HostAccessibleMode
    leaves_to_ort = False  # its outputs would be in the device's DEFAULT memory

    @property
    def _refused(self) -> str | None:
        """What ORT said to outputs bound as they are, where they have to be bound by address."""
        assert isinstance(self._single, HostAccessibleMode)
        return self._single.refused

    @property
    def is_by_address(self) -> bool:
        """Whether outputs are bound by their address, as the EP's own memory."""
        return self._refused is not None

    def _up(self, slots: Sequence[Slot]) -> Copy:
        return _in_place([(host_view(slot.spec, slot.value), slot.array) for slot in slots if not slot.stays])

    def _down(self, slots: Sequence[Slot]) -> Copy:
        return _in_place([(slot.array, host_view(slot.spec, slot.value)) for slot in slots if not slot.stays])

    def _is_read_back(self, slots: Sequence[Slot]) -> bool:
        return False

    def _bind_next(self, binding: Any, state: State, number: int) -> None:
        if self._refused is None:
            super()._bind_next(binding, state, number)
        else:
            value = state.buffers[(number + 1) % 2]
            self._bind_as_own(binding, state.name_out, state.spec.element_type, list(value.shape()), value)

    def _bind_grown_value(self, state: State, value: Any) -> None:
        if self._refused is None:
            super()._bind_grown_value(state, value)
        else:
            self._bind_as_own(self._binding, state.name_out, state.spec.element_type, list(value.shape()), value)

    def _bind_output(self, binding: Any, slot: Slot) -> None:
        if self._refused is None or slot.stays:
            super()._bind_output(binding, slot)
        else:
            self._bind_as_own(binding, slot.spec.name, slot.spec.element_type, list(slot.array.shape), slot.value)

    def _bind_as_own(self, binding: Any, name: str, element: Any, shape: list[int], value: Any) -> None:
        """As if it were the device's own memory: see `HostAccessibleMode`, whose EP refused the other way."""
        memory = device_memory(self._model.provider)
        assert memory is not None
        binding._iobinding.bind_output(name, memory.ort_device(), element, shape, value.data_ptr())

    def _bytes(self) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
        none = [0] * self._loop.count
        return (none, none), (none, none)

    def _first_bytes(self) -> int:
        return 0


def _in_place(pairs: Sequence[tuple[Array, Array]]) -> Copy:
    """Writes arrays to where others lie."""

    def write() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return write
