"""`ortbench sweep`."""

from __future__ import annotations

from ortbench.cli.options import Model, command_line, takes
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN, check_amount
from ortbench.plan.sweep_plan import Swept, check_shapes, shapes_of


@takes(*PLAN, Swept, Wanted)
def sweep(given: Given, model: Model) -> None:
    """Measure a model over shapes in one session: which size is best, and what switching shapes costs."""
    check_amount(given)
    from ortbench.jobs import run
    from ortbench.jobs import sweep as job

    wanted = make(Wanted, given)
    run.check_wanted(wanted)
    shapes = shapes_of(model, given, command_line())
    check_shapes(shapes)
    raise SystemExit(job.sweep(shapes, make(Swept, given).slo, wanted))
