"""The modes of loops that are bound, `device-resident`, `shared` and `host-accessible`, and how one is set up by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.model.modes import HOST_ACCESSIBLE, RESIDENT, SHARED
from ortbench.plan.loop_plan import Steps
from ortbench.plan.target import Inputs
from ortbench.worker.loops.base import LoopMode
from ortbench.worker.loops.bound import BoundLoop
from ortbench.worker.loops.cpu import CpuLoop
from ortbench.worker.loops.data import LoopData
from ortbench.worker.modes.device import ResidentMode
from ortbench.worker.modes.host_accessible import HostAccessibleMode, bind_as_own
from ortbench.worker.modes.slots import Slot
from ortbench.worker.session.memory import Copy, copy_arrays
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import TensorSpec, host_view


class ResidentLoop(BoundLoop):
    """Device tensors: the state never leaves the device, what is no state is copied in and out in every step."""

    name = RESIDENT
    single = ResidentMode


class SharedLoop(ResidentLoop):
    """The same with one buffer for a state's past and present, where the model writes only what is new."""

    name = SHARED.name
    one_buffer = True

    def __init__(self, model: Model, loop: LoopData, steps: Steps) -> None:
        grown = [number for number in range(len(loop.pairs)) if loop.grows(number)]
        if grown:
            name = model.outputs[loop.pairs[grown[0]].out].name
            raise Unsupported(f"the state {name!r} changes its shape, so past and present cannot be one buffer")
        super().__init__(model, loop, steps)


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
        return self._refused is not None

    def _up(self, slots: Sequence[Slot]) -> Copy:
        moved = [slot for slot in slots if not slot.stays]
        return copy_arrays([slot.array for slot in moved], [host_view(slot.spec, slot.value) for slot in moved])

    def _down(self, slots: Sequence[Slot]) -> Copy:
        moved = [slot for slot in slots if not slot.stays]
        return copy_arrays([host_view(slot.spec, slot.value) for slot in moved], [slot.array for slot in moved])

    def _is_read_back(self, slots: Sequence[Slot]) -> bool:
        return False

    def _bind_output(self, binding: Any, name: str, spec: TensorSpec, value: Any, stays: bool = False) -> None:
        if self._refused is None or stays:
            super()._bind_output(binding, name, spec, value)
        else:
            bind_as_own(binding, self._model.provider, name, spec, value)

    def _bytes(self) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
        none = [0] * self._loop.count
        return (none, none), (none, none)

    def _first_bytes(self) -> int:
        return 0


_BOUND: dict[str, type[BoundLoop]] = {kind.name: kind for kind in (ResidentLoop, HostAccessibleLoop, SharedLoop)}


def make_loop(name: str, model: Model, loop: LoopData, steps: Steps, request: Inputs) -> LoopMode:
    """Set a mode of a loop up. Raises `Unsupported`: the EP or the model cannot do it."""
    if name == CpuLoop.name:
        return CpuLoop(model, loop)
    kind = _BOUND[name]
    kind.single.check(model)
    made = kind(model, loop, steps)
    if isinstance(made, SharedLoop) and model.known is None:
        try:
            made.compare_steps(request.rtol, request.atol)
        except WrongOutputs as error:
            raise Unsupported(f"the model does not let past and present be one buffer: {error}") from None
    return made
