"""`ortbench devices` and `inspect`: what is here. Nothing is measured."""

from __future__ import annotations

import sys

from ortbench.cli.options import Model, command_line
from ortbench.plan.options import RawOptions, check_values, make
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan_builder import inspection_of, target_of


def devices(given: RawOptions) -> None:
    """An EP that does not load is listed with the reason."""
    target = target_of(given)
    check_values(target)
    check_values(make(OutputOptions, given))
    from ortbench.jobs import look

    sys.exit(
        look.devices(target.library, target.python, given.get("json"), given.get("check"), given.get("verbose", False))
    )


def inspect(given: RawOptions, model: Model) -> None:
    """With --ep also on which EP its nodes would run."""
    plan, placed = inspection_of(model, given, command_line())
    from ortbench.jobs import look

    look.inspect(plan, placed, given.get("json"), given.get("verbose", False))
