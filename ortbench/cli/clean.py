"""`ortbench clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.core.errors import BadInput
from ortbench.plan.options import Given
from ortbench.plan.parsing import parse_age


@takes()
def clean(
    given: Given,
    folders: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER", help="What holds runs, or is one. Default: reports.", show_default=False),
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
    older: Annotated[
        str | None, typer.Option("--older", metavar="AGE", help="Only what is older: 12h, 7d, 2w.")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", help="Keep the N newest.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """List what runs, gates, sweeps and suites left in a folder, and remove it.

    What ortbench did not make stays. Without --yes it asks.
    """
    if keep is not None and keep < 0:
        raise BadInput(f"--keep {keep}: cannot be negative", "--keep")
    older_s = None if older is None else parse_age(older, "--older")
    from ortbench.jobs import clean as job

    raise SystemExit(job.clean(folders, older_s, keep, yes))
