"""`ortbench explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.plan.options import Given


@takes()
def explain(
    given: Given,
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD", help="Words of a report, such as fence; without any, which there are."),
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
) -> None:
    """Say what the words of a report mean."""
    from ortbench.jobs import explain as job

    job.explain(words)
