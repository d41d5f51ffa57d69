"""Modes `device-resident` and `shared` of a loop: the state stays on the device."""

from __future__ import annotations

from ortbench.core.errors import Unsupported
from ortbench.model.modes import RESIDENT, SHARED
from ortbench.plan.loop_plan import Steps
from ortbench.worker.loops.bound import BoundLoop
from ortbench.worker.loops.data import LoopData
from ortbench.worker.modes.resident import ResidentMode
from ortbench.worker.session.session import Model


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
