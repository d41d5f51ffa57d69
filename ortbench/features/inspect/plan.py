from __future__ import annotations

from ortbench.core.errors import BadInput
from ortbench.plan.options import RawOptions
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import plan_of

_PLACING = ("ep-option", "session-config", "device", "engine-cache")  # what says nothing without an EP


def plan_inspection(model: str, given: RawOptions, command: tuple[str, ...] = ()) -> tuple[Plan, bool]:
    """What of a model is to be looked at, and whether it is to be placed on an EP; `BadInput`: options that cannot be, or that say
    how to place a model that is not placed."""
    placed = "ep" in given or "ep-library" in given
    if not placed and any(flag in given for flag in _PLACING):
        options = "--ep-option, --session-config, --device and --engine-cache"
        raise BadInput(f"{options} say how to place a model: give --ep too")
    plan = plan_of(model, given, command)
    check(plan)
    return plan, placed
