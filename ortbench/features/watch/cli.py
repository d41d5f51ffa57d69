from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ortbench.plan.options import MEASURED, RawOptions, build
from ortbench.plan.plan import OutputOptions

_option = partial(typer.Option, show_default=False, rich_help_panel=MEASURED)
_KEEP = "Keep at most MB of inputs for that, in the result's folder.  [default: 64]"


def watch(
    given: RawOptions,
    program: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="What starts the program, with its arguments.")
    ],
    replay: Annotated[
        bool | None, _option("--replay/--no-replay", help="Measure what changes save.  [default: some]")
    ] = None,
    keep_inputs: Annotated[int | None, _option(min=0, metavar="MB", help=_KEEP)] = None,
    no_inputs: Annotated[bool, _option("--no-inputs", help="Keep no inputs.")] = False,
) -> None:
    """The program is not changed, and its output, exit code and signals are its own. The report goes to stderr."""
    from ortbench.features.watch.job.watch import watch as run

    kept_bytes = 0 if no_inputs or replay is False else (64 if keep_inputs is None else keep_inputs) * 1_000_000
    duration, library, wait_s = given.get("duration"), given.get("ep-library"), given.get("wait-quiet") or 0.0
    raise SystemExit(run(program, duration, replay, kept_bytes, library, wait_s, build(OutputOptions, given)))
