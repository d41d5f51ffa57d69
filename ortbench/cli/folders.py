"""`ortbench report`: results that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions


def report(
    given: RawOptions,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json …", help="Result files, or folders of results, such as a suite's."),
    ],
) -> None:
    """An HTML file with verdict, plots, tables and how they were measured."""
    from ortbench.jobs import compare as job

    job.report(results, build(OutputOptions, given))
