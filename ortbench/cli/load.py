"""`ortbench load`."""

from __future__ import annotations

from ortbench.asked import plan_of
from ortbench.cli.options import Model, command_line, takes
from ortbench.load_plan import LoadPlan
from ortbench.load_plan import check as check_load
from ortbench.options import Given, make
from ortbench.plan import PLAN, check
from ortbench.wanted import Wanted


@takes(*PLAN, LoadPlan, Wanted)
def load(given: Given, model: Model) -> None:
    """Measure a model under load: several callers at a time, or requests that are due at a rate."""
    put = make(LoadPlan, given)
    plan = plan_of(model, {flag: value for flag, value in given.items() if flag != "duration"}, command_line())
    check(plan)
    check_load(plan, put)
    from ortbench.jobs import load as job

    raise SystemExit(job.load(plan, put, make(Wanted, given)))
