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
            help="Measure the sessions again: what a change saves.  [default: a few]",
            show_default=False,
            rich_help_panel=MEASURED,
        ),
    ] = None,
    keep_inputs: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="MB",
            help="Keep at most MB of inputs for that, in the result's folder.  [default: 64]",
            show_default=False,
            rich_help_panel=MEASURED,
        ),
    ] = None,
    no_inputs: Annotated[
        bool, typer.Option("--no-inputs", help="Keep no inputs.", rich_help_panel=MEASURED, show_default=False)
    ] = False,
) -> None:
    """The program is not changed, and its output, exit code and signals are its own. The report goes to stderr."""
    from ortbench.features.watch.job.watch import watch as run

    raise SystemExit(
        run(
            program,
            given.get("duration"),
            replay,
            0 if no_inputs or replay is False else (64 if keep_inputs is None else keep_inputs) * 1_000_000,
            given.get("ep-library"),
            build(OutputOptions, given),
        )
    )
