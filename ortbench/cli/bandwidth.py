"""`ortbench bandwidth`."""

from __future__ import annotations

from ortbench.asked import target_of
from ortbench.bandwidth_plan import CopyPlan, check
from ortbench.cli.options import command_line, takes
from ortbench.options import Given, make
from ortbench.plan import Target
from ortbench.wanted import Wanted


@takes(Target, CopyPlan, Wanted)
def bandwidth(given: Given) -> None:
    """Measure how fast an EP's device is copied to and from, over sizes."""
    plan = make(CopyPlan, given, target=target_of(given), command=command_line())
    check(plan)
    from ortbench.jobs import bandwidth as job

    raise SystemExit(job.bandwidth(plan, make(Wanted, given)))
