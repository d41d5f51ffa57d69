"""`ortbench gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line, takes
from ortbench.gate.baseline import CANDIDATE, LIVE_BASELINE, STORED_BASELINE, UNDER_LOAD
from ortbench.gate.limits import Limits
from ortbench.plan.load_plan import LoadPlan
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN


@takes(CANDIDATE, (UNDER_LOAD,), Limits, STORED_BASELINE, LIVE_BASELINE, LoadPlan, *PLAN, Wanted)
def gate(
    given: Given,
    result: Annotated[
        Path | None,
        typer.Argument(
            metavar="RESULT.json", help="A result file, or a folder that holds one; without it the gate is live."
        ),
    ] = None,
) -> None:
    """Pass or fail, for CI: a model, live, or a stored result.

    Against limits and a baseline. Live, with --model or --chain, candidate and baseline are measured in turns until the
    verdict is clear; with --load under load.
    """
    from ortbench.jobs import gate as job
    from ortbench.jobs.asked_gate import asked_gate
    from ortbench.jobs.hold import Asked

    asked, wanted = asked_gate(given, result is not None, command_line()), make(Wanted, given)
    if result is not None:
        raise SystemExit(job.check_stored_result(result, asked.baseline, asked.limits, asked.force, wanted))
    held = Asked(asked.plans, asked.limits, asked.force, wanted.quiet)
    raise SystemExit(job.measure_until_decided(held, wanted, asked.load))
