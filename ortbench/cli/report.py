"""`ortbench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.plan.options import Given
from ortbench.plan.output_options import Wanted


@takes(Wanted)
def report(
    given: Given,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json …", help="Result files, or folders of results, such as a suite's."),
    ],
) -> None:
    """Make one page of one or many results: verdict, plots, tables, and how they came about. It opens anywhere, offline."""
    from ortbench.jobs import compare as job

    job.report(results, given.get("html"))
