"""`ortbench profile`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ortbench.asked import plan_of
from ortbench.cli.options import Model, command_line, takes
from ortbench.options import MEASURED, Given, make
from ortbench.plan import PLAN, check
from ortbench.wanted import Wanted


@takes(*PLAN, Wanted)
def profile(
    given: Given,
    model: Model,
    attach_only: Annotated[
        bool,
        typer.Option(
            "--attach-only",
            help="Do not start nsys: run the session for a profiler that is attached.",
            rich_help_panel=MEASURED,
        ),
    ] = False,
) -> None:
    """Run a short session made for a timeline, under Nsight Systems where it is installed."""
    plan = plan_of(model, given, command_line())
    plan = replace(plan, loop=replace(plan.loop, in_order=True))
    check(plan)
    from ortbench.jobs import profile as job

    raise SystemExit(job.profile(plan, attach_only, make(Wanted, given)))
