"""`ortbench history`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.gate.baseline import STORED_BASELINE
from ortbench.plan.compare_options import COMPARED, compared_of
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import Plan


@takes(COMPARED, Plan, STORED_BASELINE, Wanted)
def history(
    given: Given,
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER|GIT-REF...",
            help="Folders of results or result files; or commits that hold some, such as v1..main, and where in them.",
        ),
    ],
) -> None:
    """Follow results over many days: each case's times, where they stepped, and what had changed there."""
    only = compared_of(given)
    from ortbench.jobs import history as job

    job.history(results, only, "force" in given, make(Wanted, given))
