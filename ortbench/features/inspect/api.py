from __future__ import annotations

from dataclasses import replace
from typing import Any

from ortbench.api.calls import Model, with_options
from ortbench.api.commands import read_call, until_interrupted
from ortbench.features.inspect.job import inspect_model
from ortbench.features.inspect.model import Inspected
from ortbench.features.inspect.plan import plan_inspection


@with_options
def inspect(model: Model, **options: Any) -> Inspected:
    """Show what a model takes, gives and consists of.

    With `ep` also where its nodes would run.

    Returns:
        what ``ortbench inspect --json`` writes; sizes are bytes.

    Raises:
        BadInput, BenchmarkFailed, Interrupted: as their own docstrings say.
    """
    with read_call("inspect", options, model=model) as call, until_interrupted():
        plan, placed = plan_inspection(call.model, call.given, call.typed)
        found = inspect_model(replace(plan, called=call.lent.called.get(call.model)), placed)
        return {**found, "path": call.lent.called.get(call.model, call.model)}
