"""`ortbench devices` and `ortbench inspect`."""

from __future__ import annotations

import sys

from ortbench.cli.options import Model, takes
from ortbench.plan.options import Given, check_values, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan_builder import inspection_of, target_of
from ortbench.plan.target import Inputs, Target


@takes(Target, Wanted)
def devices(given: Given) -> None:
    """List the installed execution providers and their devices.

    Of each its memory, its streams and the modes it can do, or why it does not load.
    """
    target = target_of(given)
    check_values(target)
    check_values(make(Wanted, given))
    from ortbench.jobs import look

    sys.exit(look.devices(target.library, target.python, given.get("json"), given.get("check")))


@takes(Target, Inputs, Wanted)
def inspect(given: Given, model: Model) -> None:
    """Say what a model takes, gives and consists of.

    With --ep also where its nodes would run.
    """
    plan, placed = inspection_of(model, given)
    from ortbench.jobs import look

    look.inspect(model, plan.target, placed, plan.inputs, given.get("json"))
