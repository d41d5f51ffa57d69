"""`ortbench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT.json …", help="Result files, or folders that hold one.")
    ],
    html: Annotated[
        str | None,
        typer.Option(
            "--html",
            metavar="PATH",
            help="Where to; '-' is standard output. Default: report.html, beside the result or, for several, right here.",
        ),
    ] = None,
) -> None:
    """Make one page of one or many results: verdict, plots, tables, and how they came about. It opens anywhere, offline."""
    from ortbench.jobs import compare as job

    job.report(results, html)
