"""The modes' classes for loops, and how one is set up by its name."""

from __future__ import annotations

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.plan.loop_plan import Steps
from ortbench.plan.target import Inputs
from ortbench.worker.loops.base import LoopMode
from ortbench.worker.loops.bound import BoundLoop
from ortbench.worker.loops.cpu import CpuLoop
from ortbench.worker.loops.data import LoopData
from ortbench.worker.loops.host_accessible import HostAccessibleLoop
from ortbench.worker.loops.resident import ResidentLoop, SharedLoop
from ortbench.worker.session.session import Model

_BOUND: dict[str, type[BoundLoop]] = {kind.name: kind for kind in (ResidentLoop, HostAccessibleLoop, SharedLoop)}


def make_loop(name: str, model: Model, loop: LoopData, steps: Steps, request: Inputs) -> LoopMode:
    """Set a mode of a loop up.

    Args:
        name: of the mode.
        model: open.
        loop: its arrays.
        steps: what was asked for.
        request: with the tolerances of outputs.

    Raises:
        Unsupported: the EP or the model cannot do it.
    """
    if name == CpuLoop.name:
        return CpuLoop(model, loop)
    kind = _BOUND[name]
    if (reason := kind.single.refusal(model.provider)) is not None:
        raise Unsupported(reason)
    for spec in (*model.inputs, *model.outputs):
        spec.check_binding()
    made = kind(model, loop, steps)
    if isinstance(made, SharedLoop) and model.known is None:
        try:
            made.compare_steps(request.rtol, request.atol)
        except WrongOutputs as error:
            raise Unsupported(f"the model does not let past and present be one buffer: {error}") from None
    return made
