"""`ortbench load`."""

from __future__ import annotations

from ortbench.cli.options import Model, command_line, takes
from ortbench.plan.load_plan import LoadPlan, load_of
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN


@takes(*PLAN, LoadPlan, Wanted)
def load(given: Given, model: Model) -> None:
    """Measure a model under load: several callers at a time, or requests that are due at a rate."""
    plan, put = load_of(model, given, command_line())
    from ortbench.jobs import load as job

    raise SystemExit(job.load(plan, put, make(Wanted, given)))
