from __future__ import annotations

from ortbench.cli.options import Model, command_line
from ortbench.features.inspect.plan import plan_inspection
from ortbench.plan.options import RawOptions


def inspect(given: RawOptions, model: Model) -> None:
    """With --ep also on which EP its nodes would run."""
    plan, placed = plan_inspection(model, given, command_line())
    from ortbench.features.inspect import job

    job.show_model(plan, placed, given.get("json"), given.get("verbose", False))
