from __future__ import annotations

from typing import Annotated

import typer

from ortbench.plan.options import MEASURED, RawOptions, build
from ortbench.plan.plan import OutputOptions


def watch(
    given: RawOptions,
    program: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="What starts the program, with its arguments.")
    ],
    replay: Annotated[
        bool | None,
        typer.Option(
            "--replay/--no-replay",
            help="Measure the sessions again: what their copies take.  [default: a few]",
            show_default=False,
            rich_help_panel=MEASURED,
        ),
    ] = None,
) -> None:
    """The program is not changed, and its output, exit code and signals are its own. The report goes to stderr."""
    from ortbench.features.watch.job.watch import watch as run

    raise SystemExit(run(program, given.get("duration"), replay, given.get("ep-library"), build(OutputOptions, given)))
