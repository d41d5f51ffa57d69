"""`ortbench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.gate.baseline import STORED_BASELINE
from ortbench.plan.compare_options import COMPARED, compared_of
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import Plan


@takes(COMPARED, Plan, STORED_BASELINE, Wanted)
def compare(
    given: Given,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json...", help="Result files, or folders of results: two or more in all."),
    ],
) -> None:
    """Hold results against each other: which differences are real."""
    only = compared_of(given)
    from ortbench.jobs import compare as job

    wanted = make(Wanted, given)
    job.compare(results, only, "force" in given, wanted.markdown, wanted.json)
