"""`ortbench bandwidth`."""

from __future__ import annotations

from ortbench.cli.options import command_line, takes
from ortbench.plan.bandwidth_plan import CopyPlan, check
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan_builder import target_of
from ortbench.plan.target import Target


@takes(Target, CopyPlan, Wanted)
def bandwidth(given: Given) -> None:
    """Measure how fast an EP's device is copied to and from, over sizes."""
    plan = make(CopyPlan, given, target=target_of(given), command=command_line())
    check(plan)
    from ortbench.jobs import bandwidth as job

    raise SystemExit(job.bandwidth(plan, make(Wanted, given)))
