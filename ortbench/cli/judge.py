"""`ortbench compare` and `gate`: which differences are real, and what is let pass."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.plan.compare_options import compared_of
from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions


def compare(
    given: RawOptions,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json...", help="Result files, or folders of results: two or more in all."),
    ],
) -> None:
    """Results of one model, measured on the same machine, or with --force on any."""
    only = compared_of(given)
    from ortbench.jobs import compare as job

    job.compare(results, only, given, build(OutputOptions, given))
